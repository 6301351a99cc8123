//! The commit log of one shard: a stream of segments to which every write goes before it is
//! acknowledged, and from which memtables are filled again after a crash.
//!
//! Invariants:
//! L1: a write is in the file when [`CommitLog::flush_buffer`] returned, and on the disk when the
//!     sync after it did; nobody acknowledges before (in `periodic` mode: before the first of them).
//! L2: a segment is deleted only when every table with writes in it has them in SSTables.
//! L3: a segment whose write failed takes no more writes; the next goes to a new one.
//! L4: damage before a place that is known to have been synced is an error; damage after it is the
//!     torn end of a stream that was cut off.

mod dirty;
mod positions;
mod replay;
mod segment;
#[cfg(test)]
mod tests;

pub use positions::{FlushPositions, PositionsError};
pub use replay::{LoggedUpdate, ReplayError, SegmentFile, SegmentReader, segment_files};
pub use segment::{Header, MAX_RECORD_OVERHEAD};

use dirty::Segments;
use helenus_rows::Mutation;
use helenus_rows::codec::{CodecError, Version, partition::encode_update};
use helenus_schema::TableId;
use helenus_seams::{Disk, DiskFile};
use helenus_types::vint;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The form of rows in the commit log.
pub const LOG_VERSION: Version = Version::MESSAGING_13;

/// A place in a shard's stream: after a record, or 0 in a segment for its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitLogPosition {
    /// Id of the segment; ids of one stream ascend.
    pub segment: u64,
    /// Bytes from the start of its file.
    pub offset: u32,
}

impl CommitLogPosition {
    /// Before everything.
    pub const NONE: Self = Self {
        segment: 0,
        offset: 0,
    };
}

/// Whose log it is: the same tokens as long as the count of shards is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// The shard.
    pub shard: u32,
    /// Into how many shards the node is cut.
    pub shards: u32,
}

/// When written records are made durable (`commitlog_sync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitLogSync {
    /// At least this often; writes are acknowledged without waiting.
    Periodic(Duration),
    /// Before a write is acknowledged.
    Batch,
    /// Before a write is acknowledged, waiting this long for others to go with it.
    Group(Duration),
}

/// What to do when the log cannot be synced (`commit_failure_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitFailurePolicy {
    /// Refuse writes until the node is restarted (`stop`, `stop_commit`, `die`).
    #[default]
    Stop,
    /// Report and go on.
    Ignore,
}

/// Settings of a shard's commit log.
#[derive(Debug, Clone)]
pub struct CommitLogSettings {
    /// Folder of the segments of all shards.
    pub directory: PathBuf,
    /// Bytes after which a segment is closed (`commitlog_segment_size`); a mutation may take half.
    pub segment_size_bytes: u32,
    /// Bytes of this shard's segments beyond which tables are flushed (`commitlog_total_space` by shards).
    pub total_space_bytes: u64,
    /// When records are made durable.
    pub sync: CommitLogSync,
    /// What to do when they cannot be.
    pub failure_policy: CommitFailurePolicy,
    /// Go on past damage in replay, losing what it hides (`cassandra.commitlog.ignorereplayerrors`).
    pub ignore_replay_errors: bool,
}

impl CommitLogSettings {
    /// Cassandra's defaults, in this folder.
    pub fn in_directory(directory: PathBuf) -> Self {
        Self {
            directory,
            segment_size_bytes: 32 << 20,
            total_space_bytes: 8 << 30,
            sync: CommitLogSync::Periodic(Duration::from_secs(10)),
            failure_policy: CommitFailurePolicy::Stop,
            ignore_replay_errors: false,
        }
    }
}

