//! Damage to segments, found or passed over.

use super::*;
use bytes::Bytes;
use helenus_rows::{Cell, Clustering, Partition, PartitionUpdate, Row, Unfiltered};
use helenus_schema::{Keyspace, Replication, Schema, TableMetadata};
use helenus_seams::SimulatedDisk;
use helenus_types::{CqlType, DecoratedKey};
use std::path::Path;
use uuid::Uuid;

const STREAM: Stream = Stream {
    shard: 3,
    shards: 8,
};

fn schema() -> Schema {
    let table = TableMetadata::builder("k", "t", TableId(Uuid::from_u128(7)))
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("v", CqlType::Blob)
        .build();
    let mut keyspace = Keyspace::new("k", Replication::local());
    keyspace.tables.insert("t".into(), Arc::new(table));
    Schema::new([Arc::new(keyspace)], Uuid::nil())
}

fn mutation(schema: &Schema, number: i32, size: usize) -> Mutation {
    let table = Arc::clone(schema.table("k", "t").unwrap());
    let bytes = |value: i32| Bytes::copy_from_slice(&value.to_be_bytes());
    let mut row = Row::new(Clustering(vec![Some(bytes(number))]));
    let id = table.column("v").unwrap().id;
    row.add_cell(
        &table,
        id,
        Cell::live(1, 0, 0, None, Bytes::from(vec![7; size])),
    );
    let mut partition = Partition::new(DecoratedKey::new(bytes(number)));
    partition.unfiltereds.push(Unfiltered::Row(row));
    Mutation::of(PartitionUpdate { table, partition })
}

fn log(disk: &SimulatedDisk, segment_size_bytes: u32) -> CommitLog {
    let settings = CommitLogSettings {
        segment_size_bytes,
        sync: CommitLogSync::Batch,
        ..CommitLogSettings::in_directory(PathBuf::from("/log"))
    };
    CommitLog::new(Arc::new(disk.clone()), settings, STREAM, 10)
}

/// The partitions that replay finds, in order.
fn replay(disk: &SimulatedDisk, ignore: bool) -> Result<Vec<i32>, ReplayError> {
    let schema = schema();
    let mut found = Vec::new();
    for segment in segment_files(disk, Path::new("/log")).unwrap() {
        let Some(reader) = SegmentReader::open(disk, &segment, ignore)? else {
            continue;
        };
        assert_eq!(reader.header.stream, STREAM);
        for update in reader {
            let update = update?;
            let decoded = update.decode(&schema).unwrap();
            assert_eq!(decoded.partition.key, update.key);
            found.push(i32::from_be_bytes(update.key.key[..].try_into().unwrap()));
        }
    }
    Ok(found)
}

fn write(disk: &SimulatedDisk, segment_size_bytes: u32, count: i32) -> CommitLog {
    let (schema, mut log) = (schema(), log(disk, segment_size_bytes));
    let mut last = CommitLogPosition::NONE;
    for number in 0..count {
        let position = log.append(&mutation(&schema, number, 50)).unwrap();
        assert!(position > last);
        last = position;
        log.sync(Duration::ZERO).unwrap();
        assert_eq!(log.synced_position(), position);
    }
    log
}

#[test]
fn what_is_written_is_replayed_in_order() {
    let disk = SimulatedDisk::default();
    write(&disk, 1_000, 40);
    assert!(segment_files(&disk, Path::new("/log")).unwrap().len() > 3);
    disk.crash();
    assert_eq!(replay(&disk, false).unwrap(), (0..40).collect::<Vec<_>>());
}

#[test]
fn a_mutation_of_more_than_half_a_segment_is_refused() {
    let (disk, schema) = (SimulatedDisk::default(), schema());
    let mut log = log(&disk, 1_000);
    assert!(matches!(
        log.append(&mutation(&schema, 1, 600)),
        Err(CommitLogError::TooLarge { limit: 500, .. })
    ));
    log.append(&mutation(&schema, 2, 300)).unwrap();
    log.sync(Duration::ZERO).unwrap();
    assert_eq!(replay(&disk, false).unwrap(), [2]);
}

