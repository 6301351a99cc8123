//! Bytes of a connection to envelopes and back, without any socket.
//!
//! A connection begins with bare envelopes. When STARTUP was answered (after READY or AUTHENTICATE
//! has been written), both sides call `start`: version 5 then goes on in frames, versions 3 and 4 with
//! compressed bodies where compression was chosen. In versions 3 and 4 the answer to STARTUP itself
//! may be compressed (Cassandra does so), therefore clients of those begin to read so with STARTUP.

use crate::compression::Compression;
use crate::envelope::{DEFAULT_LENGTH_LIMIT, Envelope, FLAG_COMPRESSED, HEADER_LENGTH, Header};
use crate::error::ProtocolError;
use crate::frame;
use crate::version::ProtocolVersion;
use bytes::{Buf, Bytes, BytesMut};

/// Reads envelopes from the bytes of one side.
#[derive(Debug)]
pub struct Decoder {
    responses: bool,
    length_limit: usize,
    started: Option<ProtocolVersion>,
    compression: Compression,
    /// Bytes of an envelope that was too long, still to be dropped.
    skip: usize,
    /// What is left of a self-contained frame.
    whole: Bytes,
    /// Parts of an envelope that spans frames.
    parts: BytesMut,
}

impl Decoder {
    /// For a server: reads requests.
    pub fn server() -> Self {
        Self::new(false)
    }

    /// For a client: reads answers and events.
    pub fn client() -> Self {
        Self::new(true)
    }

    fn new(responses: bool) -> Self {
        Self {
            responses,
            length_limit: DEFAULT_LENGTH_LIMIT,
            started: None,
            compression: Compression::None,
            skip: 0,
            whole: Bytes::new(),
            parts: BytesMut::new(),
        }
    }

    /// Sets the greatest total length in bytes of an envelope; longer ones are refused one by one.
    #[must_use]
    pub fn with_length_limit(mut self, length_limit: usize) -> Self {
        self.length_limit = length_limit;
        self
    }

    /// Everything read from now on was sent after the answer to STARTUP.
    pub fn start(&mut self, version: ProtocolVersion, compression: Compression) {
        self.started = Some(version);
        self.compression = compression;
    }

    fn framed(&self) -> bool {
        self.started == Some(ProtocolVersion::V5)
    }

