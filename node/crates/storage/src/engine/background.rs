//! Choosing background work and taking its output.

use super::Engine;
use super::table::{Flushing, TableStore};
use crate::compaction::size_tiered::{self, SizeTieredOptions};
use crate::compaction::{CompactionOutput, CompactionTask, is_damage};
use crate::memtable::Memtable;
use crate::sstables::OpenSSTable;
use crate::tasks::{
    FlushOutput, FlushTask, HousekeepingOutput, HousekeepingTask, Obsolete, Task, TaskOutput,
};
use helenus_schema::TableId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a failed flush or compaction waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a table whose SSTable is damaged waits before it is compacted again.
const RETRY_AFTER_DAMAGE: Duration = Duration::from_mins(10);

impl Engine {
    /// The next piece of work to run on another thread, the most urgent first; `None` when there is
    /// none now. Every task that is taken must be given back by [`Engine::complete`].
    pub fn next_task(&mut self) -> Option<Task> {
        self.want_flushes();
        if let Some(task) = self.next_flush() {
            return Some(Task::Flush(task));
        }
        if let Some(task) = self.next_housekeeping() {
            return Some(Task::Housekeep(task));
        }
        self.next_compaction().map(Task::Compact)
    }

    /// Takes what came of a task.
    pub fn complete(&mut self, output: TaskOutput) {
        match output {
            TaskOutput::Flushed(output) => self.complete_flush(output),
            TaskOutput::Compacted(output) => self.complete_compaction(output),
            TaskOutput::Housekept(output) => self.complete_housekeeping(output),
        }
    }

    /// Memtables that are to be flushed or are being flushed.
    pub fn pending_flushes(&self) -> usize {
        let pending = |store: &TableStore| {
            store.flushing.len() + usize::from(store.flush_wanted && !store.memtable.is_empty())
        };
        self.tables.values().map(pending).sum()
    }

    /// Asks for a table's memtable to be flushed; [`Engine::pending_flushes`] tells when it was.
    pub fn request_flush(&mut self, table: TableId) {
        if let Some(store) = self.tables.get_mut(&table) {
            store.flush_wanted = true;
        }
    }

    /// Asks for every memtable to be flushed.
    pub fn request_flush_all(&mut self) {
        for store in self.tables.values_mut() {
            store.flush_wanted = true;
        }
    }

