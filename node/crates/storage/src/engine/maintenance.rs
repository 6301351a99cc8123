//! Truncation, dropping, snapshots, taking in SSTables, and draining.

use super::Engine;
use crate::error::{MaintenanceError, TableError};
use crate::memtable::Memtable;
use crate::sstables::{self, OpenSSTable};
use crate::tasks::Obsolete;
use crate::transaction::{self, Transaction};
use helenus_schema::TableId;
use std::path::PathBuf;
use std::sync::Arc;

impl Engine {
    /// Removes every row of a table that was written before. Durable when it returns. Blocks.
    pub fn truncate(&mut self, table: TableId) -> Result<(), MaintenanceError> {
        self.sync_log()?;
        let position = self.log.position();
        let shards = self.settings.shards as u64;
        let store = self
            .tables
            .get_mut(&table)
            .ok_or(MaintenanceError::UnknownTable(table))?;
        let memory = store.memtable_bytes();
        let flushing = store.flushing_bytes();
        let running = store.running();
        let mut unborn = Vec::new();
        let mut record = None;
        if let Some(folder) = store.folders.first().cloned()
            && !(store.sstables.is_empty() && running.is_empty())
        {
            let mut transaction = Transaction {
                committed: true,
                ..Transaction::default()
            };
            for sstable in &store.sstables {
                transaction.give_up(&folder, sstable);
            }
            // what flushes and compactions are writing holds truncated rows too
            unborn.extend(
                running
                    .iter()
                    .map(|(generation, _)| sstables::name_of_new(&folder, *generation)),
            );
            transaction.removes.extend(unborn.iter().cloned());
            let path = transaction::path(&folder, store.take_generation(shards));
            record = Some((path, transaction));
        }
        let mut positions = self.positions.clone();
        positions.advance(table, position);
        positions.store(
            &*self.disk,
            &self.settings.commitlog.directory,
            self.stream(),
        )?;
        if let Some((path, transaction)) = &record {
            self.disk
                .create_dir_all(path.parent().unwrap_or(path))
                .map_err(TableError::io("create", path))?;
            transaction.store(&*self.disk, path)?;
        }
        self.positions = positions;
        let store = self
            .tables
            .get_mut(&table)
            .ok_or(MaintenanceError::UnknownTable(table))?;
        store.memtable = Memtable::new(Arc::clone(&store.table));
        store.flushing.clear();
        store.flush_wanted = false;
        let sstables = std::mem::take(&mut store.sstables);
        self.live_bytes = self.live_bytes.saturating_sub(memory);
        self.flushing_bytes = self.flushing_bytes.saturating_sub(flushing);
        if let Some((path, _)) = record {
            self.obsolete.push(Obsolete {
                sstables,
                record: Some(path),
                unborn,
                running: running.into_iter().map(|(_, guard)| guard).collect(),
            });
        }
        self.dead_segments
            .extend(self.log.mark_flushed(table, position));
        Ok(())
    }

    /// Forgets a table that the schema no longer has. Its files are removed in the background, its
    /// snapshots stay. Replay passes over its writes, because the schema does not have it.
    pub(super) fn drop_table(&mut self, table: TableId) {
        let Some(store) = self.tables.remove(&table) else {
            return;
        };
        self.live_bytes = self.live_bytes.saturating_sub(store.memtable_bytes());
        self.flushing_bytes = self.flushing_bytes.saturating_sub(store.flushing_bytes());
        self.positions.forget(table);
        self.positions_dirty = true;
        self.dead_segments.extend(self.log.forget_table(table));
        for sstable in store.sstables {
            self.obsolete.push(Obsolete {
                sstables: vec![sstable],
                ..Obsolete::default()
            });
        }
    }

