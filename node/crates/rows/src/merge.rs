//! Merging of sources of one partition: rows of one clustering become one row, range tombstones are
//! laid over each other, and what any deletion deletes is dropped (Cassandra's
//! `UnfilteredRowIterators.merge`). Forward and reversed.
//!
//! A source must be consistent in itself: none of its rows holds what its own deletions delete.

use crate::clustering::{ClusteringBound, PrefixKind, compare_prefixes};
use crate::deletion::DeletionTime;
use crate::partition::{Partition, RangeTombstoneMarker, Unfiltered};
use crate::row::Row;
use crate::source::{PartitionSource, Unfiltereds};
use helenus_schema::TableMetadata;
use std::cmp::Ordering;
use std::convert::Infallible;

impl RangeTombstoneMarker {
    /// The deletion that holds after this marker in the order of reading.
    pub fn opens(&self, reversed: bool) -> Option<DeletionTime> {
        if reversed { self.end } else { self.start }
    }

    /// The deletion that held before this marker in the order of reading.
    pub fn closes(&self, reversed: bool) -> Option<DeletionTime> {
        if reversed { self.start } else { self.end }
    }

    /// The marker at a place where the deletion in force changes from `before` to `after` in the
    /// order of reading; `None` where nothing changes. `early` says whether the place is before the
    /// rows that start with `values` in clustering order.
    pub fn between(
        values: Vec<Option<bytes::Bytes>>,
        early: bool,
        before: DeletionTime,
        after: DeletionTime,
        reversed: bool,
    ) -> Option<Self> {
        if before == after {
            return None;
        }
        let some = |deletion: DeletionTime| (!deletion.is_live()).then_some(deletion);
        let (end, start) = if reversed {
            (some(after), some(before))
        } else {
            (some(before), some(after))
        };
        let kind = match (end.is_some(), start.is_some(), early) {
            (true, true, true) => PrefixKind::ExclusiveEndInclusiveStart,
            (true, true, false) => PrefixKind::InclusiveEndExclusiveStart,
            (true, false, true) => PrefixKind::ExclusiveEnd,
            (true, false, false) => PrefixKind::InclusiveEnd,
            (false, _, true) => PrefixKind::InclusiveStart,
            (false, _, false) => PrefixKind::ExclusiveStart,
        };
        Some(Self {
            bound: ClusteringBound { kind, values },
            end,
            start,
        })
    }
}

struct Input<'a, E> {
    unfiltereds: Unfiltereds<'a, E>,
    head: Option<Unfiltered>,
    open: DeletionTime,
}

/// The merged rows and markers of several sources of one partition.
struct Merge<'a, E> {
    table: &'a TableMetadata,
    reversed: bool,
    partition_deletion: DeletionTime,
    inputs: Vec<Input<'a, E>>,
    /// The range deletion in force in the merged stream, LIVE when the partition's covers it.
    open: DeletionTime,
    /// Inputs whose head stands at the least place; kept to reuse its memory.
    least: Vec<usize>,
    started: bool,
    failed: bool,
}