    /// Marks the memtables that memory or the log want flushed.
    fn want_flushes(&mut self) {
        for table in self.log.tables_to_flush() {
            self.request_flush(table);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a share of a budget"
        )]
        let threshold = (self.settings.memtable_budget_bytes as f64
            * self.settings.memtable_flush_share) as usize;
        let wanted: usize = self
            .tables
            .values()
            .filter(|store| store.flush_wanted)
            .map(TableStore::memtable_bytes)
            .sum();
        if self.live_bytes - wanted.min(self.live_bytes) > threshold {
            let largest = self
                .tables
                .values_mut()
                .filter(|store| !store.flush_wanted)
                .max_by_key(|s| s.memtable_bytes());
            if let Some(store) = largest {
                store.flush_wanted = true;
            }
        }
    }

    /// Puts an empty memtable in the place of a table's.
    pub(super) fn switch_memtable(&mut self, table: TableId) {
        let upper = self.log.position();
        let Some(store) = self.tables.get_mut(&table) else {
            return;
        };
        store.flush_wanted = false;
        let full = std::mem::replace(&mut store.memtable, Memtable::new(Arc::clone(&store.table)));
        if full.is_empty() {
            return;
        }
        self.live_bytes = self.live_bytes.saturating_sub(full.size_bytes());
        self.flushing_bytes += full.size_bytes();
        store.flushing.push(Flushing {
            memtable: Arc::new(full),
            upper,
            running: false,
            retry_at: Duration::ZERO,
        });
    }

    fn next_flush(&mut self) -> Option<FlushTask> {
        let now = self.clock.monotonic();
        let ready = |store: &TableStore| match store.flushing.first() {
            Some(first) => !first.running && first.retry_at <= now,
            None => store.flush_wanted && !store.memtable.is_empty(),
        };
        // the largest first: it frees the most memory
        let id = *self
            .tables
            .iter()
            .filter(|(_, store)| ready(store))
            .max_by_key(|(_, store)| store.flushing_bytes() + store.memtable_bytes())?
            .0;
        if self.tables.get(&id)?.flushing.is_empty() {
            self.switch_memtable(id);
        }
        let shards = self.settings.shards as u64;
        let store = self.tables.get_mut(&id)?;
        let (generation, guard) = store.begin_writing(shards);
        let first = store.flushing.first_mut()?;
        first.running = true;
        Some(FlushTask {
            table: Arc::clone(&store.table),
            memtable: Arc::clone(&first.memtable),
            upper: first.upper,
            folder: store.folders.first()?.clone(),
            generation,
            guard,
        })
    }

    fn complete_flush(&mut self, output: FlushOutput) {
        let now = self.clock.monotonic();
        let Some(store) = self.tables.get_mut(&output.table) else {
            self.discard(output.result.ok().flatten());
            return; // dropped meanwhile
        };
        let at = store
            .flushing
            .iter()
            .position(|one| Arc::ptr_eq(&one.memtable, &output.memtable));
        let sstable = match (at, output.result) {
            (None, result) => {
                self.discard(result.ok().flatten()); // truncated meanwhile
                return;
            }
            (Some(at), Err(error)) => {
                let (keyspace, table) = (&store.table.keyspace, &store.table.name);
                tracing::error!(keyspace, table, %error, "flush failed; it will be tried again");
                store.flushing[at].running = false;
                store.flushing[at].retry_at = now + RETRY_AFTER;
                self.metrics.flush_failures += 1;
                return;
            }
            (Some(at), Ok(sstable)) => {
                store.flushing.remove(at);
                sstable
            }
        };
        self.flushing_bytes = self
            .flushing_bytes
            .saturating_sub(output.memtable.size_bytes());
        self.metrics.flushes += 1;
        store.metrics.flushes += 1;
        if let Some(sstable) = sstable {
            self.metrics.flushed_bytes += sstable.size_bytes();
            store.add_sstable(&self.disk, sstable);
        }
        self.positions.advance(output.table, output.upper);
        self.positions_dirty = true;
        self.dead_segments
            .extend(self.log.mark_flushed(output.table, output.upper));
    }

    /// Removes an SSTable that nobody wants any more.
    fn discard(&mut self, sstable: Option<OpenSSTable>) {
        if let Some(sstable) = sstable {
            self.obsolete.push(Obsolete {
                sstables: vec![Arc::new(sstable)],
                ..Obsolete::default()
            });
        }
    }

    fn next_housekeeping(&mut self) -> Option<HousekeepingTask> {
        if self.housekeeping || self.clock.monotonic() < self.housekeep_after {
            return None;
        }
        let free: Vec<Obsolete> = self
            .obsolete
            .extract_if(.., |obsolete| obsolete.is_free())
            .collect();
        if !self.positions_dirty && self.dead_segments.is_empty() && free.is_empty() {
            self.obsolete.extend(free);
            return None;
        }
        self.housekeeping = true;
        Some(HousekeepingTask {
            positions: std::mem::take(&mut self.positions_dirty).then(|| self.positions.clone()),
            log_directory: self.settings.commitlog.directory.clone(),
            stream: self.stream(),
            segments: std::mem::take(&mut self.dead_segments),
            obsolete: free,
        })
    }

    fn complete_housekeeping(&mut self, output: HousekeepingOutput) {
        self.housekeeping = false;
        if let Err(error) = output.positions {
            tracing::error!(%error, "positions of the commit log were not stored; it will be tried again");
            self.positions_dirty = true;
        }
        if self.positions_dirty || !output.segments.is_empty() || !output.obsolete.is_empty() {
            self.housekeep_after = self.clock.monotonic() + RETRY_AFTER;
        }
        self.dead_segments.extend(output.segments);
        self.obsolete.extend(output.obsolete);
    }

    fn next_compaction(&mut self) -> Option<CompactionTask> {
        // what replay would bring back must not be purged: positions first
        if self.compactions_running >= self.settings.concurrent_compactions
            || self.housekeeping
            || self.positions_dirty
        {
            return None;
        }
        let (now, shards) = (self.clock.monotonic(), self.settings.shards as u64);
        let wall = self.clock.now_in_seconds();
        let shard = self.as_left();
        for store in self
            .tables
            .values_mut()
            .filter(|store| store.compact_after <= now)
        {
            if shard.shard == 0 {
                store.warn_of_strategy();
            }
            let Some(inputs) = store.compaction_choice() else {
                continue;
            };
            let Some(folder) = store.folders.first().cloned() else {
                continue;
            };
            store
                .compacting
                .extend(inputs.iter().map(|input| input.name()));
            let chosen = |sstable: &&Arc<OpenSSTable>| {
                !inputs.iter().any(|input| Arc::ptr_eq(input, sstable))
            };
            let others = store.sstables.iter().filter(chosen).cloned().collect();
            let (generation, guard) = store.begin_writing(shards);
            self.compactions_running += 1;
            return Some(CompactionTask {
                table: Arc::clone(&store.table),
                shard,
                inputs,
                others,
                oldest_in_memory: store.oldest_in_memory(),
                now: wall,
                folder,
                generation,
                guard,
            });
        }
        None
    }

    fn complete_compaction(&mut self, output: CompactionOutput) {
        self.compactions_running = self.compactions_running.saturating_sub(1);
        let now = self.clock.monotonic();
        let Some(store) = self.tables.get_mut(&output.table) else {
            // dropped meanwhile: its inputs are being removed already
            self.obsolete.push(Obsolete {
                sstables: output
                    .result
                    .ok()
                    .flatten()
                    .map(Arc::new)
                    .into_iter()
                    .collect(),
                record: Some(output.record),
                ..Obsolete::default()
            });
            return;
        };
        for input in &output.inputs {
            store.compacting.remove(&input.name());
        }
        match output.result {
            Err(error) => {
                let (keyspace, table) = (&store.table.keyspace, &store.table.name);
                tracing::error!(keyspace, table, %error, "compaction failed; its inputs stay");
                store.compact_after = now
                    + if is_damage(&error) {
                        RETRY_AFTER_DAMAGE
                    } else {
                        RETRY_AFTER
                    };
                self.metrics.compaction_failures += 1;
            }
            Ok(sstable) => {
                let present = store.sstables.len();
                let replaced: BTreeSet<String> =
                    output.inputs.iter().map(|input| input.name()).collect();
                store.sstables.retain(|one| !replaced.contains(&one.name()));
                let truncated = present == store.sstables.len();
                self.metrics.compactions += 1;
                self.metrics.compacted_bytes += output
                    .inputs
                    .iter()
                    .map(|input| input.size_bytes())
                    .sum::<u64>();
                store.metrics.compactions += 1;
                let mut inputs = output.inputs;
                if truncated {
                    inputs.clear(); // truncation removes them
                    self.discard(sstable);
                } else if let Some(sstable) = sstable {
                    store.add_sstable(&self.disk, sstable);
                }
                self.obsolete.push(Obsolete {
                    sstables: inputs,
                    record: Some(output.record),
                    ..Obsolete::default()
                });
            }
        }
    }
}

