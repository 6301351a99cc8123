//! Collects what Statistics.db says while an SSTable is written (Cassandra's `MetadataCollector`).

use crate::histogram::{Cardinality, EstimatedHistogram, TombstoneHistogram};
use crate::statistics::Stats;
use bytes::Bytes;
use helenus_rows::clustering::{PrefixKind, compare_prefixes};
use helenus_rows::deletion::NO_DELETION_TIME;
use helenus_rows::{
    Cell, ClusteringBound, ColumnData, DeletionTime, LivenessInfo, RangeTombstoneMarker, Row,
    Slice, Unfiltered,
};
use helenus_schema::{Column, TableMetadata};
use helenus_types::{NowInSeconds, TimestampMicros};
use std::sync::Arc;

type Prefix = (PrefixKind, Vec<Option<Bytes>>);

/// Running statistics.
pub(crate) struct Collector {
    table: Arc<TableMetadata>,
    partition_sizes: EstimatedHistogram,
    cells_per_partition: EstimatedHistogram,
    cells: u64,
    timestamps: Option<(TimestampMicros, TimestampMicros)>,
    deletion_times: Option<(NowInSeconds, NowInSeconds)>,
    ttls: Option<(i32, i32)>,
    tombstone_times: TombstoneHistogram,
    least: Option<Prefix>,
    greatest: Option<Prefix>,
    columns: i64,
    rows: i64,
    has_partition_deletions: bool,
    /// Estimate of the count of keys.
    pub cardinality: Cardinality,
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, value: T) {
    *range = Some(range.map_or((value, value), |(low, high)| {
        (low.min(value), high.max(value))
    }));
}

impl Collector {
    /// Nothing collected.
    pub(crate) fn new(table: Arc<TableMetadata>) -> Self {
        Self {
            table,
            partition_sizes: EstimatedHistogram::of_sizes(),
            cells_per_partition: EstimatedHistogram::of_counts(),
            cells: 0,
            timestamps: None,
            deletion_times: None,
            ttls: None,
            tombstone_times: TombstoneHistogram::default(),
            least: None,
            greatest: None,
            columns: 0,
            rows: 0,
            has_partition_deletions: false,
            cardinality: Cardinality::default(),
        }
    }

