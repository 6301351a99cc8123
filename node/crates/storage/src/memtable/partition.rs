//! One partition of a memtable.

use super::position::{ClusteringOrder, Position};
use super::ranges::{Markers, RangeDeletions};
use bytes::{Bytes, BytesMut};
use helenus_rows::{
    Cell, Clustering, ClusteringBound, ClusteringFilter, ColumnData, ColumnFilter, DeletionTime,
    Partition, PartitionSource, PrefixKind, Row, Slice, Unfiltered,
};
use helenus_schema::TableMetadata;
use helenus_types::DecoratedKey;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

/// What a row, a cell and a step of range deletions take beside their values' bytes.
const ROW_OVERHEAD_BYTES: usize = 160;
const CELL_OVERHEAD_BYTES: usize = 112;
const RANGE_OVERHEAD_BYTES: usize = 128;

/// The unflushed writes to one partition.
#[derive(Debug, Default)]
pub struct MemtablePartition {
    deletion: DeletionTime,
    static_row: Row,
    /// Rows by place; the clustering stands in the place only.
    rows: BTreeMap<Position, Row>,
    ranges: RangeDeletions,
    rows_bytes: usize,
}

impl MemtablePartition {
    /// Bytes held, near enough.
    pub fn size_bytes(&self) -> usize {
        self.rows_bytes + self.ranges.len() * RANGE_OVERHEAD_BYTES
    }

    /// The deletion of the whole partition.
    pub fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    /// Count of rows, deleted ones too.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Merges an update; its bytes are copied (S2).
    pub(super) fn merge(
        &mut self,
        mut update: Partition,
        order: &Arc<ClusteringOrder>,
        table: &TableMetadata,
    ) {
        copy_values(&mut update);
        self.deletion = self.deletion.max(update.deletion);
        if !update.static_row.is_empty() {
            self.rows_bytes = self.rows_bytes.saturating_sub(row_bytes(&self.static_row));
            self.static_row.merge(update.static_row, table);
            self.rows_bytes += row_bytes(&self.static_row);
        }
        let mut open: Option<(ClusteringBound, DeletionTime)> = None;
        for unfiltered in update.unfiltereds {
            match unfiltered {
                Unfiltered::Row(row) => self.merge_row(row, order, table),
                Unfiltered::Marker(marker) => {
                    if let Some((start, deletion)) = open.take() {
                        let (start, end) = (
                            Position::of_bound(&start, order),
                            Position::of_bound(&marker.bound, order),
                        );
                        self.ranges.add(start, end, deletion);
                    }
                    open = marker.start.map(|deletion| (marker.bound, deletion));
                }
            }
        }
    }

    fn merge_row(&mut self, mut row: Row, order: &Arc<ClusteringOrder>, table: &TableMetadata) {
        let place = Position::of_row(std::mem::take(&mut row.clustering), order);
        match self.rows.entry(place) {
            btree_map::Entry::Vacant(vacant) => {
                let clustering: usize =
                    vacant.key().values().iter().flatten().map(Bytes::len).sum();
                self.rows_bytes += ROW_OVERHEAD_BYTES + clustering + row_bytes(&row);
                vacant.insert(row);
            }
            btree_map::Entry::Occupied(mut occupied) => {
                let present = occupied.get_mut();
                self.rows_bytes = self.rows_bytes.saturating_sub(row_bytes(present));
                present.merge(row, table);
                self.rows_bytes += row_bytes(present);
            }
        }
    }

    /// What a filter asks for, read as it is wanted.
    pub(super) fn read<'a, E: 'a>(
        &'a self,
        key: &DecoratedKey,
        filter: &'a ClusteringFilter,
        columns: &'a ColumnFilter,
        order: &'a Arc<ClusteringOrder>,
    ) -> PartitionSource<'a, E> {
        let mut static_row = copy_row(&self.static_row, columns);
        static_row.shadow(self.deletion);
        let reversed = filter.is_reversed();
        let slices = match filter {
            ClusteringFilter::Slices { slices, .. } => slices.len(),
            ClusteringFilter::Names { clusterings, .. } => clusterings.len(),
        };
        let rows = Reading {
            partition: self,
            order,
            filter,
            columns,
            reversed,
            left: 0..slices,
            rows: btree_map::Range::default(),
            head: None,
            markers: None,
            open: DeletionTime::LIVE,
        };
        PartitionSource {
            key: key.clone(),
            deletion: self.deletion,
            static_row,
            reversed,
            unfiltereds: Box::new(rows.map(Ok)),
        }
    }
}

/// The rows and markers of the slices or names of a filter.
struct Reading<'a> {
    partition: &'a MemtablePartition,
    order: &'a Arc<ClusteringOrder>,
    filter: &'a ClusteringFilter,
    columns: &'a ColumnFilter,
    reversed: bool,
    /// Slices (or names) not yet begun.
    left: std::ops::Range<usize>,
    rows: btree_map::Range<'a, Position, Row>,
    head: Option<(&'a Position, &'a Row)>,
    markers: Option<Peekable<Markers<'a>>>,
    /// The range deletion in force.
    open: DeletionTime,
}

