//! One client connection: bytes in, requests side by side, answers out in batches.

use crate::budget::{Budget, MAX_IN_FLIGHT};
use crate::execute::Session;
use crate::{Backend, Server, Subscriber};
use bytes::BytesMut;
use helenus_native::{
    Compression, Decoder, Encoder, Envelope, ErrorResponse, Event, ProtocolError, ProtocolVersion,
    Request, RequestMessage, Response, ResponseMessage,
};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

const READ_BUFFER_BYTES: usize = 16 << 10;
/// Greatest length of a request, as Cassandra's `native_transport_max_frame_size`.
const MAX_REQUEST_LENGTH: usize = 16 << 20;
const WRITE_BATCH_BYTES: usize = 256 << 10;
const EVENT_QUEUE_LENGTH: usize = 256;
const CQL_VERSION: &str = "3.4.7";

/// What the writing side is told.
enum Output {
    Answer(Envelope),
    /// An answer, after which everything is framed or compressed as agreed.
    Start(Envelope, ProtocolVersion, Compression),
    /// An answer, after which the connection ends.
    Last(bytes::Bytes),
    LastEnvelope(Envelope),
}

/// Serves a connection until the client ends it or breaks the protocol.
pub async fn serve<B: Backend>(stream: TcpStream, server: Rc<Server<B>>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let (reader, writer) = stream.into_split();
    let (output, queue) = mpsc::channel(MAX_IN_FLIGHT * 2);
    let budget = Budget::new();
    let writing = tokio::task::spawn_local(write_answers(writer, queue, Rc::clone(&budget)));
    let connection = Connection {
        session: Rc::new(Session::new(Rc::clone(&server))),
        server,
        output,
        budget,
        version: None,
        event_version: Rc::new(RefCell::new(ProtocolVersion::V4)),
    };
    connection.read_requests(reader).await;
    // the writer ends when the last request that still runs has answered
    if let Err(error) = writing.await {
        tracing::error!(%error, "a session's writer failed");
    }
}

struct Connection<B> {
    session: Rc<Session<B>>,
    server: Rc<Server<B>>,
    output: mpsc::Sender<Output>,
    budget: Rc<Budget>,
    version: Option<ProtocolVersion>,
    event_version: Rc<RefCell<ProtocolVersion>>,
}

impl<B: Backend> Connection<B> {
    async fn read_requests(mut self, mut reader: OwnedReadHalf) {
        let mut decoder = Decoder::server().with_length_limit(MAX_REQUEST_LENGTH);
        let mut buffer = BytesMut::with_capacity(READ_BUFFER_BYTES);
        let mut closing = self.server.closing.subscribe();
        loop {
            loop {
                match decoder.feed(&mut buffer) {
                    Ok(Some(envelope)) => {
                        if !self.take(&envelope, &mut decoder).await {
                            return;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        if !self.refuse(&error).await {
                            return;
                        }
                    }
                }
            }
            buffer.reserve(READ_BUFFER_BYTES);
            let read = tokio::select! {
                biased;
                read = reader.read_buf(&mut buffer) => read,
                () = may_close(&mut closing, &self.budget) => return,
            };
            match read {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(%error, "client connection broke");
                    return;
                }
            }
        }
    }

    /// Answers broken input; false when the connection must end.
    async fn refuse(&self, error: &ProtocolError) -> bool {
        tracing::debug!(%error, "a client broke the protocol");
        let version = self
            .version
            .filter(|version| version.number() == error.answer_version);
        let output = match version {
            Some(version) => {
                let answer =
                    ResponseMessage::new(version, error.stream, Response::Error(error.response()))
                        .encode();
                if error.fatal {
                    Output::LastEnvelope(answer)
                } else {
                    self.budget.answered(answer.length());
                    Output::Answer(answer)
                }
            }
            // before STARTUP, or in a version that we do not speak
            None if error.fatal || self.version.is_none() => Output::Last(error.unframed_answer()),
            None => return false,
        };
        let ends = matches!(output, Output::Last(_) | Output::LastEnvelope(_));
        self.output.send(output).await.is_ok() && !ends
    }

    /// Takes a request; false when the connection must end.
    async fn take(&mut self, envelope: &Envelope, decoder: &mut Decoder) -> bool {
        let message = match RequestMessage::decode(envelope) {
            Ok(message) => message,
            Err(error) => {
                let response = Response::Error(error.response());
                return self
                    .answer(envelope.version, envelope.stream, response)
                    .await;
            }
        };
        let (version, stream) = (message.version, message.stream);
        match message.request {
            Request::Options => {
                self.answer(version, stream, Response::supported(CQL_VERSION))
                    .await
            }
            Request::Startup { options } => self.start(version, stream, &options, decoder).await,
            _ if self.version.is_none() => {
                let message = format!(
                    "Unexpected message {}, expecting STARTUP or OPTIONS",
                    message.request.opcode().name()
                );
                self.answer(
                    version,
                    stream,
                    Response::Error(ErrorResponse::Protocol { message }),
                )
                .await
            }
            Request::Register { events } => {
                self.subscribe(events, version);
                self.answer(version, stream, Response::Ready).await
            }
            Request::AuthResponse { .. } => {
                let message =
                    "Unexpected message AUTH_RESPONSE: no authentication is required".to_owned();
                self.answer(
                    version,
                    stream,
                    Response::Error(ErrorResponse::Protocol { message }),
                )
                .await
            }
            _ => self.run(message, envelope.length()).await,
        }
    }

