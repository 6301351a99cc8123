//! Index.db: the index of BIG SSTables, keys in order with the places of their partitions.
//!
//! Summary.db is not used: every 128th key is gathered when the index is opened.
//! Sources: Cassandra 5.0 `RowIndexEntry`, `IndexInfo`.

use crate::error::{Result, corrupt};
use crate::file::FileReader;
use crate::index::RowBlock;
use bytes::Bytes;
use helenus_rows::DeletionTime;
use helenus_rows::clustering::compare_prefixes;
use helenus_rows::codec::clustering::{ClusteringPrefix, decode_prefix};
use helenus_rows::codec::{CodecError, SerializationHeader, deletion};
use helenus_rows::{ClusteringBound, PrefixKind};
use helenus_schema::Column;
use helenus_types::{DecoratedKey, Reader};

/// One key in so many is kept in memory.
const SAMPLE: u64 = 128;
/// How much is read at a time.
const WINDOW: usize = 64 * 1024;
/// The most that an entry takes before its blocks: key, position, size.
const HEAD_LIMIT: usize = 2 + 65_535 + 9 + 9;
/// The largest list of blocks that is read.
const BLOCKS_LIMIT: u64 = 256 * 1024 * 1024;

/// A block of rows as Index.db lists it.
#[derive(Debug, Clone)]
pub(crate) struct ListedBlock {
    first: ClusteringPrefix,
    block: RowBlock,
}

/// How many of the blocks start at or before a bound.
pub(crate) fn blocks_up_to(
    blocks: &[ListedBlock],
    bound: &ClusteringBound,
    columns: &[Column],
) -> usize {
    // The bound without values stands before or after everything.
    let is_top = bound.values.is_empty()
        && matches!(
            bound.kind,
            PrefixKind::InclusiveEnd | PrefixKind::ExclusiveStart
        );
    if is_top {
        return blocks.len();
    }
    blocks.partition_point(|listed| {
        let (kind, values) = listed.first.parts();
        compare_prefixes(kind, values, bound.kind, &bound.values, columns).is_le()
    })
}

/// The place of a block.
pub(crate) fn block_at(blocks: &[ListedBlock], at: usize) -> Option<RowBlock> {
    blocks.get(at).map(|listed| listed.block)
}

/// An entry of Index.db.
#[derive(Debug, Clone)]
struct Entry {
    key: Bytes,
    data_position: u64,
    blocks_at: u64,
    blocks_length: u64,
}

impl Entry {
    fn end(&self) -> u64 {
        self.blocks_at + self.blocks_length
    }
}

/// Index.db, open.
#[derive(Debug)]
pub(crate) struct BigIndex {
    file: FileReader,
    samples: Vec<(DecoratedKey, u64)>,
    pub(crate) count: u64,
    pub(crate) first: DecoratedKey,
    pub(crate) last: DecoratedKey,
}

/// Reads entries one after another.
struct Entries<'a> {
    file: &'a FileReader,
    position: u64,
    window: Bytes,
    window_start: u64,
}

impl<'a> Entries<'a> {
    fn new(file: &'a FileReader, position: u64) -> Self {
        Self {
            file,
            position,
            window: Bytes::new(),
            window_start: position,
        }
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        if self.position >= self.file.length() {
            return Ok(None);
        }
        let window_end = self.window_start + self.window.len() as u64;
        let left = window_end.saturating_sub(self.position);
        if self.position < self.window_start
            || (left < HEAD_LIMIT as u64 && window_end < self.file.length())
        {
            self.window = self.file.read_up_to(self.position, WINDOW + HEAD_LIMIT)?;
            self.window_start = self.position;
        }
        let offset = usize::try_from(self.position - self.window_start).unwrap_or(usize::MAX);
        let mut reader = Reader::new(self.window.slice(offset.min(self.window.len())..));
        let parse = |reader: &mut Reader| -> Result<(Bytes, u64, u64), CodecError> {
            Ok((
                reader.short_bytes()?,
                reader.unsigned_vint()?,
                reader.unsigned_vint()?,
            ))
        };
        let (key, data_position, blocks_length) = parse(&mut reader)
            .map_err(|error| corrupt(&self.file.path, self.position, error.to_string()))?;
        let blocks_at = self.position + reader.position() as u64;
        if blocks_length > self.file.length().saturating_sub(blocks_at) {
            return Err(corrupt(
                &self.file.path,
                self.position,
                "an index entry is longer than the file",
            ));
        }
        let entry = Entry {
            key,
            data_position,
            blocks_at,
            blocks_length,
        };
        self.position = entry.end();
        Ok(Some(entry))
    }
}

