//! The engine against a model, on a simulated disk.

use crate::commitlog::{CommitLogSync, Stream};
use crate::{ApplyError, Engine, EngineSettings, OpenError, ReadError};
use bytes::Bytes;
use helenus_rows::{
    Cell, Clustering, ClusteringBound, ClusteringFilter, ColumnFilter, DataLimits, DataRange,
    DeletionTime, LivenessInfo, Mutation, Partition, PartitionUpdate, PrefixKind,
    RangeTombstoneMarker, ReadCommand, ReadKind, Row, RowFilter, Slice, Unfiltered,
};
use helenus_schema::{ColumnId, Keyspace, Replication, Schema, TableId, TableMetadata};
use helenus_seams::{Disk, Entropy, SeededEntropy, SimulatedClock, SimulatedDisk};
use helenus_types::{CqlType, DecoratedKey};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

mod faults;
mod files;

const NOW: i64 = 1_700_000_000;
const VALUE: &str = "v";

fn schema_of(names: &[&str]) -> Arc<Schema> {
    let mut keyspace = Keyspace::new("k", Replication::local());
    for (at, name) in names.iter().enumerate() {
        let table = TableMetadata::builder("k", *name, TableId(Uuid::from_u128(at as u128 + 1)))
            .partition_key("p", CqlType::Int)
            .clustering("c", CqlType::Int)
            .regular(VALUE, CqlType::Int)
            .regular("w", CqlType::Text);
        keyspace
            .tables
            .insert((*name).to_owned(), Arc::new(table.build()));
    }
    Arc::new(Schema::new([Arc::new(keyspace)], Uuid::nil()))
}

fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

fn key(value: i32) -> DecoratedKey {
    DecoratedKey::new(int(value))
}

struct Fixture {
    disk: SimulatedDisk,
    clock: SimulatedClock,
    settings: EngineSettings,
    schema: Arc<Schema>,
}

impl Fixture {
    fn new() -> Self {
        let mut settings = EngineSettings::new(PathBuf::from("/data"), PathBuf::from("/log"));
        settings.commitlog.sync = CommitLogSync::Batch;
        settings.commitlog.segment_size_bytes = 8192;
        settings.memtable_budget_bytes = 1 << 20;
        Self {
            disk: SimulatedDisk::default(),
            clock: SimulatedClock::at(NOW * 1_000_000),
            settings,
            schema: schema_of(&["t", "u"]),
        }
    }

    fn try_open(&self) -> Result<Engine, OpenError> {
        let (disk, clock) = (Arc::new(self.disk.clone()), Arc::new(self.clock.clone()));
        let mut engine =
            Engine::open(self.settings.clone(), Arc::clone(&self.schema), disk, clock)?;
        engine.finish_replay()?;
        Ok(engine)
    }

    fn open(&self) -> Engine {
        // a restart takes time, so that segment ids ascend
        self.clock.advance(Duration::from_millis(10));
        self.try_open().unwrap()
    }

    fn table(&self) -> &Arc<TableMetadata> {
        self.schema.table("k", "t").unwrap()
    }

    fn value_id(&self) -> ColumnId {
        self.table().column(VALUE).unwrap().id
    }

    fn mutation(&self, partition: Partition) -> Mutation {
        Mutation::of(PartitionUpdate {
            table: Arc::clone(self.table()),
            partition,
        })
    }

    fn write(&self, p: i32, c: i32, value: i32, timestamp: i64) -> Mutation {
        let mut row = Row::new(Clustering(vec![Some(int(c))]));
        row.liveness = LivenessInfo::new(timestamp, 0, NOW);
        row.add_cell(
            self.table(),
            self.value_id(),
            Cell::live(timestamp, 0, NOW, None, int(value)),
        );
        let mut partition = Partition::new(key(p));
        partition.unfiltereds.push(Unfiltered::Row(row));
        self.mutation(partition)
    }

    fn delete_row(&self, p: i32, c: i32, timestamp: i64) -> Mutation {
        let mut row = Row::new(Clustering(vec![Some(int(c))]));
        row.deletion = DeletionTime {
            marked_for_delete_at: timestamp,
            local_deletion_time: NOW,
        };
        let mut partition = Partition::new(key(p));
        partition.unfiltereds.push(Unfiltered::Row(row));
        self.mutation(partition)
    }

