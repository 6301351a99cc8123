//! SSTables as the engine sees them: the one place that knows the `sstable` crate's calls.

use crate::error::{ReadError, TableError};
use crate::portion::{self, Left, Portion};
use crate::scan::Scan;
use helenus_rows::codec::EncodingStats;
use helenus_rows::{ClusteringFilter, ColumnFilter, DataRange, PartitionSource, Row, Unfiltered};
use helenus_schema::TableMetadata;
use helenus_seams::Disk;
use helenus_sstable::{
    Component, Descriptor, Generation, Scanner, SsTableError, SsTablePartition, SsTableReader,
    SsTableWriter, WriterOptions,
};
use helenus_types::{DecoratedKey, TimestampMicros};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl From<SsTableError> for TableError {
    fn from(error: SsTableError) -> Self {
        match error {
            SsTableError::Io { path, source } => Self::Io {
                action: "access",
                path,
                source,
            },
            SsTableError::Corrupt {
                path,
                offset,
                reason,
            } => Self::Damaged {
                path,
                reason: format!("damaged at byte {offset}: {reason}"),
            },
            SsTableError::Unsupported { path, what } => Self::Unsupported { path, what },
            other => Self::Unwritable(other.to_string()),
        }
    }
}

/// An open SSTable.
#[derive(Debug)]
pub struct OpenSSTable {
    reader: Arc<SsTableReader>,
    /// What of it this shard reads.
    portion: Portion,
}

impl OpenSSTable {
    /// Opens an SSTable that this node wrote.
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        generation: u64,
        table: &Arc<TableMetadata>,
    ) -> Result<Self, TableError> {
        Self::open_named(
            disk,
            Descriptor::new(folder, Generation::Number(generation)),
            table,
        )
    }

    /// Opens an SSTable that was found.
    pub(crate) fn open_named(
        disk: &Arc<dyn Disk>,
        descriptor: Descriptor,
        table: &Arc<TableMetadata>,
    ) -> Result<Self, TableError> {
        let reader = SsTableReader::open(&**disk, descriptor, Arc::clone(table))?;
        Ok(Self {
            reader,
            portion: Portion::default(),
        })
    }

    /// The same under another form of its table.
    pub(crate) fn reopen(
        &self,
        disk: &Arc<dyn Disk>,
        table: &Arc<TableMetadata>,
    ) -> Result<Self, TableError> {
        let reopened = Self::open_named(disk, self.reader.descriptor().clone(), table)?;
        Ok(Self {
            portion: self.portion.clone(),
            ..reopened
        })
    }

    /// Leaves out what other shards read, or have read and left.
    pub(crate) fn among(mut self, shard: Left, left: Vec<Left>) -> Self {
        let (first, last) = (self.reader.first().token, self.reader.last().token);
        self.portion = Portion::of(shard, first, last, left);
        self
    }

    pub(crate) fn holds_tokens_of(&self, shard: usize, shards: usize) -> bool {
        (self.reader.first().token.shard(shards)..=self.reader.last().token.shard(shards))
            .contains(&shard)
    }

    /// Whether it holds tokens of several shards: none of them may remove it alone.
    pub(crate) fn is_shared(&self) -> bool {
        self.portion.shares().is_some()
    }

    /// The shard that reads it when there are tokens of others too.
    pub(crate) fn shares(&self) -> Option<Left> {
        self.portion.shares()
    }

    /// What the names of its files begin with, such as `da-7-bti`.
    pub(crate) fn name(&self) -> String {
        name_of(self.reader.descriptor())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.reader.descriptor().directory
    }

    /// The reader beneath.
    pub fn reader(&self) -> &Arc<SsTableReader> {
        &self.reader
    }

    pub(crate) fn max_timestamp(&self) -> TimestampMicros {
        self.reader.max_timestamp()
    }

    pub(crate) fn min_timestamp(&self) -> TimestampMicros {
        self.reader.min_timestamp()
    }

    /// Minima of times in it.
    pub(crate) fn encoding_stats(&self) -> EncodingStats {
        let stats = &self.reader.statistics().stats;
        EncodingStats {
            min_timestamp: stats.min_timestamp,
            min_local_deletion_time: stats.min_local_deletion_time,
            min_ttl: stats.min_ttl,
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.reader.size_bytes()
    }

    pub(crate) fn partition_count(&self) -> u64 {
        self.reader.partition_count()
    }

    /// The files that it has.
    pub(crate) fn files(&self, disk: &dyn Disk) -> Vec<PathBuf> {
        let descriptor = self.reader.descriptor();
        Component::ALL
            .iter()
            .map(|one| descriptor.path(*one))
            .filter(|path| disk.exists(path))
            .collect()
    }

    /// Removes its files, or leaves them to the shards that still read them.
    pub(crate) fn remove_files(&self, disk: &dyn Disk) -> Result<(), TableError> {
        let name = self.name();
        if let Some(own) = self.portion.shares()
            && !self.portion.leave(own, disk, self.folder(), &name)?
        {
            return Ok(());
        }
        helenus_sstable::remove_files(disk, self.reader.descriptor())?;
        portion::remove_notes(disk, self.folder(), &name)
    }

    /// Whether it may hold the key: first and last key, then the bloom filter.
    pub(crate) fn may_contain(&self, key: &DecoratedKey) -> bool {
        self.portion.holds(key.token) && self.reader.may_contain(key)
    }

    /// Whether its keys and the range have tokens in common.
    pub(crate) fn intersects(&self, range: &DataRange) -> bool {
        self.reader.intersects(range)
    }

    /// The part of a partition that a filter and a choice of columns ask for.
    pub(crate) fn read<'a>(
        &'a self,
        key: &DecoratedKey,
        filter: &ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> Result<Option<PartitionSource<'a, ReadError>>, TableError> {
        Ok(self
            .reader
            .read_partition(key, filter)?
            .map(|partition| fetched(partition, columns)))
    }

    /// The partitions of a range.
    pub(crate) fn scan<'a>(
        &'a self,
        range: &'a DataRange,
    ) -> Result<Box<dyn Scan + 'a>, TableError> {
        Ok(Box::new(TableScan {
            sstable: self,
            scanner: self.reader.scan(range)?,
            range,
            next: None,
            ended: false,
        }))
    }
}

