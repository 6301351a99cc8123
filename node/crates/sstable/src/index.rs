//! Partitions.db and Rows.db: the two indexes of BTI SSTables.
//!
//! Partitions.db maps the shortest distinguishing prefix of each key to a place in the data file
//! (negated), or in Rows.db for partitions that have a row index. Rows.db holds, for each such
//! partition, a trie of separators between blocks of rows, and an entry that points to it.
//! Sources: Cassandra 5.0 `PartitionIndex`, `PartitionIndexBuilder`, `RowIndexReader`,
//! `RowIndexWriter`, `TrieIndexEntry`.

use crate::error::{Result, SsTableError, corrupt, io_at};
use crate::file::{FileReader, FileWriter};
use crate::trie::walker::{Descending, Found, Walker};
use crate::trie::writer::{Payload, TrieWriter};
use crate::trie::{put_sized, sized, sized_length};
use bytes::Bytes;
use helenus_rows::DeletionTime;
use helenus_rows::clustering::PrefixKind;
use helenus_rows::codec::{Version, deletion};
use helenus_schema::Column;
use helenus_types::byte_comparable::{
    self, EXCLUDED, GT_NEXT_COMPONENT, LT_NEXT_COMPONENT, TERMINATOR,
};
use helenus_types::token::murmur3_128;
use helenus_types::{DecoratedKey, Reader, vint};

const HAS_HASH: u8 = 8;
const HAS_OPEN_DELETION: u8 = 8;
const FOOTER_LENGTH: u64 = 24;

/// The bytes by which the row index orders a clustering prefix.
pub(crate) fn clustering_bytes(
    kind: PrefixKind,
    values: &[Option<Bytes>],
    columns: &[Column],
) -> Vec<u8> {
    let mut out = Vec::new();
    for (value, column) in values.iter().zip(columns) {
        byte_comparable::component(
            &column.cql_type,
            value.as_deref(),
            column.reversed,
            &mut out,
        );
    }
    out.push(match kind {
        PrefixKind::ExclusiveEnd
        | PrefixKind::InclusiveStart
        | PrefixKind::ExclusiveEndInclusiveStart => LT_NEXT_COMPONENT,
        PrefixKind::Static => EXCLUDED,
        PrefixKind::Clustering => TERMINATOR,
        PrefixKind::InclusiveEndExclusiveStart
        | PrefixKind::InclusiveEnd
        | PrefixKind::ExclusiveStart => GT_NEXT_COMPONENT,
    });
    out
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

struct PartitionPayload {
    position: i64,
    hash: u8,
}

impl Payload for PartitionPayload {
    fn bits(&self) -> u8 {
        HAS_HASH + u8::try_from(sized_length(self.position) - 1).unwrap_or(7)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.hash);
        put_sized(self.position, sized_length(self.position), out);
    }
}

fn hash_byte(key: &DecoratedKey) -> u8 {
    murmur3_128(&key.key).1.to_be_bytes()[7]
}

/// Where a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionPlace {
    /// In the data file.
    Data(u64),
    /// Its row index entry, in Rows.db.
    Rows(u64),
}

impl PartitionPlace {
    fn of_index(position: i64) -> Self {
        if position >= 0 {
            Self::Rows(position.unsigned_abs())
        } else {
            Self::Data((!position).unsigned_abs())
        }
    }

    fn to_index(self) -> i64 {
        match self {
            Self::Rows(position) => position.cast_signed(),
            Self::Data(position) => !position.cast_signed(),
        }
    }
}

/// Writes Partitions.db.
pub(crate) struct PartitionIndexWriter {
    out: FileWriter,
    trie: TrieWriter<PartitionPayload>,
    first: Option<Bytes>,
    last: Option<(DecoratedKey, Vec<u8>, PartitionPayload)>,
    last_difference: usize,
}

impl PartitionIndexWriter {
    /// Writes to `out`.
    pub(crate) fn new(out: FileWriter) -> Self {
        Self {
            out,
            trie: TrieWriter::default(),
            first: None,
            last: None,
            last_difference: 0,
        }
    }

