//! Up to where each table's logged writes need no replay: they are in SSTables, or were truncated.
//! One small text file per stream, replaced as a whole.
//!
//! Form: the line `helenus-positions 1`; a line `<table id> <segment> <offset>` per table; the line
//! `crc32 <hexadecimal>` of everything before it.

use super::{CommitLogPosition, Stream};
use helenus_schema::TableId;
use helenus_seams::Disk;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "helenus-positions 1";

/// Why positions cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PositionsError {
    /// The file system refused.
    #[error("cannot access {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not what was written.
    #[error(
        "{path} is damaged ({reason}); remove it to replay the whole commit log, which may bring back truncated rows"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

/// The positions of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlushPositions {
    by_table: BTreeMap<TableId, CommitLogPosition>,
}

impl FlushPositions {
    /// The file of the stream of a shard, when the node is cut into so many.
    pub fn path(directory: &Path, stream: Stream) -> PathBuf {
        directory.join(format!(
            "helenus-positions-{}-of-{}.txt",
            stream.shard, stream.shards
        ))
    }

    /// Whether a logged write needs no replay.
    pub fn covers(&self, table: TableId, position: CommitLogPosition) -> bool {
        self.by_table
            .get(&table)
            .is_some_and(|flushed| position <= *flushed)
    }

    /// Raises a table's position.
    pub fn advance(&mut self, table: TableId, position: CommitLogPosition) {
        let entry = self.by_table.entry(table).or_insert(position);
        *entry = position.max(*entry);
    }

    /// Forgets a dropped table.
    pub fn forget(&mut self, table: TableId) {
        self.by_table.remove(&table);
    }

    /// The newest segment that any position names.
    pub fn last_segment(&self) -> u64 {
        self.by_table
            .values()
            .map(|position| position.segment)
            .max()
            .unwrap_or(0)
    }

    /// Reads the positions of a stream; an absent file has none.
    pub fn load(disk: &dyn Disk, directory: &Path, stream: Stream) -> Result<Self, PositionsError> {
        let path = Self::path(directory, stream);
        if !disk.exists(&path) {
            return Ok(Self::default());
        }
        let bytes = disk.read(&path).map_err(|source| PositionsError::Io {
            path: path.clone(),
            source,
        })?;
        Self::parse(&bytes).map_err(|reason| PositionsError::Damaged { path, reason })
    }

    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let (body, crc) = text
            .trim_end()
            .rsplit_once("\ncrc32 ")
            .ok_or("its checksum is missing")?;
        if u32::from_str_radix(crc, 16) != Ok(crc32fast::hash(body.as_bytes())) {
            return Err("its checksum is wrong");
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("its version is unknown");
        }
        let mut positions = Self::default();
        for line in lines {
            let mut words = line.split(' ');
            let mut word = || words.next().ok_or("a line is cut short");
            let table = word()?.parse().map_err(|_| "a table id is wrong")?;
            let segment = word()?.parse().map_err(|_| "a segment id is wrong")?;
            let offset = word()?.parse().map_err(|_| "an offset is wrong")?;
            positions
                .by_table
                .insert(TableId(table), CommitLogPosition { segment, offset });
        }
        Ok(positions)
    }

    /// Replaces the file of a stream, durably.
    pub fn store(
        &self,
        disk: &dyn Disk,
        directory: &Path,
        stream: Stream,
    ) -> Result<(), PositionsError> {
        let mut text = String::from(FIRST_LINE);
        for (table, position) in &self.by_table {
            // writing to a string cannot fail
            write!(text, "\n{table} {} {}", position.segment, position.offset).unwrap_or_default();
        }
        let crc = crc32fast::hash(text.as_bytes());
        write!(text, "\ncrc32 {crc:08x}\n").unwrap_or_default();
        let path = Self::path(directory, stream);
        disk.write_atomically(&path, text.as_bytes())
            .map_err(|source| PositionsError::Io { path, source })
    }
}