/// Why a write could not be logged.
#[derive(Debug, thiserror::Error)]
pub enum CommitLogError {
    /// The mutation is refused for its size: a client's error.
    #[error(
        "mutation of {size} bytes is larger than the maximum of {limit} (half of commitlog_segment_size)"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The largest allowed.
        limit: usize,
    },
    /// The mutation cannot be written as bytes: a client's error.
    #[error("mutation cannot be encoded: {0}")]
    Encode(#[from] CodecError),
    /// The file system refused; the writes of this turn are not logged. May pass when space is freed.
    #[error("cannot write commit log in {directory}: {source}")]
    Write {
        /// Folder of the segments.
        directory: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// An earlier sync failed, so nobody knows what is on the disk. Only a restart helps.
    #[error(
        "commit log cannot be synced ({reason}); writes are refused until the node is restarted (commit_failure_policy)"
    )]
    Stopped {
        /// What the failed sync said.
        reason: String,
    },
}

struct Active {
    id: u64,
    file: Arc<dyn DiskFile>,
    /// Bytes in the file.
    written: u32,
    /// Bytes of it that are known to be durable.
    synced: u32,
}

/// A file that was written and has yet to be made durable.
struct Unsynced {
    id: u64,
    file: Arc<dyn DiskFile>,
    written: u32,
    closed: bool,
}

/// The stream of one shard.
pub struct CommitLog {
    disk: Arc<dyn Disk>,
    settings: CommitLogSettings,
    stream: Stream,
    next_id: u64,
    active: Option<Active>,
    closed: Vec<Unsynced>,
    segments: Segments,
    buffer: Vec<u8>,
    record: Vec<u8>,
    /// A write of this turn that already failed.
    turn_error: Option<io::Error>,
    stopped: Option<String>,
    new_names: bool,
    syncing: bool,
    synced: CommitLogPosition,
    last_sync_started: Duration,
}

