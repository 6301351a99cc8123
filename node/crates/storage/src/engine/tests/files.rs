//! Files that several shards share, damaged files, and writes without a form on disk.

use super::{Fixture, NOW, acknowledge, int, key};
use crate::{ApplyError, Engine, OpenError, ReadError, TableError};
use helenus_rows::{ClusteringFilter, DeletionTime, Partition};
use helenus_schema::{ColumnKind, DroppedColumn, TableMetadata};
use helenus_seams::Disk;
use helenus_types::CqlType;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

fn open_all(fixture: &mut Fixture, shards: usize) -> Vec<Engine> {
    fixture.settings.shards = shards;
    fixture.clock.advance(Duration::from_millis(10));
    let open = |shard| {
        fixture.settings.shard = shard;
        fixture.try_open().unwrap()
    };
    (0..shards).map(open).collect()
}

/// The live rows of all shards; a partition that two shards return is an error.
fn read_all(fixture: &Fixture, engines: &mut [Engine]) -> BTreeMap<i32, Vec<(i32, i32)>> {
    let mut all = BTreeMap::new();
    for engine in engines {
        for (key, rows) in fixture.read_all(engine) {
            assert_eq!(all.insert(key, rows), None, "partition {key} twice");
        }
    }
    all
}

fn folder(fixture: &Fixture) -> PathBuf {
    let table = fixture.table();
    PathBuf::from(format!("/data/k/t-{}", table.id.0.simple()))
}

fn names(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.disk.list(&folder(fixture)).unwrap();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    listed.iter().map(name).collect()
}

fn write_one_file(fixture: &mut Fixture) -> BTreeMap<i32, Vec<(i32, i32)>> {
    let mut engines = open_all(fixture, 1);
    for p in 0..40 {
        acknowledge(&mut engines[0], &fixture.write(p, 1, p, 1));
    }
    engines[0].request_flush_all();
    engines[0].run_tasks();
    (0..40).map(|p| (p, vec![(1, p)])).collect()
}

#[test]
fn shared_files_are_read_once_and_split() {
    let mut fixture = Fixture::new();
    let expected = write_one_file(&mut fixture);
    let mut engines = open_all(&mut fixture, 3);
    assert_eq!(read_all(&fixture, &mut engines), expected);
    // one shard is done with it, then the count changes
    engines[1].run_tasks();
    assert_eq!(read_all(&fixture, &mut engines), expected);
    assert!(names(&fixture).contains(&"helenus-left-1-of-3-da-1-bti".to_owned()));
    drop(engines);
    for shards in [2, 4, 1, 3] {
        let mut engines = open_all(&mut fixture, shards);
        assert_eq!(
            read_all(&fixture, &mut engines),
            expected,
            "{shards} shards"
        );
        engines[0].run_tasks();
        assert_eq!(
            read_all(&fixture, &mut engines),
            expected,
            "{shards} shards"
        );
        fixture.disk.crash();
    }
    let mut engines = open_all(&mut fixture, 3);
    engines.iter_mut().for_each(Engine::run_tasks);
    assert_eq!(read_all(&fixture, &mut engines), expected);
    assert!(
        engines
            .iter()
            .all(|one| one.metrics().pending_compactions == 0)
    );
    let left = names(&fixture);
    assert!(
        !left
            .iter()
            .any(|name| name.starts_with("da-1-") || name.starts_with("helenus-")),
        "{left:?}"
    );
}

#[test]
fn truncated_and_dropped_shared_files_go_with_the_last_shard() {
    for (truncations, crash_at) in [(3, 3), (3, 1), (2, 2)] {
        let mut fixture = Fixture::new();
        let expected = write_one_file(&mut fixture);
        let mut engines = open_all(&mut fixture, 3);
        let table = fixture.table().id;
        for engine in &mut engines[..truncations] {
            engine.truncate(table).unwrap();
        }
        for engine in &mut engines[..crash_at] {
            engine.run_tasks();
        }
        drop(engines);
        fixture.disk.crash();
        let mut engines = open_all(&mut fixture, 2);
        let found = read_all(&fixture, &mut engines);
        let kept = |key_: i32| key(key_).token.shard(3) >= truncations;
        let expected: BTreeMap<_, _> = expected.into_iter().filter(|(p, _)| kept(*p)).collect();
        assert_eq!(found, expected, "{truncations} truncated");
    }
}

