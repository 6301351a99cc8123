//! What a read leaves out: rows past its limits, and tombstones that nobody needs any more.

use crate::cell::{Cell, ColumnData};
use crate::command::{ClusteringFilter, DataLimits, ReadCommand, ReadKind};
use crate::deletion::{DeletionTime, LivenessInfo, NO_TTL};
use crate::partition::{RangeTombstoneMarker, Unfiltered};
use crate::row::Row;
use crate::source::PartitionSource;
use bytes::Bytes;
use helenus_types::{NowInSeconds, TimestampMicros};

/// Counts live rows against [`DataLimits`] over the partitions of one read.
#[derive(Debug, Clone)]
pub struct LimitCounter {
    limits: DataLimits,
    now: NowInSeconds,
    rows: u32,
    in_partition: u32,
    static_live: bool,
    first: bool,
    counts_static: CountsStatic,
}

/// Whether a partition with static values alone counts as a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountsStatic {
    Always,
    /// Not in the first partition: earlier pages returned its rows, and so its static values.
    AfterFirst,
    Never,
}

impl LimitCounter {
    /// A counter for a command. Static values alone count as a row only where whole partitions are
    /// asked for, and never again in a partition that the read goes on in.
    pub fn of(command: &ReadCommand) -> Self {
        let (filter, resumed) = match &command.kind {
            ReadKind::Partition { filter, .. } => (filter, false),
            ReadKind::Range(range) => (&range.filter, range.resume_after.is_some()),
        };
        let whole = match filter {
            ClusteringFilter::Slices { slices, .. } => slices
                .iter()
                .any(|slice| slice.start.values.is_empty() && slice.end.values.is_empty()),
            ClusteringFilter::Names { .. } => false,
        };
        let counts_static = if !whole || command.row_filter.is_about_rows(&command.table) {
            CountsStatic::Never
        } else if resumed {
            CountsStatic::AfterFirst
        } else {
            CountsStatic::Always
        };
        Self {
            counts_static,
            ..Self::new(command.limits, command.now_in_seconds)
        }
    }

    /// A counter for a read whose TTLs are judged at `now`.
    pub fn new(limits: DataLimits, now: NowInSeconds) -> Self {
        Self {
            limits,
            now,
            rows: 0,
            in_partition: 0,
            static_live: false,
            first: true,
            counts_static: CountsStatic::Always,
        }
    }

    /// A partition with this static row begins.
    pub fn begin_partition(&mut self, static_row: &Row) {
        self.in_partition = if self.first {
            self.limits.first_partition_returned
        } else {
            0
        };
        let counts = match self.counts_static {
            CountsStatic::Always => true,
            CountsStatic::AfterFirst => !self.first,
            CountsStatic::Never => false,
        };
        self.first = false;
        self.static_live = counts && static_row.is_live(self.now);
    }

    /// The next partition is not the one that earlier pages returned rows of.
    pub fn forget_first_partition(&mut self) {
        self.first = false;
    }

    /// Counts a row that the read returns.
    pub fn row(&mut self, row: &Row) {
        if row.is_live(self.now) {
            self.rows = self.rows.saturating_add(1);
            self.in_partition = self.in_partition.saturating_add(1);
        }
    }

    /// Whether no more rows of this partition are wanted.
    pub fn is_partition_done(&self) -> bool {
        let per_partition = if self.limits.distinct {
            1
        } else {
            self.limits.per_partition
        };
        self.is_done()
            || self.in_partition >= per_partition
            || (self.limits.distinct && self.static_live)
    }

    /// The partition ended: a live static row without any row counts as one.
    pub fn end_partition(&mut self) {
        if self.in_partition == 0 && self.static_live {
            self.rows = self.rows.saturating_add(1);
        }
    }

    /// Whether no more rows at all are wanted.
    pub fn is_done(&self) -> bool {
        self.rows >= self.limits.rows
    }

    /// Live rows counted so far.
    pub fn counted(&self) -> u32 {
        self.rows
    }
}

