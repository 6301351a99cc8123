//! Inbound connections: the handshake, then messages handed to the thread's handler.

use bytes::BytesMut;
use helenus_internode::error::DecodeError;
use helenus_internode::handshake::{ConnectionType, Initiate};
use helenus_internode::message::Message;
use helenus_internode::stream::InboundMessages;
use helenus_internode::version::{MessagingVersion, VersionRange};
use helenus_types::Endpoint;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A message with what its connection says of it.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// The peer's broadcast address, as it named itself.
    pub(crate) from: Endpoint,
    /// The version of the payload.
    pub(crate) version: MessagingVersion,
    pub(crate) message: Message,
}

/// Serves one inbound connection until it ends; a peer that sends garbage is dropped with a log line.
pub(crate) async fn accept(mut stream: TcpStream, handle: impl Fn(Received)) {
    let address = stream
        .peer_addr()
        .map_or_else(|_| "unknown".to_owned(), |address| address.to_string());
    match serve(&mut stream, handle).await {
        Ok(()) => {}
        Err(Broken::Io(error)) => tracing::debug!(%address, %error, "inbound connection ended"),
        Err(Broken::Protocol(error)) => {
            tracing::info!(%address, %error, "dropped a peer that does not follow the internode protocol");
        }
        Err(Broken::Handshake(reason)) => {
            tracing::info!(%address, reason, "inbound handshake failed");
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] DecodeError),
    #[error("{0}")]
    Handshake(&'static str),
}

async fn serve(stream: &mut TcpStream, handle: impl Fn(Received)) -> Result<(), Broken> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::with_capacity(8 << 10);
    let initiate = tokio::time::timeout(HANDSHAKE_TIMEOUT, read_initiate(stream, &mut buffer))
        .await
        .map_err(|_| Broken::Handshake("no handshake within 5 s"))??;
    let response = initiate.respond(VersionRange::ALL);
    stream.write_all(&response.accept.encode()).await?;
    let Ok(version) = response.agreed else {
        return Err(Broken::Handshake("no common messaging version"));
    };
    if initiate.connection == ConnectionType::Streaming {
        return Err(Broken::Handshake(
            "Cassandra's streaming protocol is not supported yet",
        ));
    }
    let mut messages = InboundMessages::new(initiate.framing);
    loop {
        messages.feed(&buffer);
        buffer.clear();
        loop {
            match messages.next_message() {
                Ok(Some(message)) => handle(Received {
                    from: initiate.from,
                    version,
                    message,
                }),
                Ok(None) => break,
                Err(error) if error.is_recoverable() => {
                    tracing::info!(peer = %initiate.from, %error, "skipped a message that cannot be read");
                }
                Err(error) => return Err(error.into()),
            }
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
    }
}

async fn read_initiate(stream: &mut TcpStream, buffer: &mut BytesMut) -> Result<Initiate, Broken> {
    loop {
        if let Some((initiate, used)) = Initiate::decode(buffer)? {
            drop(buffer.split_to(used));
            return Ok(initiate);
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(Broken::Handshake(
                "the peer closed the connection before its handshake was complete",
            ));
        }
    }
}
