//! A partition that is read piece by piece: from a memtable, an SSTable, a merge of both, or from
//! one that is wholly in memory. `E` is the error of the reader beneath.

use crate::deletion::DeletionTime;
use crate::partition::{Partition, Unfiltered};
use crate::row::Row;
use helenus_types::DecoratedKey;

/// Rows and markers of one partition in order (R2), read as they are asked for.
pub type Unfiltereds<'a, E> = Box<dyn Iterator<Item = Result<Unfiltered, E>> + 'a>;

/// A partition whose rows are read as they are asked for.
pub struct PartitionSource<'a, E> {
    /// Its key.
    pub key: DecoratedKey,
    /// Deletes everything older in it.
    pub deletion: DeletionTime,
    /// The static row; empty when there is none.
    pub static_row: Row,
    /// Whether rows come in reverse clustering order.
    pub reversed: bool,
    /// The rows and markers; after an error there are no more.
    pub unfiltereds: Unfiltereds<'a, E>,
}

impl<'a, E: 'a> PartitionSource<'a, E> {
    /// A source of a partition in memory; `reversed` says how its rows already stand.
    pub fn of(partition: Partition, reversed: bool) -> Self {
        Self {
            key: partition.key,
            deletion: partition.deletion,
            static_row: partition.static_row,
            reversed,
            unfiltereds: Box::new(partition.unfiltereds.into_iter().map(Ok)),
        }
    }

    /// Reads everything.
    pub fn collect(self) -> Result<Partition, E> {
        Ok(Partition {
            key: self.key,
            deletion: self.deletion,
            static_row: self.static_row,
            unfiltereds: self.unfiltereds.collect::<Result<_, E>>()?,
        })
    }
}

impl<E> std::fmt::Debug for PartitionSource<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionSource")
            .field("key", &self.key)
            .field("deletion", &self.deletion)
            .field("static_row", &self.static_row)
            .field("reversed", &self.reversed)
            .finish_non_exhaustive()
    }
}