    fn delete_range(&self, p: i32, from: i32, to: i32, timestamp: i64) -> Mutation {
        let deletion = DeletionTime {
            marked_for_delete_at: timestamp,
            local_deletion_time: NOW,
        };
        let bound = |kind, value| ClusteringBound {
            kind,
            values: vec![Some(int(value))],
        };
        let mut partition = Partition::new(key(p));
        partition.unfiltereds = vec![
            Unfiltered::Marker(RangeTombstoneMarker {
                bound: bound(PrefixKind::InclusiveStart, from),
                end: None,
                start: Some(deletion),
            }),
            Unfiltered::Marker(RangeTombstoneMarker {
                bound: bound(PrefixKind::InclusiveEnd, to),
                end: Some(deletion),
                start: None,
            }),
        ];
        self.mutation(partition)
    }

    fn delete_partition(&self, p: i32, timestamp: i64) -> Mutation {
        let mut partition = Partition::new(key(p));
        partition.deletion = DeletionTime {
            marked_for_delete_at: timestamp,
            local_deletion_time: NOW,
        };
        self.mutation(partition)
    }

    fn command(&self, kind: ReadKind, limits: DataLimits) -> ReadCommand {
        ReadCommand {
            table: Arc::clone(self.table()),
            now_in_seconds: NOW,
            columns: ColumnFilter::All {
                queried: Vec::new(),
            },
            row_filter: RowFilter::default(),
            limits,
            kind,
        }
    }

    fn live(&self, partition: &Partition) -> Vec<(i32, i32)> {
        let number = |bytes: &Bytes| i32::from_be_bytes(bytes[..].try_into().unwrap());
        partition
            .rows()
            .filter(|row| row.is_live(NOW))
            .map(|row| {
                let value = row
                    .live_cell(self.value_id(), NOW)
                    .map_or(-1, |cell| number(&cell.value));
                (number(row.clustering.0[0].as_ref().unwrap()), value)
            })
            .collect()
    }

    fn read(&self, engine: &mut Engine, p: i32, filter: ClusteringFilter) -> Vec<(i32, i32)> {
        let command = self.command(
            ReadKind::Partition {
                key: key(p),
                filter,
            },
            DataLimits::NONE,
        );
        let found = engine.read(&command).unwrap();
        found
            .partitions
            .first()
            .map(|partition| self.live(partition))
            .unwrap_or_default()
    }

    fn read_all(&self, engine: &mut Engine) -> BTreeMap<i32, Vec<(i32, i32)>> {
        let command = self.command(
            ReadKind::Range(DataRange::all(ClusteringFilter::all())),
            DataLimits::NONE,
        );
        let found = engine.read(&command).unwrap();
        let number = |bytes: &Bytes| i32::from_be_bytes(bytes[..].try_into().unwrap());
        let rows = found
            .partitions
            .iter()
            .map(|one| (number(&one.key.key), self.live(one)));
        rows.filter(|(_, rows)| !rows.is_empty()).collect()
    }
}

/// Applies, logs and syncs: what a client was told is durable.
fn acknowledge(engine: &mut Engine, mutation: &Mutation) {
    engine.apply(mutation).unwrap();
    engine.sync_log().unwrap();
}

/// What should be there: the newest operation on each row.
#[derive(Debug, Default, Clone)]
struct Model {
    /// By partition and row: the timestamps of the write and of the newest deletion, and the value.
    rows: BTreeMap<(i32, i32), (i64, i64, i32)>,
}

const PARTITIONS: i32 = 4;
const ROWS: i32 = 12;

impl Model {
    fn write(&mut self, p: i32, c: i32, value: i32, timestamp: i64) {
        let row = self.rows.entry((p, c)).or_insert((i64::MIN, i64::MIN, 0));
        if timestamp > row.0 {
            (row.0, row.2) = (timestamp, value);
        }
    }

    fn delete(&mut self, p: i32, rows: std::ops::RangeInclusive<i32>, timestamp: i64) {
        for c in rows {
            let row = self.rows.entry((p, c)).or_insert((i64::MIN, i64::MIN, 0));
            row.1 = row.1.max(timestamp);
        }
    }

