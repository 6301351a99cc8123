//! What can be wrong with bytes from the other side.

use crate::error_response::ErrorResponse;
use crate::version::ProtocolVersion;
use helenus_types::Truncated;

/// Input that is not the protocol. A server answers it with [`ProtocolError::response`]; after a
/// fatal one the connection must be closed, after others the decoder goes on with the next envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProtocolError {
    /// What is wrong, in Cassandra's words where drivers look at them.
    pub message: String,
    /// Stream of the request, 0 when it is not known.
    pub stream: i16,
    /// Version number for the answer's envelope; differs from the connection's when the client's
    /// version is too old (Cassandra then answers with that one).
    pub answer_version: u8,
    /// Nothing after it can be understood.
    pub fatal: bool,
    /// The request was well formed but forbidden: answered as INVALID instead of PROTOCOL_ERROR.
    pub invalid: bool,
}

impl ProtocolError {
    /// An error in one envelope; the next one can be read.
    pub fn new(message: impl Into<String>) -> Self {
        let answer_version = ProtocolVersion::NEWEST.number();
        Self {
            message: message.into(),
            stream: 0,
            answer_version,
            fatal: false,
            invalid: false,
        }
    }

    /// An error after which nothing can be understood.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self {
            fatal: true,
            ..Self::new(message)
        }
    }

    pub(crate) fn on_stream(self, stream: i16, version: ProtocolVersion) -> Self {
        Self {
            stream,
            answer_version: version.number(),
            ..self
        }
    }

    /// The body of the answer.
    pub fn response(&self) -> ErrorResponse {
        let message = self.message.clone();
        if self.invalid {
            ErrorResponse::Invalid { message }
        } else {
            ErrorResponse::Protocol { message }
        }
    }

    /// The whole answer as an envelope outside of frames, for a connection that has not got past STARTUP.
    pub fn unframed_answer(&self) -> bytes::Bytes {
        crate::envelope::raw_error_answer(self.answer_version, self.stream, &self.response())
    }
}

impl From<Truncated> for ProtocolError {
    fn from(error: Truncated) -> Self {
        Self::new(format!("Not enough bytes in message: {error}"))
    }
}
