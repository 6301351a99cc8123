//! Why a message, frame or handshake could not be read or written.

use helenus_types::Truncated;

/// Received bytes are not what the protocol says. Except for [`DecodeError::UnknownVerb`], nothing
/// after it on the connection can be trusted: close it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The value is longer than the bytes that hold it.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// A checksum does not match: the bytes were changed on their way.
    #[error("checksum of {what} is {read:#x}, computed {computed:#x}")]
    Checksum {
        /// What the checksum covers.
        what: &'static str,
        /// The checksum received.
        read: u32,
        /// The checksum of what was received.
        computed: u32,
    },
    /// A value outside of what the protocol allows.
    #[error("invalid {what}: {value}")]
    Invalid {
        /// Which value.
        what: &'static str,
        /// What was found.
        value: String,
    },
    /// A message larger than the limit.
    #[error("message of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes")]
    Oversized {
        /// Size that the message announces.
        size_bytes: u64,
        /// The limit in force (`internode_max_message_size`).
        limit_bytes: u64,
    },
    /// A well-formed message of a verb that this version of Helenus does not know. It was skipped;
    /// the next one may be read.
    #[error("unknown verb {verb_id} of message {message_id}")]
    UnknownVerb {
        /// The verb's number.
        verb_id: u64,
        /// The message's number.
        message_id: u64,
    },
}

impl DecodeError {
    /// An [`DecodeError::Invalid`] that shows the value found.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "callers hand over temporaries"
    )]
    pub fn invalid(what: &'static str, value: impl ToString) -> Self {
        Self::Invalid {
            what,
            value: value.to_string(),
        }
    }

    /// Whether the connection may go on.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::UnknownVerb { .. })
    }
}

/// A message cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Larger than the limit: the peer would refuse it and close the connection.
    #[error("message of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes")]
    Oversized {
        /// Size of the message.
        size_bytes: u64,
        /// The limit in force.
        limit_bytes: u64,
    },
    /// A text longer than the 65,535 bytes that its length field can say.
    #[error("text of {0} bytes is longer than 65535")]
    TextTooLong(usize),
    /// A payload whose rows have no form in this version.
    #[error("payload cannot be written: {0}")]
    Unwritable(String),
}
