//! Reads of one shard.

use super::Engine;
use super::table::{TableStore, row_size, unfiltered_size};
use crate::error::{ReadError, TableError};
use crate::memtable::Memtable;
use crate::scan::{MemtableScan, MergedScan, Scan};
use helenus_rows::clustering::PrefixKind;
use helenus_rows::command::ResumeAfter;
use helenus_rows::{
    ClusteringBound, ClusteringFilter, ColumnData, DataRange, DeletionTime, LimitCounter,
    Partition, PartitionPosition, PartitionSource, Purger, RangeTombstoneMarker, ReadCommand,
    ReadKind, Row, Slice, Unfiltered, merge_sources,
};
use helenus_schema::{ColumnKind, TableId, TableMetadata};
use helenus_types::{DecoratedKey, NowInSeconds, TimestampMicros};
use std::sync::Arc;

/// What a read found.
#[derive(Debug, Clone, Default)]
pub struct ReadOutcome {
    /// Partitions in order, tombstones that may matter to other replicas included.
    pub partitions: Vec<Partition>,
    /// Live rows in them, as limits count them.
    pub live_rows: u32,
    /// Tombstones that were passed.
    pub tombstones_scanned: u64,
    /// More than `tombstone_warn_threshold` of them.
    pub tombstone_warning: bool,
    /// Whether a limit stopped the read, so that there may be more.
    pub limit_reached: bool,
    /// SSTables that were asked.
    pub sstables_read: u32,
}

/// A part of a table for a node that takes it over.
#[derive(Debug, Clone, Default)]
pub struct ScanChunk {
    /// Partitions in order with all their tombstones.
    pub partitions: Vec<Partition>,
    /// Where the next chunk starts; `None` when this was the last.
    pub next: Option<PartitionPosition>,
}

/// What one read keeps count of.
struct Tally<'c> {
    command: &'c ReadCommand,
    counter: LimitCounter,
    tombstones: u64,
    failure_threshold: u64,
    bytes: usize,
    bytes_limit: usize,
}

impl Tally<'_> {
    fn tombstone(&mut self, count: u64) -> Result<(), ReadError> {
        self.tombstones += count;
        if self.tombstones > self.failure_threshold {
            let (keyspace, table) = (
                self.command.table.keyspace.clone(),
                self.command.table.name.clone(),
            );
            return Err(ReadError::TooManyTombstones {
                scanned: self.tombstones,
                keyspace,
                table,
            });
        }
        Ok(())
    }

    fn size(&mut self, bytes: usize) -> Result<(), ReadError> {
        self.bytes += bytes;
        if self.bytes > self.bytes_limit {
            Err(ReadError::TooLarge {
                limit: self.bytes_limit,
            })
        } else {
            Ok(())
        }
    }

    /// Counts dead cells; a row that is nothing but deleted counts as one.
    fn row_tombstones(&mut self, row: &Row) -> Result<(), ReadError> {
        let now = self.command.now_in_seconds;
        let cells = row.columns.iter().flat_map(|(_, data)| data.cells());
        let dead = cells.filter(|cell| !cell.is_live(now)).count() as u64;
        let only_deleted = dead == 0 && !row.is_live(now) && !row.is_empty();
        self.tombstone(dead + u64::from(only_deleted))
    }

    /// Reads a partition as far as limits allow.
    fn read(&mut self, mut source: PartitionSource<'_, ReadError>) -> Result<Partition, ReadError> {
        let table = &*self.command.table;
        let purger = purger(table, self.command.now_in_seconds);
        self.row_tombstones(&source.static_row)?;
        let mut partition = Partition::new(source.key);
        partition.deletion = purger.deletion(source.deletion);
        partition.static_row = purger.row(source.static_row);
        self.size(row_size(&partition.static_row) + partition.key.key.len())?;
        let filter = &self.command.row_filter;
        let now = self.command.now_in_seconds;
        if !filter.matches_partition(table, &partition.key, &partition.static_row, now) {
            // neither rows nor static values alone are an answer; the latter still merge with other replicas'
            self.counter.forget_first_partition();
            return Ok(partition);
        }
        self.counter.begin_partition(&partition.static_row);
        let mut open = DeletionTime::LIVE;
        let mut last = None;
        while !self.counter.is_partition_done() {
            let Some(item) = source.unfiltereds.next() else {
                break;
            };
            let item = item?;
            match &item {
                Unfiltered::Row(row) => self.row_tombstones(row)?,
                Unfiltered::Marker(_) => self.tombstone(1)?,
            }
            let Some(unfiltered) = purger.unfiltered(item) else {
                continue;
            };
            match &unfiltered {
                Unfiltered::Row(row) => {
                    if row.is_live(now)
                        && !filter.matches(table, &partition.key, &partition.static_row, row, now)
                    {
                        continue;
                    }
                    self.counter.row(row);
                    last = Some(row.clustering.clone());
                }
                Unfiltered::Marker(marker) => {
                    open = marker.opens(source.reversed).unwrap_or_default();
                }
            }
            self.size(unfiltered_size(&unfiltered))?;
            partition.unfiltereds.push(unfiltered);
        }
        if let Some(last) = last.filter(|_| !open.is_live()) {
            // a limit cut the range off: it is known as far as the last row
            let close = RangeTombstoneMarker::between(
                last.0,
                source.reversed,
                open,
                DeletionTime::LIVE,
                source.reversed,
            );
            partition.unfiltereds.extend(close.map(Unfiltered::Marker));
        }
        self.counter.end_partition();
        Ok(partition)
    }
}