    fn live(&self) -> BTreeMap<i32, Vec<(i32, i32)>> {
        let mut live: BTreeMap<i32, Vec<(i32, i32)>> = BTreeMap::new();
        for ((p, c), (written, deleted, value)) in &self.rows {
            if written > deleted {
                live.entry(*p).or_default().push((*c, *value));
            }
        }
        live
    }
}

/// A random write, applied to the model too.
fn random_mutation(
    fixture: &Fixture,
    model: &mut Model,
    random: &SeededEntropy,
    timestamp: i64,
) -> Mutation {
    let below = |bound: i32| i32::try_from(random.below(usize::try_from(bound).unwrap())).unwrap();
    let (p, c, value) = (below(PARTITIONS), below(ROWS), below(1000));
    match below(20) {
        0 => {
            model.delete(p, 0..=ROWS, timestamp);
            fixture.delete_partition(p, timestamp)
        }
        1 | 2 => {
            let to = c + below(5);
            model.delete(p, c..=to, timestamp);
            fixture.delete_range(p, c, to, timestamp)
        }
        3..=5 => {
            model.delete(p, c..=c, timestamp);
            fixture.delete_row(p, c, timestamp)
        }
        _ => {
            model.write(p, c, value, timestamp);
            fixture.write(p, c, value, timestamp)
        }
    }
}

fn check_reads(fixture: &Fixture, engine: &mut Engine, model: &Model, seed: u64) {
    let live = model.live();
    assert_eq!(fixture.read_all(engine), live, "range read, seed {seed}");
    for p in 0..PARTITIONS {
        let expected = live.get(&p).cloned().unwrap_or_default();
        let backward: Vec<_> = expected.iter().rev().copied().collect();
        assert_eq!(
            fixture.read(engine, p, ClusteringFilter::all()),
            expected,
            "partition {p}, seed {seed}"
        );
        let reversed = ClusteringFilter::Slices {
            slices: vec![Slice::all()],
            reversed: true,
        };
        assert_eq!(
            fixture.read(engine, p, reversed),
            backward,
            "partition {p} reversed, seed {seed}"
        );
        for (reversed, all) in [(false, &expected), (true, &backward)] {
            let clusterings = (2..5).map(|c| Clustering(vec![Some(int(c))])).collect();
            let names = ClusteringFilter::Names {
                clusterings,
                reversed,
            };
            let named: Vec<_> = all
                .iter()
                .filter(|(c, _)| (2..5).contains(c))
                .copied()
                .collect();
            assert_eq!(
                fixture.read(engine, p, names),
                named,
                "names of {p}, seed {seed}"
            );
            let bound = |kind, c| ClusteringBound {
                kind,
                values: vec![Some(int(c))],
            };
            let slice = |from, to| Slice {
                start: bound(PrefixKind::ExclusiveStart, from),
                end: bound(PrefixKind::InclusiveEnd, to),
            };
            let slices = ClusteringFilter::Slices {
                slices: vec![slice(0, 3), slice(5, 8)],
                reversed,
            };
            let within = |c: i32| (c > 0 && c <= 3) || (c > 5 && c <= 8);
            let sliced: Vec<_> = all.iter().filter(|(c, _)| within(*c)).copied().collect();
            assert_eq!(
                fixture.read(engine, p, slices),
                sliced,
                "slices of {p}, seed {seed}"
            );
        }
    }
}