    /// Hard-links every SSTable of a table into `snapshots/<tag>`. Flush before, to have everything in
    /// it. Returns the folders. Blocks for a moment.
    pub fn snapshot(
        &mut self,
        table: TableId,
        tag: &str,
    ) -> Result<Vec<PathBuf>, MaintenanceError> {
        if tag.is_empty() || tag == "." || tag == ".." || tag.contains(['/', '\\', '\0']) {
            return Err(MaintenanceError::InvalidTag(tag.to_owned()));
        }
        let store = self
            .tables
            .get(&table)
            .ok_or(MaintenanceError::UnknownTable(table))?;
        let mut folders: Vec<PathBuf> = Vec::new();
        for sstable in &store.sstables {
            let folder = sstable.folder().join("snapshots").join(tag);
            self.disk
                .create_dir_all(&folder)
                .map_err(TableError::io("create", &folder))?;
            for file in sstable.files(&*self.disk) {
                let Some(name) = file.file_name() else {
                    continue;
                };
                let link = folder.join(name);
                match self.disk.hard_link(&file, &link) {
                    // an SSTable that several shards share is linked by each of them
                    Err(error)
                        if error.kind() == std::io::ErrorKind::AlreadyExists
                            && sstable.is_shared() => {}
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                        return Err(MaintenanceError::SnapshotExists(tag.to_owned()));
                    }
                    linked => linked.map_err(TableError::io("link", &file))?,
                }
            }
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        for folder in &folders {
            self.disk
                .sync_dir(folder)
                .map_err(TableError::io("sync", folder))?;
        }
        Ok(folders)
    }

    /// Where the next SSTable of a table that is made elsewhere (streaming, import) is to be written:
    /// folder and generation. Give it to [`Engine::ingest`] when it is complete and durable.
    pub fn reserve_sstable(&mut self, table: TableId) -> Result<(PathBuf, u64), MaintenanceError> {
        let shards = self.settings.shards as u64;
        let store = self
            .tables
            .get_mut(&table)
            .ok_or(MaintenanceError::UnknownTable(table))?;
        let generation = store.take_generation(shards);
        let folder = store
            .folders
            .first()
            .cloned()
            .ok_or(MaintenanceError::UnknownTable(table))?;
        self.disk
            .create_dir_all(&folder)
            .map_err(TableError::io("create", &folder))?;
        Ok((folder, generation))
    }

    /// Takes in SSTables that were written to reserved places.
    pub fn ingest(
        &mut self,
        table: TableId,
        written: &[(PathBuf, u64)],
    ) -> Result<(), MaintenanceError> {
        let shard = self.as_left();
        let store = self
            .tables
            .get_mut(&table)
            .ok_or(MaintenanceError::UnknownTable(table))?;
        let mut opened = Vec::with_capacity(written.len());
        for (folder, generation) in written {
            let sstable = OpenSSTable::open(&self.disk, folder, *generation, &store.table)?;
            opened.push(Arc::new(sstable.among(shard, Vec::new())));
        }
        store.sstables.extend(opened);
        store.sort_sstables();
        Ok(())
    }

    /// Runs background work here and now until none is left. Blocks; for tests, tools and draining.
    pub fn run_tasks(&mut self) {
        while let Some(task) = self.next_task() {
            let output = task.run(&Arc::clone(&self.disk));
            self.complete(output);
        }
    }

    /// Syncs the log and flushes every memtable, so that the next start replays nothing. Blocks.
    pub fn drain(&mut self) -> Result<(), MaintenanceError> {
        self.sync_log()?;
        self.request_flush_all();
        let failures = self.metrics.flush_failures;
        while self.pending_flushes() > 0 || self.positions_dirty || !self.dead_segments.is_empty() {
            let Some(task) = self.next_task() else { break };
            let output = task.run(&Arc::clone(&self.disk));
            self.complete(output);
            if self.metrics.flush_failures > failures {
                break;
            }
        }
        if self.pending_flushes() > 0 {
            return Err(MaintenanceError::FlushFailed);
        }
        Ok(())
    }
}
