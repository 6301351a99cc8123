//! What can go wrong, one enum per operation.

use crate::commitlog::{CommitLogError, PositionsError, ReplayError};
use helenus_schema::TableId;
use std::io;
use std::path::PathBuf;

/// An SSTable or the folder of a table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file system refused; may pass (space, permissions).
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is damaged.
    #[error("SSTable {path}: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file has a form that this node does not know.
    #[error("SSTable {path}: {what} is not supported")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not known.
        what: String,
    },
    /// Rows cannot be written as an SSTable: a fault of this node.
    #[error("{0}")]
    Unwritable(String),
}

impl TableError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// Why a shard's engine cannot be opened. Nothing was changed except leftovers removed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A table's files.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The commit log.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The positions of the commit log.
    #[error(transparent)]
    Positions(#[from] PositionsError),
    /// What was replayed could not be flushed; the log says why. Nothing is lost: the commit log has it.
    #[error("writes replayed from the commit log could not be flushed (see the log)")]
    FlushFailed,
    /// A Cassandra node left writes in its commit log, which this node does not read.
    #[error(
        "{path} is a commit log segment of Apache Cassandra: start Cassandra, run `nodetool drain`, stop it, then start this node"
    )]
    ForeignCommitLog {
        /// The segment.
        path: PathBuf,
    },
}

/// Why a write was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Memtables are full and flushes lag: the client is to slow down and try again.
    #[error("memtables hold {held} bytes of {budget} and flushes lag behind")]
    Overloaded {
        /// Bytes held.
        held: usize,
        /// Bytes allowed.
        budget: usize,
    },
    /// No such table here: the schema is behind, or the table was dropped.
    #[error("there is no table with id {0}")]
    UnknownTable(TableId),
    /// The write uses a column that this shard's schema does not have yet.
    #[error("the write of {keyspace}.{table} uses a column that this shard does not know yet")]
    SchemaBehind {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// It has something that cannot be stored (yet); trying again will not help.
    #[error("the write of {keyspace}.{table} cannot be stored: {what}")]
    Unsupported {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
        /// What it has.
        what: &'static str,
    },
    /// The commit log.
    #[error(transparent)]
    CommitLog(#[from] CommitLogError),
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such table here.
    #[error("there is no table with id {0}")]
    UnknownTable(TableId),
    /// The read went over too many tombstones (`TOMBSTONE_OVERWHELMED`).
    #[error(
        "scanned over {scanned} tombstones in {keyspace}.{table}; query aborted (tombstone_failure_threshold)"
    )]
    TooManyTombstones {
        /// How many.
        scanned: u64,
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// The answer would be larger than one answer may be: ask for smaller pages.
    #[error("the answer is larger than {limit} bytes; use smaller pages")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// An SSTable.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A condition that replicas cannot judge yet.
    #[error("{0} is not supported yet in filtering")]
    UnsupportedFilter(&'static str),
}

/// Why a maintenance operation failed. The data is as it was before, or as after a restart.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// No such table here.
    #[error("there is no table with id {0}")]
    UnknownTable(TableId),
    /// A table's files.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The commit log.
    #[error(transparent)]
    CommitLog(#[from] CommitLogError),
    /// The positions of the commit log.
    #[error(transparent)]
    Positions(#[from] PositionsError),
    /// A memtable could not be flushed; the log says why. Nothing is lost: the commit log has it.
    #[error("a memtable could not be flushed (see the log); its writes stay in the commit log")]
    FlushFailed,
    /// The name of a snapshot cannot be the name of a folder.
    #[error("'{0}' cannot be the name of a snapshot")]
    InvalidTag(String),
    /// A snapshot of this name exists.
    #[error("snapshot '{0}' already exists")]
    SnapshotExists(String),
}