    /// Adds a partition; keys ascend.
    pub(crate) fn add(&mut self, key: DecoratedKey, place: PartitionPlace) -> Result<()> {
        let bytes = byte_comparable::decorated_key(&key);
        let payload = PartitionPayload {
            position: place.to_index(),
            hash: hash_byte(&key),
        };
        if self.first.is_none() {
            self.first = Some(key.key.clone());
        }
        if let Some((_, previous, previous_payload)) = self.last.replace((key, bytes, payload)) {
            let current = self.last.as_ref().map_or(&[][..], |last| &last.1);
            let difference = common_prefix(&previous, current) + 1;
            let length = difference.max(self.last_difference).min(previous.len());
            self.trie
                .add(&previous[..length], previous_payload, &mut self.out)?;
            self.last_difference = difference;
        }
        Ok(())
    }

    /// Writes the rest; the file's length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        let mut last_key = Bytes::new();
        if let Some((key, bytes, payload)) = self.last.take() {
            let length = self.last_difference.min(bytes.len());
            self.trie.add(&bytes[..length], payload, &mut self.out)?;
            last_key = key.key;
        }
        let count = self.trie.count();
        let root = self.trie.complete(&mut self.out)?;
        let keys_at = self.out.position();
        let mut tail = Vec::new();
        for key in [self.first.unwrap_or_default(), last_key] {
            put_short(&key, &mut tail)?;
        }
        for number in [keys_at, count, root] {
            tail.extend_from_slice(&number.to_be_bytes());
        }
        self.out.write(&tail)?;
        self.out.finish()
    }
}

/// Appends bytes behind a length of two bytes.
pub(crate) fn put_short(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let length = u16::try_from(bytes.len())
        .map_err(|_| SsTableError::Invalid("a key is longer than 65535 bytes".into()))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

/// Partitions.db, open.
#[derive(Debug)]
pub(crate) struct PartitionIndex {
    file: FileReader,
    root: u64,
    /// Count of partitions.
    pub count: u64,
    /// The first key.
    pub first: DecoratedKey,
    /// The last key.
    pub last: DecoratedKey,
}

impl PartitionIndex {
    /// Reads the footer.
    pub(crate) fn open(file: FileReader) -> Result<Self> {
        let footer_at = file
            .length()
            .checked_sub(FOOTER_LENGTH)
            .ok_or_else(|| corrupt(&file.path, 0, "the file is too short"))?;
        let cut = |_| corrupt(&file.path, footer_at, "the footer is cut off");
        let mut footer = Reader::new(file.read(footer_at, 24)?);
        let keys_at = footer.u64().map_err(cut)?;
        let count = footer.u64().map_err(cut)?;
        let root = footer.u64().map_err(cut)?;
        if keys_at > footer_at || root >= footer_at {
            return Err(corrupt(
                &file.path,
                footer_at,
                "the footer points beyond the file",
            ));
        }
        let length = usize::try_from(footer_at - keys_at)
            .unwrap_or(usize::MAX)
            .min(2 * (2 + 65_535));
        let mut keys = Reader::new(file.read(keys_at, length)?);
        let first = DecoratedKey::new(keys.short_bytes().map_err(cut)?);
        let last = DecoratedKey::new(keys.short_bytes().map_err(cut)?);
        Ok(Self {
            file,
            root,
            count,
            first,
            last,
        })
    }

    fn place(&self, found: &Found) -> Result<(u8, PartitionPlace)> {
        let with_hash = found.bits >= HAS_HASH;
        let length = usize::from(if with_hash {
            found.bits - HAS_HASH + 1
        } else {
            found.bits
        });
        let start = usize::from(with_hash);
        let number = found.bytes.get(start..start + length).and_then(sized);
        let number = number.ok_or_else(|| {
            corrupt(
                &self.file.path,
                found.position,
                "an index payload is cut off",
            )
        })?;
        Ok((found.bytes[0], PartitionPlace::of_index(number)))
    }

    /// Where this key's partition is if it is there at all; the caller compares the key found.
    pub(crate) fn candidate(&self, key: &DecoratedKey) -> Result<Option<PartitionPlace>> {
        let mut walker = Walker::new(&self.file, self.root)?;
        let end = walker.follow(self.root, &byte_comparable::decorated_key(key))?;
        let Some(found) = end.found.filter(|_| end.whole_key || !end.has_children) else {
            return Ok(None);
        };
        let (hash, place) = self.place(&found)?;
        Ok((found.bits < HAS_HASH || hash == hash_byte(key)).then_some(place))
    }

    /// Candidates for the first partition at or after a position in key order, nearest first: the
    /// first may be before it (`true`: its key is to be compared), the second is after it.
    pub(crate) fn ceiling(&self, bound: &[u8]) -> Result<Vec<(PartitionPlace, bool)>> {
        let mut walker = Walker::new(&self.file, self.root)?;
        let end = walker.follow(self.root, bound)?;
        let mut places = Vec::new();
        if let Some(found) = end.found.filter(|_| end.whole_key || !end.has_children) {
            places.push((self.place(&found)?.1, true));
        }
        if let Some(greater) = end.greater {
            let found = walker.least(greater)?;
            places.push((self.place(&found)?.1, false));
        }
        Ok(places)
    }
}

/// A block of rows in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowBlock {
    /// Where it starts, from the partition's start.
    pub offset: u64,
    /// The range deletion that is open there.
    pub open: Option<DeletionTime>,
}

