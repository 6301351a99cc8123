//! Opening a shard: its tables (see [`super::folders`]) and replay of the commit log.

use super::Engine;
use crate::commitlog::{
    CommitLog, CommitLogPosition, FlushPositions, SegmentFile, SegmentReader, Stream, segment_files,
};
use crate::error::OpenError;
use crate::metrics::EngineMetrics;
use crate::settings::EngineSettings;
use helenus_rows::codec::CodecError;
use helenus_schema::{Schema, TableId};
use helenus_seams::{Clock, Disk};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        action,
        path,
        source,
    }
}

impl Engine {
    /// Opens a shard: SSTables of the schema's tables that hold tokens of this shard, then the writes
    /// that only the commit log has. Blocks for as long as that takes.
    ///
    /// A schema that is itself stored in tables is learned in two steps: open with the tables of
    /// `system` and `system_schema`, read the schema, give it to [`Engine::schema_changed`], then call
    /// [`Engine::finish_replay`]. Open every shard of the node before background work of any runs.
    pub fn open(
        settings: EngineSettings,
        schema: Arc<Schema>,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let directory = settings.commitlog.directory.clone();
        disk.create_dir_all(&directory)
            .map_err(io("create", &directory))?;
        refuse_foreign_segments(&*disk, &directory)?;
        let stream = stream_of(&settings);
        let positions = FlushPositions::load(&*disk, &directory, stream)?;
        let segments = segment_files(&*disk, &directory).map_err(io("list", &directory))?;
        let last = segments
            .iter()
            .map(|segment| segment.id)
            .max()
            .unwrap_or(0)
            .max(positions.last_segment());
        let wall_millis = u64::try_from(clock.wall_micros() / 1000).unwrap_or(0);
        let log = CommitLog::new(
            Arc::clone(&disk),
            settings.commitlog.clone(),
            stream,
            wall_millis.max(last + 1),
        );
        let mut engine = Self {
            settings,
            schema: Arc::default(),
            disk,
            clock,
            log,
            positions,
            positions_dirty: false,
            tables: BTreeMap::new(),
            live_bytes: 0,
            flushing_bytes: 0,
            dead_segments: Vec::new(),
            obsolete: Vec::new(),
            housekeeping: false,
            housekeep_after: std::time::Duration::ZERO,
            compactions_running: 0,
            replayed: BTreeSet::new(),
            old_segments: Vec::new(),
            metrics: EngineMetrics::default(),
            damaged: BTreeSet::new(),
        };
        engine.schema_changed(schema)?;
        engine.adopt_segments(segments)?;
        engine.replay()?;
        Ok(engine)
    }

    pub(super) fn stream(&self) -> Stream {
        stream_of(&self.settings)
    }

    /// Keeps the segments that can hold writes of this shard, and takes those of its own stream over.
    fn adopt_segments(&mut self, segments: Vec<SegmentFile>) -> Result<(), OpenError> {
        let ignore = self.settings.commitlog.ignore_replay_errors;
        let stream = self.stream();
        let mut kept = Vec::new();
        for segment in segments {
            let Some(reader) = SegmentReader::open(&*self.disk, &segment, ignore)? else {
                // a crash left it before its header was whole
                if segment.shard % stream.shards.max(1) == stream.shard {
                    self.dead_segments.push(segment.path);
                }
                continue;
            };
            let written_by = reader.header.stream;
            if written_by == stream {
                self.log
                    .adopt(segment.path.clone(), segment.id, reader.size_bytes());
            }
            if written_by == stream || written_by.shards != stream.shards {
                kept.push(OldSegment {
                    segment,
                    stream: written_by,
                });
            }
        }
        self.old_segments = kept;
        Ok(())
    }

    /// Replays the tables that the schema has now and that were not replayed yet.
    fn replay(&mut self) -> Result<(), OpenError> {
        let wanted: BTreeSet<TableId> = self
            .tables
            .keys()
            .filter(|id| !self.replayed.contains(*id))
            .copied()
            .collect();
        let mut positions: BTreeMap<Stream, FlushPositions> = BTreeMap::new();
        let ignore = self.settings.commitlog.ignore_replay_errors;
        for old in self.old_segments.clone() {
            let Some(mut reader) = SegmentReader::open(&*self.disk, &old.segment, ignore)? else {
                continue;
            };
            if let Entry::Vacant(unread) = positions.entry(old.stream) {
                let directory = &self.settings.commitlog.directory;
                unread.insert(FlushPositions::load(&*self.disk, directory, old.stream)?);
            }
            let covered = |table, position| {
                positions
                    .get(&old.stream)
                    .is_some_and(|known| known.covers(table, position))
            };
            for update in &mut reader {
                let update = update?;
                let mine = update.key.token.shard(self.settings.shards) == self.settings.shard;
                if !mine
                    || !wanted.contains(&update.table)
                    || covered(update.table, update.position)
                {
                    continue;
                }
                match update.decode(&self.schema) {
                    Ok(decoded) => self.replay_update(decoded, update.position),
                    Err(error) => self.skip_update(&old.segment, update.position, &error)?,
                }
            }
            // segments are read again for tables learned later: once is enough to say
            if reader.torn_bytes > 0 && self.replayed.is_empty() {
                let (path, bytes) = (old.segment.path.display(), reader.torn_bytes);
                tracing::warn!(%path, bytes, "the end of a commit log segment was cut off by a crash");
            }
        }
        self.replayed.extend(wanted);
        Ok(())
    }

