//! Reading segments of earlier runs.

use super::segment::{self, Entry, HEADER_BYTES, Header};
use super::{CommitLogPosition, LOG_VERSION};
use bytes::Bytes;
use helenus_rows::PartitionUpdate;
use helenus_rows::codec::CodecError;
use helenus_rows::codec::partition::decode_update;
use helenus_schema::{Schema, TableId};
use helenus_seams::Disk;
use helenus_types::{DecoratedKey, Reader};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Why replay stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file system refused.
    #[error("cannot read commit log segment {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A durable part of a segment is damaged: going on would lose writes.
    #[error(
        "commit log segment {path} is damaged at byte {offset}: {reason}. Restore the file, or set \
         commitlog_ignore_replay_errors (cassandra.commitlog.ignorereplayerrors) to go on without the writes that cannot be read, \
         and repair the node afterwards"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
}

/// A segment file of any shard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentFile {
    /// The shard in its name.
    pub shard: u32,
    /// The id in its name.
    pub id: u64,
    /// The file.
    pub path: PathBuf,
}

/// Every segment in a folder, by stream and in order within each.
pub fn segment_files(disk: &dyn Disk, directory: &Path) -> io::Result<Vec<SegmentFile>> {
    let mut found: Vec<_> = disk
        .list(directory)?
        .into_iter()
        .filter_map(|path| {
            let (shard, id) = segment::parse_file_name(path.file_name()?.to_str()?)?;
            Some(SegmentFile { shard, id, path })
        })
        .collect();
    found.sort();
    Ok(found)
}

/// One update of a logged mutation, not yet decoded.
#[derive(Debug, Clone)]
pub struct LoggedUpdate {
    /// The place after its mutation.
    pub position: CommitLogPosition,
    /// Its table.
    pub table: TableId,
    /// Its partition key.
    pub key: DecoratedKey,
    bytes: Bytes,
}

impl LoggedUpdate {
    /// The update, by a schema that has its table.
    pub fn decode(&self, schema: &Schema) -> Result<PartitionUpdate, CodecError> {
        decode_update(&mut Reader::new(self.bytes.clone()), schema, LOG_VERSION)
    }
}

/// The updates of one segment in order.
pub struct SegmentReader {
    path: PathBuf,
    /// What the segment says of itself.
    pub header: Header,
    file: Bytes,
    offset: usize,
    ignore_errors: bool,
    pending: std::vec::IntoIter<LoggedUpdate>,
    /// Bytes at the end that a crash cut off.
    pub torn_bytes: usize,
}

impl SegmentReader {
    /// Opens a segment. `None`: a crash left it before its header was whole, so it holds nothing.
    pub fn open(
        disk: &dyn Disk,
        segment: &SegmentFile,
        ignore_errors: bool,
    ) -> Result<Option<Self>, ReplayError> {
        let path = segment.path.clone();
        let file = disk.read(&path).map_err(|source| ReplayError::Read {
            path: path.clone(),
            source,
        })?;
        if file.len() < HEADER_BYTES || file.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        match Header::decode(&file) {
            Ok(header) => Ok(Some(Self {
                path,
                header,
                file,
                offset: HEADER_BYTES,
                ignore_errors,
                pending: Vec::new().into_iter(),
                torn_bytes: 0,
            })),
            Err(reason) if ignore_errors => {
                tracing::error!(path = %path.display(), reason, "commit log segment skipped");
                Ok(None)
            }
            Err(reason) => Err(ReplayError::Damaged {
                path,
                offset: 0,
                reason: reason.to_owned(),
            }),
        }
    }

    /// Bytes of the file.
    pub fn size_bytes(&self) -> u64 {
        self.file.len() as u64
    }

    fn damaged(&self, offset: usize, reason: &str) -> ReplayError {
        ReplayError::Damaged {
            path: self.path.clone(),
            offset,
            reason: reason.to_owned(),
        }
    }

    /// Reads on to the next record; `false` at the end.
    fn read_record(&mut self) -> Result<bool, ReplayError> {
        while self.offset < self.file.len() {
            match segment::entry_at(&self.file, self.offset, self.header.id) {
                Some((Entry::Synced(_), end)) => self.offset = end,
                Some((Entry::Record(record), end)) => {
                    let start = std::mem::replace(&mut self.offset, end);
                    let offset = u32::try_from(end).unwrap_or(u32::MAX);
                    let position = CommitLogPosition {
                        segment: self.header.id,
                        offset,
                    };
                    match split_record(&record, position) {
                        Ok(updates) => {
                            self.pending = updates.into_iter();
                            return Ok(true);
                        }
                        Err(error) if self.ignore_errors => {
                            tracing::error!(path = %self.path.display(), offset = start, %error, "logged mutation skipped");
                        }
                        Err(error) => return Err(self.damaged(start, &error.to_string())),
                    }
                }
                None => {
                    match segment::marker_past(&self.file, self.offset, self.offset, self.header.id)
                    {
                        Some(end) if self.ignore_errors => {
                            let (from, to) = (self.offset, end);
                            tracing::error!(path = %self.path.display(), from, to, "damaged part of a commit log segment skipped");
                            self.offset = end;
                        }
                        Some(_) => return Err(self.damaged(self.offset, "a checksum is wrong")),
                        None => {
                            self.torn_bytes = self.file.len() - self.offset;
                            self.offset = self.file.len();
                        }
                    }
                }
            }
        }
        Ok(false)
    }
}

impl Iterator for SegmentReader {
    type Item = Result<LoggedUpdate, ReplayError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(update) = self.pending.next() {
                return Some(Ok(update));
            }
            match self.read_record() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.offset = self.file.len();
                    return Some(Err(error));
                }
            }
        }
    }
}

fn split_record(
    record: &Bytes,
    position: CommitLogPosition,
) -> Result<Vec<LoggedUpdate>, CodecError> {
    let mut reader = Reader::new(record.clone());
    let count = reader.vint_length()?;
    let mut updates = Vec::with_capacity(count);
    for _ in 0..count {
        let size = reader.u32()?;
        let bytes = reader.bytes(usize::try_from(size).unwrap_or(usize::MAX))?;
        let mut head = Reader::new(bytes.clone());
        let table = TableId(Uuid::from_bytes(head.array()?));
        let key = DecoratedKey::new(head.vint_bytes()?);
        updates.push(LoggedUpdate {
            position,
            table,
            key,
            bytes,
        });
    }
    Ok(updates)
}
