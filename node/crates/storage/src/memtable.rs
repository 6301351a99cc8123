//! The writes of one table that no SSTable holds yet.
//!
//! Invariants:
//! S1: a write of one row to a partition of n rows takes O(log n), and so does finding where a slice
//!     starts; a read copies only the rows that it returns.
//! S2: values are copied out of the buffers of requests, so that the size counted is the size held.
//! S3: a switched memtable never changes.

mod partition;
mod position;
mod ranges;

pub use partition::MemtablePartition;
pub use position::{ClusteringOrder, Position};
pub use ranges::RangeDeletions;

use crate::commitlog::CommitLogPosition;
use helenus_rows::codec::EncodingStats;
use helenus_rows::deletion::NO_DELETION_TIME;
use helenus_rows::{
    ClusteringFilter, ColumnData, ColumnFilter, DataRange, DeletionTime, PartitionPosition,
    PartitionSource, Row,
};
use helenus_rows::{PartitionUpdate, Unfiltered};
use helenus_schema::TableMetadata;
use helenus_types::{DecoratedKey, NowInSeconds, TimestampMicros, Token};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// What a map entry and its allocations cost beside the bytes of keys and values.
const PARTITION_OVERHEAD_BYTES: usize = 256;

/// Figures about everything that was written to a memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemtableStats {
    /// Oldest write timestamp.
    pub min_timestamp: TimestampMicros,
    /// Newest write timestamp.
    pub max_timestamp: TimestampMicros,
    /// Earliest deletion or expiry.
    pub min_local_deletion_time: NowInSeconds,
    /// Smallest TTL.
    pub min_ttl: i32,
}

impl Default for MemtableStats {
    fn default() -> Self {
        Self {
            min_timestamp: TimestampMicros::MAX,
            max_timestamp: TimestampMicros::MIN,
            min_local_deletion_time: NO_DELETION_TIME,
            min_ttl: i32::MAX,
        }
    }
}

impl MemtableStats {
    fn timestamp(&mut self, timestamp: TimestampMicros) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamp(deletion.marked_for_delete_at);
            self.min_local_deletion_time = self
                .min_local_deletion_time
                .min(deletion.local_deletion_time);
        }
    }

    fn row(&mut self, row: &Row) {
        self.deletion(row.deletion);
        if !row.liveness.is_empty() {
            self.timestamp(row.liveness.timestamp);
            self.min_local_deletion_time = self
                .min_local_deletion_time
                .min(row.liveness.local_expiration_time);
            if row.liveness.is_expiring() {
                self.min_ttl = self.min_ttl.min(row.liveness.ttl);
            }
        }
        for (_, data) in &row.columns {
            if let ColumnData::Complex(complex) = data {
                self.deletion(complex.deletion);
            }
            for cell in data.cells() {
                self.timestamp(cell.timestamp);
                self.min_local_deletion_time =
                    self.min_local_deletion_time.min(cell.local_deletion_time);
                if cell.is_expiring() {
                    self.min_ttl = self.min_ttl.min(cell.ttl);
                }
            }
        }
    }

    fn update(&mut self, update: &PartitionUpdate) {
        let partition = &update.partition;
        self.deletion(partition.deletion);
        self.row(&partition.static_row);
        for unfiltered in &partition.unfiltereds {
            match unfiltered {
                Unfiltered::Row(row) => self.row(row),
                Unfiltered::Marker(marker) => {
                    self.deletion(marker.start.unwrap_or_default());
                    self.deletion(marker.end.unwrap_or_default());
                }
            }
        }
    }
}

/// The unflushed writes of one table in one shard.
#[derive(Debug)]
pub struct Memtable {
    table: Arc<TableMetadata>,
    order: Arc<ClusteringOrder>,
    partitions: BTreeMap<DecoratedKey, MemtablePartition>,
    size_bytes: usize,
    operations: u64,
    stats: MemtableStats,
    /// The first and last commit-log positions of its writes.
    span: Option<(CommitLogPosition, CommitLogPosition)>,
}

