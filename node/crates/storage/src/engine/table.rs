//! One table in one shard: its memtables and SSTables.

use crate::commitlog::CommitLogPosition;
use crate::memtable::Memtable;
use crate::metrics::TableMetrics;
use crate::sstables::OpenSSTable;
use helenus_rows::{ColumnData, DeletionTime, PartitionUpdate, Row, Unfiltered};
use helenus_schema::TableMetadata;
use helenus_seams::Disk;
use helenus_types::TimestampMicros;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A memtable that takes no more writes, until its SSTable is durable.
#[derive(Debug)]
pub(super) struct Flushing {
    pub(super) memtable: Arc<Memtable>,
    /// The place in the log before which every write of the table is in this memtable or an earlier one.
    pub(super) upper: CommitLogPosition,
    pub(super) running: bool,
    /// Monotonic time of the next attempt after a failure.
    pub(super) retry_at: Duration,
}

/// One table in one shard.
#[derive(Debug)]
pub struct TableStore {
    pub(super) table: Arc<TableMetadata>,
    /// Its folder in each data directory where it has one; new SSTables go to the first.
    pub(super) folders: Vec<PathBuf>,
    pub(super) memtable: Memtable,
    /// Oldest first.
    pub(super) flushing: Vec<Flushing>,
    /// Newest data first.
    pub(super) sstables: Vec<Arc<OpenSSTable>>,
    /// Names of SSTables that a compaction reads.
    pub(super) compacting: BTreeSet<String>,
    /// Generations that other threads write, until they let go of their guards.
    writing: Vec<(u64, Arc<()>)>,
    pub(super) flush_wanted: bool,
    pub(super) next_generation: u64,
    pub(super) metrics: TableMetrics,
    pub(super) warned_of_strategy: bool,
    /// A compaction failed: none before this monotonic time.
    pub(super) compact_after: Duration,
}

impl TableStore {
    pub(super) fn new(
        table: Arc<TableMetadata>,
        folders: Vec<PathBuf>,
        next_generation: u64,
    ) -> Self {
        Self {
            memtable: Memtable::new(Arc::clone(&table)),
            table,
            folders,
            flushing: Vec::new(),
            sstables: Vec::new(),
            compacting: BTreeSet::new(),
            writing: Vec::new(),
            flush_wanted: false,
            next_generation,
            metrics: TableMetrics::default(),
            warned_of_strategy: false,
            compact_after: Duration::ZERO,
        }
    }

    /// The table.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Bytes of the memtable that takes writes.
    pub fn memtable_bytes(&self) -> usize {
        self.memtable.size_bytes()
    }

    /// Bytes of memtables being flushed.
    pub fn flushing_bytes(&self) -> usize {
        self.flushing
            .iter()
            .map(|one| one.memtable.size_bytes())
            .sum()
    }

    /// Its open SSTables, newest data first.
    pub fn sstables(&self) -> &[Arc<OpenSSTable>] {
        &self.sstables
    }

