//! What a replica is asked to read. The forms follow Cassandra's `ReadCommand`, so that a command
//! can be sent to and taken from a Cassandra node without loss.

use crate::clustering::{Clustering, Slice};
use bytes::Bytes;
use helenus_schema::{ColumnId, TableMetadata};
use helenus_types::{DecoratedKey, NowInSeconds, Token};
use std::sync::Arc;

/// A read of one partition or of a range of them.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadCommand {
    /// The table.
    pub table: Arc<TableMetadata>,
    /// The time at which TTLs are judged.
    pub now_in_seconds: NowInSeconds,
    /// Which columns to fetch.
    pub columns: ColumnFilter,
    /// Which rows to keep (`ALLOW FILTERING`); applied by replicas and again by the coordinator.
    pub row_filter: RowFilter,
    /// How much to return.
    pub limits: DataLimits,
    /// What to read.
    pub kind: ReadKind,
}

/// One partition or a range.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadKind {
    /// Rows of one partition.
    Partition {
        /// The partition's key.
        key: DecoratedKey,
        /// Which rows.
        filter: ClusteringFilter,
    },
    /// Rows of the partitions in a range of the ring.
    Range(DataRange),
}

/// A range of partitions, and which rows of each.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRange {
    /// Where it starts.
    pub start: PartitionPosition,
    /// Where it ends; a position at [`Token::MINIMUM`] of kind `MinOf` means the end of the ring.
    pub end: PartitionPosition,
    /// Which rows of each partition.
    pub filter: ClusteringFilter,
    /// Paging: in the first partition, only rows after this clustering (`None`: all of them).
    pub resume_after: Option<ResumeAfter>,
}

/// Where paging within the first partition of a range goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeAfter {
    /// The last clustering returned.
    pub clustering: Clustering,
    /// Whether that row itself is to be returned again.
    pub inclusive: bool,
}

/// A place between partitions, or a partition itself, as an end of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionPosition {
    /// Before every key of this token.
    MinOf(Token),
    /// After every key of this token.
    MaxOf(Token),
    /// At this key; included or not.
    Key {
        /// The key.
        key: DecoratedKey,
        /// Whether the partition of the key itself belongs to the range.
        inclusive: bool,
    },
}

impl DataRange {
    /// Every partition.
    pub fn all(filter: ClusteringFilter) -> Self {
        Self {
            start: PartitionPosition::MinOf(Token::MINIMUM),
            end: PartitionPosition::MinOf(Token::MINIMUM),
            filter,
            resume_after: None,
        }
    }

    /// Whether the partition of `key` is within.
    pub fn contains(&self, key: &DecoratedKey) -> bool {
        self.is_after_start(key) && self.is_before_end(key)
    }

    /// Whether the partition of `key` does not stand before the range.
    pub fn is_after_start(&self, key: &DecoratedKey) -> bool {
        match &self.start {
            PartitionPosition::MinOf(token) => key.token >= *token,
            PartitionPosition::MaxOf(token) => key.token > *token,
            PartitionPosition::Key {
                key: start,
                inclusive,
            } => key > start || (*inclusive && key == start),
        }
    }

    /// Whether the partition of `key` does not stand after the range.
    pub fn is_before_end(&self, key: &DecoratedKey) -> bool {
        match &self.end {
            PartitionPosition::MinOf(token) => *token == Token::MINIMUM || key.token < *token,
            PartitionPosition::MaxOf(token) => key.token <= *token,
            PartitionPosition::Key {
                key: end,
                inclusive,
            } => key < end || (*inclusive && key == end),
        }
    }
}

/// Which rows of a partition.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusteringFilter {
    /// The rows of these slices; slices ascend and do not overlap, whatever `reversed` says.
    Slices {
        /// Which.
        slices: Vec<Slice>,
        /// Return rows in reverse clustering order.
        reversed: bool,
    },
    /// These rows, ascending without repetition; an empty list reads the static row only.
    Names {
        /// Which.
        clusterings: Vec<Clustering>,
        /// Return rows in reverse clustering order.
        reversed: bool,
    },
}