/// Cut anywhere, the writes before the cut are replayed; the last sync marker lies before the last
/// record, so that a cut never looks like damage.
#[test]
fn a_torn_tail_is_normal() {
    let length = {
        let disk = SimulatedDisk::default();
        write(&disk, 1 << 20, 6);
        disk.read(&segment_files(&disk, Path::new("/log")).unwrap()[0].path)
            .unwrap()
            .len()
    };
    for cut in 0..length {
        let disk = SimulatedDisk::default();
        write(&disk, 1 << 20, 6);
        disk.truncate(
            &segment_files(&disk, Path::new("/log")).unwrap()[0].path,
            cut,
        )
        .unwrap();
        let found = replay(&disk, false).unwrap();
        let expected: Vec<i32> = (0..i32::try_from(found.len()).unwrap()).collect();
        assert_eq!(found, expected, "cut at {cut}");
    }
}

/// Flipped anywhere before the last sync marker, replay names file and offset; with the flag it goes on.
#[test]
fn damage_in_a_synced_part_is_an_error_with_a_way_out() {
    let probe = SimulatedDisk::default();
    write(&probe, 1 << 20, 6);
    let path = segment_files(&probe, Path::new("/log")).unwrap()[0]
        .path
        .clone();
    let length = probe.read(&path).unwrap().len();
    let record = (length - segment::HEADER_BYTES - 5 * segment::MARKER_BYTES) / 6;
    let vouched = length - record - segment::MARKER_BYTES;
    for at in 0..vouched {
        let disk = SimulatedDisk::default();
        write(&disk, 1 << 20, 6);
        disk.flip_byte(&path, at).unwrap();
        match replay(&disk, false) {
            Err(ReplayError::Damaged {
                path: named,
                offset,
                ..
            }) => {
                assert_eq!(named, path);
                assert!(offset <= at);
            }
            Ok(found) => assert_eq!(
                found,
                [0, 1, 2, 3, 4, 5],
                "a damaged marker hides nothing ({at})"
            ),
            Err(other) => panic!("{other}"),
        }
        let found = replay(&disk, true).unwrap();
        assert!(
            at < segment::HEADER_BYTES || found.len() >= 4,
            "flip at {at}: {found:?}"
        );
    }
}

#[test]
fn nothing_follows_a_failed_write_in_its_segment() {
    let (disk, schema) = (SimulatedDisk::default(), schema());
    let mut log = log(&disk, 1 << 20);
    log.append(&mutation(&schema, 1, 50)).unwrap();
    log.sync(Duration::ZERO).unwrap();
    disk.set_capacity(1);
    log.append(&mutation(&schema, 2, 50)).unwrap();
    assert!(log.flush_buffer().is_err());
    assert!(
        log.append(&mutation(&schema, 3, 50)).is_err(),
        "no segment can be opened"
    );
    disk.set_capacity(1 << 30);
    log.append(&mutation(&schema, 4, 50)).unwrap();
    log.sync(Duration::ZERO).unwrap();
    assert_eq!(segment_files(&disk, Path::new("/log")).unwrap().len(), 2);
    assert_eq!(replay(&disk, false).unwrap(), [1, 4]);
}

#[test]
fn positions_round_trip_and_damage_is_found() {
    let (disk, folder) = (SimulatedDisk::default(), Path::new("/log"));
    let mut positions = FlushPositions::load(&disk, folder, STREAM).unwrap();
    let table = TableId(Uuid::from_u128(9));
    positions.advance(
        table,
        CommitLogPosition {
            segment: 5,
            offset: 70,
        },
    );
    positions.advance(
        table,
        CommitLogPosition {
            segment: 5,
            offset: 60,
        },
    );
    positions.store(&disk, folder, STREAM).unwrap();
    let loaded = FlushPositions::load(&disk, folder, STREAM).unwrap();
    assert_eq!(loaded, positions);
    assert!(loaded.covers(
        table,
        CommitLogPosition {
            segment: 5,
            offset: 70
        }
    ));
    assert!(!loaded.covers(
        table,
        CommitLogPosition {
            segment: 5,
            offset: 71
        }
    ));
    disk.flip_byte(&FlushPositions::path(folder, STREAM), 30)
        .unwrap();
    assert!(matches!(
        FlushPositions::load(&disk, folder, STREAM),
        Err(PositionsError::Damaged { .. })
    ));
}
