//! Writing several SSTables as one, without what nobody needs any more.
//!
//! Invariants:
//! P1: a tombstone is dropped only when it is older than `gc_grace_seconds` and everything that it
//!     could hide is older than anything of the partition in SSTables and memtables that are not part
//!     of the compaction.
//! P2: the result replaces its inputs as a whole (see [`crate::transaction`]).

pub mod size_tiered;

use crate::error::{ReadError, TableError};
use crate::portion::Left;
use crate::scan::{MergedScan, Scan};
use crate::sstables::{self, OpenSSTable, Sink};
use crate::transaction::{self, Transaction};
use helenus_rows::codec::EncodingStats;
use helenus_rows::{ClusteringFilter, ColumnFilter, DataRange, PartitionPosition, Purger};
use helenus_schema::{TableId, TableMetadata};
use helenus_seams::Disk;
use helenus_types::{DecoratedKey, NowInSeconds, TimestampMicros};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes several SSTables as one.
pub struct CompactionTask {
    pub(crate) table: Arc<TableMetadata>,
    /// Whose tokens are written.
    pub(crate) shard: Left,
    pub(crate) inputs: Vec<Arc<OpenSSTable>>,
    /// SSTables that are not part of it but may hold the same partitions.
    pub(crate) others: Vec<Arc<OpenSSTable>>,
    /// Nothing in memtables is older.
    pub(crate) oldest_in_memory: TimestampMicros,
    pub(crate) now: NowInSeconds,
    pub(crate) folder: PathBuf,
    pub(crate) generation: u64,
    pub(crate) guard: Arc<()>,
}

/// What came of a [`CompactionTask`].
pub struct CompactionOutput {
    pub(crate) table: TableId,
    pub(crate) inputs: Vec<Arc<OpenSSTable>>,
    pub(crate) record: PathBuf,
    /// Dropped when the engine has taken the output.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) guard: Arc<()>,
    /// The new SSTable; `None` when nothing was left.
    pub(crate) result: Result<Option<OpenSSTable>, ReadError>,
}

impl CompactionTask {
    pub(crate) fn run(self, disk: &Arc<dyn Disk>) -> CompactionOutput {
        let record = transaction::path(&self.folder, self.generation);
        let result = self.replace(disk, &record);
        if result.is_err() {
            self.roll_back(disk, &record);
        }
        CompactionOutput {
            table: self.table.id,
            inputs: self.inputs,
            record,
            guard: self.guard,
            result,
        }
    }

    fn replace(
        &self,
        disk: &Arc<dyn Disk>,
        record: &Path,
    ) -> Result<Option<OpenSSTable>, ReadError> {
        let mut transaction = Transaction {
            adds: vec![sstables::name_of_new(&self.folder, self.generation)],
            ..Transaction::default()
        };
        for input in &self.inputs {
            transaction.give_up(&self.folder, input);
        }
        transaction.store(&**disk, record)?;
        let written = self.write(disk)?;
        let output = if written {
            Some(OpenSSTable::open(
                disk,
                &self.folder,
                self.generation,
                &self.table,
            )?)
        } else {
            transaction.adds.clear();
            None
        };
        transaction.committed = true;
        transaction.store(&**disk, record)?;
        Ok(output)
    }

    /// Writes what is left of the inputs; `false` when nothing is.
    fn write(&self, disk: &Arc<dyn Disk>) -> Result<bool, ReadError> {
        let mut range = DataRange::all(ClusteringFilter::all());
        if self.shard.shards > 1 && self.shard.shard > 0 {
            range.start = PartitionPosition::MinOf(self.shard.first_token());
        }
        if self.shard.shard + 1 < self.shard.shards {
            let shard = self.shard.shard + 1;
            let next = Left {
                shard,
                ..self.shard
            };
            range.end = PartitionPosition::MinOf(next.first_token());
        }
        let columns = ColumnFilter::All {
            queried: Vec::new(),
        };
        let scans = self
            .inputs
            .iter()
            .map(|input| input.scan(&range))
            .collect::<Result<Vec<Box<dyn Scan>>, _>>()?;
        let mut scan = MergedScan::new(scans);
        let keys = self
            .inputs
            .iter()
            .map(|input| input.partition_count())
            .sum();
        let stats = self
            .inputs
            .iter()
            .map(|input| input.encoding_stats())
            .reduce(EncodingStats::merge);
        let stats = stats.unwrap_or(EncodingStats::NONE);
        let mut sink = Sink::create(
            disk,
            &self.folder,
            self.generation,
            &self.table,
            keys,
            stats,
        )?;
        while let Some(key) = scan.next_key()? {
            if let Some(source) = scan.take(&key, &self.table, &range.filter, &columns)? {
                sink.append(self.purger(&key).source(source))?;
            }
        }
        Ok(sink.finish()?)
    }

    fn purger(&self, key: &DecoratedKey) -> Purger {
        let others = self
            .others
            .iter()
            .filter(|other| other.may_contain(key))
            .map(|other| other.min_timestamp());
        Purger {
            now: self.now,
            gc_before: self
                .now
                .saturating_sub(i64::from(self.table.params.gc_grace_seconds)),
            max_purgeable: others.fold(self.oldest_in_memory, TimestampMicros::min),
        }
    }

    /// Leaves the inputs alone; what cannot be removed now is when the table is opened next.
    fn roll_back(&self, disk: &Arc<dyn Disk>, record: &Path) {
        let disk = &**disk;
        let committed =
            transaction::load(disk, record).is_ok_and(|transaction| transaction.committed);
        if committed {
            return;
        }
        let removed = sstables::remove_by_name(
            disk,
            &self.folder,
            &sstables::name_of_new(&self.folder, self.generation),
        );
        if let Err(error) = removed.and_then(|()| transaction::forget(disk, record)) {
            tracing::warn!(%error, "leftovers of a failed compaction stay until the next start");
        }
    }
}

/// Whether an error says that a file is damaged, so that trying again will not help.
pub(crate) fn is_damage(error: &ReadError) -> bool {
    matches!(error, ReadError::Table(TableError::Damaged { .. }))
}