impl Engine {
    /// Reads what this shard has of a command.
    pub fn read(&mut self, command: &ReadCommand) -> Result<ReadOutcome, ReadError> {
        check_filter(command)?;
        let id = command.table.id;
        let store = self.tables.get(&id).ok_or(ReadError::UnknownTable(id))?;
        let local = matches!(command.table.keyspace.as_str(), "system" | "system_schema");
        let mut tally = Tally {
            command,
            counter: LimitCounter::of(command),
            tombstones: 0,
            failure_threshold: if local {
                u64::MAX
            } else {
                self.settings.tombstone_failure_threshold
            },
            bytes: 0,
            bytes_limit: self.settings.read_size_limit_bytes,
        };
        let mut outcome = ReadOutcome::default();
        let result = match &command.kind {
            ReadKind::Partition { key, filter } => {
                read_partition(store, &mut tally, key, filter, &mut outcome)
            }
            ReadKind::Range(range) => read_range(store, &mut tally, range, &mut outcome),
        };
        self.metrics.reads += 1;
        self.metrics.tombstones_scanned += tally.tombstones;
        outcome.tombstones_scanned = tally.tombstones;
        outcome.live_rows = tally.counter.counted();
        outcome.limit_reached = tally.counter.is_done();
        outcome.tombstone_warning =
            !local && tally.tombstones > self.settings.tombstone_warn_threshold;
        if let Some(store) = self.tables.get_mut(&id) {
            store.metrics.reads += 1;
            store.metrics.tombstones_scanned += outcome.tombstones_scanned;
            store.metrics.sstables_read += u64::from(outcome.sstables_read);
        }
        if let Err(ReadError::Table(error)) = &result {
            self.report_damage(&command.table, error);
        }
        result.map(|()| outcome)
    }

    /// Counts a read that a damaged file made fail; the log names each file once.
    fn report_damage(&mut self, table: &TableMetadata, error: &TableError) {
        if let TableError::Damaged { path, .. } = error {
            self.metrics.corrupt_reads += 1;
            if self.damaged.insert(path.clone()) {
                let (keyspace, table) = (&table.keyspace, &table.name);
                tracing::error!(
                    keyspace, table, %error,
                    "a read met a damaged SSTable and failed; so will each that needs this part of it: \
                     take the SSTable away while the node is stopped, then repair the table"
                );
            }
        }
    }

    /// Reads about `max_bytes` of a range with every tombstone, for streaming; a partition is never cut.
    pub fn scan_range(
        &self,
        table: TableId,
        range: &DataRange,
        max_bytes: usize,
    ) -> Result<ScanChunk, ReadError> {
        let store = self
            .tables
            .get(&table)
            .ok_or(ReadError::UnknownTable(table))?;
        let columns = helenus_rows::ColumnFilter::All {
            queried: Vec::new(),
        };
        let mut scan = open_scan(store, range)?;
        let mut chunk = ScanChunk::default();
        let mut bytes = 0;
        while let Some(key) = scan.next_key()? {
            if bytes >= max_bytes {
                chunk.next = Some(PartitionPosition::Key {
                    key,
                    inclusive: true,
                });
                break;
            }
            if let Some(source) = scan.take(&key, &store.table, &range.filter, &columns)? {
                let partition = source.collect()?;
                bytes += key.key.len() + row_size(&partition.static_row);
                bytes += partition
                    .unfiltereds
                    .iter()
                    .map(unfiltered_size)
                    .sum::<usize>();
                chunk.partitions.push(partition);
            }
        }
        Ok(chunk)
    }
}

