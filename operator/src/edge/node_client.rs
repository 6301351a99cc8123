//! Asks nodes what they say of themselves: `GET http://ADDRESS:9180/v1/node`.
//!
//! A node that does not answer within the limit has no report; that is all the planner needs to know.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use helenus_crds::{NodeReport, names};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use tokio::net::TcpStream;

/// A node must answer within this time.
const LIMIT: Duration = Duration::from_secs(1);
/// A longer answer is refused.
const LARGEST_BYTES: usize = 4 << 20;
/// So many nodes are asked at once.
const AT_ONCE: usize = 32;

/// Why a node has no report.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No connection.
    #[error("connect: {0}")]
    Connect(#[from] std::io::Error),
    /// HTTP went wrong.
    #[error("http: {0}")]
    Http(#[from] hyper::Error),
    /// The request could not be built.
    #[error("request: {0}")]
    Request(#[from] hyper::http::Error),
    /// The body was cut or too long.
    #[error("body: {0}")]
    Body(String),
    /// Another status than 200.
    #[error("status {0}")]
    Status(u16),
    /// The body is not a report.
    #[error("decode report: {0}")]
    Decode(#[from] serde_json::Error),
    /// No answer in time.
    #[error("no answer within {} ms", LIMIT.as_millis())]
    Late,
}

/// Asks every Pod that has an address, at most [`AT_ONCE`] at a time.
pub async fn ask_all(pods: &[Pod]) -> BTreeMap<String, NodeReport> {
    let with_address: Vec<_> = pods.iter().filter_map(name_and_address).collect();
    stream::iter(with_address)
        .map(|(name, address)| async move {
            match ask(&address).await {
                Ok(report) => Some((name, report)),
                Err(error) => {
                    tracing::debug!(node = name, address, %error, "node does not report");
                    None
                }
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

fn name_and_address(pod: &Pod) -> Option<(String, String)> {
    let name = pod.metadata.name.clone()?;
    let address = pod
        .status
        .as_ref()?
        .pod_ip
        .clone()
        .filter(|ip| !ip.is_empty())?;
    pod.metadata
        .deletion_timestamp
        .is_none()
        .then_some((name, address))
}

/// Asks one node.
pub async fn ask(address: &str) -> Result<NodeReport, AskError> {
    tokio::time::timeout(LIMIT, get(address))
        .await
        .map_err(|_| AskError::Late)?
}

async fn get(address: &str) -> Result<NodeReport, AskError> {
    let authority = if address.contains(':') {
        format!("[{address}]:{}", names::HTTP_PORT)
    } else {
        format!("{address}:{}", names::HTTP_PORT)
    };
    let socket = TcpStream::connect(&authority).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    let request = hyper::Request::get("/v1/node")
        .header("host", authority)
        .body(Empty::<Bytes>::new())?;
    let exchange = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if status != 200 {
            return Err(AskError::Status(status.as_u16()));
        }
        let body = Limited::new(response.into_body(), LARGEST_BYTES);
        let body = body
            .collect()
            .await
            .map_err(|error| AskError::Body(error.to_string()))?
            .to_bytes();
        Ok(serde_json::from_slice(&body)?)
    };
    // The connection lives as long as the exchange; no task outlives it.
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        report = &mut exchange => report,
        ended = connection => {
            ended?;
            exchange.await
        }
    }
}
