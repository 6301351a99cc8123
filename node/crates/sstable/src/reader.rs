//! Reads an SSTable.
//!
//! Invariants:
//! S1: nothing is returned from a chunk whose checksum does not match.
//! S2: memory holds the bloom filter, offsets of chunks up to 512 KiB, and what is being read.

use crate::big::BigIndex;
use crate::bloom::BloomFilter;
use crate::data::{DataCursor, DataFile};
use crate::descriptor::{Component, Descriptor, Format};
use crate::error::{Result, SsTableError, corrupt, io_at};
use crate::file::FileReader;
use crate::index::{PartitionIndex, PartitionPlace, read_entry};
use crate::rows::{ForwardRows, ReversedRows, RowIndex, RowsPlace, slices_of};
use crate::statistics::{MURMUR3_PARTITIONER, Statistics};
use bytes::Bytes;
use helenus_rows::codec::{SerializationHeader, deletion, unfiltered};
use helenus_rows::{
    ClusteringFilter, DataRange, DeletionTime, PartitionPosition, PartitionSource, Row, Slice,
    Unfiltered,
};
use helenus_schema::TableMetadata;
use helenus_seams::Disk;
use helenus_types::byte_comparable::{self, GT_NEXT_COMPONENT, LT_NEXT_COMPONENT};
use helenus_types::{DecoratedKey, NowInSeconds, TimestampMicros, Token};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A partition of an SSTable.
pub type SsTablePartition = PartitionSource<'static, SsTableError>;

/// An open SSTable; shared by the readers of its rows.
pub struct SsTableReader {
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    header: SerializationHeader,
    statistics: Statistics,
    filter: Option<BloomFilter>,
    data: Arc<DataFile>,
    index: Index,
    size_bytes: u64,
}

impl std::fmt::Debug for SsTableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SsTableReader")
            .field("descriptor", &self.descriptor)
            .finish_non_exhaustive()
    }
}

/// Reads Statistics.db alone.
pub fn read_statistics(disk: &dyn Disk, descriptor: &Descriptor) -> Result<Statistics> {
    let path = descriptor.path(Component::Statistics);
    let content = disk.read(&path).map_err(io_at(&path))?;
    Statistics::decode(&content, descriptor.version, &path)
}

/// How partitions are found.
enum Index {
    Bti {
        partitions: PartitionIndex,
        rows: FileReader,
    },
    Big(BigIndex),
    /// The data alone, from start to end.
    None {
        first: DecoratedKey,
        last: DecoratedKey,
    },
}

impl Index {
    fn open(disk: &dyn Disk, descriptor: &Descriptor) -> Result<Self> {
        let open = |component| FileReader::open(disk, &descriptor.path(component));
        Ok(match descriptor.format {
            Format::Bti => Self::Bti {
                partitions: PartitionIndex::open(open(Component::Partitions)?)?,
                rows: open(Component::Rows)?,
            },
            Format::Big => Self::Big(BigIndex::open(open(Component::Index)?)?),
        })
    }

    fn none() -> Self {
        let key = |token| DecoratedKey {
            token: Token(token),
            key: Bytes::new(),
        };
        Self::None {
            first: key(i64::MIN),
            last: key(i64::MAX),
        }
    }
}

struct PartitionHead {
    key: Bytes,
    deletion: DeletionTime,
    static_row: Row,
}

impl SsTableReader {
    /// Opens an SSTable of `table` and checks that its files are there and fit.
    pub fn open(
        disk: &dyn Disk,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
    ) -> Result<Arc<Self>> {
        Self::open_with(disk, descriptor, table, true)
    }

    /// Opens an SSTable whose index or order is lost, or not wanted, or of another partitioner: it
    /// can be scanned whole, in the order of its data, and nothing else.
    pub fn open_without_index(
        disk: &dyn Disk,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
    ) -> Result<Arc<Self>> {
        Self::open_with(disk, descriptor, table, false)
    }