fn check_filter(command: &ReadCommand) -> Result<(), ReadError> {
    command
        .row_filter
        .unsupported()
        .map_or(Ok(()), |what| Err(ReadError::UnsupportedFilter(what)))
}

/// The purge of what no replica needs any more, so that replicas agree whether or not they compacted.
fn purger(table: &TableMetadata, now: NowInSeconds) -> Purger {
    let gc_before = now.saturating_sub(i64::from(table.params.gc_grace_seconds));
    Purger {
        now,
        gc_before,
        max_purgeable: TimestampMicros::MAX,
    }
}

/// A memtable written under another form of the table: columns that are not the same are left out.
fn as_of<'a>(
    memtable: &'a Memtable,
    table: &'a Arc<TableMetadata>,
    mut source: PartitionSource<'a, ReadError>,
) -> PartitionSource<'a, ReadError> {
    if Arc::ptr_eq(memtable.table(), table) {
        return source;
    }
    let keep = move |row: &mut Row| {
        row.columns.retain(|(id, _)| {
            let (then, now) = (memtable.table().column_by_id(*id), table.column_by_id(*id));
            then.zip(now)
                .is_some_and(|(then, now)| then.name == now.name)
        });
    };
    keep(&mut source.static_row);
    let unfiltereds = source.unfiltereds;
    source.unfiltereds = Box::new(unfiltereds.map(move |item| {
        item.map(|mut unfiltered| {
            if let Unfiltered::Row(row) = &mut unfiltered {
                keep(row);
            }
            unfiltered
        })
    }));
    source
}

fn read_partition(
    store: &TableStore,
    tally: &mut Tally<'_>,
    key: &DecoratedKey,
    filter: &ClusteringFilter,
    outcome: &mut ReadOutcome,
) -> Result<(), ReadError> {
    let command = tally.command;
    let table = &*command.table;
    let mut sources = Vec::with_capacity(2 + store.flushing.len());
    for memtable in store.memtables() {
        if let Some(source) = memtable.read(key, filter, &command.columns) {
            sources.push(as_of(memtable, &command.table, source));
        }
    }
    let by_name =
        matches!(filter, ClusteringFilter::Names { .. }) && can_stop_early(table, command);
    for sstable in &store.sstables {
        let deletion = sources
            .iter()
            .map(|source| source.deletion)
            .fold(DeletionTime::LIVE, DeletionTime::max);
        if !deletion.is_live() && sstable.max_timestamp() < deletion.marked_for_delete_at {
            break; // this one and all after it hold only what is deleted
        }
        if !sstable.may_contain(key) {
            continue;
        }
        if by_name && !sources.is_empty() {
            let reversed = filter.is_reversed();
            let Some(known) = merge_sources(table, std::mem::take(&mut sources)) else {
                break;
            };
            let known = known.collect()?;
            let enough = is_complete(&known, filter, command, sstable.max_timestamp());
            sources.push(PartitionSource::of(known, reversed));
            if enough {
                break;
            }
        }
        outcome.sstables_read += 1;
        sources.extend(sstable.read(key, filter, &command.columns)?);
    }
    if let Some(merged) = merge_sources(table, sources) {
        let partition = tally.read(merged)?;
        if !partition.is_empty() {
            outcome.partitions.push(partition);
        }
    }
    Ok(())
}

/// Whether newer cells alone can answer: no counters, no multi-cell columns.
fn can_stop_early(table: &TableMetadata, command: &ReadCommand) -> bool {
    let fetched = |kind| {
        table
            .columns()
            .iter()
            .filter(move |column| column.kind == kind)
    };
    !table.is_counter()
        && [ColumnKind::Regular, ColumnKind::Static]
            .into_iter()
            .flat_map(fetched)
            .all(|column| !(column.cql_type.is_multi_cell() && command.columns.fetches(column.id)))
}

