//! Writes an SSTable of BTI format, version `da`, partition by partition, row by row.
//!
//! Sources: Cassandra 5.0 `BtiTableWriter`, `BtiFormatPartitionWriter`, `SortedTablePartitionWriter`.
//!
//! Invariants:
//! W1: TOC.txt is written last, after every other file is synced: an SSTable without it is none.
//! W2: memory does not grow with partitions or rows, but for the bloom filter, 8 bytes per chunk,
//!     and the open branches of the indexes.

use crate::bloom::BloomFilter;
use crate::collector::Collector;
use crate::compression::CompressionSettings;
use crate::data::DataWriter;
use crate::descriptor::{Component, Descriptor, FileVersion, Format};
use crate::error::{Result, SsTableError, io_at};
use crate::file::{FileWriter, write_whole};
use crate::index::{
    PartitionIndexWriter, PartitionPlace, RowBlock, RowIndexWriter, clustering_bytes, put_short,
    remove_if_there,
};
use crate::statistics::{CommitLogPosition, MURMUR3_PARTITIONER, Statistics, UNREPAIRED};
use bytes::Bytes;
use helenus_rows::codec::header::HeaderComponent;
use helenus_rows::codec::{ColumnSet, EncodingStats, SerializationHeader, deletion, unfiltered};
use helenus_rows::{DeletionTime, Partition, Row, Unfiltered};
use helenus_schema::TableMetadata;
use helenus_seams::Disk;
use helenus_types::{DecoratedKey, TimestampMicros};
use std::cmp::Ordering;
use std::sync::Arc;
use uuid::Uuid;

/// From this size on a partition gets a row index, and its blocks are of about this size.
pub const DEFAULT_COLUMN_INDEX_SIZE: usize = 16 * 1024;

/// What the caller decides of a new SSTable.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// About how many partitions there will be; sizes the bloom filter.
    pub estimated_partitions: u64,
    /// Minima of times; others than the true ones make the file larger, not wrong.
    pub stats: EncodingStats,
    /// Columns that rows may have; `None`: all of the table.
    pub columns: Option<ColumnSet>,
    /// Level of levelled compaction.
    pub level: u32,
    /// When it was repaired in milliseconds, or [`UNREPAIRED`].
    pub repaired_at: i64,
    /// The repair session it belongs to.
    pub pending_repair: Option<Uuid>,
    /// The node that wrote it.
    pub originating_host_id: Option<Uuid>,
    /// What of that node's commit log is in it.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// See [`DEFAULT_COLUMN_INDEX_SIZE`].
    pub column_index_size: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            estimated_partitions: 1,
            stats: EncodingStats::NONE,
            columns: None,
            level: 0,
            repaired_at: UNREPAIRED,
            pending_repair: None,
            originating_host_id: None,
            commit_log_intervals: Vec::new(),
            column_index_size: DEFAULT_COLUMN_INDEX_SIZE,
        }
    }
}

/// A finished SSTable.
#[derive(Debug, Clone)]
pub struct SsTableInfo {
    /// Its name.
    pub descriptor: Descriptor,
    /// Count of partitions.
    pub partitions: u64,
    /// Length of Data.db.
    pub size_bytes: u64,
    /// Length of the data before compression.
    pub uncompressed_bytes: u64,
    /// First key.
    pub first: DecoratedKey,
    /// Last key.
    pub last: DecoratedKey,
    /// Oldest write.
    pub min_timestamp: TimestampMicros,
    /// Newest write.
    pub max_timestamp: TimestampMicros,
}

/// The partition that is being written.
struct OpenPartition {
    key: DecoratedKey,
    deletion: DeletionTime,
    /// Where it starts in the data.
    start: u64,
    has_static: bool,
    previous_row: u64,
    open: DeletionTime,
    last: Option<Vec<u8>>,
    block: Option<OpenBlock>,
}

