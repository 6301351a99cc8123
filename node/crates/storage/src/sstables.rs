//! SSTables as the engine sees them: the one place that knows the `sstable` crate's calls.

use crate::error::{ReadError, TableError};
use crate::scan::Scan;
use helenus_rows::{ClusteringFilter, ColumnFilter, DataRange, PartitionSource};
use helenus_schema::TableMetadata;
use helenus_seams::Disk;
use crate::descriptor_tmp::{Component, Descriptor, Generation};
use helenus_types::{DecoratedKey, TimestampMicros};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open SSTable.
#[derive(Debug)]
pub struct OpenSSTable {
    never: Infallible,
}

#[expect(clippy::unused_self, reason = "the reader is on its way")]
impl OpenSSTable {
    pub(crate) fn max_timestamp(&self) -> TimestampMicros { match self.never {} }
    pub(crate) fn min_timestamp(&self) -> TimestampMicros { match self.never {} }
    pub(crate) fn size_bytes(&self) -> u64 { match self.never {} }
    pub(crate) fn partition_count(&self) -> u64 { match self.never {} }
    pub(crate) fn name(&self) -> String { match self.never {} }
    pub(crate) fn folder(&self) -> &Path { match self.never {} }
    pub(crate) fn is_shared(&self) -> bool { match self.never {} }
    pub(crate) fn shared_between(self, _s: (usize, usize)) -> Self { match self.never {} }
    pub(crate) fn holds_tokens_of(&self, _shard: usize, _shards: usize) -> bool { match self.never {} }
    pub(crate) fn files(&self, _disk: &dyn Disk) -> Vec<PathBuf> { match self.never {} }
    pub(crate) fn remove_files(&self, _disk: &dyn Disk) -> Result<(), TableError> { match self.never {} }
    pub(crate) fn may_contain(&self, _key: &DecoratedKey) -> bool { match self.never {} }
    pub(crate) fn intersects(&self, _range: &DataRange) -> bool { match self.never {} }
    pub(crate) fn read<'a>(
        &'a self,
        _key: &DecoratedKey,
        _filter: &'a ClusteringFilter,
        _columns: &'a ColumnFilter,
    ) -> Result<Option<PartitionSource<'a, ReadError>>, TableError> {
        match self.never {}
    }
    pub(crate) fn scan<'a>(&'a self, _range: &'a DataRange) -> Result<Box<dyn Scan + 'a>, TableError> { match self.never {} }
    pub(crate) fn open(disk: &Arc<dyn Disk>, folder: &Path, generation: u64, table: &Arc<TableMetadata>) -> Result<Self, TableError> {
        Err(TableError::Damaged { path: folder.to_owned(), reason: "no reader yet".into() })
    }
    pub(crate) fn open_candidate(disk: &Arc<dyn Disk>, candidate: &Candidate, table: &Arc<TableMetadata>) -> Result<Self, TableError> {
        Err(TableError::Damaged { path: candidate.descriptor.directory.clone(), reason: "no reader yet".into() })
    }
    pub(crate) fn name_of(folder: &Path, generation: u64) -> String {
        name_of(&Descriptor::new(folder, Generation::Number(generation)))
    }
    pub(crate) fn remove_by_generation(disk: &dyn Disk, folder: &Path, generation: u64) -> Result<(), TableError> {
        remove_by_name(disk, folder, &Self::name_of(folder, generation))
    }
}

/// What the names of an SSTable's files begin with, such as `da-7-bti`.
fn name_of(descriptor: &Descriptor) -> String {
    let toc = descriptor.path(Component::Toc);
    let name = toc.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.trim_end_matches(Component::Toc.file_name()).trim_end_matches('-').to_owned()
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
    found.into_iter().map(|(descriptor, components)| Candidate { descriptor, components }).collect()
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
    Ok(())
}

/// Writes an SSTable.
pub(crate) struct Sink {
    never: Infallible,
}

impl Sink {
    pub(crate) fn create(disk: &Arc<dyn Disk>, folder: &Path, generation: u64, table: &Arc<TableMetadata>, partitions: u64) -> Result<Self, TableError> {
        Err(TableError::Damaged { path: folder.to_owned(), reason: "no writer yet".into() })
    }
    pub(crate) fn append<E>(&mut self, _source: PartitionSource<'_, E>) -> Result<bool, E> { match self.never {} }
    pub(crate) fn finish(self) -> Result<(), TableError> { match self.never {} }
    pub(crate) fn abort(self) { match self.never {} }
}
