//! Places within a partition as keys of ordered maps.

use bytes::Bytes;
use helenus_rows::clustering::compare_prefixes;
use helenus_rows::{Clustering, ClusteringBound, PrefixKind};
use helenus_schema::{Column, TableMetadata};
use std::cmp::Ordering;
use std::sync::Arc;

/// The order of clusterings in one table. Each memtable has its own, so that counting references
/// to it never touches memory of another shard.
#[derive(Debug)]
pub struct ClusteringOrder {
    columns: Vec<Column>,
}

impl ClusteringOrder {
    /// The order of this table.
    pub fn of(table: &TableMetadata) -> Self {
        Self {
            columns: table.clustering().to_vec(),
        }
    }
}

/// A row's place, or a place between rows.
#[derive(Debug, Clone)]
pub struct Position {
    kind: PrefixKind,
    values: Vec<Option<Bytes>>,
    order: Arc<ClusteringOrder>,
}

impl Position {
    /// The place of a row.
    pub fn of_row(clustering: Clustering, order: &Arc<ClusteringOrder>) -> Self {
        Self {
            kind: PrefixKind::Clustering,
            values: clustering.0,
            order: Arc::clone(order),
        }
    }

    /// The place of a bound. Bounds at the same place are equal, whatever starts or ends there.
    pub fn of_bound(bound: &ClusteringBound, order: &Arc<ClusteringOrder>) -> Self {
        Self {
            kind: bound.kind,
            values: bound.values.clone(),
            order: Arc::clone(order),
        }
    }

    /// Clustering values, or the first of them.
    pub fn values(&self) -> &[Option<Bytes>] {
        &self.values
    }

    /// Whether it stands before the rows that start with its values.
    pub fn is_before_rows(&self) -> bool {
        self.kind.against_clustering().is_lt()
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_prefixes(
            self.kind,
            &self.values,
            other.kind,
            &other.values,
            &self.order.columns,
        )
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Position {}
