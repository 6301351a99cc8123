//! A client's side of a connection without its socket: requests to bytes, bytes to answers, and the
//! switch after STARTUP. For tools, benchmarks and tests.

use crate::codec::{Decoder, Encoder};
use crate::compression::Compression;
use crate::error::ProtocolError;
use crate::request::{Request, RequestMessage};
use crate::response::{Response, ResponseMessage};
use crate::version::ProtocolVersion;
use bytes::BytesMut;

/// The state of one connection.
#[derive(Debug)]
pub struct ClientConnection {
    version: ProtocolVersion,
    compression: Compression,
    decoder: Decoder,
    encoder: Encoder,
    input: BytesMut,
    started: bool,
}

impl ClientConnection {
    /// A connection that begins.
    pub fn new(version: ProtocolVersion, compression: Compression) -> Self {
        let (decoder, encoder) = (Decoder::client(), Encoder::new());
        Self {
            version,
            compression,
            decoder,
            encoder,
            input: BytesMut::new(),
            started: false,
        }
    }

    /// The version that it speaks.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The STARTUP of this connection.
    pub fn startup(&self, cql_version: &str) -> Request {
        let mut options = vec![("CQL_VERSION".to_owned(), cql_version.to_owned())];
        match self.compression {
            Compression::None => {}
            Compression::Lz4 => options.push(("COMPRESSION".to_owned(), "lz4".to_owned())),
            Compression::Snappy => options.push(("COMPRESSION".to_owned(), "snappy".to_owned())),
        }
        Request::Startup { options }
    }

    /// The bytes of a request on a stream.
    pub fn send(&mut self, stream: i16, request: Request, out: &mut BytesMut) {
        self.send_message(&RequestMessage::new(self.version, stream, request), out);
    }

    /// The bytes of a request with its flags and payload.
    pub fn send_message(&mut self, message: &RequestMessage, out: &mut BytesMut) {
        self.encoder.encode(&message.encode(), out);
        self.encoder.flush(out);
        let before_frames = !self.started && self.version < ProtocolVersion::V5;
        if before_frames && matches!(message.request, Request::Startup { .. }) {
            // Cassandra compresses from its answer to STARTUP on.
            self.decoder.start(self.version, self.compression);
        }
    }

    /// Takes bytes from the server. Call [`Self::next_message`] until it gives none.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next answer or event, once it is whole.
    pub fn next_message(&mut self) -> Result<Option<ResponseMessage>, ProtocolError> {
        let Some(envelope) = self.decoder.feed(&mut self.input)? else {
            return Ok(None);
        };
        let message = ResponseMessage::decode(&envelope)?;
        if !self.started
            && matches!(
                message.response,
                Response::Ready | Response::Authenticate { .. }
            )
        {
            self.started = true;
            self.decoder.start(self.version, self.compression);
            self.encoder.start(self.version, self.compression);
        }
        Ok(Some(message))
    }
}