    async fn answer(&self, version: ProtocolVersion, stream: i16, response: Response) -> bool {
        let answer = ResponseMessage::new(version, stream, response).encode();
        self.budget.answered(answer.length());
        self.output.send(Output::Answer(answer)).await.is_ok()
    }

    async fn start(
        &mut self,
        version: ProtocolVersion,
        stream: i16,
        options: &[(String, String)],
        decoder: &mut Decoder,
    ) -> bool {
        let option = |name: &str| {
            options
                .iter()
                .find(|entry| entry.0 == name)
                .map(|entry| entry.1.as_str())
        };
        if self.version.is_some() {
            let message =
                "Unexpected message STARTUP: the connection is started already".to_owned();
            return self
                .answer(
                    version,
                    stream,
                    Response::Error(ErrorResponse::Protocol { message }),
                )
                .await;
        }
        if option("CQL_VERSION").is_none() {
            let message = "Missing value CQL_VERSION in STARTUP message".to_owned();
            return self
                .answer(
                    version,
                    stream,
                    Response::Error(ErrorResponse::Protocol { message }),
                )
                .await;
        }
        let compression = match Compression::from_startup(option("COMPRESSION"), version) {
            Ok(compression) => compression,
            Err(error) => {
                return self
                    .answer(version, stream, Response::Error(error.response()))
                    .await;
            }
        };
        tracing::debug!(driver = option("DRIVER_NAME"), driver_version = option("DRIVER_VERSION"), %version, "client connected");
        self.version = Some(version);
        *self.event_version.borrow_mut() = version;
        decoder.start(version, compression);
        let ready = ResponseMessage::new(version, stream, Response::Ready).encode();
        self.output
            .send(Output::Start(ready, version, compression))
            .await
            .is_ok()
    }

    fn subscribe(&self, events: Vec<helenus_native::EventType>, version: ProtocolVersion) {
        let (queue, mut incoming) = mpsc::channel::<Event>(EVENT_QUEUE_LENGTH);
        self.server
            .subscribers
            .borrow_mut()
            .push(Subscriber { events, queue });
        let output = self.output.downgrade();
        let budget = Rc::clone(&self.budget);
        tokio::task::spawn_local(async move {
            while let Some(event) = incoming.recv().await {
                let Some(output) = output.upgrade() else {
                    return;
                };
                let envelope = ResponseMessage::event(version, event).encode();
                budget.answered(envelope.length());
                if output.send(Output::Answer(envelope)).await.is_err() {
                    return;
                }
            }
        });
    }

    async fn run(&self, message: RequestMessage, length: usize) -> bool {
        let Some(admission) = self.budget.admit(length).await else {
            return false;
        };
        let (session, output) = (Rc::clone(&self.session), self.output.clone());
        let budget = Rc::clone(&self.budget);
        tokio::task::spawn_local(async move {
            let answer = session.handle(message).await.encode();
            budget.answered(answer.length());
            // the client may be gone
            drop(output.send(Output::Answer(answer)).await);
            // only now: an answer that finds the queue full still counts as a running request
            drop(admission);
        });
        true
    }
}

/// Ends when the server closes its sessions and nothing is under way in this one.
async fn may_close(closing: &mut tokio::sync::watch::Receiver<bool>, budget: &Budget) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        // the server lives as long as its sessions
        std::future::pending::<()>().await;
    }
    budget.idle().await;
}

async fn write_answers(writer: OwnedWriteHalf, queue: mpsc::Receiver<Output>, budget: Rc<Budget>) {
    if let Err(error) = write_all_answers(writer, queue, &budget).await {
        tracing::debug!(%error, "client connection broke");
    }
    budget.close();
}

async fn write_all_answers(
    mut writer: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Output>,
    budget: &Budget,
) -> std::io::Result<()> {
    let mut encoder = Encoder::new();
    let mut bytes = BytesMut::new();
    while let Some(first) = queue.recv().await {
        let mut answers = 0;
        let mut ends = encode(first, &mut encoder, &mut bytes, &mut answers);
        while !ends && bytes.len() < WRITE_BATCH_BYTES {
            match queue.try_recv() {
                Ok(next) => ends = encode(next, &mut encoder, &mut bytes, &mut answers),
                Err(_) => break,
            }
        }
        encoder.flush(&mut bytes);
        writer.write_all(&bytes).await?;
        budget.sent(answers);
        bytes.clear();
        if ends {
            break;
        }
    }
    Ok(())
}

/// Says whether the connection ends with it; adds the bytes of answers to requests to `answers`.
fn encode(
    output: Output,
    encoder: &mut Encoder,
    bytes: &mut BytesMut,
    answers: &mut usize,
) -> bool {
    match output {
        Output::Answer(envelope) => {
            *answers += envelope.length();
            encoder.encode(&envelope, bytes);
            false
        }
        Output::Start(envelope, version, compression) => {
            encoder.encode(&envelope, bytes);
            encoder.flush(bytes);
            encoder.start(version, compression);
            false
        }
        Output::Last(raw) => {
            encoder.flush(bytes);
            bytes.extend_from_slice(&raw);
            true
        }
        Output::LastEnvelope(envelope) => {
            encoder.encode(&envelope, bytes);
            encoder.flush(bytes);
            true
        }
    }
}