struct BlockPayload {
    block: RowBlock,
    version: Version,
}

impl BlockPayload {
    fn length(&self) -> usize {
        sized_length(self.block.offset.cast_signed())
    }
}

impl Payload for BlockPayload {
    fn bits(&self) -> u8 {
        let open = if self.block.open.is_some() {
            HAS_OPEN_DELETION
        } else {
            0
        };
        open | u8::try_from(self.length()).unwrap_or(7)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_sized(self.block.offset.cast_signed(), self.length(), out);
        if let Some(open) = self.block.open {
            deletion::encode(open, self.version, out);
        }
    }
}

/// Writes Rows.db.
pub(crate) struct RowIndexWriter {
    out: FileWriter,
    version: Version,
    trie: TrieWriter<BlockPayload>,
    previous: Option<(Vec<u8>, Vec<u8>)>,
    blocks: u32,
}

impl RowIndexWriter {
    /// Writes to `out`.
    pub(crate) fn new(out: FileWriter, version: Version) -> Self {
        Self {
            out,
            version,
            trie: TrieWriter::default(),
            previous: None,
            blocks: 0,
        }
    }

    /// Count of blocks of the open partition.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Adds a block from its first and last clustering (as [`clustering_bytes`]).
    pub(crate) fn add(&mut self, first: &[u8], last: Vec<u8>, block: RowBlock) -> Result<()> {
        let separator = match &self.previous {
            None => &[][..],
            Some((greatest, _)) => &first[..(common_prefix(greatest, first) + 1).min(first.len())],
        };
        let payload = BlockPayload {
            block,
            version: self.version,
        };
        self.trie.add(separator, payload, &mut self.out)?;
        self.previous = Some((last, separator.to_vec()));
        self.blocks += 1;
        Ok(())
    }

    /// Ends a partition. With more than one block: writes the index, and where its entry is.
    pub(crate) fn finish_partition(
        &mut self,
        key: &DecoratedKey,
        data_position: u64,
        partition_deletion: DeletionTime,
        end: u64,
    ) -> Result<Option<PartitionPlace>> {
        let blocks = std::mem::take(&mut self.blocks);
        let previous = self.previous.take();
        let Some((greatest, separator)) = previous.filter(|_| blocks > 1) else {
            self.trie = TrieWriter::default();
            return Ok(None);
        };
        let payload = BlockPayload {
            block: RowBlock {
                offset: end,
                open: None,
            },
            version: self.version,
        };
        self.trie.add(
            &nudged(&greatest, common_prefix(&greatest, &separator)),
            payload,
            &mut self.out,
        )?;
        let root = self.trie.complete(&mut self.out)?;
        let place = PartitionPlace::Rows(self.out.position());
        let mut entry = Vec::with_capacity(64);
        put_short(&key.key, &mut entry)?;
        let base = self.out.position() + entry.len() as u64;
        vint::write_unsigned(&mut entry, data_position);
        vint::write_signed(&mut entry, root.cast_signed() - base.cast_signed());
        vint::write_unsigned(&mut entry, u64::from(blocks));
        deletion::encode(partition_deletion, self.version, &mut entry);
        self.out.write(&entry)?;
        Ok(Some(place))
    }