    fn open_with(
        disk: &dyn Disk,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
        indexed: bool,
    ) -> Result<Arc<Self>> {
        let unsupported = |what: String| SsTableError::Unsupported {
            path: descriptor.path(Component::Data),
            what,
        };
        if !descriptor.version.is_readable(descriptor.format) {
            return Err(unsupported(format!(
                "reading version {}",
                descriptor.version.as_str()
            )));
        }
        let statistics = read_statistics(disk, &descriptor)?;
        if indexed && statistics.partitioner != MURMUR3_PARTITIONER {
            return Err(unsupported(format!(
                "partitioner {}",
                statistics.partitioner
            )));
        }
        let stats_path = descriptor.path(Component::Statistics);
        let header = statistics
            .header
            .to_header(&table, descriptor.version.rows())
            .map_err(|error| corrupt(&stats_path, 0, error.to_string()))?;
        let filter_path = descriptor.path(Component::Filter);
        let filter = if indexed && disk.exists(&filter_path) {
            let content = disk.read(&filter_path).map_err(io_at(&filter_path))?;
            Some(BloomFilter::decode(
                &content,
                descriptor.version.has_old_bloom_filter(),
                &filter_path,
            )?)
        } else {
            None
        };
        let data = Arc::new(DataFile::open(disk, &descriptor)?);
        let index = if indexed {
            Index::open(disk, &descriptor)?
        } else {
            Index::none()
        };
        let mut size_bytes = 0;
        for component in Component::ALL {
            let path = descriptor.path(component);
            if disk.exists(&path) {
                size_bytes += disk
                    .open(&path)
                    .and_then(|file| file.len())
                    .map_err(io_at(&path))?;
            }
        }
        Ok(Arc::new(Self {
            descriptor,
            table,
            header,
            statistics,
            filter,
            data,
            index,
            size_bytes,
        }))
    }

    /// Its name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The table it was opened with.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Everything in Statistics.db.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// First key.
    pub fn first(&self) -> &DecoratedKey {
        match &self.index {
            Index::Bti { partitions, .. } => &partitions.first,
            Index::Big(index) => &index.first,
            Index::None { first, .. } => first,
        }
    }

    /// Last key.
    pub fn last(&self) -> &DecoratedKey {
        match &self.index {
            Index::Bti { partitions, .. } => &partitions.last,
            Index::Big(index) => &index.last,
            Index::None { last, .. } => last,
        }
    }

    /// Count of partitions.
    pub fn partition_count(&self) -> u64 {
        match &self.index {
            Index::Bti { partitions, .. } => partitions.count,
            Index::Big(index) => index.count,
            Index::None { .. } => self.statistics.stats.partition_sizes.count(),
        }
    }

    /// Oldest write.
    pub fn min_timestamp(&self) -> TimestampMicros {
        self.statistics.stats.min_timestamp
    }

    /// Newest write.
    pub fn max_timestamp(&self) -> TimestampMicros {
        self.statistics.stats.max_timestamp
    }

    /// When the last tombstone or TTL in it was made or expires.
    pub fn max_local_deletion_time(&self) -> NowInSeconds {
        self.statistics.stats.max_local_deletion_time
    }

    /// Level of levelled compaction.
    pub fn level(&self) -> u32 {
        self.statistics.stats.level
    }

    /// A slice that covers every row and range deletion.
    pub fn covered(&self) -> &Slice {
        &self.statistics.stats.covered
    }