struct OpenBlock {
    first: Vec<u8>,
    start: u64,
    open: DeletionTime,
}

/// Writes one SSTable.
pub struct SsTableWriter {
    disk: Arc<dyn Disk>,
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    options: WriterOptions,
    header: SerializationHeader,
    component: HeaderComponent,
    data: DataWriter,
    partitions: PartitionIndexWriter,
    rows: RowIndexWriter,
    filter: Option<BloomFilter>,
    collector: Collector,
    first: Option<DecoratedKey>,
    last: Option<DecoratedKey>,
    count: u64,
    open: Option<OpenPartition>,
    buffer: Vec<u8>,
}

impl SsTableWriter {
    /// Creates the files of `descriptor`, whose version is `da`.
    pub fn create(
        disk: Arc<dyn Disk>,
        descriptor: Descriptor,
        table: Arc<TableMetadata>,
        options: WriterOptions,
    ) -> Result<Self> {
        if (descriptor.version, descriptor.format) != (FileVersion::DA, Format::Bti) {
            return Err(SsTableError::Unsupported {
                path: descriptor.path(Component::Data),
                what: format!("writing version {}", descriptor.version.as_str()),
            });
        }
        let version = descriptor.version.rows();
        let columns = options
            .columns
            .clone()
            .unwrap_or_else(|| ColumnSet::all(&table));
        let header = SerializationHeader::new(&table, &columns, options.stats, version)?;
        let component = HeaderComponent::new(&table, &columns, options.stats);
        let settings = CompressionSettings::of_table(&table.params.compression)?;
        let data = DataWriter::create(&*disk, &descriptor, settings)?;
        let index = FileWriter::create(&*disk, descriptor.path(Component::Partitions))?;
        let rows = FileWriter::create(&*disk, descriptor.path(Component::Rows))?;
        let filter = BloomFilter::new(
            options.estimated_partitions,
            table.params.bloom_filter_fp_chance,
        );
        Ok(Self {
            collector: Collector::new(Arc::clone(&table)),
            disk,
            table,
            options,
            header,
            component,
            data,
            partitions: PartitionIndexWriter::new(index),
            rows: RowIndexWriter::new(rows, version),
            descriptor,
            filter,
            first: None,
            last: None,
            count: 0,
            open: None,
            buffer: Vec::new(),
        })
    }

    /// Bytes written to Data.db so far: for splitting by size.
    pub fn written_bytes(&self) -> u64 {
        self.data.file_position()
    }

    /// Count of partitions written so far.
    pub fn partition_count(&self) -> u64 {
        self.count
    }

    /// Starts a partition; keys ascend.
    pub fn start_partition(&mut self, key: &DecoratedKey, deletion: DeletionTime) -> Result<()> {
        if self.open.is_some() {
            return Err(SsTableError::Invalid(
                "a partition starts before the last one ended".into(),
            ));
        }
        if self.last.as_ref().is_some_and(|last| last >= key) {
            return Err(SsTableError::Invalid("partition keys do not ascend".into()));
        }
        self.buffer.clear();
        put_short(&key.key, &mut self.buffer)?;
        deletion::encode(deletion, self.header.version, &mut self.buffer);
        let start = self.data.position();
        self.data.write(&self.buffer)?;
        self.collector.start_partition(&key.key, deletion);
        if let Some(filter) = &mut self.filter {
            filter.add(&key.key);
        }
        self.open = Some(OpenPartition {
            key: key.clone(),
            deletion,
            start,
            has_static: false,
            previous_row: 0,
            open: DeletionTime::LIVE,
            last: None,
            block: None,
        });
        Ok(())
    }