impl BigIndex {
    /// Reads the whole index once.
    pub(crate) fn open(file: FileReader) -> Result<Self> {
        let mut samples: Vec<(DecoratedKey, u64)> = Vec::new();
        let mut count = 0_u64;
        let mut last: Option<DecoratedKey> = None;
        let mut entries = Entries::new(&file, 0);
        loop {
            let position = entries.position;
            let Some(entry) = entries.next()? else { break };
            let key = DecoratedKey::new(entry.key);
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(corrupt(&file.path, position, "keys do not ascend"));
            }
            if count.is_multiple_of(SAMPLE) {
                samples.push((detached(&key), position));
            }
            count += 1;
            last = Some(key);
        }
        let (Some(first), Some(last)) = (samples.first().map(|sample| sample.0.clone()), last)
        else {
            return Err(corrupt(&file.path, 0, "the index is empty"));
        };
        let last = detached(&last);
        Ok(Self {
            file,
            samples,
            count,
            first,
            last,
        })
    }

    /// The first entry for which `found` is true; it is false for lesser keys than `near`.
    fn find(
        &self,
        near: Option<&DecoratedKey>,
        found: impl Fn(&DecoratedKey) -> bool,
    ) -> Result<Option<Entry>> {
        let before = |sample: &(DecoratedKey, u64)| match near {
            Some(near) => sample.0 <= *near,
            None => !found(&sample.0),
        };
        let at = self.samples.partition_point(before).saturating_sub(1);
        let mut entries = Entries::new(
            &self.file,
            self.samples.get(at).map_or(0, |sample| sample.1),
        );
        while let Some(entry) = entries.next()? {
            if found(&DecoratedKey::new(entry.key.clone())) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Where the partition of a key starts, and its blocks of rows, if it has several.
    pub(crate) fn locate(
        &self,
        key: &DecoratedKey,
        header: &SerializationHeader,
    ) -> Result<Option<(u64, Vec<ListedBlock>)>> {
        let Some(entry) = self
            .find(Some(key), |found| found >= key)?
            .filter(|entry| entry.key == key.key)
        else {
            return Ok(None);
        };
        let blocks = if entry.blocks_length == 0 {
            Vec::new()
        } else {
            self.blocks(&entry, header)?
        };
        Ok(Some((entry.data_position, blocks)))
    }

    fn blocks(&self, entry: &Entry, header: &SerializationHeader) -> Result<Vec<ListedBlock>> {
        let broken = |reason: String| corrupt(&self.file.path, entry.blocks_at, reason);
        if entry.blocks_length > BLOCKS_LIMIT {
            return Err(broken("the list of row blocks is too long".into()));
        }
        let bytes = self.file.read(
            entry.blocks_at,
            usize::try_from(entry.blocks_length).unwrap_or(0),
        )?;
        let mut reader = Reader::new(bytes);
        let parse = |reader: &mut Reader| -> Result<Vec<ListedBlock>, CodecError> {
            reader.unsigned_vint()?;
            deletion::decode(reader, header.version)?;
            let mut blocks = Vec::new();
            let mut open: Option<DeletionTime> = None;
            for _ in 0..reader.unsigned_vint()? {
                let first = decode_prefix(reader, &header.clustering_lengths)?;
                decode_prefix(reader, &header.clustering_lengths)?;
                let offset = reader.unsigned_vint()?;
                reader.vint()?;
                blocks.push(ListedBlock {
                    first,
                    block: RowBlock { offset, open },
                });
                open = if reader.u8()? == 0 {
                    None
                } else {
                    Some(deletion::decode(reader, header.version)?)
                };
                open = open.filter(|deletion| !deletion.is_live());
            }
            Ok(blocks)
        };
        parse(&mut reader).map_err(|error| broken(error.to_string()))
    }

    /// Where the first partition starts whose key is not before a position.
    pub(crate) fn position_of(
        &self,
        is_before: impl Fn(&DecoratedKey) -> bool,
    ) -> Result<Option<u64>> {
        Ok(self
            .find(None, |key| !is_before(key))?
            .map(|entry| entry.data_position))
    }
}

fn detached(key: &DecoratedKey) -> DecoratedKey {
    DecoratedKey {
        token: key.token,
        key: Bytes::copy_from_slice(&key.key),
    }
}
