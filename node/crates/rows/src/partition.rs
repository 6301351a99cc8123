//! Partitions, updates of them, and mutations of several tables under one key.

use crate::clustering::{ClusteringBound, PrefixKind};
use crate::deletion::DeletionTime;
use crate::row::Row;
use helenus_schema::TableMetadata;
use helenus_types::DecoratedKey;
use std::sync::Arc;

/// A bound at which range deletions end, start or change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RangeTombstoneMarker {
    /// Where; its kind is one of the six bound and boundary kinds.
    pub bound: ClusteringBound,
    /// The deletion that ends here (in clustering order).
    pub end: Option<DeletionTime>,
    /// The deletion that starts here (in clustering order).
    pub start: Option<DeletionTime>,
}

/// What a partition is a sequence of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// An end, start or change of range deletions.
    Marker(RangeTombstoneMarker),
}

impl Unfiltered {
    /// Kind and values of its place.
    pub fn prefix(&self) -> (PrefixKind, &[Option<bytes::Bytes>]) {
        match self {
            Self::Row(row) => (PrefixKind::Clustering, &row.clustering.0),
            Self::Marker(marker) => (marker.bound.kind, &marker.bound.values),
        }
    }

    /// The row, if it is one.
    pub fn as_row(&self) -> Option<&Row> {
        match self {
            Self::Row(row) => Some(row),
            Self::Marker(_) => None,
        }
    }
}

/// A partition, or the part of it that a read asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its key.
    pub key: DecoratedKey,
    /// Deletes everything older in it.
    pub deletion: DeletionTime,
    /// The static row; empty when there is none.
    pub static_row: Row,
    /// Rows and markers in order (R2).
    pub unfiltereds: Vec<Unfiltered>,
}

impl Partition {
    /// An empty partition.
    pub fn new(key: DecoratedKey) -> Self {
        Self {
            key,
            deletion: DeletionTime::LIVE,
            static_row: Row::default(),
            unfiltereds: Vec::new(),
        }
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_live() && self.static_row.is_empty() && self.unfiltereds.is_empty()
    }

    /// Its rows in order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.unfiltereds.iter().filter_map(Unfiltered::as_row)
    }
}

/// A write to one partition of one table.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionUpdate {
    /// The table, as it was when the write was made.
    pub table: Arc<TableMetadata>,
    /// What is written.
    pub partition: Partition,
}

/// A write under one key: updates of one or more tables of one keyspace, applied as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// The keyspace of all updates.
    pub keyspace: String,
    /// The partition key of all updates.
    pub key: DecoratedKey,
    /// At most one update per table.
    pub updates: Vec<PartitionUpdate>,
}

impl Mutation {
    /// A mutation of one update.
    pub fn of(update: PartitionUpdate) -> Self {
        Self {
            keyspace: update.table.keyspace.clone(),
            key: update.partition.key.clone(),
            updates: vec![update],
        }
    }
}