/// A partition with the columns that are fetched.
fn fetched(partition: SsTablePartition, columns: &ColumnFilter) -> PartitionSource<'_, ReadError> {
    let keep = move |row: &mut Row| {
        if let ColumnFilter::Selected(_) = columns {
            row.columns.retain(|(id, _)| columns.fetches(*id));
        }
    };
    let mut static_row = partition.static_row;
    keep(&mut static_row);
    let unfiltereds = partition.unfiltereds.map(move |item| {
        let mut unfiltered = item.map_err(TableError::from)?;
        if let Unfiltered::Row(row) = &mut unfiltered {
            keep(row);
        }
        Ok(unfiltered)
    });
    PartitionSource {
        key: partition.key,
        deletion: partition.deletion,
        static_row,
        reversed: partition.reversed,
        unfiltereds: Box::new(unfiltereds),
    }
}

struct TableScan<'a> {
    sstable: &'a OpenSSTable,
    scanner: Scanner,
    range: &'a DataRange,
    next: Option<SsTablePartition>,
    ended: bool,
}

impl Scan for TableScan<'_> {
    fn peek(&mut self) -> Result<Option<&DecoratedKey>, ReadError> {
        while self.next.is_none() && !self.ended {
            let next = self.scanner.next_partition().map_err(TableError::from)?;
            self.ended = next.is_none();
            let portion = &self.sstable.portion;
            self.next = next.filter(|one| !portion.is_partial() || portion.holds(one.key.token));
        }
        Ok(self.next.as_ref().map(|partition| &partition.key))
    }

    fn take<'a>(
        &'a mut self,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> Result<Option<PartitionSource<'a, ReadError>>, ReadError> {
        let Some(partition) = self.next.take() else {
            return Ok(None);
        };
        if std::ptr::eq(filter, &raw const self.range.filter) {
            return Ok(Some(fetched(partition, columns)));
        }
        // the scanner reads by the range's own filter
        Ok(self.sstable.read(&partition.key, filter, columns)?)
    }
}

