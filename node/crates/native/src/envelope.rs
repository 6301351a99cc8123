//! Envelopes: the nine bytes before each message, and the message's body.

use crate::error::ProtocolError;
use crate::error_response::ErrorResponse;
use crate::version::ProtocolVersion;
use bytes::{BufMut, Bytes, BytesMut};

/// Length in bytes of an envelope's header.
pub const HEADER_LENGTH: usize = 9;
/// Greatest total length of an envelope unless set otherwise, as in the protocol's specification.
pub const DEFAULT_LENGTH_LIMIT: usize = 256 * 1024 * 1024;
/// Set in the first byte of answers.
const RESPONSE_BIT: u8 = 0x80;

/// The body is compressed (version 3 and 4).
pub const FLAG_COMPRESSED: u8 = 0x01;
/// A request asks for tracing; an answer begins with a tracing id.
pub const FLAG_TRACING: u8 = 0x02;
/// The body begins with a custom payload (after tracing id and warnings).
pub const FLAG_CUSTOM_PAYLOAD: u8 = 0x04;
/// An answer begins with warnings (after the tracing id).
pub const FLAG_WARNING: u8 = 0x08;
/// The client knows that the version is a beta.
pub const FLAG_USE_BETA: u8 = 0x10;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum Opcode {
    Error,
    Startup,
    Ready,
    Authenticate,
    Options,
    Supported,
    Query,
    Result,
    Prepare,
    Execute,
    Register,
    Event,
    Batch,
    AuthChallenge,
    AuthResponse,
    AuthSuccess,
}

impl Opcode {
    const ALL: [(Self, u8, bool, &'static str); 16] = [
        (Self::Error, 0x00, true, "ERROR"),
        (Self::Startup, 0x01, false, "STARTUP"),
        (Self::Ready, 0x02, true, "READY"),
        (Self::Authenticate, 0x03, true, "AUTHENTICATE"),
        (Self::Options, 0x05, false, "OPTIONS"),
        (Self::Supported, 0x06, true, "SUPPORTED"),
        (Self::Query, 0x07, false, "QUERY"),
        (Self::Result, 0x08, true, "RESULT"),
        (Self::Prepare, 0x09, false, "PREPARE"),
        (Self::Execute, 0x0a, false, "EXECUTE"),
        (Self::Register, 0x0b, false, "REGISTER"),
        (Self::Event, 0x0c, true, "EVENT"),
        (Self::Batch, 0x0d, false, "BATCH"),
        (Self::AuthChallenge, 0x0e, true, "AUTH_CHALLENGE"),
        (Self::AuthResponse, 0x0f, false, "AUTH_RESPONSE"),
        (Self::AuthSuccess, 0x10, true, "AUTH_SUCCESS"),
    ];

    fn entry(self) -> &'static (Self, u8, bool, &'static str) {
        Self::ALL
            .iter()
            .find(|entry| entry.0 == self)
            .unwrap_or(&Self::ALL[0])
    }

    /// The opcode of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|entry| entry.1 == number)
            .map(|entry| entry.0)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.entry().1
    }

    /// Whether servers send it.
    pub fn is_response(self) -> bool {
        self.entry().2
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        self.entry().3
    }
}

/// A message with its header; the body is not compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Version of the protocol.
    pub version: ProtocolVersion,
    /// The `FLAG_` bits; [`FLAG_COMPRESSED`] is the codec's affair and not set here.
    pub flags: u8,
    /// Pairs answers with requests; −1 for events.
    pub stream: i16,
    /// What the message is.
    pub opcode: Opcode,
    /// The message.
    pub body: Bytes,
}

impl Envelope {
    /// Writes header and `body` (which may be this envelope's own, compressed, with `flags` saying so).
    pub(crate) fn write_with(&self, flags: u8, body: &[u8], out: &mut BytesMut) {
        let direction = if self.opcode.is_response() {
            RESPONSE_BIT
        } else {
            0
        };
        write_header(
            out,
            self.version.number() | direction,
            flags,
            self.stream,
            self.opcode.number(),
            body.len(),
        );
        out.put_slice(body);
    }

    /// Length in bytes with the header.
    pub fn length(&self) -> usize {
        HEADER_LENGTH + self.body.len()
    }
}

fn write_header(out: &mut BytesMut, first: u8, flags: u8, stream: i16, opcode: u8, length: usize) {
    out.reserve(HEADER_LENGTH + length);
    out.put_u8(first);
    out.put_u8(flags);
    out.put_i16(stream);
    out.put_u8(opcode);
    // Bodies are built in memory under far smaller limits.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

/// An ERROR envelope of any version number, even one that is not spoken.
pub(crate) fn raw_error_answer(version: u8, stream: i16, error: &ErrorResponse) -> Bytes {
    let mut body = BytesMut::new();
    error.encode(ProtocolVersion::V4, &mut body);
    let mut out = BytesMut::new();
    write_header(
        &mut out,
        version | RESPONSE_BIT,
        0,
        stream,
        Opcode::Error.number(),
        body.len(),
    );
    out.put_slice(&body);
    out.freeze()
}

/// A header as read, with the body still to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) version: ProtocolVersion,
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) response: bool,
    pub(crate) body_length: usize,
}

impl Header {
    /// Reads a header from the start of `input`: `None` when more bytes are needed. The version is
    /// judged from the first byte alone, since old versions have shorter headers.
    pub(crate) fn read(input: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some(first) = input.first() else {
            return Ok(None);
        };
        let number = first & !RESPONSE_BIT;
        let Some(version) = ProtocolVersion::from_number(number) else {
            let answer_version = if matches!(number, 1 | 2) {
                number
            } else {
                ProtocolVersion::NEWEST.number()
            };
            let message = ProtocolVersion::unsupported_message(number);
            return Err(ProtocolError {
                answer_version,
                ..ProtocolError::fatal(message)
            });
        };
        let Some(header) = input.first_chunk::<HEADER_LENGTH>() else {
            return Ok(None);
        };
        let [_, flags, s0, s1, opcode, l0, l1, l2, l3] = *header;
        let stream = i16::from_be_bytes([s0, s1]);
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let body_length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(Some(Self {
            version,
            flags,
            stream,
            opcode,
            response: first & RESPONSE_BIT != 0,
            body_length,
        }))
    }

    /// Checks opcode and direction.
    pub(crate) fn opcode(&self, responses: bool) -> Result<Opcode, ProtocolError> {
        // CREDENTIALS of version 1.
        if self.opcode == 4 {
            return Err(ProtocolError::new("Unsupported message"));
        }
        let opcode = Opcode::from_number(self.opcode)
            .ok_or_else(|| ProtocolError::new(format!("Unknown opcode {}", self.opcode)))?;
        if self.response != responses || opcode.is_response() != responses {
            let name = |response: bool| if response { "RESPONSE" } else { "REQUEST" };
            return Err(ProtocolError::new(format!(
                "Wrong protocol direction (expected {}, got {}) for opcode {} ({})",
                name(opcode.is_response()),
                name(self.response),
                self.opcode,
                opcode.name()
            )));
        }
        Ok(opcode)
    }
}