    /// Every memtable, the newest first.
    pub(super) fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&self.memtable).chain(self.flushing.iter().rev().map(|one| &*one.memtable))
    }

    /// Nothing in memory is older than this.
    pub(super) fn oldest_in_memory(&self) -> TimestampMicros {
        self.memtables()
            .map(|memtable| memtable.stats().min_timestamp)
            .min()
            .unwrap_or(TimestampMicros::MAX)
    }

    /// Whether every column that an update uses is known here.
    pub(super) fn knows_columns_of(&self, update: &PartitionUpdate) -> bool {
        if Arc::ptr_eq(&self.table, &update.table) {
            return true;
        }
        let known = |row: &Row| {
            row.columns
                .iter()
                .all(|(id, _)| self.same_column(&update.table, *id))
        };
        known(&update.partition.static_row) && update.partition.rows().all(known)
    }

    fn same_column(&self, table: &TableMetadata, id: helenus_schema::ColumnId) -> bool {
        match (self.table.column_by_id(id), table.column_by_id(id)) {
            (Some(mine), Some(theirs)) => mine.name == theirs.name,
            _ => false,
        }
    }

    /// Takes the next generation number of this shard.
    pub(super) fn take_generation(&mut self, shards: u64) -> u64 {
        let generation = self.next_generation;
        self.next_generation += shards.max(1);
        generation
    }

    /// Takes a generation for an SSTable that another thread writes, and what says that it still does.
    pub(super) fn begin_writing(&mut self, shards: u64) -> (u64, Arc<()>) {
        let (generation, guard) = (self.take_generation(shards), Arc::new(()));
        self.writing
            .retain(|(_, guard)| Arc::strong_count(guard) > 1);
        self.writing.push((generation, Arc::clone(&guard)));
        (generation, guard)
    }

    /// The generations that are being written.
    pub(super) fn running(&mut self) -> Vec<(u64, Arc<()>)> {
        self.writing
            .retain(|(_, guard)| Arc::strong_count(guard) > 1);
        std::mem::take(&mut self.writing)
    }

    /// Puts SSTables in the order in which reads ask them.
    pub(super) fn sort_sstables(&mut self) {
        self.sstables
            .sort_by_key(|sstable| std::cmp::Reverse(sstable.max_timestamp()));
    }

    /// Adds an SSTable that was opened under the table as it was when the work began.
    pub(super) fn add_sstable(&mut self, disk: &Arc<dyn Disk>, sstable: OpenSSTable) {
        let stale = !keeps_columns(sstable.reader().table(), &self.table);
        let sstable = if stale {
            sstable.reopen(disk, &self.table).unwrap_or(sstable)
        } else {
            sstable
        };
        self.sstables.push(Arc::new(sstable));
        self.sort_sstables();
    }

    /// Its counters.
    pub(super) fn metrics(&self) -> TableMetrics {
        TableMetrics {
            memtable_bytes: self.memtable_bytes() as u64,
            flushing_bytes: self.flushing_bytes() as u64,
            sstables: self.sstables.len() as u64,
            sstable_bytes: self
                .sstables
                .iter()
                .map(|sstable| sstable.size_bytes())
                .sum(),
            pending_tasks: self.flushing.len() as u64 + u64::from(self.flush_wanted),
            ..self.metrics
        }
    }
}

/// Whether every column of a table has the same name and id in a later form of it.
pub(super) fn keeps_columns(old: &TableMetadata, new: &TableMetadata) -> bool {
    old.columns().iter().all(|column| {
        new.column_by_id(column.id)
            .is_some_and(|found| found.name == column.name)
    })
}

/// What of a write has no form in SSTables, or no code here yet.
pub(super) fn unsupported(update: &PartitionUpdate) -> Option<&'static str> {
    if update.table.is_counter() {
        return Some("counter tables are not supported yet");
    }
    // `da` marks a live deletion by the sign; Cassandra writes one from before 1970 as a damaged file
    let before_1970 =
        |deletion: DeletionTime| !deletion.is_live() && deletion.marked_for_delete_at < 0;
    let partition = &update.partition;
    let in_range = partition.unfiltereds.iter().any(|one| match one {
        Unfiltered::Row(_) => false,
        Unfiltered::Marker(marker) => marker.start.into_iter().chain(marker.end).any(before_1970),
    });
    (in_range || before_1970(partition.deletion))
        .then_some("the deletion of a partition or range needs a timestamp of 1970 or later")
}

/// Bytes of a row's values and what an answer holds beside them, near enough.
pub(super) fn row_size(row: &Row) -> usize {
    let cells = row.columns.iter().flat_map(|(_, data)| match data {
        ColumnData::Simple(cell) => std::slice::from_ref(cell),
        ColumnData::Complex(complex) => &complex.cells,
    });
    64 + cells
        .map(|cell| 64 + cell.value.len() + cell.path.as_ref().map_or(0, bytes::Bytes::len))
        .sum::<usize>()
}

/// [`row_size`] of rows, a small sum for markers.
pub(super) fn unfiltered_size(unfiltered: &Unfiltered) -> usize {
    match unfiltered {
        Unfiltered::Row(row) => row_size(row),
        Unfiltered::Marker(_) => 96,
    }
}
