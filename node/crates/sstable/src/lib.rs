//! SSTables of Cassandra: written as BTI `da`, read as Cassandra writes them.
//!
//! An SSTable is a set of files that never change; [`SsTableWriter`] makes one from partitions in
//! key order, [`SsTableReader`] finds partitions and rows in one. Nothing here knows who calls it.

mod big;
mod bloom;
mod collector;
pub mod compression;
mod data;
pub mod descriptor;
mod error;
mod file;
pub mod histogram;
mod index;
mod reader;
mod rows;
pub mod statistics;
mod trie;
mod writer;

pub use data::verify_digest;
pub use descriptor::{Component, Descriptor, FileVersion, Format, Generation};
pub use error::{Result, SsTableError};
pub use reader::{Scanner, SsTablePartition, SsTableReader, read_statistics};
pub use statistics::{CommitLogPosition, Statistics};
pub use writer::{
    DEFAULT_COLUMN_INDEX_SIZE, SsTableInfo, SsTableWriter, WriterOptions, remove_files,
};
