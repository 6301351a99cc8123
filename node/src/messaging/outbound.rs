//! One outbound connection: a bounded queue and the task that connects and writes it.

use super::{Messaging, Outgoing};
use helenus_internode::handshake::{ACCEPT_BYTES, Accept, ConnectionType, Initiate};
use helenus_internode::message::Message;
use helenus_internode::payload::FailureReason;
use helenus_internode::stream::OutboundMessages;
use helenus_internode::version::{MessagingVersion, VersionRange};
use helenus_types::Endpoint;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// Messages that wait for one connection; more are refused, as if they had timed out.
const QUEUE_LENGTH: usize = 16_384;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_BATCH_BYTES: usize = 256 << 10;
/// After a failed attempt messages fail at once for this long, then the next one tries again.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The sending side of a connection's queue.
pub(super) struct Queue(mpsc::Sender<Outgoing>);

impl Queue {
    pub(super) fn start(
        messaging: &Rc<Messaging>,
        to: Endpoint,
        connection: ConnectionType,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
        tokio::task::spawn_local(run(Rc::downgrade(messaging), to, connection, receiver));
        Self(sender)
    }

    pub(super) fn push(&self, message: Outgoing) -> bool {
        self.0.try_send(message).is_ok()
    }
}

async fn run(
    messaging: Weak<Messaging>,
    to: Endpoint,
    connection: ConnectionType,
    mut queue: mpsc::Receiver<Outgoing>,
) {
    let mut failing = false;
    while let Some(first) = queue.recv().await {
        let Some(edge) = messaging.upgrade() else {
            return;
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connect(&edge, to, connection)).await {
            Ok(Ok((stream, version))) => {
                if failing {
                    tracing::info!(peer = %to, ?connection, "connected to peer again");
                    failing = false;
                }
                drop(edge);
                write_messages(&messaging, to, stream, version, first, &mut queue).await;
            }
            outcome => {
                if !failing {
                    let error = outcome.map_or_else(
                        |_| "timed out".to_owned(),
                        |result| {
                            result
                                .err()
                                .map_or_else(String::new, |error| error.to_string())
                        },
                    );
                    tracing::info!(peer = %to, ?connection, %error, "cannot connect to peer");
                    failing = true;
                }
                fail(&edge, &first);
                while let Ok(message) = queue.try_recv() {
                    fail(&edge, &message);
                }
                drop(edge);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

fn fail(edge: &Messaging, message: &Outgoing) {
    if message.ours {
        edge.complete(message.header.id, Err(FailureReason::NodeDown));
    }
}

async fn connect(
    edge: &Rc<Messaging>,
    to: Endpoint,
    connection: ConnectionType,
) -> io::Result<(TcpStream, MessagingVersion)> {
    let socket = if to.address().is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    let local = edge.settings.local_address;
    if !local.is_unspecified() {
        socket.bind(std::net::SocketAddr::new(local, 0))?;
    }
    let mut stream = socket.connect(to.0).await?;
    stream.set_nodelay(true)?;
    let ours = VersionRange::ALL;
    let initiate = Initiate {
        accept: ours,
        connection,
        framing: edge.settings.framing,
        from: edge.settings.me,
    };
    stream.write_all(&initiate.encode()).await?;
    let mut answer = [0; ACCEPT_BYTES];
    stream.read_exact(&mut answer).await?;
    let accept = Accept::decode(&answer)
        .map_err(io::Error::other)?
        .ok_or_else(|| io::Error::other("the peer's handshake answer is incomplete"))?;
    let version = accept.agreed(ours).map_err(io::Error::other)?;
    Ok((stream, version))
}

async fn write_messages(
    messaging: &Weak<Messaging>,
    to: Endpoint,
    stream: TcpStream,
    version: MessagingVersion,
    first: Outgoing,
    queue: &mut mpsc::Receiver<Outgoing>,
) {
    let (mut reader, mut writer) = stream.into_split();
    let Some(framing) = messaging.upgrade().map(|edge| edge.settings.framing) else {
        return;
    };
    let mut frames = OutboundMessages::new(framing);
    let mut next = Some(first);
    let mut unexpected = [0; 64];
    loop {
        let message = if let Some(message) = next.take() {
            message
        } else {
            tokio::select! {
                biased;
                message = queue.recv() => match message {
                    Some(message) => message,
                    None => return,
                },
                // peers send nothing back on this connection: it ends, or it is broken
                _ = reader.read(&mut unexpected) => {
                    if let Some(edge) = messaging.upgrade() {
                        edge.fail_all(to);
                    }
                    return;
                }
            }
        };
        let Some(edge) = messaging.upgrade() else {
            return;
        };
        push(&edge, version, message, &mut frames);
        while frames.pending_bytes() < MAX_BATCH_BYTES {
            match queue.try_recv() {
                Ok(message) => push(&edge, version, message, &mut frames),
                Err(_) => break,
            }
        }
        drop(edge);
        if let Err(error) = writer.write_all(&frames.take()).await {
            tracing::info!(peer = %to, %error, "connection to peer broke");
            if let Some(edge) = messaging.upgrade() {
                edge.fail_all(to);
            }
            return;
        }
    }
}

fn push(
    edge: &Messaging,
    version: MessagingVersion,
    message: Outgoing,
    frames: &mut OutboundMessages,
) {
    let Outgoing {
        header,
        encode,
        deadline,
        ours,
    } = message;
    let id = header.id;
    if edge.clock.monotonic() > deadline {
        if ours {
            edge.complete(id, Err(FailureReason::Timeout));
        }
        return;
    }
    let verb = header.verb;
    let written = encode(version).and_then(|payload| frames.push(&Message { header, payload }));
    if let Err(error) = written {
        tracing::warn!(verb = verb.name(), %error, "a message could not be written");
        if ours {
            edge.complete(id, Err(FailureReason::Unknown));
        }
    }
}
