//! The bytes of partitions and rows: on the wire, in the commit log and in SSTables.
//!
//! One codec serves all three. Messages carry column names and rows without sizes; SSTables carry
//! sizes and keep the columns' names and types in Statistics.db. Times are deltas to the minima of
//! [`EncodingStats`].
//!
//! Sources: Cassandra 5.0 `UnfilteredSerializer`, `UnfilteredRowIteratorSerializer`,
//! `SerializationHeader`, `Columns`, `ClusteringPrefix`, `Cell`, `EncodingStats`, `DeletionTime`,
//! `PartitionUpdate`, `Mutation`.
//!
//! Invariants:
//! K1: what a decoder returns encodes to something that decodes to the same.
//! K2: no input makes a decoder panic or allocate more than a small multiple of the input.

pub mod clustering;
pub mod columns;
pub mod deletion;
pub mod header;
pub mod mutation;
pub mod partition;
pub mod stats;
pub mod unfiltered;

#[cfg(test)]
mod tests;

pub use columns::ColumnSet;
pub use header::SerializationHeader;
pub use stats::EncodingStats;

use helenus_schema::TableId;
use helenus_types::Truncated;

/// What differs between the versions of the formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// Deletion times are unsigned (to 2106) and a live one takes one byte; else signed (to 2038).
    pub unsigned_deletion_times: bool,
    /// Rows and markers carry their size and the size of the one before.
    pub sstable: bool,
}

impl Version {
    /// Messaging version 12 (Cassandra 4.x, and 5.0 with `storage_compatibility_mode: CASSANDRA_4`).
    pub const MESSAGING_12: Self = Self {
        unsigned_deletion_times: false,
        sstable: false,
    };
    /// Messaging version 13 (Cassandra 5.0).
    pub const MESSAGING_13: Self = Self {
        unsigned_deletion_times: true,
        sstable: false,
    };
    /// SSTable versions `ma` to `nc`.
    pub const SSTABLE_NB: Self = Self {
        unsigned_deletion_times: false,
        sstable: true,
    };
    /// SSTable versions `oa` and `da`.
    pub const SSTABLE_OA: Self = Self {
        unsigned_deletion_times: true,
        sstable: true,
    };

    /// The version of a messaging version number, if it is one that this node speaks.
    pub fn of_messaging(number: u32) -> Option<Self> {
        match number {
            12 => Some(Self::MESSAGING_12),
            13 => Some(Self::MESSAGING_13),
            _ => None,
        }
    }
}

/// Why bytes cannot be read as rows, or rows not be written as bytes. None of it passes by waiting,
/// except that an unknown table or column may come with the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The input ends too early, or a length in it is impossible.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// A column that the table neither has nor had.
    #[error("table {table} has no column '{column}'")]
    UnknownColumn {
        /// Keyspace and table.
        table: String,
        /// The name.
        column: String,
    },
    /// A table that this schema does not have.
    #[error("there is no table with id {0}")]
    UnknownTable(TableId),
    /// Bytes that no writer makes, or rows that the format cannot say.
    #[error("invalid row data: {0}")]
    Invalid(&'static str),
}