    /// The partition's static row; before its rows, once.
    pub fn static_row(&mut self, row: &Row) -> Result<()> {
        let Some(open) = self
            .open
            .as_mut()
            .filter(|open| !open.has_static && open.last.is_none())
        else {
            return Err(SsTableError::Invalid("a static row is out of place".into()));
        };
        open.has_static = true;
        if self.header.statics.is_empty() {
            return if row.is_empty() {
                Ok(())
            } else {
                Err(SsTableError::Invalid(
                    "a static row of a table without static columns".into(),
                ))
            };
        }
        self.buffer.clear();
        unfiltered::encode_static(row, &self.header, &mut self.buffer)?;
        self.data.write(&self.buffer)?;
        if !row.is_empty() {
            self.collector.row(row);
        }
        Ok(())
    }

    /// The next row or marker of the partition, in clustering order.
    pub fn append(&mut self, one: &Unfiltered) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| !open.has_static) {
            self.static_row(&Row::default())?;
        }
        let Some(open) = &mut self.open else {
            return Err(SsTableError::Invalid("a row without a partition".into()));
        };
        let (kind, values) = one.prefix();
        let place = clustering_bytes(kind, values, self.table.clustering());
        if open
            .last
            .as_ref()
            .is_some_and(|last| last.cmp(&place) != Ordering::Less)
        {
            return Err(SsTableError::Invalid("rows do not ascend".into()));
        }
        let position = self.data.position() - open.start;
        let block = open.block.get_or_insert_with(|| OpenBlock {
            first: place.clone(),
            start: position,
            open: open.open,
        });
        let block_start = block.start;
        self.buffer.clear();
        unfiltered::encode(
            one,
            &self.header,
            position - open.previous_row,
            &mut self.buffer,
        )?;
        self.data.write(&self.buffer)?;
        open.previous_row = position;
        open.last = Some(place);
        if let Unfiltered::Marker(marker) = one {
            open.open = marker.start.unwrap_or(DeletionTime::LIVE);
        }
        self.collector.unfiltered(one);
        if self.data.position() - open.start - block_start >= self.options.column_index_size as u64
        {
            add_block(open, &mut self.rows)?;
        }
        Ok(())
    }

    /// Ends the partition.
    pub fn finish_partition(&mut self) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| !open.has_static) {
            self.static_row(&Row::default())?;
        }
        let Some(mut open) = self.open.take() else {
            return Err(SsTableError::Invalid("no partition is open".into()));
        };
        if !open.open.is_live() {
            return Err(SsTableError::Invalid(
                "a range deletion is not closed".into(),
            ));
        }
        let end = self.data.position() - open.start;
        self.buffer.clear();
        unfiltered::encode_end(&mut self.buffer);
        self.data.write(&self.buffer)?;
        if self.rows.blocks() > 0 && open.block.is_some() {
            add_block(&mut open, &mut self.rows)?;
        }
        let indexed = self
            .rows
            .finish_partition(&open.key, open.start, open.deletion, end)?;
        self.partitions.add(
            open.key.clone(),
            indexed.unwrap_or(PartitionPlace::Data(open.start)),
        )?;
        self.collector
            .end_partition(self.data.position() - open.start);
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(detached(&open.key));
        }
        self.last = Some(detached(&open.key));
        Ok(())
    }

    /// A whole partition.
    pub fn append_partition(&mut self, partition: &Partition) -> Result<()> {
        self.start_partition(&partition.key, partition.deletion)?;
        self.static_row(&partition.static_row)?;
        for one in &partition.unfiltereds {
            self.append(one)?;
        }
        self.finish_partition()
    }

    /// Writes the rest and makes the SSTable durable (W1). `None`, and no files, when no partition
    /// was written.
    pub fn finish(self) -> Result<Option<SsTableInfo>> {
        if self.open.is_some() {
            return Err(SsTableError::Invalid("a partition is not ended".into()));
        }
        let (Some(first), Some(last)) = (self.first.clone(), self.last.clone()) else {
            self.abort()?;
            return Ok(None);
        };
        let disk = &*self.disk;
        let descriptor = &self.descriptor;
        let mut components = vec![
            Component::Data,
            Component::Partitions,
            Component::Rows,
            Component::Statistics,
            Component::Digest,
        ];
        let data = self.data.finish(disk, descriptor)?;
        components.push(if disk.exists(&descriptor.path(Component::Crc)) {
            Component::Crc
        } else {
            Component::CompressionInfo
        });
        self.partitions.finish()?;
        self.rows.finish()?;
        if let Some(filter) = &self.filter {
            write_whole(disk, descriptor.path(Component::Filter), &filter.encode())?;
            components.push(Component::Filter);
        }
        let cardinality = Bytes::from(self.collector.cardinality.encode());
        let mut stats = self.collector.stats();
        stats.commit_log_intervals = self.options.commit_log_intervals;
        stats.compression_ratio = data.compression_ratio;
        stats.level = self.options.level;
        stats.repaired_at = self.options.repaired_at;
        stats.pending_repair = self.options.pending_repair;
        stats.originating_host_id = self.options.originating_host_id;
        stats
            .clustering_types
            .clone_from(&self.component.clustering_types);
        stats.first_key = first.key.clone();
        stats.last_key = last.key.clone();
        let statistics = Statistics {
            partitioner: MURMUR3_PARTITIONER.into(),
            bloom_filter_fp_chance: self.table.params.bloom_filter_fp_chance,
            cardinality,
            stats,
            header: self.component,
        };
        write_whole(
            disk,
            descriptor.path(Component::Statistics),
            &statistics.encode(descriptor.version)?,
        )?;
        write_toc(disk, descriptor, components)?;
        Ok(Some(SsTableInfo {
            descriptor: self.descriptor,
            partitions: self.count,
            size_bytes: data.file_length,
            uncompressed_bytes: data.data_length,
            first,
            last,
            min_timestamp: statistics.stats.min_timestamp,
            max_timestamp: statistics.stats.max_timestamp,
        }))
    }

    /// Removes what was written.
    pub fn abort(self) -> Result<()> {
        let Self {
            disk,
            descriptor,
            data,
            partitions,
            rows,
            ..
        } = self;
        drop((data, partitions, rows));
        remove_files(&*disk, &descriptor)
    }
}

