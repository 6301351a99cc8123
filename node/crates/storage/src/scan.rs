//! Walking the partitions of several sources in the order of their keys.

use crate::error::ReadError;
use crate::memtable::{Memtable, MemtablePartition};
use helenus_rows::{ClusteringFilter, ColumnFilter, DataRange, PartitionSource, merge_sources};
use helenus_schema::TableMetadata;
use helenus_types::DecoratedKey;
use std::iter::Peekable;

/// The partitions of one source in the order of their keys.
pub trait Scan {
    /// The key of the next partition.
    fn peek(&mut self) -> Result<Option<&DecoratedKey>, ReadError>;

    /// The next partition, as far as a filter and a choice of columns ask for it.
    fn take<'a>(
        &'a mut self,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> Result<Option<PartitionSource<'a, ReadError>>, ReadError>;
}

/// The partitions of a memtable in a range.
pub(crate) struct MemtableScan<'m> {
    memtable: &'m Memtable,
    partitions: Peekable<Box<dyn Iterator<Item = (&'m DecoratedKey, &'m MemtablePartition)> + 'm>>,
}

impl<'m> MemtableScan<'m> {
    pub(crate) fn new(memtable: &'m Memtable, range: &'m DataRange) -> Self {
        let partitions: Box<dyn Iterator<Item = _> + 'm> = Box::new(memtable.range(range));
        Self {
            memtable,
            partitions: partitions.peekable(),
        }
    }
}

impl Scan for MemtableScan<'_> {
    fn peek(&mut self) -> Result<Option<&DecoratedKey>, ReadError> {
        Ok(self.partitions.peek().map(|(key, _)| *key))
    }

    fn take<'a>(
        &'a mut self,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> Result<Option<PartitionSource<'a, ReadError>>, ReadError> {
        let memtable = self.memtable;
        Ok(self
            .partitions
            .next()
            .map(|(key, partition)| memtable.source(key, partition, filter, columns)))
    }
}

/// Several scans as one: partitions of the same key are merged.
pub struct MergedScan<'s> {
    scans: Vec<Box<dyn Scan + 's>>,
}

impl<'s> MergedScan<'s> {
    /// A scan over all of these.
    pub fn new(scans: Vec<Box<dyn Scan + 's>>) -> Self {
        Self { scans }
    }

    /// The key of the next partition.
    pub fn next_key(&mut self) -> Result<Option<DecoratedKey>, ReadError> {
        let mut least: Option<DecoratedKey> = None;
        for scan in &mut self.scans {
            if let Some(key) = scan.peek()?
                && least.as_ref().is_none_or(|least| key < least)
            {
                least = Some(key.clone());
            }
        }
        Ok(least)
    }

    /// The partition of the key that [`MergedScan::next_key`] returned.
    pub fn take<'a>(
        &'a mut self,
        key: &DecoratedKey,
        table: &'a TableMetadata,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
    ) -> Result<Option<PartitionSource<'a, ReadError>>, ReadError> {
        let mut sources = Vec::with_capacity(self.scans.len());
        for scan in &mut self.scans {
            if scan.peek()? == Some(key)
                && let Some(source) = scan.take(filter, columns)?
            {
                sources.push(source);
            }
        }
        Ok(merge_sources(table, sources))
    }
}
