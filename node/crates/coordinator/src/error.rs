//! How a coordinated request fails; each variant is one error of the native protocol.

use helenus_types::{ConsistencyLevel, Endpoint};

/// Why a replica refused or failed (Cassandra's `RequestFailureReason`; discriminants are its codes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are Cassandra's")]
pub enum FailureReason {
    Unknown = 0,
    ReadTooManyTombstones = 1,
    Timeout = 2,
    IncompatibleSchema = 3,
    ReadSize = 4,
    NodeDown = 5,
    IndexNotAvailable = 6,
}

impl FailureReason {
    /// The reason with this code; unknown codes are [`Self::Unknown`].
    pub fn from_code(code: u64) -> Self {
        match code {
            1 => Self::ReadTooManyTombstones,
            2 => Self::Timeout,
            3 => Self::IncompatibleSchema,
            4 => Self::ReadSize,
            5 => Self::NodeDown,
            6 => Self::IndexNotAvailable,
            _ => Self::Unknown,
        }
    }

    /// The code on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }
}

/// What kind of write timed out, as clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the protocol's")]
pub enum WriteKind {
    Simple,
    Batch,
    UnloggedBatch,
    Counter,
    BatchLog,
    Cas,
}

impl WriteKind {
    /// The name in the native protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "SIMPLE",
            Self::Batch => "BATCH",
            Self::UnloggedBatch => "UNLOGGED_BATCH",
            Self::Counter => "COUNTER",
            Self::BatchLog => "BATCH_LOG",
            Self::Cas => "CAS",
        }
    }
}

/// Why a coordinated read or write was not answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "fields are named as in the native protocol")]
pub enum CoordinatorError {
    /// Too few replicas are up; nothing was sent. Retry when nodes are back, or at a lower level.
    #[error("Cannot achieve consistency level {level}")]
    Unavailable {
        level: ConsistencyLevel,
        required: usize,
        alive: usize,
    },
    /// Too few replicas acknowledged in time; the write may or may not have been applied.
    #[error("Operation timed out - received only {received} responses.")]
    WriteTimeout {
        level: ConsistencyLevel,
        received: usize,
        required: usize,
        kind: WriteKind,
    },
    /// Too few replicas answered in time.
    #[error("Operation timed out - received only {received} responses.")]
    ReadTimeout {
        level: ConsistencyLevel,
        received: usize,
        required: usize,
        data_present: bool,
    },
    /// Replicas refused, so that the level cannot be reached.
    #[error("Operation failed - received {received} responses and {} failures", failures.len())]
    WriteFailure {
        level: ConsistencyLevel,
        received: usize,
        required: usize,
        kind: WriteKind,
        failures: Vec<(Endpoint, FailureReason)>,
    },
    /// Replicas refused, so that the level cannot be reached.
    #[error("Operation failed - received {received} responses and {} failures", failures.len())]
    ReadFailure {
        level: ConsistencyLevel,
        received: usize,
        required: usize,
        data_present: bool,
        failures: Vec<(Endpoint, FailureReason)>,
    },
    /// This node has no memory left for the request. Retry later or elsewhere.
    #[error("{0}")]
    Overloaded(String),
    /// The request cannot be done as asked.
    #[error("{0}")]
    Invalid(String),
    /// Something that should not happen; the text names it.
    #[error("{0}")]
    Server(String),
}