    /// Takes the next envelope out of `input`, leaving what belongs to later ones; `None` when more
    /// bytes are needed. After an error that is not fatal it may be called again.
    pub fn feed(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, ProtocolError> {
        if self.framed() {
            self.feed_framed(input)
        } else {
            self.feed_bare(input)
        }
    }

    fn feed_bare(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, ProtocolError> {
        if self.skip > 0 {
            let dropped = self.skip.min(input.len());
            input.advance(dropped);
            self.skip -= dropped;
        }
        let Some(header) = Header::read(input)? else {
            return Ok(None);
        };
        let total = HEADER_LENGTH.saturating_add(header.body_length);
        if total > self.length_limit {
            let dropped = total.min(input.len());
            input.advance(dropped);
            self.skip = total - dropped;
            return Err(self.too_long(&header, total));
        }
        if input.len() < total {
            return Ok(None);
        }
        let body = input.split_to(total).freeze().split_off(HEADER_LENGTH);
        self.envelope(&header, body).map(Some)
    }

    fn feed_framed(&mut self, input: &mut BytesMut) -> Result<Option<Envelope>, ProtocolError> {
        loop {
            if !self.whole.is_empty() {
                return self.take_whole().map(Some);
            }
            if let Some(envelope) = self.take_parts()? {
                return Ok(Some(envelope));
            }
            let lz4 = self.compression == Compression::Lz4;
            let Some(frame) = frame::read(input, lz4)? else {
                return Ok(None);
            };
            if self.skip > 0 {
                if frame.self_contained {
                    self.skip = 0;
                } else {
                    self.skip = self.skip.saturating_sub(frame.payload.len());
                    continue;
                }
            }
            if !frame.self_contained {
                self.parts.extend_from_slice(&frame.payload);
            } else if self.parts.is_empty() {
                self.whole = frame.payload;
            } else {
                return Err(ProtocolError::fatal(
                    "A self-contained frame arrived inside of a message that spans frames",
                ));
            }
        }
    }

    /// The next envelope of a self-contained frame.
    fn take_whole(&mut self) -> Result<Envelope, ProtocolError> {
        let cut = || ProtocolError::fatal("A self-contained frame ends inside of a message");
        let header = Header::read(&self.whole)?.ok_or_else(cut)?;
        let total = HEADER_LENGTH.saturating_add(header.body_length);
        if total > self.whole.len() {
            return Err(cut());
        }
        let body = self.whole.split_to(total).split_off(HEADER_LENGTH);
        if total > self.length_limit {
            return Err(self.too_long(&header, total));
        }
        self.envelope(&header, body)
    }

    /// The envelope that spans frames, once it is whole.
    fn take_parts(&mut self) -> Result<Option<Envelope>, ProtocolError> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let Some(header) = Header::read(&self.parts)? else {
            return Ok(None);
        };
        let total = HEADER_LENGTH.saturating_add(header.body_length);
        if total > self.length_limit {
            self.skip = total.saturating_sub(self.parts.len());
            self.parts.clear();
            return Err(self.too_long(&header, total));
        }
        if self.parts.len() < total {
            return Ok(None);
        }
        if self.parts.len() > total {
            return Err(ProtocolError::fatal(
                "A message that spans frames is followed by another in its last frame",
            ));
        }
        let body = std::mem::take(&mut self.parts)
            .freeze()
            .split_off(HEADER_LENGTH);
        self.envelope(&header, body).map(Some)
    }

    fn too_long(&self, header: &Header, total: usize) -> ProtocolError {
        let limit = self.length_limit;
        let message =
            format!("Request is too big: length {total} exceeds maximum allowed length {limit}.");
        ProtocolError {
            invalid: true,
            ..ProtocolError::new(message).on_stream(header.stream, header.version)
        }
    }

    fn envelope(&self, header: &Header, body: Bytes) -> Result<Envelope, ProtocolError> {
        let locate = |error: ProtocolError| error.on_stream(header.stream, header.version);
        if let Some(started) = self.started.filter(|started| *started != header.version) {
            return Err(locate(ProtocolError::new(format!(
                "Invalid message version. Got {} but previous messages on this connection had version {started}",
                header.version
            ))));
        }
        let opcode = header.opcode(self.responses).map_err(locate)?;
        // Frames of version 5 compress as a whole; the flag means nothing there.
        let compressed =
            header.flags & FLAG_COMPRESSED != 0 && header.version < ProtocolVersion::V5;
        let body = if compressed {
            self.compression
                .decompress_body(&body, self.length_limit)
                .map_err(locate)?
        } else {
            body
        };
        let flags = header.flags & !FLAG_COMPRESSED;
        Ok(Envelope {
            version: header.version,
            flags,
            stream: header.stream,
            opcode,
            body,
        })
    }
}

/// Writes envelopes for one side.
#[derive(Debug, Default)]
pub struct Encoder {
    started: Option<ProtocolVersion>,
    compression: Compression,
    /// Envelopes for the next self-contained frame.
    batch: BytesMut,
}

impl Encoder {
    /// An encoder of a connection that begins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything written from now on follows the answer to STARTUP.
    pub fn start(&mut self, version: ProtocolVersion, compression: Compression) {
        self.started = Some(version);
        self.compression = compression;
    }

    /// Writes an envelope. In version 5 it may be kept for a frame with others until [`Self::flush`].
    pub fn encode(&mut self, envelope: &Envelope, out: &mut BytesMut) {
        if self.started != Some(ProtocolVersion::V5) {
            match self.compression.compress_body(&envelope.body) {
                Some(body) => envelope.write_with(envelope.flags | FLAG_COMPRESSED, &body, out),
                None => envelope.write_with(envelope.flags, &envelope.body, out),
            }
            return;
        }
        if self.batch.len() + envelope.length() > frame::MAX_PAYLOAD {
            self.flush(out);
        }
        envelope.write_with(envelope.flags, &envelope.body, &mut self.batch);
        if self.batch.len() > frame::MAX_PAYLOAD {
            let lz4 = self.compression == Compression::Lz4;
            for part in self.batch.chunks(frame::MAX_PAYLOAD) {
                frame::write(part, false, lz4, out);
            }
            self.batch = BytesMut::new();
        }
    }

    /// Writes the frame of the envelopes kept so far, if any.
    pub fn flush(&mut self, out: &mut BytesMut) {
        if !self.batch.is_empty() {
            frame::write(&self.batch, true, self.compression == Compression::Lz4, out);
            self.batch.clear();
        }
    }
}
