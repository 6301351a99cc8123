//! The engine of one shard.
//!
//! Invariants:
//! E1: what was applied is read: from the memtable, from one being flushed, or from SSTables.
//! E2: a memtable is dropped only after its SSTable is durable; a segment of the log only after that.
//! E3: writes wait for nothing: they are refused when memtables are full.

mod background;
mod folders;
mod maintenance;
mod open;
mod read;
mod table;
#[cfg(test)]
mod tests;

pub use read::{ReadOutcome, ScanChunk};
pub use table::TableStore;
use table::{keeps_columns, unsupported};

use crate::commitlog::{
    CommitLog, CommitLogError, CommitLogPosition, FlushPositions, SyncDone, SyncTask,
};
use crate::error::{ApplyError, OpenError};
use crate::metrics::{EngineMetrics, NamedTableMetrics};
use crate::settings::EngineSettings;
use crate::tasks::Obsolete;
use helenus_rows::{Mutation, PartitionUpdate};
use helenus_schema::{Schema, TableId};
use helenus_seams::{Clock, Disk};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The place in the log after it; `None` when its keyspace has no durable writes.
    pub position: Option<CommitLogPosition>,
}

/// The engine of one shard. One owner calls it.
pub struct Engine {
    settings: EngineSettings,
    schema: Arc<Schema>,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    log: CommitLog,
    positions: FlushPositions,
    /// `positions` has changed since it was last handed to a housekeeping task.
    positions_dirty: bool,
    tables: BTreeMap<TableId, TableStore>,
    /// Bytes in memtables that take writes, and in those being flushed.
    live_bytes: usize,
    flushing_bytes: usize,
    /// Segments that nobody needs once positions are stored.
    dead_segments: Vec<PathBuf>,
    /// SSTables to be removed when no reader holds them.
    obsolete: Vec<Obsolete>,
    housekeeping: bool,
    /// Housekeeping failed: none before this monotonic time.
    housekeep_after: Duration,
    compactions_running: usize,
    /// Segments of earlier runs, until replay is finished.
    old_segments: Vec<open::OldSegment>,
    /// Tables whose logged writes were replayed.
    replayed: BTreeSet<TableId>,
    metrics: EngineMetrics,
    /// Damaged files that were reported.
    damaged: BTreeSet<PathBuf>,
}

/// Keyspaces without which a node cannot run.
fn is_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

impl Engine {
    /// The schema that it knows.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Its settings.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// A table's store.
    pub fn table(&self, id: TableId) -> Option<&TableStore> {
        self.tables.get(&id)
    }

    /// Bytes of memtables, those being flushed included.
    pub fn memtable_bytes(&self) -> usize {
        self.live_bytes + self.flushing_bytes
    }

    /// Applies a write to memtables and to the log's buffer. It may be acknowledged after
    /// [`Engine::flush_log`] (and, unless the sync mode is periodic, the sync after it) succeeded.
    pub fn apply(&mut self, mutation: &Mutation) -> Result<Applied, ApplyError> {
        let applied = self.try_apply(mutation);
        match applied {
            Ok(_) => self.metrics.writes += 1,
            Err(_) => self.metrics.writes_refused += 1,
        }
        applied
    }

    fn try_apply(&mut self, mutation: &Mutation) -> Result<Applied, ApplyError> {
        let (held, budget) = (self.memtable_bytes(), self.settings.memtable_budget_bytes);
        if held >= budget {
            return Err(ApplyError::Overloaded { held, budget });
        }
        for update in &mutation.updates {
            let id = update.table.id;
            let store = self.tables.get(&id).ok_or(ApplyError::UnknownTable(id))?;
            if !store.knows_columns_of(update) {
                let (keyspace, table) = (update.table.keyspace.clone(), update.table.name.clone());
                return Err(ApplyError::SchemaBehind { keyspace, table });
            }
            if let Some(what) = unsupported(update) {
                let (keyspace, table) = (update.table.keyspace.clone(), update.table.name.clone());
                return Err(ApplyError::Unsupported {
                    keyspace,
                    table,
                    what,
                });
            }
        }
        let durable = self
            .schema
            .keyspace(&mutation.keyspace)
            .is_none_or(|keyspace| keyspace.durable_writes);
        let position = if durable {
            Some(self.log.append(mutation)?)
        } else {
            None
        };
        for update in &mutation.updates {
            self.apply_update(update.clone(), position);
        }
        Ok(Applied { position })
    }