impl<E> Merge<'_, E> {
    fn advance(&mut self, at: usize) -> Result<Option<Unfiltered>, E> {
        let input = &mut self.inputs[at];
        let next = input.unfiltereds.next().transpose()?;
        Ok(std::mem::replace(&mut input.head, next))
    }

    fn compare(&self, a: &Unfiltered, b: &Unfiltered) -> Ordering {
        let ((a_kind, a), (b_kind, b)) = (a.prefix(), b.prefix());
        let order = compare_prefixes(a_kind, a, b_kind, b, self.table.clustering());
        if self.reversed {
            order.reverse()
        } else {
            order
        }
    }

    fn find_least(&mut self) {
        let mut least = std::mem::take(&mut self.least);
        least.clear();
        for (at, input) in self.inputs.iter().enumerate() {
            let Some(head) = &input.head else { continue };
            let first = least
                .first()
                .and_then(|&first: &usize| self.inputs[first].head.as_ref());
            match first.map_or(Ordering::Less, |first| self.compare(head, first)) {
                Ordering::Less => {
                    least.clear();
                    least.push(at);
                }
                Ordering::Equal => least.push(at),
                Ordering::Greater => {}
            }
        }
        self.least = least;
    }

    fn step(&mut self) -> Result<Option<Unfiltered>, E> {
        if !self.started {
            self.started = true;
            for at in 0..self.inputs.len() {
                self.advance(at)?;
            }
        }
        loop {
            self.find_least();
            if self.least.is_empty() {
                return Ok(None);
            }
            let mut merged_row: Option<Row> = None;
            let mut place = None;
            for index in 0..self.least.len() {
                let at = self.least[index];
                match self.advance(at)? {
                    Some(Unfiltered::Row(row)) => match &mut merged_row {
                        Some(merged) => merged.merge(row, self.table),
                        None => merged_row = Some(row),
                    },
                    Some(Unfiltered::Marker(marker)) => {
                        self.inputs[at].open =
                            marker.opens(self.reversed).unwrap_or(DeletionTime::LIVE);
                        place = Some(marker.bound);
                    }
                    None => {}
                }
            }
            if let Some(mut row) = merged_row {
                row.shadow(if self.open.is_live() {
                    self.partition_deletion
                } else {
                    self.open
                });
                if !row.is_empty() {
                    return Ok(Some(Unfiltered::Row(row)));
                }
            }
            if let Some(marker) = place.and_then(|bound| self.change(bound)) {
                return Ok(Some(Unfiltered::Marker(marker)));
            }
        }
    }

    /// The marker, if any, after the open deletions of some inputs changed at `bound`.
    fn change(&mut self, bound: ClusteringBound) -> Option<RangeTombstoneMarker> {
        let strongest = self
            .inputs
            .iter()
            .map(|input| input.open)
            .fold(DeletionTime::LIVE, DeletionTime::max);
        let now = if strongest.supersedes(&self.partition_deletion) {
            strongest
        } else {
            DeletionTime::LIVE
        };
        let before = std::mem::replace(&mut self.open, now);
        let early = bound.kind.against_clustering().is_lt();
        RangeTombstoneMarker::between(bound.values, early, before, now, self.reversed)
    }
}

impl<E> Iterator for Merge<'_, E> {
    type Item = Result<Unfiltered, E>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

/// Merges sources of one partition in the same direction; `None` when there are none. The first
/// unfiltereds are read when the result's are.
pub fn merge_sources<'a, E: 'a>(
    table: &'a TableMetadata,
    mut sources: Vec<PartitionSource<'a, E>>,
) -> Option<PartitionSource<'a, E>> {
    if sources.len() < 2 {
        return sources.pop();
    }
    let first = sources.first()?;
    let (key, reversed) = (first.key.clone(), first.reversed);
    let deletion = sources
        .iter()
        .map(|source| source.deletion)
        .fold(DeletionTime::LIVE, DeletionTime::max);
    let mut static_row = Row::default();
    let mut inputs = Vec::with_capacity(sources.len());
    for source in sources {
        debug_assert!(source.reversed == reversed && source.key == key);
        if !source.static_row.is_empty() {
            static_row.merge(source.static_row, table);
        }
        inputs.push(Input {
            unfiltereds: source.unfiltereds,
            head: None,
            open: DeletionTime::LIVE,
        });
    }
    static_row.shadow(deletion);
    let least = Vec::with_capacity(inputs.len());
    let merge = Merge {
        table,
        reversed,
        partition_deletion: deletion,
        inputs,
        open: DeletionTime::LIVE,
        least,
        started: false,
        failed: false,
    };
    Some(PartitionSource {
        key,
        deletion,
        static_row,
        reversed,
        unfiltereds: Box::new(merge),
    })
}

/// Merges versions of one partition, all in the same direction. Without any, the partition is
/// `None`.
pub fn merge_partitions(
    table: &TableMetadata,
    versions: Vec<Partition>,
    reversed: bool,
) -> Option<Partition> {
    let sources = versions
        .into_iter()
        .map(|version| PartitionSource::<Infallible>::of(version, reversed))
        .collect();
    let Ok(merged) = merge_sources(table, sources)?.collect();
    Some(merged)
}