#[test]
fn a_truncation_is_over_what_is_being_written() {
    let mut fixture = Fixture::new();
    let mut engine = open_all(&mut fixture, 1).remove(0);
    acknowledge(&mut engine, &fixture.write(1, 1, 1, 1));
    engine.request_flush_all();
    let task = engine.next_task().unwrap();
    engine.truncate(fixture.table().id).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(fixture.disk.clone());
    let output = task.run(&disk);
    // the file is complete; the node ends before it hears of that
    drop((output, engine));
    fixture.disk.crash();
    let mut engines = open_all(&mut fixture, 1);
    assert_eq!(read_all(&fixture, &mut engines), BTreeMap::new());
    engines[0].run_tasks();
    assert!(names(&fixture).iter().all(|name| !name.starts_with("da-")));
}

#[test]
fn damaged_files_are_set_aside_once_and_reported() {
    for (component, offset) in [("Statistics.db", 40), ("Partitions.db", 3)] {
        let mut fixture = Fixture::new();
        write_one_file(&mut fixture);
        let path = folder(&fixture).join(format!("da-1-bti-{component}"));
        match component {
            "Partitions.db" => fixture.disk.remove(&path).unwrap(),
            _ => fixture.disk.flip_byte(&path, offset).unwrap(),
        }
        let mut engines = open_all(&mut fixture, 2);
        assert_eq!(
            read_all(&fixture, &mut engines),
            BTreeMap::new(),
            "{component}"
        );
        let quarantined: u64 = engines
            .iter()
            .map(|one| one.metrics().sstables_quarantined)
            .sum();
        assert_eq!(quarantined, 1, "{component}");
        assert_eq!(names(&fixture), ["quarantine"]);
        let aside = fixture
            .disk
            .list(&folder(&fixture).join("quarantine"))
            .unwrap();
        assert!(aside.iter().any(|path| path.ends_with("da-1-bti-Data.db")));
        // its number is not given again
        acknowledge(
            &mut engines[key(1).token.shard(2)],
            &fixture.write(1, 1, 1, 1),
        );
        for engine in &mut engines {
            engine.request_flush_all();
            engine.run_tasks();
        }
        assert!(!names(&fixture).contains(&"da-1-bti-Data.db".to_owned()));
    }
}

#[test]
fn a_damaged_chunk_fails_the_read_and_is_counted() {
    let mut fixture = Fixture::new();
    write_one_file(&mut fixture);
    let data = folder(&fixture).join("da-1-bti-Data.db");
    fixture.disk.flip_byte(&data, 20).unwrap();
    let mut engines = open_all(&mut fixture, 1);
    let command = fixture.command(
        helenus_rows::ReadKind::Range(helenus_rows::DataRange::all(ClusteringFilter::all())),
        helenus_rows::DataLimits::NONE,
    );
    match engines[0].read(&command) {
        Err(ReadError::Table(TableError::Damaged { path, .. })) => assert_eq!(path, data),
        other => panic!("{other:?}"),
    }
    assert_eq!(engines[0].metrics().corrupt_reads, 1);
}

#[test]
fn files_of_an_unknown_version_are_refused_not_set_aside() {
    let mut fixture = Fixture::new();
    write_one_file(&mut fixture);
    for name in names(&fixture) {
        let (from, to) = (
            folder(&fixture).join(&name),
            folder(&fixture).join(name.replace("da-", "dz-")),
        );
        fixture.disk.rename(&from, &to).unwrap();
    }
    let error = fixture.try_open().err();
    assert!(
        matches!(
            error,
            Some(OpenError::Table(TableError::Unsupported { .. }))
        ),
        "{error:?}"
    );
    assert_eq!(fixture.disk.list(Path::new("/data/k")).unwrap().len(), 1);
}