/// Random writes, flushes, compactions and crashes: what was acknowledged is there.
fn simulate(seed: u64) {
    let fixture = Fixture::new();
    let random = SeededEntropy::new(seed);
    let mut model = Model::default();
    let mut engine = fixture.open();
    for step in 0..400 {
        let timestamp = NOW * 1_000_000 + step;
        match random.below(40) {
            0 => {
                fixture.disk.crash();
                engine = fixture.open();
                check_reads(&fixture, &mut engine, &model, seed);
            }
            1 => engine = fixture.open(),
            2..=5 => {
                engine.request_flush_all();
                for _ in 0..random.below(4) {
                    let Some(task) = engine.next_task() else {
                        break;
                    };
                    let disk: Arc<dyn Disk> = Arc::new(fixture.disk.clone());
                    let output = task.run(&disk);
                    // a task whose output is never taken, as when the process ends
                    if random.below(4) == 0 {
                        fixture.disk.crash();
                        engine = fixture.open();
                        break;
                    }
                    engine.complete(output);
                }
            }
            6 => engine.run_tasks(),
            7 => check_reads(&fixture, &mut engine, &model, seed),
            _ => {
                let mutation = random_mutation(&fixture, &mut model, &random, timestamp);
                acknowledge(&mut engine, &mutation);
            }
        }
        fixture.clock.advance(Duration::from_millis(1));
    }
    check_reads(&fixture, &mut engine, &model, seed);
    engine.drain().unwrap();
    let mut engine = fixture.open();
    assert_eq!(
        engine.metrics().replayed_updates,
        0,
        "nothing to replay after draining, seed {seed}"
    );
    check_reads(&fixture, &mut engine, &model, seed);
}

#[test]
fn acknowledged_writes_survive_crashes() {
    for seed in 0..24 {
        simulate(seed);
    }
}

#[test]
fn unsynced_writes_may_be_lost_but_not_torn() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    acknowledge(&mut engine, &fixture.write(1, 1, 1, 1));
    engine.apply(&fixture.write(1, 2, 2, 2)).unwrap();
    engine.flush_log().unwrap();
    // the process dies: what was flushed is there
    let mut engine = fixture.open();
    assert_eq!(
        fixture.read(&mut engine, 1, ClusteringFilter::all()),
        [(1, 1), (2, 2)]
    );
    engine.apply(&fixture.write(1, 3, 3, 3)).unwrap();
    engine.flush_log().unwrap();
    fixture.disk.crash();
    let mut engine = fixture.open();
    let found = fixture.read(&mut engine, 1, ClusteringFilter::all());
    assert!(found.contains(&(1, 1)), "{found:?}");
}

#[test]
fn a_full_disk_is_an_error_and_passes() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    for c in 0..20 {
        acknowledge(&mut engine, &fixture.write(1, c, c, 1));
    }
    let (_, capacity) = fixture.disk.space(Path::new("/")).unwrap();
    let free = fixture.disk.space(Path::new("/")).unwrap().0;
    fixture.disk.set_capacity(capacity - free + 20);
    engine.apply(&fixture.write(1, 100, 100, 1)).unwrap();
    assert!(engine.flush_log().is_err());
    engine.request_flush_all();
    let task = engine.next_task().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(fixture.disk.clone());
    let output = task.run(&disk);
    engine.complete(output);
    assert_eq!(engine.metrics().flush_failures, 1);
    assert_eq!(
        fixture.read(&mut engine, 1, ClusteringFilter::all()).len(),
        21
    );
    fixture.disk.set_capacity(capacity);
    fixture.clock.advance(Duration::from_secs(2));
    acknowledge(&mut engine, &fixture.write(1, 101, 101, 1));
    engine.run_tasks();
    assert_eq!((engine.metrics().flushes, engine.pending_flushes()), (1, 0));
    fixture.disk.crash();
    let mut engine = fixture.open();
    let found = fixture.read(&mut engine, 1, ClusteringFilter::all());
    assert_eq!((found.len(), found.contains(&(101, 101))), (22, true));
}

#[test]
fn writes_are_refused_when_memory_is_full_and_taken_again_after_a_flush() {
    let mut fixture = Fixture::new();
    fixture.settings.memtable_budget_bytes = 8_000;
    let mut engine = fixture.open();
    let mut written = 0;
    let refused = loop {
        match engine.apply(&fixture.write(1, written, 0, 1)) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ApplyError::Overloaded { .. }));
    engine.sync_log().unwrap();
    engine.run_tasks();
    acknowledge(&mut engine, &fixture.write(1, written, 0, 1));
    assert_eq!(
        fixture.read(&mut engine, 1, ClusteringFilter::all()).len(),
        usize::try_from(written).unwrap() + 1
    );
}

