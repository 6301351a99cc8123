//! What can go wrong with an SSTable.

use helenus_rows::codec::CodecError;
use std::io;
use std::path::{Path, PathBuf};

/// Why an SSTable cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SsTableError {
    /// The disk failed or is full: the caller gives up this operation.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file's bytes are not what was written: the SSTable is to be set aside.
    #[error("{path} is corrupt at byte {offset}: {reason}", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where, in bytes of the file (uncompressed position in a data file).
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The file has a format, version or compressor that this node does not know.
    #[error("{path}: {what} is not supported", path = path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported.
        what: String,
    },
    /// The caller's data cannot be written: out of order, or not of the table.
    #[error("cannot write to an SSTable: {0}")]
    Invalid(String),
    /// The caller's rows cannot be written.
    #[error(transparent)]
    Rows(#[from] CodecError),
}

/// Result of an operation on an SSTable.
pub type Result<T, E = SsTableError> = std::result::Result<T, E>;

pub(crate) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> SsTableError + '_ {
    move |source| SsTableError::Io {
        path: path.to_owned(),
        source,
    }
}

pub(crate) fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> SsTableError {
    SsTableError::Corrupt {
        path: path.to_owned(),
        offset,
        reason: reason.into(),
    }
}