    fn seconds(&mut self, seconds: NowInSeconds) {
        widen(&mut self.deletion_times, seconds);
        if seconds != NO_DELETION_TIME {
            self.tombstone_times.add(seconds);
        }
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            widen(&mut self.timestamps, deletion.marked_for_delete_at);
            self.seconds(deletion.local_deletion_time);
        }
    }

    fn liveness(&mut self, liveness: &LivenessInfo) {
        if !liveness.is_empty() {
            widen(&mut self.timestamps, liveness.timestamp);
            widen(&mut self.ttls, liveness.ttl);
            self.seconds(liveness.local_expiration_time);
        }
    }

    fn cell(&mut self, cell: &Cell) {
        self.cells += 1;
        widen(&mut self.timestamps, cell.timestamp);
        widen(&mut self.ttls, cell.ttl);
        self.seconds(cell.local_deletion_time);
    }

    /// A partition starts.
    pub(crate) fn start_partition(&mut self, key: &[u8], deletion: DeletionTime) {
        self.cardinality.add(key);
        self.has_partition_deletions |= !deletion.is_live();
        self.deletion(deletion);
    }

    /// A row, or a static row that is not empty.
    pub(crate) fn row(&mut self, row: &Row) {
        self.liveness(&row.liveness);
        self.deletion(row.deletion);
        for (_, data) in &row.columns {
            if let ColumnData::Complex(complex) = data {
                self.deletion(complex.deletion);
            }
            for cell in data.cells() {
                self.cell(cell);
            }
        }
        // A multi-cell column that is only deleted is not counted.
        let with_cells = row
            .columns
            .iter()
            .filter(|(_, data)| !data.cells().is_empty())
            .count();
        self.columns += i64::try_from(with_cells).unwrap_or(0);
        self.rows += 1;
    }

    fn marker(&mut self, marker: &RangeTombstoneMarker) {
        for deletion in marker.end.iter().chain(&marker.start) {
            self.deletion(*deletion);
        }
    }

    /// A row or marker.
    pub(crate) fn unfiltered(&mut self, unfiltered: &Unfiltered) {
        let (kind, values) = unfiltered.prefix();
        if !kind.is_boundary() {
            self.cover(kind, values);
        }
        match unfiltered {
            Unfiltered::Row(row) => self.row(row),
            Unfiltered::Marker(marker) => self.marker(marker),
        }
    }

    fn cover(&mut self, kind: PrefixKind, values: &[Option<Bytes>]) {
        let columns: &[Column] = self.table.clustering();
        let beyond = |bound: &Option<Prefix>, less: bool| {
            bound.as_ref().is_none_or(|(bound_kind, bound_values)| {
                let order = compare_prefixes(kind, values, *bound_kind, bound_values, columns);
                if less { order.is_lt() } else { order.is_gt() }
            })
        };
        // Every open range is closed, so that a start is never the greatest, an end never the least.
        if !kind.is_end() && beyond(&self.least, true) {
            self.least = Some((kind, values.to_vec()));
        }
        if !kind.is_start() && beyond(&self.greatest, false) {
            self.greatest = Some((kind, values.to_vec()));
        }
    }

    /// A partition of this size ends.
    pub(crate) fn end_partition(&mut self, size_bytes: u64) {
        self.partition_sizes.add(size_bytes);
        self.cells_per_partition
            .add(std::mem::take(&mut self.cells));
    }

    /// The slice that covers every row and marker.
    fn covered(&self) -> Slice {
        let bound =
            |prefix: &Option<Prefix>, of_row: PrefixKind, empty: ClusteringBound| match prefix {
                None => empty,
                Some((PrefixKind::Clustering, values)) => ClusteringBound {
                    kind: of_row,
                    values: values.clone(),
                },
                Some((kind, values)) => ClusteringBound {
                    kind: *kind,
                    values: values.clone(),
                },
            };
        // Nothing is covered by a slice from the top to the bottom, as Cassandra writes it.
        let nothing_start = ClusteringBound {
            kind: PrefixKind::ExclusiveStart,
            values: Vec::new(),
        };
        let nothing_end = ClusteringBound {
            kind: PrefixKind::ExclusiveEnd,
            values: Vec::new(),
        };
        Slice {
            start: bound(&self.least, PrefixKind::InclusiveStart, nothing_start),
            end: bound(&self.greatest, PrefixKind::InclusiveEnd, nothing_end),
        }
    }

    /// The statistics; what only the writer knows is left at its default.
    pub(crate) fn stats(self) -> Stats {
        let covered = self.covered();
        let (min_timestamp, max_timestamp) = self.timestamps.unwrap_or((i64::MIN, i64::MAX));
        let (min_seconds, max_seconds) = self
            .deletion_times
            .unwrap_or((NO_DELETION_TIME, NO_DELETION_TIME));
        let (min_ttl, max_ttl) = self.ttls.unwrap_or((0, 0));
        Stats {
            partition_sizes: self.partition_sizes,
            cells_per_partition: self.cells_per_partition,
            commit_log_intervals: Vec::new(),
            min_timestamp,
            max_timestamp,
            min_local_deletion_time: min_seconds,
            max_local_deletion_time: max_seconds,
            min_ttl,
            max_ttl,
            compression_ratio: -1.0,
            tombstone_times: self.tombstone_times,
            level: 0,
            repaired_at: crate::statistics::UNREPAIRED,
            clustering_types: Vec::new(),
            covered,
            has_legacy_counter_shards: false,
            total_columns: self.columns,
            total_rows: self.rows,
            pending_repair: None,
            is_transient: false,
            originating_host_id: None,
            has_partition_deletions: self.has_partition_deletions,
            first_key: Bytes::new(),
            last_key: Bytes::new(),
            token_space_coverage: f64::NAN,
        }
    }
}