impl Memtable {
    /// An empty memtable.
    pub fn new(table: Arc<TableMetadata>) -> Self {
        let order = Arc::new(ClusteringOrder::of(&table));
        Self {
            table,
            order,
            partitions: BTreeMap::new(),
            size_bytes: 0,
            operations: 0,
            stats: MemtableStats::default(),
            span: None,
        }
    }

    /// The table, as its newest write knew it.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Goes on with an altered table: every column that was there is there still.
    pub fn set_table(&mut self, table: Arc<TableMetadata>) {
        self.table = table;
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Bytes held, near enough.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Writes applied.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Figures of what was written.
    pub fn stats(&self) -> &MemtableStats {
        &self.stats
    }

    /// The minima of times from which an SSTable of it counts.
    pub fn encoding_stats(&self) -> EncodingStats {
        let mut stats = EncodingStats::NONE;
        if self.stats.min_timestamp != TimestampMicros::MAX {
            stats.min_timestamp = self.stats.min_timestamp;
        }
        if self.stats.min_local_deletion_time != NO_DELETION_TIME {
            stats.min_local_deletion_time = self.stats.min_local_deletion_time;
        }
        if self.stats.min_ttl != i32::MAX {
            stats.min_ttl = self.stats.min_ttl;
        }
        stats
    }

    /// Count of partitions.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// The first and last commit-log positions of its writes; `None` when no write was logged.
    pub fn span(&self) -> Option<(CommitLogPosition, CommitLogPosition)> {
        self.span
    }

    /// Merges an update into its partition.
    pub fn apply(&mut self, update: PartitionUpdate, position: Option<CommitLogPosition>) {
        self.operations += 1;
        self.stats.update(&update);
        if let Some(position) = position {
            let first = self.span.map_or(position, |(first, _)| first.min(position));
            let last = self.span.map_or(position, |(_, last)| last.max(position));
            self.span = Some((first, last));
        }
        let partition = update.partition;
        if !self.partitions.contains_key(&partition.key) {
            let key = DecoratedKey {
                token: partition.key.token,
                key: bytes::Bytes::copy_from_slice(&partition.key.key),
            };
            self.size_bytes += PARTITION_OVERHEAD_BYTES + key.key.len();
            self.partitions.insert(key, MemtablePartition::default());
        }
        if let Some(present) = self.partitions.get_mut(&partition.key) {
            let before = present.size_bytes();
            present.merge(partition, &self.order, &self.table);
            self.size_bytes = (self.size_bytes + present.size_bytes()).saturating_sub(before);
        }
    }

    /// The part of a partition that a filter and a choice of columns ask for.
    pub fn read<'a, E: 'a>(
        &'a self,
        key: &DecoratedKey,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> Option<PartitionSource<'a, E>> {
        let (key, partition) = self.partitions.get_key_value(key)?;
        Some(self.source(key, partition, filter, columns))
    }

    /// The keys and partitions of a range, in order.
    pub fn range<'a>(
        &'a self,
        range: &'a DataRange,
    ) -> impl Iterator<Item = (&'a DecoratedKey, &'a MemtablePartition)> + use<'a> {
        let first_of = |token: Token| {
            Bound::Included(DecoratedKey {
                token,
                key: bytes::Bytes::new(),
            })
        };
        let start = match &range.start {
            PartitionPosition::MinOf(token) => first_of(*token),
            PartitionPosition::MaxOf(token) => first_of(Token(token.0.saturating_add(1))),
            PartitionPosition::Key {
                key,
                inclusive: true,
            } => Bound::Included(key.clone()),
            PartitionPosition::Key {
                key,
                inclusive: false,
            } => Bound::Excluded(key.clone()),
        };
        self.partitions
            .range((start, Bound::Unbounded))
            .skip_while(|(key, _)| !range.is_after_start(key))
            .take_while(|(key, _)| range.is_before_end(key))
    }

    /// A source of one partition got from [`Memtable::range`].
    pub fn source<'a, E: 'a>(
        &'a self,
        key: &DecoratedKey,
        partition: &'a MemtablePartition,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> PartitionSource<'a, E> {
        partition.read(key, filter, columns, &self.order)
    }

    /// Every partition in order.
    pub fn partitions(&self) -> impl Iterator<Item = (&DecoratedKey, &MemtablePartition)> {
        self.partitions.iter()
    }
}