/// Removes every file of an SSTable that is there, TOC.txt first.
pub fn remove_files(disk: &dyn Disk, descriptor: &Descriptor) -> Result<()> {
    for component in Component::ALL.into_iter().rev() {
        remove_if_there(disk, &descriptor.path(component))?;
    }
    disk.sync_dir(&descriptor.directory)
        .map_err(io_at(&descriptor.directory))
}

fn add_block(open: &mut OpenPartition, rows: &mut RowIndexWriter) -> Result<()> {
    if let (Some(block), Some(last)) = (open.block.take(), &open.last) {
        let deletion = (!block.open.is_live()).then_some(block.open);
        rows.add(
            &block.first,
            last.clone(),
            RowBlock {
                offset: block.start,
                open: deletion,
            },
        )?;
    }
    Ok(())
}

/// The key in its own memory, not a slice of a larger buffer.
fn detached(key: &DecoratedKey) -> DecoratedKey {
    DecoratedKey {
        token: key.token,
        key: Bytes::copy_from_slice(&key.key),
    }
}

/// The list of the components is last: what it names is durable (W1).
fn write_toc(
    disk: &dyn Disk,
    descriptor: &Descriptor,
    mut components: Vec<Component>,
) -> Result<()> {
    disk.sync_dir(&descriptor.directory)
        .map_err(io_at(&descriptor.directory))?;
    components.push(Component::Toc);
    let toc: String = components
        .iter()
        .flat_map(|component| [component.file_name(), "\n"])
        .collect();
    write_whole(disk, descriptor.path(Component::Toc), toc.as_bytes())?;
    disk.sync_dir(&descriptor.directory)
        .map_err(io_at(&descriptor.directory))
}