impl CommitLog {
    /// A stream whose first segment gets at least this id; nothing is written yet.
    pub fn new(
        disk: Arc<dyn Disk>,
        settings: CommitLogSettings,
        stream: Stream,
        first_id: u64,
    ) -> Self {
        Self {
            disk,
            settings,
            stream,
            next_id: first_id.max(1),
            active: None,
            closed: Vec::new(),
            segments: Segments::default(),
            buffer: Vec::new(),
            record: Vec::new(),
            turn_error: None,
            stopped: None,
            new_names: false,
            syncing: false,
            synced: CommitLogPosition::NONE,
            last_sync_started: Duration::ZERO,
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &CommitLogSettings {
        &self.settings
    }

    /// The place after everything appended.
    pub fn position(&self) -> CommitLogPosition {
        match &self.active {
            Some(active) => CommitLogPosition {
                segment: active.id,
                offset: active.written.saturating_add(length(&self.buffer)),
            },
            None => CommitLogPosition {
                segment: self.next_id,
                offset: 0,
            },
        }
    }

    /// The place up to which everything is durable.
    pub fn synced_position(&self) -> CommitLogPosition {
        self.synced
    }

    /// Bytes of all segments of this shard.
    pub fn size_bytes(&self) -> u64 {
        self.segments.size_bytes()
            + self
                .active
                .as_ref()
                .map_or(0, |active| u64::from(active.written))
    }

    /// Takes a segment of an earlier run into account: it counts, and is deleted when its tables are
    /// flushed and [`CommitLog::finish_replay`] was called.
    pub fn adopt(&mut self, path: PathBuf, id: u64, size_bytes: u64) {
        self.next_id = self.next_id.max(id + 1);
        self.segments.adopt(path, id, size_bytes);
    }

    /// Everything in adopted segments was replayed. Returns those that nobody needs.
    pub fn finish_replay(&mut self) -> Vec<PathBuf> {
        self.segments.release();
        self.segments.take_clean()
    }

    /// Notes a replayed write of a table in an adopted segment.
    pub fn mark_dirty(&mut self, table: TableId, position: CommitLogPosition) {
        self.segments.mark(table, position);
    }

    /// Appends a mutation to the buffer of this turn and returns the place after it.
    pub fn append(&mut self, mutation: &Mutation) -> Result<CommitLogPosition, CommitLogError> {
        self.check_running()?;
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let encoded = encode_record(mutation, &mut record);
        let result = encoded.and_then(|()| self.append_record(mutation, &record));
        self.record = record;
        result
    }

    fn append_record(
        &mut self,
        mutation: &Mutation,
        record: &[u8],
    ) -> Result<CommitLogPosition, CommitLogError> {
        let limit = self.settings.segment_size_bytes as usize / 2;
        if record.len() > limit {
            return Err(CommitLogError::TooLarge {
                size: record.len(),
                limit,
            });
        }
        let framed = record.len() + MAX_RECORD_OVERHEAD;
        let used = self
            .active
            .as_ref()
            .map_or(0, |active| active.written as usize + self.buffer.len());
        if self.active.is_some() && used + framed > self.settings.segment_size_bytes as usize {
            self.write_buffer()?;
            self.close_active();
        }
        if self.active.is_none() {
            self.open_segment()?;
        }
        segment::put_record(record, &mut self.buffer);
        let position = self.position();
        for update in &mutation.updates {
            self.segments.mark(update.table.id, position);
        }
        Ok(position)
    }

    fn check_running(&self) -> Result<(), CommitLogError> {
        match &self.stopped {
            Some(reason) => Err(CommitLogError::Stopped {
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    fn write_error(&self, source: io::Error) -> CommitLogError {
        CommitLogError::Write {
            directory: self.settings.directory.clone(),
            source,
        }
    }

    fn open_segment(&mut self) -> Result<(), CommitLogError> {
        self.try_open_segment()
            .map_err(|source| self.write_error(source))
    }

    fn try_open_segment(&mut self) -> io::Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let path = self
            .settings
            .directory
            .join(segment::file_name(self.stream.shard, id));
        let file = self.disk.create(&path)?;
        let header = Header {
            id,
            stream: self.stream,
        }
        .encode();
        if let Err(error) = file.append(&header) {
            drop(file);
            self.disk.remove(&path)?;
            return Err(error);
        }
        self.segments.open(path, id);
        self.active = Some(Active {
            id,
            file,
            written: length(&header),
            synced: 0,
        });
        self.new_names = true;
        Ok(())
    }

    /// Takes no more writes into the active segment.
    fn close_active(&mut self) {
        if let Some(active) = self.active.take() {
            self.segments.close(active.id, u64::from(active.written));
            self.closed.push(Unsynced {
                id: active.id,
                file: active.file,
                written: active.written,
                closed: true,
            });
        }
    }

    /// Writes all appends since the last call with one write. On an error none of them is logged.
    pub fn flush_buffer(&mut self) -> Result<(), CommitLogError> {
        let written = self.write_buffer();
        match (self.turn_error.take(), written) {
            (Some(earlier), _) => Err(self.write_error(earlier)),
            (None, written) => written,
        }
    }

    fn write_buffer(&mut self) -> Result<(), CommitLogError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Some(active) = &mut self.active else {
            self.buffer.clear();
            return Ok(());
        };
        let result = active.file.append(&self.buffer);
        if let Err(error) = result {
            // part of the buffer may be in the file: nothing may follow it there (L3)
            self.turn_error = Some(io::Error::new(error.kind(), error.to_string()));
            self.buffer.clear();
            self.close_active();
            return Err(self.write_error(error));
        }
        active.written = active.written.saturating_add(length(&self.buffer));
        self.buffer.clear();
        Ok(())
    }

    /// Whether the sync mode wants a sync at this monotonic time.
    pub fn is_sync_due(&self, now: Duration) -> bool {
        if self.syncing || !self.has_unsynced() {
            return false;
        }
        match self.settings.sync {
            CommitLogSync::Batch => true,
            CommitLogSync::Periodic(period) | CommitLogSync::Group(period) => {
                now >= self.last_sync_started + period
            }
        }
    }

    fn has_unsynced(&self) -> bool {
        !self.closed.is_empty()
            || self
                .active
                .as_ref()
                .is_some_and(|active| active.written > active.synced)
    }

    /// What has to be synced to make everything flushed so far durable, to be run on any thread;
    /// `None` when all of it is, or a sync runs.
    pub fn start_sync(&mut self, now: Duration) -> Option<SyncTask> {
        if self.syncing || !self.has_unsynced() {
            return None;
        }
        self.syncing = true;
        self.last_sync_started = now;
        let mut files = std::mem::take(&mut self.closed);
        if let Some(active) = &self.active {
            let file = Arc::clone(&active.file);
            files.push(Unsynced {
                id: active.id,
                file,
                written: active.written,
                closed: false,
            });
        }
        let names = std::mem::take(&mut self.new_names).then(|| self.settings.directory.clone());
        Some(SyncTask { files, names })
    }

    /// Takes the result of a sync; the error is reported once here and, by policy, with each later append.
    pub fn complete_sync(&mut self, done: SyncDone) -> Result<CommitLogPosition, CommitLogError> {
        self.syncing = false;
        if let Err(error) = done.result {
            self.closed
                .extend(done.files.into_iter().filter(|file| file.closed));
            self.new_names = true;
            if self.settings.failure_policy == CommitFailurePolicy::Stop {
                self.stopped = Some(error.to_string());
                self.check_running()?;
            }
            return Err(self.write_error(error));
        }
        for synced in done.files {
            self.synced = self.synced.max(CommitLogPosition {
                segment: synced.id,
                offset: synced.written,
            });
            let mut marker = Vec::new();
            segment::put_sync_marker(synced.id, synced.written, &mut marker);
            if synced.closed {
                // helps a later replay to tell damage from a torn end; nothing depends on it
                if let Err(error) = synced.file.append(&marker) {
                    tracing::debug!(segment = synced.id, %error, "no sync marker at the end of a commit log segment");
                }
            } else if let Some(active) =
                self.active.as_mut().filter(|active| active.id == synced.id)
            {
                active.synced = synced.written;
                // goes with the next writes: alone it would ask for a sync of its own
                if self.buffer.is_empty() {
                    self.buffer = marker;
                }
            }
        }
        Ok(self.synced)
    }

    /// Writes and syncs everything, here and now.
    pub fn sync(&mut self, now: Duration) -> Result<CommitLogPosition, CommitLogError> {
        self.check_running()?;
        self.flush_buffer()?;
        match self.start_sync(now) {
            Some(task) => {
                let done = task.run(&*self.disk);
                self.complete_sync(done)
            }
            None => Ok(self.synced),
        }
    }

    /// The writes of a table up to `position` are in SSTables. Returns segments that nobody needs.
    pub fn mark_flushed(&mut self, table: TableId, position: CommitLogPosition) -> Vec<PathBuf> {
        self.segments.clean(table, position);
        self.segments.take_clean()
    }

    /// A table is gone: its writes keep no segment.
    pub fn forget_table(&mut self, table: TableId) -> Vec<PathBuf> {
        self.segments.forget(table);
        self.segments.take_clean()
    }

    /// Tables whose flush would free the oldest segment, when the log is larger than it may be.
    pub fn tables_to_flush(&self) -> Vec<TableId> {
        if self.size_bytes() <= self.settings.total_space_bytes {
            return Vec::new();
        }
        self.segments.oldest_dirty()
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// A mutation as the log has it: a count, then each update behind its length, so that those of
/// dropped tables can be passed over.
fn encode_record(mutation: &Mutation, out: &mut Vec<u8>) -> Result<(), CommitLogError> {
    vint::write_unsigned(out, mutation.updates.len() as u64);
    for update in &mutation.updates {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        encode_update(update, LOG_VERSION, out)?;
        let size = length(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    }
    Ok(())
}

/// Files to be made durable; a value that another thread may run.
pub struct SyncTask {
    files: Vec<Unsynced>,
    names: Option<PathBuf>,
}

/// What came of a [`SyncTask`].
pub struct SyncDone {
    files: Vec<Unsynced>,
    result: io::Result<()>,
}

impl SyncTask {
    /// Makes the files durable. Blocks.
    pub fn run(self, disk: &dyn Disk) -> SyncDone {
        let synced = self.files.iter().try_for_each(|file| file.file.sync());
        let result =
            synced.and_then(|()| self.names.map_or(Ok(()), |folder| disk.sync_dir(&folder)));
        SyncDone {
            files: self.files,
            result,
        }
    }
}