    /// Writes the rest; the file's length.
    pub(crate) fn finish(self) -> Result<u64> {
        self.out.finish()
    }
}

/// The shortest bytes above `value` that differ from it at or after `at`.
fn nudged(value: &[u8], at: usize) -> Vec<u8> {
    let mut out: Vec<u8> = value.iter().take(at).copied().collect();
    for byte in value.iter().skip(at) {
        if let Some(next) = byte.checked_add(1) {
            out.push(next);
            return out;
        }
        out.push(*byte);
    }
    out.push(0);
    out
}

/// A partition's entry in Rows.db.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowIndexEntry {
    /// The partition's key.
    pub key: Bytes,
    /// Where the partition starts in the data file.
    pub data_position: u64,
    /// Root of its trie.
    pub root: u64,
    /// Deletion of the partition.
    pub deletion: DeletionTime,
}

/// The most that an entry takes: a key and four numbers.
const ENTRY_LIMIT: usize = 2 + 65_535 + 9 + 9 + 9 + 12;

/// Reads the entry at a position.
pub(crate) fn read_entry(
    file: &FileReader,
    position: u64,
    version: Version,
) -> Result<RowIndexEntry> {
    let mut limit = 256;
    loop {
        let window = file.read_up_to(position, limit)?;
        let complete = window.len() < limit || limit >= ENTRY_LIMIT;
        match parse_entry(Reader::new(window), position, version) {
            Ok(entry) if entry.root < position => return Ok(entry),
            Ok(_) => {
                return Err(corrupt(
                    &file.path,
                    position,
                    "a row index entry points beyond itself",
                ));
            }
            Err(error) if complete => return Err(corrupt(&file.path, position, error.to_string())),
            Err(_) => limit = ENTRY_LIMIT,
        }
    }
}

fn parse_entry(
    mut reader: Reader,
    position: u64,
    version: Version,
) -> std::result::Result<RowIndexEntry, helenus_rows::codec::CodecError> {
    let key = reader.short_bytes()?;
    let base = position + reader.position() as u64;
    let data_position = reader.unsigned_vint()?;
    let root = base.wrapping_add_signed(reader.vint()?);
    reader.unsigned_vint()?;
    let deletion = deletion::decode(&mut reader, version)?;
    Ok(RowIndexEntry {
        key,
        data_position,
        root,
        deletion,
    })
}

/// Blocks of a partition in descending order, from the one that may hold a bound.
#[derive(Debug)]
pub(crate) struct BlocksDescending {
    inner: Descending,
    root: u64,
    version: Version,
}

impl BlocksDescending {
    /// Starts at the block in which `bound` (as [`clustering_bytes`]) falls.
    pub(crate) fn new(
        file: &FileReader,
        root: u64,
        bound: &[u8],
        version: Version,
    ) -> Result<Self> {
        let inner = Descending::new(&mut Walker::new(file, root)?, root, bound)?;
        Ok(Self {
            inner,
            root,
            version,
        })
    }

    /// The next lower block.
    pub(crate) fn next(&mut self, file: &FileReader) -> Result<Option<RowBlock>> {
        let Some(found) = self.inner.next(&mut Walker::new(file, self.root)?)? else {
            return Ok(None);
        };
        let length = usize::from(found.bits & !HAS_OPEN_DELETION);
        let cut = || corrupt(&file.path, found.position, "a row index payload is cut off");
        let offset = found.bytes.get(..length).and_then(sized).ok_or_else(cut)?;
        let offset = u64::try_from(offset).map_err(|_| cut())?;
        let open = if found.bits & HAS_OPEN_DELETION == 0 {
            None
        } else {
            let mut reader = Reader::new(found.bytes.slice(length..));
            let open = deletion::decode(&mut reader, self.version).map_err(|_| cut())?;
            (!open.is_live()).then_some(open)
        };
        Ok(Some(RowBlock { offset, open }))
    }
}

/// Removes a file that is there.
pub(crate) fn remove_if_there(
    disk: &dyn helenus_seams::Disk,
    path: &std::path::Path,
) -> Result<()> {
    if disk.exists(path) {
        disk.remove(path).map_err(io_at(path))
    } else {
        Ok(())
    }
}