/// The name of the SSTable that this node writes with a generation.
pub(crate) fn name_of_new(folder: &Path, generation: u64) -> String {
    name_of(&Descriptor::new(folder, Generation::Number(generation)))
}

/// What the names of an SSTable's files begin with, such as `da-7-bti`.
fn name_of(descriptor: &Descriptor) -> String {
    let toc = descriptor.path(Component::Toc);
    let name = toc
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.trim_end_matches(Component::Toc.file_name())
        .trim_end_matches('-')
        .to_owned()
}

/// An SSTable found in a folder.
pub(crate) struct Candidate {
    pub(crate) descriptor: Descriptor,
    components: Vec<Component>,
}

impl Candidate {
    pub(crate) fn name(&self) -> String {
        name_of(&self.descriptor)
    }

    /// Its number; 0 for one named by a time UUID.
    pub(crate) fn generation_number(&self) -> u64 {
        match &self.descriptor.generation {
            Generation::Number(number) => *number,
            Generation::Unique(_) => 0,
        }
    }

    /// Whether its writer finished.
    pub(crate) fn is_complete(&self) -> bool {
        self.components.contains(&Component::Toc)
    }
}

/// The SSTables among the files of a folder.
pub(crate) fn in_folder(listed: &[PathBuf]) -> Vec<Candidate> {
    let mut found: BTreeMap<Descriptor, Vec<Component>> = BTreeMap::new();
    for (descriptor, component) in listed.iter().filter_map(|path| Descriptor::parse(path)) {
        found.entry(descriptor).or_default().push(component);
    }
    found
        .into_iter()
        .map(|(descriptor, components)| Candidate {
            descriptor,
            components,
        })
        .collect()
}

/// Removes every file of an SSTable, the table of contents first, so that what a crash leaves is
/// known to be incomplete.
pub(crate) fn remove_by_name(disk: &dyn Disk, folder: &Path, name: &str) -> Result<(), TableError> {
    let listed = disk.list(folder).map_err(TableError::io("list", folder))?;
    let mut files: Vec<_> = listed
        .into_iter()
        .filter_map(|path| {
            let (descriptor, component) = Descriptor::parse(&path)?;
            (name_of(&descriptor) == name).then_some((component != Component::Toc, path))
        })
        .collect();
    files.sort();
    for (_, path) in files {
        match disk.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(TableError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    portion::remove_notes(disk, folder, name)
}

/// Writes an SSTable.
pub(crate) struct Sink {
    writer: SsTableWriter,
}

impl Sink {
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        generation: u64,
        table: &Arc<TableMetadata>,
        estimated_partitions: u64,
        stats: EncodingStats,
    ) -> Result<Self, TableError> {
        let descriptor = Descriptor::new(folder, Generation::Number(generation));
        let options = WriterOptions {
            estimated_partitions,
            stats,
            ..WriterOptions::default()
        };
        Ok(Self {
            writer: SsTableWriter::create(
                Arc::clone(disk),
                descriptor,
                Arc::clone(table),
                options,
            )?,
        })
    }

    /// Writes a partition, unless there is nothing in it.
    pub(crate) fn append(
        &mut self,
        mut source: PartitionSource<'_, ReadError>,
    ) -> Result<(), ReadError> {
        let mut next = source.unfiltereds.next().transpose()?;
        if next.is_none() && source.deletion.is_live() && source.static_row.is_empty() {
            return Ok(());
        }
        let writer = &mut self.writer;
        writer
            .start_partition(&source.key, source.deletion)
            .map_err(TableError::from)?;
        writer
            .static_row(&source.static_row)
            .map_err(TableError::from)?;
        while let Some(unfiltered) = next {
            writer.append(&unfiltered).map_err(TableError::from)?;
            next = source.unfiltereds.next().transpose()?;
        }
        Ok(writer.finish_partition().map_err(TableError::from)?)
    }

    /// Makes the SSTable durable; `false`, and no files, when nothing was written.
    pub(crate) fn finish(self) -> Result<bool, TableError> {
        Ok(self.writer.finish()?.is_some())
    }
}