/// Whether sources with nothing newer than `timestamp` cannot change any row asked for by name.
fn is_complete(
    known: &Partition,
    filter: &ClusteringFilter,
    command: &ReadCommand,
    timestamp: TimestampMicros,
) -> bool {
    let ClusteringFilter::Names { clusterings, .. } = filter else {
        return false;
    };
    let table = &*command.table;
    let newer = |row: &Row, columns: &[helenus_schema::Column]| {
        columns.iter().filter(|column| command.columns.fetches(column.id)).all(|column| {
            matches!(row.column(column.id), Some(ColumnData::Simple(cell)) if cell.timestamp > timestamp)
        })
    };
    let complete = |row: &Row| {
        row.deletion.marked_for_delete_at > timestamp
            || (row.liveness.timestamp > timestamp && newer(row, table.regular_columns()))
    };
    newer(&known.static_row, table.static_columns())
        && clusterings.iter().all(|wanted| {
            known
                .rows()
                .any(|row| row.clustering.compare(wanted, table).is_eq() && complete(row))
        })
}

fn open_scan<'a>(
    store: &'a TableStore,
    range: &'a DataRange,
) -> Result<MergedScan<'a>, TableError> {
    let mut scans: Vec<Box<dyn Scan + 'a>> = Vec::new();
    for memtable in store.memtables().filter(|memtable| !memtable.is_empty()) {
        scans.push(Box::new(MemtableScan::new(memtable, range)));
    }
    for sstable in store
        .sstables
        .iter()
        .filter(|sstable| sstable.intersects(range))
    {
        scans.push(sstable.scan(range)?);
    }
    Ok(MergedScan::new(scans))
}

fn read_range(
    store: &TableStore,
    tally: &mut Tally<'_>,
    range: &DataRange,
    outcome: &mut ReadOutcome,
) -> Result<(), ReadError> {
    let command = tally.command;
    let table = &*command.table;
    let resumed = range
        .resume_after
        .as_ref()
        .map(|resume| resumed(&range.filter, resume, table));
    let mut scan = open_scan(store, range)?;
    outcome.sstables_read = u32::try_from(store.sstables.len()).unwrap_or(u32::MAX);
    while let Some(key) = scan.next_key()? {
        let first =
            matches!(&range.start, PartitionPosition::Key { key: start, .. } if *start == key);
        let filter = resumed.as_ref().filter(|_| first).unwrap_or(&range.filter);
        let Some(source) = scan.take(&key, table, filter, &command.columns)? else {
            continue;
        };
        if !first && command.limits.first_partition_returned > 0 {
            tally.counter.forget_first_partition();
        }
        let partition = tally.read(source)?;
        if !partition.is_empty() {
            outcome.partitions.push(partition);
        }
        if tally.counter.is_done() {
            break;
        }
    }
    Ok(())
}

/// A filter without the rows that earlier pages returned.
fn resumed(
    filter: &ClusteringFilter,
    resume: &ResumeAfter,
    table: &TableMetadata,
) -> ClusteringFilter {
    let reversed = filter.is_reversed();
    match filter {
        ClusteringFilter::Names { clusterings, .. } => {
            let after = |row: &helenus_rows::Clustering| {
                let order = row.compare(&resume.clustering, table);
                let order = if reversed { order.reverse() } else { order };
                order.is_gt() || (resume.inclusive && order.is_eq())
            };
            let clusterings = clusterings
                .iter()
                .filter(|row| after(row))
                .cloned()
                .collect();
            ClusteringFilter::Names {
                clusterings,
                reversed,
            }
        }
        ClusteringFilter::Slices { slices, .. } => {
            let kind = match (reversed, resume.inclusive) {
                (false, true) => PrefixKind::InclusiveStart,
                (false, false) => PrefixKind::ExclusiveStart,
                (true, true) => PrefixKind::InclusiveEnd,
                (true, false) => PrefixKind::ExclusiveEnd,
            };
            let bound = ClusteringBound {
                kind,
                values: resume.clustering.0.clone(),
            };
            let cut = |slice: &Slice| {
                let mut slice = slice.clone();
                if reversed && bound.compare(&slice.end, table).is_lt() {
                    slice.end = bound.clone();
                } else if !reversed && bound.compare(&slice.start, table).is_gt() {
                    slice.start = bound.clone();
                }
                slice
                    .start
                    .compare(&slice.end, table)
                    .is_lt()
                    .then_some(slice)
            };
            ClusteringFilter::Slices {
                slices: slices.iter().filter_map(cut).collect(),
                reversed,
            }
        }
    }
}