/// Drops tombstones and expired data that are older than `gc_before` and cannot hide anything: only
/// what was written before `max_purgeable` (the oldest timestamp that might be elsewhere) is dropped.
#[derive(Debug, Clone, Copy)]
pub struct Purger {
    /// The time at which expiry is judged.
    pub now: NowInSeconds,
    /// Tombstones made at or after this time stay.
    pub gc_before: NowInSeconds,
    /// Tombstones with this timestamp or a newer one stay.
    pub max_purgeable: TimestampMicros,
}

impl Purger {
    /// Drops every tombstone and all expired data: what a client sees at `now`.
    pub fn everything(now: NowInSeconds) -> Self {
        Self {
            now,
            gc_before: NowInSeconds::MAX,
            max_purgeable: TimestampMicros::MAX,
        }
    }

    fn purges(&self, timestamp: TimestampMicros, local_deletion_time: NowInSeconds) -> bool {
        local_deletion_time < self.gc_before && timestamp < self.max_purgeable
    }

    /// The deletion, or LIVE when it is dropped.
    #[must_use]
    pub fn deletion(&self, deletion: DeletionTime) -> DeletionTime {
        if self.purges(deletion.marked_for_delete_at, deletion.local_deletion_time) {
            DeletionTime::LIVE
        } else {
            deletion
        }
    }

    fn cell(&self, mut cell: Cell) -> Option<Cell> {
        if cell.is_live(self.now) {
            return Some(cell);
        }
        if self.purges(cell.timestamp, cell.local_deletion_time) {
            return None;
        }
        if cell.is_expiring() {
            // an expired cell is a tombstone made when the value was written
            cell.local_deletion_time -= i64::from(cell.ttl);
            cell.ttl = NO_TTL;
            cell.value = Bytes::new();
            if self.purges(cell.timestamp, cell.local_deletion_time) {
                return None;
            }
        }
        Some(cell)
    }

    /// What is left of a row; it may be empty.
    #[must_use]
    pub fn row(&self, mut row: Row) -> Row {
        row.deletion = self.deletion(row.deletion);
        if !row.liveness.is_live(self.now)
            && self.purges(row.liveness.timestamp, row.liveness.local_expiration_time)
        {
            row.liveness = LivenessInfo::EMPTY;
        }
        row.columns = row
            .columns
            .into_iter()
            .filter_map(|(id, data)| match data {
                ColumnData::Simple(cell) => {
                    self.cell(cell).map(|cell| (id, ColumnData::Simple(cell)))
                }
                ColumnData::Complex(mut complex) => {
                    complex.deletion = self.deletion(complex.deletion);
                    complex.cells = complex
                        .cells
                        .into_iter()
                        .filter_map(|cell| self.cell(cell))
                        .collect();
                    let kept = !complex.cells.is_empty() || !complex.deletion.is_live();
                    kept.then_some((id, ColumnData::Complex(complex)))
                }
            })
            .collect();
        row
    }

    /// What is left of a marker.
    #[must_use]
    pub fn marker(&self, marker: RangeTombstoneMarker) -> Option<RangeTombstoneMarker> {
        let left = |side: Option<DeletionTime>| self.deletion(side.unwrap_or_default());
        let early = marker.bound.kind.against_clustering().is_lt();
        RangeTombstoneMarker::between(
            marker.bound.values,
            early,
            left(marker.end),
            left(marker.start),
            false,
        )
    }

    /// What is left of a row or marker.
    #[must_use]
    pub fn unfiltered(&self, unfiltered: Unfiltered) -> Option<Unfiltered> {
        match unfiltered {
            Unfiltered::Row(row) => Some(self.row(row))
                .filter(|row| !row.is_empty())
                .map(Unfiltered::Row),
            Unfiltered::Marker(marker) => self.marker(marker).map(Unfiltered::Marker),
        }
    }

    /// A partition with everything droppable dropped as it is read.
    #[must_use]
    pub fn source<'a, E: 'a>(self, mut source: PartitionSource<'a, E>) -> PartitionSource<'a, E> {
        source.deletion = self.deletion(source.deletion);
        source.static_row = self.row(source.static_row);
        let unfiltereds = source.unfiltereds;
        source.unfiltereds = Box::new(unfiltereds.filter_map(move |item| {
            item.map(|unfiltered| self.unfiltered(unfiltered))
                .transpose()
        }));
        source
    }
}