    /// Bytes of all files.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of the data before compression.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.data.length()
    }

    pub(crate) fn header(&self) -> &SerializationHeader {
        &self.header
    }

    pub(crate) fn rows_file(&self) -> Result<&FileReader> {
        match &self.index {
            Index::Bti { rows, .. } => Ok(rows),
            Index::Big(_) | Index::None { .. } => Err(no_index()),
        }
    }

    /// Whether the key may be there, by first and last key and the bloom filter.
    pub fn may_contain(&self, key: &DecoratedKey) -> bool {
        key >= self.first()
            && key <= self.last()
            && self
                .filter
                .as_ref()
                .is_none_or(|filter| filter.may_contain(&key.key))
    }

    /// Whether any of its keys may be in a range.
    pub fn intersects(&self, range: &DataRange) -> bool {
        !is_before(self.last(), &range.start) && !is_after(self.first(), &range.end)
    }

    /// The part of a partition that `filter` asks for; `None` when the key is not there.
    pub fn read_partition(
        self: &Arc<Self>,
        key: &DecoratedKey,
        filter: &ClusteringFilter,
    ) -> Result<Option<SsTablePartition>> {
        if !self.may_contain(key) {
            return Ok(None);
        }
        let Some((position, index)) = self.locate(key)? else {
            return Ok(None);
        };
        let mut cursor = DataCursor::new(Arc::clone(&self.data), position);
        let found = cursor.decode(|reader| Ok(reader.short_bytes()?))?;
        if found != key.key {
            return if matches!(index, RowIndex::None) {
                Ok(None)
            } else {
                Err(cursor.corrupt("the row index points to another partition"))
            };
        }
        cursor.seek(position);
        let head = self.read_head(&mut cursor)?;
        let place = RowsPlace {
            reader: Arc::clone(self),
            cursor,
            start: position,
            index,
            end: Arc::default(),
        };
        Ok(Some(source(key.clone(), head, place, filter)))
    }

    /// Where a key's partition is if it is there at all, and its row index.
    fn locate(&self, key: &DecoratedKey) -> Result<Option<(u64, RowIndex)>> {
        let (partitions, rows) = match &self.index {
            Index::Bti { partitions, rows } => (partitions, rows),
            Index::Big(index) => {
                return Ok(index.locate(key, &self.header)?.map(|(position, blocks)| {
                    let index = if blocks.is_empty() {
                        RowIndex::None
                    } else {
                        RowIndex::List(Arc::new(blocks))
                    };
                    (position, index)
                }));
            }
            Index::None { .. } => return Err(no_index()),
        };
        Ok(match partitions.candidate(key)? {
            None => None,
            Some(PartitionPlace::Data(position)) => Some((position, RowIndex::None)),
            Some(PartitionPlace::Rows(at)) => {
                let entry = read_entry(rows, at, self.header.version)?;
                (entry.key == key.key).then_some((entry.data_position, RowIndex::Trie(entry.root)))
            }
        })
    }

    fn read_head(&self, cursor: &mut DataCursor) -> Result<PartitionHead> {
        let (key, deletion) = cursor.decode(|reader| {
            Ok((
                reader.short_bytes()?,
                deletion::decode(reader, self.header.version)?,
            ))
        })?;
        let static_row = if self.header.statics.is_empty() {
            Row::default()
        } else {
            cursor.decode(|reader| unfiltered::decode_static(reader, &self.header))?
        };
        Ok(PartitionHead {
            key,
            deletion,
            static_row,
        })
    }

    /// The partitions of a range in key order, each with the rows that the range's filter asks for.
    pub fn scan(self: &Arc<Self>, range: &DataRange) -> Result<Scanner> {
        let position = self
            .position_of(&range.start)?
            .unwrap_or(self.data.length());
        Ok(Scanner {
            reader: Arc::clone(self),
            cursor: DataCursor::new(Arc::clone(&self.data), position),
            range: range.clone(),
            previous: None,
            ended: false,
        })
    }

    /// Where the first partition at or after a position starts in the data.
    fn position_of(&self, start: &PartitionPosition) -> Result<Option<u64>> {
        let bound = match start {
            PartitionPosition::MinOf(Token::MINIMUM) => return Ok(Some(0)),
            PartitionPosition::MinOf(token) => byte_comparable::token_bound(*token, true),
            PartitionPosition::MaxOf(token) => byte_comparable::token_bound(*token, false),
            PartitionPosition::Key { key, inclusive } => byte_comparable::decorated_key_ending(
                key,
                if *inclusive {
                    LT_NEXT_COMPONENT
                } else {
                    GT_NEXT_COMPONENT
                },
            ),
        };
        let (partitions, rows) = match &self.index {
            Index::Bti { partitions, rows } => (partitions, rows),
            Index::Big(index) => return index.position_of(|key| is_before(key, start)),
            Index::None { .. } => return Err(no_index()),
        };
        for (place, uncertain) in partitions.ceiling(&bound)? {
            let (position, key) = match place {
                PartitionPlace::Rows(at) => {
                    let entry = read_entry(rows, at, self.header.version)?;
                    (entry.data_position, Some(entry.key))
                }
                PartitionPlace::Data(position) => (position, None),
            };
            if uncertain {
                let key = match key {
                    Some(key) => key,
                    None => DataCursor::new(Arc::clone(&self.data), position)
                        .decode(|reader| Ok(reader.short_bytes()?))?,
                };
                if is_before(&DecoratedKey::new(key), start) {
                    continue;
                }
            }
            return Ok(Some(position));
        }
        Ok(None)
    }
}