    fn apply_update(&mut self, update: PartitionUpdate, position: Option<CommitLogPosition>) {
        if let Some(store) = self.tables.get_mut(&update.table.id) {
            let before = store.memtable_bytes();
            store.memtable.apply(update, position);
            store.metrics.writes += 1;
            self.live_bytes = (self.live_bytes + store.memtable_bytes()).saturating_sub(before);
        }
    }

    /// Writes everything that was applied since the last call to the log's file: from then on it
    /// survives the end of the process. On an error none of it is logged: answer each with an error.
    pub fn flush_log(&mut self) -> Result<(), CommitLogError> {
        self.log.flush_buffer()
    }

    /// Whether the sync mode wants a sync now: in batch mode after each flush, else by time.
    pub fn is_sync_due(&self) -> bool {
        self.log.is_sync_due(self.clock.monotonic())
    }

    /// What makes everything flushed to the log durable, to be run on another thread and given to
    /// [`Engine::complete_sync`]. `None`: nothing to do, or a sync runs already.
    pub fn start_sync(&mut self) -> Option<SyncTask> {
        self.log.start_sync(self.clock.monotonic())
    }

    /// Takes the result of a sync; every write at or before the returned place may be acknowledged.
    pub fn complete_sync(&mut self, done: SyncDone) -> Result<CommitLogPosition, CommitLogError> {
        self.log.complete_sync(done)
    }

    /// Flushes and syncs the log here and now. Blocks.
    pub fn sync_log(&mut self) -> Result<CommitLogPosition, CommitLogError> {
        self.log.sync(self.clock.monotonic())
    }

    /// The place in the log up to which everything is durable.
    pub fn synced_position(&self) -> CommitLogPosition {
        self.log.synced_position()
    }

    /// Takes a new schema: new tables are opened, dropped ones and their files removed.
    pub fn schema_changed(&mut self, schema: Arc<Schema>) -> Result<(), OpenError> {
        let known: Vec<TableId> = self.tables.keys().copied().collect();
        for id in known {
            if schema.table_by_id(id).is_none() {
                self.drop_table(id);
            }
        }
        for table in schema
            .keyspaces()
            .flat_map(|keyspace| keyspace.tables.values())
        {
            match self.tables.get_mut(&table.id) {
                Some(store) if Arc::ptr_eq(&store.table, table) => {}
                Some(store) => {
                    let kept = keeps_columns(&store.table, table);
                    store.table = Arc::clone(table);
                    if !kept {
                        let reopened = store
                            .sstables
                            .iter()
                            .map(|one| one.reopen(&self.disk, table).map(Arc::new));
                        store.sstables = reopened.collect::<Result<_, _>>()?;
                    }
                    if kept || store.memtable.is_empty() {
                        store.memtable.set_table(Arc::clone(table));
                    } else {
                        // its writes still name dropped columns: they go to an SSTable under their own table
                        self.switch_memtable(table.id);
                    }
                }
                None => {
                    let store = self.open_table(table)?;
                    self.tables.insert(table.id, store);
                }
            }
        }
        self.schema = schema;
        Ok(())
    }

    /// The counters of the shard.
    pub fn metrics(&self) -> EngineMetrics {
        let sstables = self.tables.values().flat_map(TableStore::sstables);
        EngineMetrics {
            memtable_bytes: self.live_bytes as u64,
            flushing_bytes: self.flushing_bytes as u64,
            commitlog_bytes: self.log.size_bytes(),
            pending_flushes: self.pending_flushes() as u64,
            pending_compactions: self
                .tables
                .values()
                .filter(|store| store.compaction_choice().is_some())
                .count() as u64,
            sstables: sstables.clone().count() as u64,
            sstable_bytes: sstables.map(|sstable| sstable.size_bytes()).sum(),
            ..self.metrics
        }
    }

    /// The counters of each table.
    pub fn table_metrics(&self) -> Vec<NamedTableMetrics> {
        let named = |(id, store): (&TableId, &TableStore)| NamedTableMetrics {
            id: *id,
            keyspace: store.table.keyspace.clone(),
            table: store.table.name.clone(),
            metrics: store.metrics(),
        };
        self.tables.iter().map(named).collect()
    }
}