impl<'a> Reading<'a> {
    fn next_row(&mut self) -> Option<(&'a Position, &'a Row)> {
        if self.reversed {
            self.rows.next_back()
        } else {
            self.rows.next()
        }
    }

    /// Begins the next slice; `false` when none is left.
    fn begin_slice(&mut self) -> bool {
        let next = if self.reversed {
            self.left.next_back()
        } else {
            self.left.next()
        };
        let Some(at) = next else { return false };
        let owned;
        let slice = match self.filter {
            ClusteringFilter::Slices { slices, .. } => &slices[at],
            ClusteringFilter::Names { clusterings, .. } => {
                let bound = |kind| ClusteringBound {
                    kind,
                    values: clusterings[at].0.clone(),
                };
                owned = Slice {
                    start: bound(PrefixKind::InclusiveStart),
                    end: bound(PrefixKind::InclusiveEnd),
                };
                &owned
            }
        };
        let (start, end) = (
            Position::of_bound(&slice.start, self.order),
            Position::of_bound(&slice.end, self.order),
        );
        if start >= end {
            return true;
        }
        self.rows = self
            .partition
            .rows
            .range((Bound::Excluded(start), Bound::Excluded(end)));
        self.head = self.next_row();
        self.markers = (!self.partition.ranges.is_empty()).then(|| {
            self.partition
                .ranges
                .slice(slice, self.order, self.reversed)
                .peekable()
        });
        self.open = DeletionTime::LIVE;
        true
    }

    fn take_marker(&mut self) -> Option<Unfiltered> {
        let place = &self.markers.as_mut()?.peek()?.0;
        if let Some((row, _)) = self.head {
            let order = row.cmp(place);
            if order.is_lt() != self.reversed {
                return None;
            }
        }
        let (_, marker) = self.markers.as_mut()?.next()?;
        self.open = marker.opens(self.reversed).unwrap_or_default();
        Some(Unfiltered::Marker(marker))
    }

    fn take_row(&mut self) -> Option<Row> {
        let (place, row) = self.head.take()?;
        self.head = self.next_row();
        let mut row = copy_row(row, self.columns);
        row.clustering = Clustering(place.values().to_vec());
        row.shadow(self.partition.deletion.max(self.open));
        Some(row)
    }
}

impl Iterator for Reading<'_> {
    type Item = Unfiltered;

    fn next(&mut self) -> Option<Unfiltered> {
        loop {
            if let Some(marker) = self.take_marker() {
                return Some(marker);
            }
            match self.take_row() {
                Some(row) if row.is_empty() => {}
                Some(row) => return Some(Unfiltered::Row(row)),
                None if self.begin_slice() => {}
                None => return None,
            }
        }
    }
}

/// A row with the columns that are fetched.
fn copy_row(row: &Row, columns: &ColumnFilter) -> Row {
    match columns {
        ColumnFilter::All { .. } => row.clone(),
        ColumnFilter::Selected(_) => Row {
            clustering: row.clustering.clone(),
            liveness: row.liveness,
            deletion: row.deletion,
            columns: row
                .columns
                .iter()
                .filter(|(id, _)| columns.fetches(*id))
                .cloned()
                .collect(),
        },
    }
}

fn cell_bytes(cell: &Cell) -> usize {
    CELL_OVERHEAD_BYTES + cell.value.len() + cell.path.as_ref().map_or(0, Bytes::len)
}

fn row_bytes(row: &Row) -> usize {
    row.columns
        .iter()
        .flat_map(|(_, data)| data.cells())
        .map(cell_bytes)
        .sum()
}

/// Moves every value of an update into one allocation of its own.
fn copy_values(update: &mut Partition) {
    let mut total = 0;
    visit_values(update, &mut |bytes| total += bytes.len());
    let mut buffer = BytesMut::with_capacity(total);
    visit_values(update, &mut |bytes| {
        if !bytes.is_empty() {
            buffer.extend_from_slice(bytes);
            *bytes = buffer.split().freeze();
        }
    });
}

fn visit_values(update: &mut Partition, visit: &mut impl FnMut(&mut Bytes)) {
    visit_row(&mut update.static_row, visit);
    for unfiltered in &mut update.unfiltereds {
        match unfiltered {
            Unfiltered::Row(row) => visit_row(row, visit),
            Unfiltered::Marker(marker) => marker
                .bound
                .values
                .iter_mut()
                .flatten()
                .for_each(&mut *visit),
        }
    }
}

fn visit_row(row: &mut Row, visit: &mut impl FnMut(&mut Bytes)) {
    row.clustering.0.iter_mut().flatten().for_each(&mut *visit);
    for (_, data) in &mut row.columns {
        let cells = match data {
            ColumnData::Simple(cell) => std::slice::from_mut(cell),
            ColumnData::Complex(complex) => complex.cells.as_mut_slice(),
        };
        for cell in cells {
            visit(&mut cell.value);
            cell.path.iter_mut().for_each(&mut *visit);
        }
    }
}