#[test]
fn records_name_files_of_other_directories() {
    let mut fixture = Fixture::new();
    let expected = write_one_file(&mut fixture);
    let other = PathBuf::from(folder(&fixture).to_str().unwrap().replace("/data", "/more"));
    fixture.disk.create_dir_all(&other).unwrap();
    for name in names(&fixture) {
        fixture
            .disk
            .rename(&folder(&fixture).join(&name), &other.join(&name))
            .unwrap();
    }
    fixture.disk.sync_dir(&other).unwrap();
    fixture.disk.sync_dir(&folder(&fixture)).unwrap();
    fixture
        .settings
        .data_directories
        .push(PathBuf::from("/more"));
    let mut engines = open_all(&mut fixture, 1);
    assert_eq!(read_all(&fixture, &mut engines), expected);
    engines[0].truncate(fixture.table().id).unwrap();
    drop(engines);
    fixture.disk.crash();
    let mut engines = open_all(&mut fixture, 1);
    assert_eq!(read_all(&fixture, &mut engines), BTreeMap::new());
    assert_eq!(fixture.disk.list(&other).unwrap(), Vec::<PathBuf>::new());
}

fn altered(fixture: &mut Fixture, change: impl Fn(&TableMetadata) -> TableMetadata) {
    let schema = Arc::clone(&fixture.schema);
    let previous = Arc::clone(fixture.table());
    let mut keyspace = helenus_schema::Keyspace::clone(schema.keyspace("k").unwrap());
    let table = change(&previous).with_ids_of(&previous);
    keyspace.tables.insert("t".into(), Arc::new(table));
    fixture.schema = Arc::new(schema.with_keyspace(keyspace, Uuid::nil()));
}

#[test]
fn cells_of_a_dropped_column_stay_gone_when_it_is_added_again() {
    for flush_between in [false, true] {
        for restart in [false, true] {
            let mut fixture = Fixture::new();
            let mut engine = fixture.open();
            acknowledge(&mut engine, &fixture.write(1, 1, 7, 5));
            if flush_between {
                engine.request_flush_all();
                engine.run_tasks();
            }
            altered(&mut fixture, |table| {
                let mut builder = table.to_builder();
                let column = builder.remove(super::VALUE).unwrap();
                let dropped = DroppedColumn {
                    name: column.name.clone(),
                    cql_type: column.cql_type,
                    kind: ColumnKind::Regular,
                    dropped_time: 10,
                };
                builder.dropped_columns.insert(column.name, dropped);
                builder.build()
            });
            engine.schema_changed(Arc::clone(&fixture.schema)).unwrap();
            altered(&mut fixture, |table| {
                let mut builder = table.to_builder();
                builder.push(super::VALUE, ColumnKind::Regular, CqlType::Int, false);
                builder.build()
            });
            engine.schema_changed(Arc::clone(&fixture.schema)).unwrap();
            acknowledge(&mut engine, &fixture.write(1, 2, 8, 20));
            let mut engine = if restart {
                drop(engine);
                fixture.open()
            } else {
                engine
            };
            let filter = ClusteringFilter::all();
            let found = fixture.read(&mut engine, 1, filter);
            assert_eq!(
                found,
                [(1, -1), (2, 8)],
                "flushed {flush_between}, restarted {restart}"
            );
        }
    }
}

#[test]
fn deletions_that_files_cannot_hold_are_refused() {
    let fixture = Fixture::new();
    let mut engine = fixture.open();
    let refused = |engine: &mut Engine, mutation| {
        matches!(engine.apply(&mutation), Err(ApplyError::Unsupported { .. }))
    };
    let mut partition = Partition::new(key(1));
    partition.deletion = DeletionTime {
        marked_for_delete_at: -5,
        local_deletion_time: NOW,
    };
    assert!(refused(&mut engine, fixture.mutation(partition)));
    assert!(refused(&mut engine, fixture.delete_range(1, 0, 5, -5)));
    assert!(!refused(&mut engine, fixture.delete_row(1, 1, -5)));
    assert_eq!(int(1).len(), 4);
}