#[test]
fn truncated_rows_do_not_come_back() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    let table = fixture.table().id;
    acknowledge(&mut engine, &fixture.write(1, 1, 1, 1));
    engine.request_flush(table);
    engine.run_tasks();
    acknowledge(&mut engine, &fixture.write(1, 2, 2, 2));
    engine.truncate(table).unwrap();
    acknowledge(&mut engine, &fixture.write(1, 3, 3, 3));
    for crash in [false, true] {
        if crash {
            fixture.disk.crash();
        }
        let mut again = fixture.open();
        assert_eq!(
            fixture.read(&mut again, 1, ClusteringFilter::all()),
            [(3, 3)]
        );
    }
}

#[test]
fn dropped_tables_leave_nothing_behind() {
    let mut fixture = Fixture::new();
    let mut engine = fixture.open();
    acknowledge(&mut engine, &fixture.write(1, 1, 1, 1));
    engine.request_flush(fixture.table().id);
    engine.run_tasks();
    acknowledge(&mut engine, &fixture.write(1, 2, 2, 2));
    let full = Arc::clone(&fixture.schema);
    let mut keyspace = Keyspace::clone(full.keyspace("k").unwrap());
    keyspace.tables.remove("t");
    fixture.schema = Arc::new(full.with_keyspace(keyspace, Uuid::nil()));
    engine.schema_changed(Arc::clone(&fixture.schema)).unwrap();
    engine.run_tasks();
    let mut engine = fixture.open();
    assert_eq!(engine.metrics().sstables, 0);
    fixture.schema = full;
    engine.schema_changed(Arc::clone(&fixture.schema)).unwrap();
    assert_eq!(fixture.read(&mut engine, 1, ClusteringFilter::all()), []);
}

#[test]
fn limits_stop_and_close_ranges() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    for p in 0..3 {
        acknowledge(&mut engine, &fixture.delete_range(p, 0, 50, 1));
        for c in 0..10 {
            acknowledge(&mut engine, &fixture.write(p, c, c, 2));
        }
    }
    let range = || ReadKind::Range(DataRange::all(ClusteringFilter::all()));
    let outcome = engine
        .read(&fixture.command(range(), DataLimits::rows(13)))
        .unwrap();
    assert_eq!(
        (
            outcome.live_rows,
            outcome.partitions.len(),
            outcome.limit_reached
        ),
        (13, 2, true)
    );
    for partition in &outcome.partitions {
        let open = partition
            .unfiltereds
            .iter()
            .fold(None, |open, one| match one {
                Unfiltered::Marker(marker) => marker.start,
                Unfiltered::Row(_) => open,
            });
        assert_eq!(open, None);
    }
    let limits = DataLimits {
        per_partition: 2,
        ..DataLimits::NONE
    };
    assert_eq!(
        engine
            .read(&fixture.command(range(), limits))
            .unwrap()
            .live_rows,
        6
    );
    let limits = DataLimits {
        distinct: true,
        ..DataLimits::NONE
    };
    assert_eq!(
        engine
            .read(&fixture.command(range(), limits))
            .unwrap()
            .live_rows,
        3
    );
}

#[test]
fn too_many_tombstones_fail_a_read() {
    let mut fixture = Fixture::new();
    fixture.settings.tombstone_warn_threshold = 3;
    fixture.settings.tombstone_failure_threshold = 6;
    let mut engine = fixture.open();
    let read = |engine: &mut Engine| {
        let kind = ReadKind::Partition {
            key: key(1),
            filter: ClusteringFilter::all(),
        };
        engine.read(&fixture.command(kind, DataLimits::NONE))
    };
    for c in 0..4 {
        acknowledge(&mut engine, &fixture.delete_row(1, c, 1));
    }
    assert!(read(&mut engine).unwrap().tombstone_warning);
    for c in 0..8 {
        acknowledge(&mut engine, &fixture.delete_row(1, c, 1));
    }
    assert!(matches!(
        read(&mut engine),
        Err(ReadError::TooManyTombstones { scanned: 7, .. })
    ));
}