impl TableStore {
    /// What to compact now, if anything.
    pub(super) fn compaction_choice(&self) -> Option<Vec<Arc<OpenSSTable>>> {
        let options = SizeTieredOptions::of(&self.table.params.compaction);
        let is_free = |sstable: &&Arc<OpenSSTable>| !self.compacting.contains(&sstable.name());
        // what several shards share is written anew by each for itself, whatever the strategy
        let mut shared = self.sstables.iter().filter(|sstable| sstable.is_shared());
        if let Some(shared) = shared.find(is_free) {
            return Some(vec![Arc::clone(shared)]);
        }
        let free: Vec<_> = self
            .sstables
            .iter()
            .filter(|sstable| !sstable.is_shared() && !self.compacting.contains(&sstable.name()))
            .collect();
        let sizes: Vec<u64> = free.iter().map(|sstable| sstable.size_bytes()).collect();
        let chosen = size_tiered::choose(&sizes, &options);
        (!chosen.is_empty()).then(|| chosen.into_iter().map(|at| Arc::clone(free[at])).collect())
    }

    fn warn_of_strategy(&mut self) {
        let class = self
            .table
            .params
            .compaction
            .get("class")
            .map_or("", String::as_str);
        let short = class.rsplit('.').next().unwrap_or(class);
        if !self.warned_of_strategy && !short.is_empty() && short != "SizeTieredCompactionStrategy"
        {
            let (keyspace, table) = (&self.table.keyspace, &self.table.name);
            if super::is_system(keyspace) {
                tracing::debug!(
                    keyspace,
                    table,
                    strategy = short,
                    "size-tiered compaction is used"
                );
            } else {
                tracing::warn!(
                    keyspace,
                    table,
                    strategy = short,
                    "compaction strategy is not there yet: size-tiered is used"
                );
            }
        }
        self.warned_of_strategy = true;
    }
}
