//! Partitions, rows, cells and deletions: the one form in which data passes between commit log,
//! memtable, SSTables, replicas and queries; and the commands that read it.
//!
//! Invariants:
//! R1: a row's columns stand in ascending order of [`helenus_schema::ColumnId`], at most one each;
//!     the cells of a multi-cell column in the order of their paths.
//! R2: a partition's rows and markers stand in clustering order (reversed for a reversed read);
//!     every open range tombstone is closed.
//! R3: merging is commutative, associative and idempotent, and chooses as Cassandra does.

pub mod cell;
pub mod clustering;
pub mod codec;
pub mod command;
pub mod deletion;
pub mod digest;
pub mod filter;
pub mod limits;
pub mod merge;
#[cfg(test)]
mod merge_tests;
pub mod partition;
pub mod row;
pub mod source;
pub mod wire;

pub use cell::{Cell, ColumnData, ComplexData};
pub use clustering::{Clustering, ClusteringBound, PrefixKind, Slice};
pub use command::{
    ClusteringFilter, ColumnFilter, DataLimits, DataRange, Operator, PartitionPosition,
    ReadCommand, ReadKind, RowFilter, RowFilterExpression,
};
pub use deletion::{DeletionTime, LivenessInfo};
pub use limits::{LimitCounter, Purger};
pub use merge::{merge_partitions, merge_sources};
pub use partition::{Mutation, Partition, PartitionUpdate, RangeTombstoneMarker, Unfiltered};
pub use row::Row;
pub use source::{PartitionSource, Unfiltereds};