    fn replay_update(
        &mut self,
        update: helenus_rows::PartitionUpdate,
        position: CommitLogPosition,
    ) {
        self.metrics.replayed_updates += 1;
        self.log.mark_dirty(update.table.id, position);
        self.apply_update(update, Some(position));
        // more may be in the log than memory holds
        while self.memtable_bytes() * 2 > self.settings.memtable_budget_bytes {
            let before = self.memtable_bytes();
            if let Some(task) = self.next_task() {
                let output = task.run(&Arc::clone(&self.disk));
                self.complete(output);
            }
            if self.memtable_bytes() >= before {
                break;
            }
        }
    }

    fn skip_update(
        &self,
        segment: &SegmentFile,
        position: CommitLogPosition,
        error: &CodecError,
    ) -> Result<(), OpenError> {
        if self.settings.commitlog.ignore_replay_errors {
            tracing::error!(path = %segment.path.display(), offset = position.offset, %error, "logged write skipped");
            return Ok(());
        }
        Err(OpenError::Replay(crate::commitlog::ReplayError::Damaged {
            path: segment.path.clone(),
            offset: position.offset as usize,
            reason: error.to_string(),
        }))
    }

    /// The schema is complete: replays tables learned since opening; what is left of the old log
    /// belongs to dropped tables. After it, segments of earlier runs are removed when flushed.
    /// A node whose count of shards changed flushes here what it replayed. Blocks.
    pub fn finish_replay(&mut self) -> Result<(), OpenError> {
        self.replay()?;
        let old = std::mem::take(&mut self.old_segments);
        let others: Vec<_> = old
            .into_iter()
            .filter(|old| old.stream != self.stream())
            .collect();
        if !others.is_empty() {
            self.flush_replayed()?;
            for old in others {
                self.leave_segment(&old.segment.path)?;
            }
        }
        let free = self.log.finish_replay();
        self.dead_segments.extend(free);
        Ok(())
    }

    fn flush_replayed(&mut self) -> Result<(), OpenError> {
        self.request_flush_all();
        let failures = self.metrics.flush_failures;
        while self.pending_flushes() > 0 {
            let Some(task) = self.next_task() else { break };
            let output = task.run(&Arc::clone(&self.disk));
            self.complete(output);
            if self.metrics.flush_failures > failures {
                return Err(OpenError::FlushFailed);
            }
        }
        Ok(())
    }

    /// Notes beside a segment of another count of shards that this shard has its writes in SSTables;
    /// the last shard to do so removes it.
    fn leave_segment(&self, path: &Path) -> Result<(), OpenError> {
        let stream = self.stream();
        let done = |shard: u32| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".done-{shard}-of-{}", stream.shards));
            PathBuf::from(name)
        };
        let mine = done(stream.shard);
        if !self.disk.exists(&mine) {
            self.disk.create(&mine).map_err(io("create", &mine))?;
            self.disk
                .sync_dir(&self.settings.commitlog.directory)
                .map_err(io("sync", path))?;
        }
        if (0..stream.shards).all(|shard| self.disk.exists(&done(shard))) {
            let ignore_absent = |result: std::io::Result<()>| match result {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
            ignore_absent(self.disk.remove(path)).map_err(io("remove", path))?;
            for marker in (0..stream.shards).map(done) {
                ignore_absent(self.disk.remove(&marker)).map_err(io("remove", &marker))?;
            }
        }
        Ok(())
    }
}

fn stream_of(settings: &EngineSettings) -> Stream {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Stream {
        shard: number(settings.shard),
        shards: number(settings.shards),
    }
}

/// A segment of an earlier run that can hold writes of this shard.
#[derive(Debug, Clone)]
pub(super) struct OldSegment {
    segment: SegmentFile,
    stream: Stream,
}

/// Cassandra's own segments would be left unread.
fn refuse_foreign_segments(disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
    for path in disk.list(directory).map_err(io("list", directory))? {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if name.starts_with("CommitLog-") && extension == Some("log") {
            return Err(OpenError::ForeignCommitLog { path });
        }
    }
    Ok(())
}
