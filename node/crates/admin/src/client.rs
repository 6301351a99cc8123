//! A client of the admin API on a local socket.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// Why the admin API did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket.
    #[error(
        "cannot reach the node at {path}: {error}. Is it running? Name its socket with --socket (setting admin_socket)"
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The connection broke or its answer cannot be read.
    #[error("the node's answer broke off: {0}")]
    Broken(String),
    /// The node refused.
    #[error("{0}")]
    Refused(String),
}

/// Asks the node behind `socket`; returns the body of a successful answer.
pub async fn call(socket: &Path, method: &str, target: &str) -> Result<Bytes, ClientError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|error| ClientError::Connect {
            path: socket.to_owned(),
            error,
        })?;
    let broken = |error: &dyn std::fmt::Display| ClientError::Broken(error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    let request = hyper::Request::builder()
        .method(method)
        .uri(target)
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())
        .map_err(|error| broken(&error))?;
    let exchange = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| broken(&error))?;
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| broken(&error))?
            .to_bytes();
        if status.is_success() {
            Ok(body)
        } else {
            Err(ClientError::Refused(
                String::from_utf8_lossy(&body).into_owned(),
            ))
        }
    };
    // the connection must be driven while the exchange goes on; its own end says nothing more
    let drive = async {
        drop(connection.await);
        std::future::pending::<Result<Bytes, ClientError>>().await
    };
    futures::pin_mut!(exchange, drive);
    futures::future::select(exchange, drive)
        .await
        .factor_first()
        .0
}