#[test]
fn compaction_purges_what_nobody_needs() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    for round in 0..4 {
        acknowledge(&mut engine, &fixture.write(1, round, 1, 1));
        acknowledge(&mut engine, &fixture.delete_partition(1, 2));
        engine.request_flush_all();
        let Some(task) = engine.next_task() else {
            panic!("no flush")
        };
        let disk: Arc<dyn Disk> = Arc::new(fixture.disk.clone());
        let output = task.run(&disk);
        engine.complete(output);
    }
    // ten days later the deletion is no longer needed
    fixture.clock.advance(Duration::from_secs(864_001));
    engine.run_tasks();
    assert_eq!(
        (engine.metrics().compactions, engine.metrics().sstables),
        (1, 0)
    );
    let folder = engine.table(fixture.table().id).unwrap().folders[0].clone();
    assert_eq!(fixture.disk.list(&folder).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(
        fixture.read(&mut fixture.open(), 1, ClusteringFilter::all()),
        []
    );
}

#[test]
fn segments_go_when_tables_are_flushed_and_the_log_is_bounded() {
    let mut fixture = Fixture::new();
    fixture.settings.commitlog.total_space_bytes = 32 << 10;
    let mut engine = fixture.open();
    for c in 0..2_000 {
        acknowledge(&mut engine, &fixture.write(c % 3, c, c, 1));
        if c % 50 == 0 {
            engine.run_tasks();
        }
    }
    engine.run_tasks();
    assert!(
        engine.metrics().commitlog_bytes < 64 << 10,
        "{}",
        engine.metrics().commitlog_bytes
    );
    fixture.disk.crash();
    assert_eq!(
        fixture
            .read_all(&mut fixture.open())
            .values()
            .map(Vec::len)
            .sum::<usize>(),
        2_000
    );
}

#[test]
fn another_count_of_shards_reads_everything() {
    let mut fixture = Fixture::new();
    let mut model = Model::default();
    for (shards, round) in [(2, 0), (3, 1), (1, 2), (4, 3)] {
        fixture.settings.shards = shards;
        fixture.clock.advance(Duration::from_millis(10));
        let mut engines: Vec<Engine> = (0..shards)
            .map(|shard| {
                fixture.settings.shard = shard;
                fixture.try_open().unwrap()
            })
            .collect();
        let mut found = BTreeMap::new();
        for engine in &mut engines {
            found.extend(fixture.read_all(engine));
        }
        assert_eq!(found, model.live(), "{shards} shards");
        for p in 0..40 {
            let mutation = fixture.write(p, round, round, 1);
            model.write(p, round, round, 1);
            acknowledge(&mut engines[mutation.key.token.shard(shards)], &mutation);
        }
        let old = crate::commitlog::segment_files(&fixture.disk, Path::new("/log")).unwrap();
        assert_eq!(
            old.len(),
            shards,
            "segments of earlier runs are gone: {old:?}"
        );
        for engine in &mut engines {
            if round == 2 {
                engine.request_flush_all();
            }
            engine.run_tasks();
        }
        fixture.disk.crash();
    }
    assert_eq!(
        Stream {
            shard: 0,
            shards: 4
        }
        .shards,
        4
    );
}

#[test]
fn snapshots_are_links() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    let table = fixture.table().id;
    acknowledge(&mut engine, &fixture.write(1, 1, 1, 1));
    engine.request_flush(table);
    engine.run_tasks();
    let folders = engine.snapshot(table, "before").unwrap();
    assert!(engine.snapshot(table, "before").is_err());
    assert!(engine.snapshot(table, "../x").is_err());
    let linked = fixture.disk.list(&folders[0]).unwrap();
    assert!(
        linked
            .iter()
            .any(|path| path.to_string_lossy().ends_with("-bti-Data.db")),
        "{linked:?}"
    );
    engine.truncate(table).unwrap();
    engine.run_tasks();
    assert_eq!(fixture.disk.list(&folders[0]).unwrap(), linked);
}

#[test]
fn a_range_is_scanned_in_chunks() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    for p in 0..50 {
        acknowledge(&mut engine, &fixture.write(p, 1, 1, 1));
        if p == 25 {
            engine.request_flush_all();
            engine.run_tasks();
        }
    }
    let mut range = DataRange::all(ClusteringFilter::all());
    let (mut partitions, mut chunks) = (0, 0);
    loop {
        let chunk = engine
            .scan_range(fixture.table().id, &range, 1_000)
            .unwrap();
        partitions += chunk.partitions.len();
        chunks += 1;
        match chunk.next {
            Some(next) => range.start = next,
            None => break,
        }
    }
    assert_eq!(partitions, 50);
    assert!(chunks > 3, "{chunks}");
}