impl ClusteringFilter {
    /// Every row in clustering order.
    pub fn all() -> Self {
        Self::Slices {
            slices: vec![Slice::all()],
            reversed: false,
        }
    }

    /// Whether rows are returned in reverse.
    pub fn is_reversed(&self) -> bool {
        match self {
            Self::Slices { reversed, .. } | Self::Names { reversed, .. } => *reversed,
        }
    }

    /// Whether a row is asked for.
    pub fn includes(&self, row: &Clustering, table: &TableMetadata) -> bool {
        match self {
            Self::Slices { slices, .. } => slices.iter().any(|slice| slice.includes(row, table)),
            Self::Names { clusterings, .. } => clusterings
                .binary_search_by(|wanted| wanted.compare(row, table))
                .is_ok(),
        }
    }
}

/// Which columns are fetched. Liveness and deletions are always fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnFilter {
    /// All static and regular columns (`SELECT *`, and selections whose row existence matters).
    All {
        /// Those whose values the query uses; the others may come back without values.
        queried: Vec<ColumnId>,
    },
    /// Only these columns.
    Selected(Vec<ColumnId>),
}

impl ColumnFilter {
    /// Whether a column's cells are to be returned with values.
    pub fn fetches(&self, id: ColumnId) -> bool {
        match self {
            Self::All { .. } => true,
            Self::Selected(ids) => ids.contains(&id),
        }
    }
}

/// Row conditions that no index or key restriction answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowFilter {
    /// All of them must hold.
    pub expressions: Vec<RowFilterExpression>,
}

/// One condition on one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFilterExpression {
    /// Which column.
    pub column: ColumnId,
    /// How to compare.
    pub operator: Operator,
    /// For `map[key] = value`: the key.
    pub map_key: Option<Bytes>,
    /// With what: a serialized value of the column's type (a list of it for IN, an element for CONTAINS).
    pub value: Bytes,
}

/// Comparison operators; the discriminants are Cassandra's `Operator` codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operator {
    Equal = 0,
    GreaterEqual = 1,
    Greater = 2,
    LessEqual = 3,
    Less = 4,
    In = 7,
    Contains = 5,
    ContainsKey = 6,
    NotEqual = 8,
    IsNotNull = 9,
    LikePrefix = 10,
    LikeSuffix = 11,
    LikeContains = 12,
    LikeMatches = 13,
    Like = 14,
    Ann = 15,
}

impl Operator {
    /// The operator with this code.
    pub fn from_code(code: i32) -> Option<Self> {
        const ALL: [Operator; 16] = [
            Operator::Equal,
            Operator::GreaterEqual,
            Operator::Greater,
            Operator::LessEqual,
            Operator::Less,
            Operator::Contains,
            Operator::ContainsKey,
            Operator::In,
            Operator::NotEqual,
            Operator::IsNotNull,
            Operator::LikePrefix,
            Operator::LikeSuffix,
            Operator::LikeContains,
            Operator::LikeMatches,
            Operator::Like,
            Operator::Ann,
        ];
        ALL.into_iter().find(|operator| *operator as i32 == code)
    }
}

/// How much a read returns at most; counts live rows at the command's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataLimits {
    /// Rows in all.
    pub rows: u32,
    /// Rows of each partition.
    pub per_partition: u32,
    /// Count only partitions with a live row or static row, one row each (`DISTINCT`).
    pub distinct: bool,
    /// Rows already returned of the first partition by earlier pages (for `per_partition`).
    pub first_partition_returned: u32,
}

impl DataLimits {
    /// No limit.
    pub const NONE: Self = Self {
        rows: u32::MAX,
        per_partition: u32::MAX,
        distinct: false,
        first_partition_returned: 0,
    };

    /// At most this many rows.
    pub fn rows(rows: u32) -> Self {
        Self { rows, ..Self::NONE }
    }
}
