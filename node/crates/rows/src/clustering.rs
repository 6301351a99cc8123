//! Clusterings, bounds between them, and their order.

use bytes::Bytes;
use helenus_schema::{Column, TableMetadata};
use std::cmp::Ordering;

/// The values of a row's clustering columns; `None` is null (only old compact tables have it).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Clustering(pub Vec<Option<Bytes>>);

impl Clustering {
    /// Order in this table, with each column's own direction.
    pub fn compare(&self, other: &Self, table: &TableMetadata) -> Ordering {
        compare_values(&self.0, &other.0, table.clustering())
    }
}

/// The kinds of clustering prefixes; the discriminants are Cassandra's ordinals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PrefixKind {
    /// `< x`, ends a range.
    ExclusiveEnd = 0,
    /// `>= x`, starts a range.
    InclusiveStart = 1,
    /// One range ends before x, another starts with it.
    ExclusiveEndInclusiveStart = 2,
    /// The static row.
    Static = 3,
    /// A row.
    Clustering = 4,
    /// One range ends with x, another starts after it.
    InclusiveEndExclusiveStart = 5,
    /// `<= x`, ends a range.
    InclusiveEnd = 6,
    /// `> x`, starts a range.
    ExclusiveStart = 7,
}

impl PrefixKind {
    /// The kind with this ordinal.
    pub fn from_ordinal(ordinal: u8) -> Option<Self> {
        Some(match ordinal {
            0 => Self::ExclusiveEnd,
            1 => Self::InclusiveStart,
            2 => Self::ExclusiveEndInclusiveStart,
            3 => Self::Static,
            4 => Self::Clustering,
            5 => Self::InclusiveEndExclusiveStart,
            6 => Self::InclusiveEnd,
            7 => Self::ExclusiveStart,
            _ => return None,
        })
    }

    /// Cassandra's ordinal.
    pub fn ordinal(self) -> u8 {
        self as u8
    }

    /// Where it stands against a clustering that starts with the same values: before, at, after.
    pub fn against_clustering(self) -> Ordering {
        match self {
            Self::ExclusiveEnd
            | Self::InclusiveStart
            | Self::ExclusiveEndInclusiveStart
            | Self::Static => Ordering::Less,
            Self::Clustering => Ordering::Equal,
            Self::InclusiveEndExclusiveStart | Self::InclusiveEnd | Self::ExclusiveStart => {
                Ordering::Greater
            }
        }
    }

    /// Whether it starts a range (boundaries do too).
    pub fn is_start(self) -> bool {
        matches!(
            self,
            Self::InclusiveStart
                | Self::ExclusiveStart
                | Self::ExclusiveEndInclusiveStart
                | Self::InclusiveEndExclusiveStart
        )
    }

    /// Whether it ends a range (boundaries do too).
    pub fn is_end(self) -> bool {
        matches!(
            self,
            Self::InclusiveEnd
                | Self::ExclusiveEnd
                | Self::ExclusiveEndInclusiveStart
                | Self::InclusiveEndExclusiveStart
        )
    }

    /// Whether it both ends and starts a range.
    pub fn is_boundary(self) -> bool {
        matches!(
            self,
            Self::ExclusiveEndInclusiveStart | Self::InclusiveEndExclusiveStart
        )
    }
}

/// A prefix of clustering values with a kind: a bound of a slice or range tombstone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusteringBound {
    /// Which side, and whether the values themselves belong to it.
    pub kind: PrefixKind,
    /// The first values of the clustering; empty means the end of the partition on that side.
    pub values: Vec<Option<Bytes>>,
}

impl ClusteringBound {
    /// Before every row.
    pub fn bottom() -> Self {
        Self {
            kind: PrefixKind::InclusiveStart,
            values: Vec::new(),
        }
    }

    /// After every row.
    pub fn top() -> Self {
        Self {
            kind: PrefixKind::InclusiveEnd,
            values: Vec::new(),
        }
    }

    /// Order of two bounds in this table.
    pub fn compare(&self, other: &Self, table: &TableMetadata) -> Ordering {
        compare_prefixes(
            self.kind,
            &self.values,
            other.kind,
            &other.values,
            table.clustering(),
        )
    }

    /// Order against a row's clustering.
    pub fn compare_to_row(&self, row: &Clustering, table: &TableMetadata) -> Ordering {
        compare_prefixes(
            self.kind,
            &self.values,
            PrefixKind::Clustering,
            &row.0,
            table.clustering(),
        )
    }
}

/// A range of clusterings between two bounds, in clustering order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slice {
    /// A start bound.
    pub start: ClusteringBound,
    /// An end bound.
    pub end: ClusteringBound,
}

impl Slice {
    /// Everything.
    pub fn all() -> Self {
        Self {
            start: ClusteringBound::bottom(),
            end: ClusteringBound::top(),
        }
    }

    /// Whether a row is within.
    pub fn includes(&self, row: &Clustering, table: &TableMetadata) -> bool {
        self.start.compare_to_row(row, table).is_lt() && self.end.compare_to_row(row, table).is_gt()
    }
}

/// Order of two values of one clustering column: null first, direction of the column.
fn compare_value(a: Option<&Bytes>, b: Option<&Bytes>, column: &Column) -> Ordering {
    let order = match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => column.cql_type.compare(a, b),
    };
    if column.reversed {
        order.reverse()
    } else {
        order
    }
}

fn compare_values(a: &[Option<Bytes>], b: &[Option<Bytes>], columns: &[Column]) -> Ordering {
    for ((a, b), column) in a.iter().zip(b).zip(columns) {
        let order = compare_value(a.as_ref(), b.as_ref(), column);
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Order of two prefixes (Cassandra's `ClusteringComparator.compare`).
pub fn compare_prefixes(
    a_kind: PrefixKind,
    a: &[Option<Bytes>],
    b_kind: PrefixKind,
    b: &[Option<Bytes>],
    columns: &[Column],
) -> Ordering {
    let common = compare_values(a, b, columns);
    if common.is_ne() {
        return common;
    }
    match a.len().cmp(&b.len()) {
        Ordering::Equal => rank(a_kind).cmp(&rank(b_kind)),
        Ordering::Less => a_kind.against_clustering(),
        Ordering::Greater => b_kind.against_clustering().reverse(),
    }
}

fn rank(kind: PrefixKind) -> u8 {
    match kind {
        PrefixKind::ExclusiveEnd
        | PrefixKind::InclusiveStart
        | PrefixKind::ExclusiveEndInclusiveStart => 0,
        PrefixKind::Static => 1,
        PrefixKind::Clustering => 2,
        PrefixKind::InclusiveEndExclusiveStart
        | PrefixKind::InclusiveEnd
        | PrefixKind::ExclusiveStart => 3,
    }
}