fn no_index() -> SsTableError {
    SsTableError::Invalid("the SSTable was opened without its index".into())
}

fn source(
    key: DecoratedKey,
    head: PartitionHead,
    place: RowsPlace,
    filter: &ClusteringFilter,
) -> SsTablePartition {
    let slices = slices_of(filter);
    let unfiltereds: Box<dyn Iterator<Item = Result<Unfiltered>>> = if filter.is_reversed() {
        Box::new(ReversedRows::new(place, slices))
    } else {
        Box::new(ForwardRows::new(place, slices))
    };
    PartitionSource {
        key,
        deletion: head.deletion,
        static_row: head.static_row,
        reversed: filter.is_reversed(),
        unfiltereds,
    }
}

/// Whether a key stands before a range that starts there.
fn is_before(key: &DecoratedKey, start: &PartitionPosition) -> bool {
    match start {
        PartitionPosition::MinOf(token) => key.token < *token,
        PartitionPosition::MaxOf(token) => key.token <= *token,
        PartitionPosition::Key {
            key: start,
            inclusive,
        } => key < start || (!*inclusive && key == start),
    }
}

/// Whether a key stands after a range that ends there.
fn is_after(key: &DecoratedKey, end: &PartitionPosition) -> bool {
    match end {
        PartitionPosition::MinOf(token) => *token != Token::MINIMUM && key.token >= *token,
        PartitionPosition::MaxOf(token) => key.token > *token,
        PartitionPosition::Key {
            key: end,
            inclusive,
        } => key > end || (!*inclusive && key == end),
    }
}

/// Partitions of an SSTable in key order.
pub struct Scanner {
    reader: Arc<SsTableReader>,
    cursor: DataCursor,
    range: DataRange,
    /// The partition that was given last, whose end is to be found.
    previous: Option<RowsPlace>,
    ended: bool,
}

impl Scanner {
    /// Where it is in the uncompressed data: progress of long work.
    pub fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// The next partition. Its rows may be read, wholly or not, before or after the next call.
    pub fn next_partition(&mut self) -> Result<Option<SsTablePartition>> {
        let result = self.step();
        if !matches!(result, Ok(Some(_))) {
            self.ended = true;
        }
        result
    }

    fn step(&mut self) -> Result<Option<SsTablePartition>> {
        if let Some(previous) = self.previous.take() {
            let known = previous.end.load(Ordering::Relaxed);
            let end = if known > 0 {
                known
            } else {
                previous.find_end()?
            };
            self.cursor.seek(end);
        }
        if self.ended || self.cursor.is_at_end() {
            return Ok(None);
        }
        let start = self.cursor.position();
        let head = self.reader.read_head(&mut self.cursor)?;
        let key = DecoratedKey::new(head.key.clone());
        if is_after(&key, &self.range.end) {
            return Ok(None);
        }
        // Whole partitions are read from their start; the row index would only cost a look-up.
        let index = if self.range.filter == ClusteringFilter::all() {
            RowIndex::None
        } else {
            self.reader
                .locate(&key)?
                .map_or(RowIndex::None, |(_, index)| index)
        };
        let place = RowsPlace {
            reader: Arc::clone(&self.reader),
            cursor: self.cursor.clone(),
            start,
            index,
            end: Arc::default(),
        };
        self.previous = Some(place.clone());
        Ok(Some(source(key, head, place, &self.range.filter)))
    }
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner")
            .field("reader", &self.reader)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
