//! What is written is read back: whole, by key, by slice, in reverse, by range; and broken files
//! are errors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use helenus_rows::deletion::NO_DELETION_TIME;
use helenus_rows::{
    Cell, Clustering, ClusteringBound, ClusteringFilter, DataRange, DeletionTime, LivenessInfo,
    Partition, PartitionPosition, PrefixKind, RangeTombstoneMarker, Row, Slice, Unfiltered,
};
use helenus_schema::{ColumnKind, TableId, TableMetadata};
use helenus_seams::{Disk, SimulatedDisk};
use helenus_sstable::{
    Component, Descriptor, Generation, SsTableError, SsTableReader, SsTableWriter, WriterOptions,
    verify_digest,
};
use helenus_types::{CqlType, DecoratedKey, Token};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;

fn table(compression: &[(&str, &str)]) -> Arc<TableMetadata> {
    let mut builder = TableMetadata::builder("k", "t", TableId(Uuid::from_u128(1)))
        .partition_key("p", CqlType::Text)
        .column("s", ColumnKind::Static, CqlType::Int)
        .regular("v", CqlType::Text);
    builder.push("a", ColumnKind::Clustering, CqlType::Int, true);
    builder.push("b", ColumnKind::Clustering, CqlType::Text, false);
    builder.params.compression = compression
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Arc::new(builder.build())
}

const LZ4: [(&str, &str); 2] = [("class", "LZ4Compressor"), ("chunk_length_in_kb", "4")];

fn row(table: &TableMetadata, a: i32, b: &str, value: &str) -> Row {
    let mut row = Row::new(Clustering(vec![
        Some(Bytes::copy_from_slice(&a.to_be_bytes())),
        Some(Bytes::copy_from_slice(b.as_bytes())),
    ]));
    row.liveness = LivenessInfo {
        timestamp: 5,
        ..LivenessInfo::EMPTY
    };
    let cell = Cell::live(5, 0, 0, None, Bytes::copy_from_slice(value.as_bytes()));
    row.add_cell(table, table.column("v").unwrap().id, cell);
    row
}

fn marker(kind: PrefixKind, a: i32, at: i64) -> Unfiltered {
    let deletion = DeletionTime {
        marked_for_delete_at: at,
        local_deletion_time: 1_700_000_000,
    };
    Unfiltered::Marker(RangeTombstoneMarker {
        bound: ClusteringBound {
            kind,
            values: vec![Some(Bytes::copy_from_slice(&a.to_be_bytes()))],
        },
        end: kind.is_end().then_some(deletion),
        start: kind.is_start().then_some(deletion),
    })
}

/// A partition with `rows` rows, `width` bytes each, and a range deletion over every tenth `a`.
fn partition(table: &TableMetadata, key: &str, rows: i32, width: usize) -> Partition {
    let mut partition = Partition::new(DecoratedKey::new(Bytes::copy_from_slice(key.as_bytes())));
    if rows % 3 == 0 {
        let cell = Cell::live(3, 0, 0, None, Bytes::copy_from_slice(&rows.to_be_bytes()));
        partition
            .static_row
            .add_cell(table, table.column("s").unwrap().id, cell);
    }
    // The first clustering column descends.
    for a in (0..rows).rev() {
        if a % 10 == 7 {
            partition
                .unfiltereds
                .push(marker(PrefixKind::InclusiveStart, a, 1));
        }
        partition
            .unfiltereds
            .push(Unfiltered::Row(row(table, a, "x", &"v".repeat(width))));
        if a % 10 == 3 && a + 4 < rows {
            partition
                .unfiltereds
                .push(marker(PrefixKind::InclusiveEnd, a, 1));
        }
    }
    let open = partition
        .unfiltereds
        .iter()
        .fold(false, |open, one| match one {
            Unfiltered::Marker(marker) => marker.start.is_some(),
            Unfiltered::Row(_) => open,
        });
    if open {
        partition
            .unfiltereds
            .push(marker(PrefixKind::InclusiveEnd, -1, 1));
    }
    partition
}

struct Written {
    disk: Arc<SimulatedDisk>,
    descriptor: Descriptor,
    table: Arc<TableMetadata>,
    partitions: BTreeMap<DecoratedKey, Partition>,
}

fn write(table: Arc<TableMetadata>, partitions: Vec<Partition>) -> Written {
    let disk = Arc::new(SimulatedDisk::default());
    let descriptor = Descriptor::new(PathBuf::from("/data"), Generation::Number(1));
    let partitions: BTreeMap<_, _> = partitions
        .into_iter()
        .map(|one| (one.key.clone(), one))
        .collect();
    let options = WriterOptions {
        estimated_partitions: partitions.len() as u64,
        ..WriterOptions::default()
    };
    let mut writer = SsTableWriter::create(
        Arc::clone(&disk) as Arc<dyn Disk>,
        descriptor.clone(),
        Arc::clone(&table),
        options,
    )
    .unwrap();
    for one in partitions.values() {
        writer.append_partition(one).unwrap();
    }
    let info = writer.finish().unwrap().unwrap();
    assert_eq!(info.partitions, partitions.len() as u64);
    Written {
        disk,
        descriptor,
        table,
        partitions,
    }
}

impl Written {
    fn open(&self) -> Result<Arc<SsTableReader>, SsTableError> {
        SsTableReader::open(
            &*self.disk,
            self.descriptor.clone(),
            Arc::clone(&self.table),
        )
    }
}

/// What a filter lets through of a partition: rows within, and markers cut to the slices.
fn expected_rows(partition: &Partition, slice: &Slice, table: &TableMetadata) -> Vec<Row> {
    partition
        .rows()
        .filter(|row| slice.includes(&row.clustering, table))
        .cloned()
        .collect()
}

fn slice(low: i32, high: i32) -> Slice {
    // Descending: the higher value comes first.
    let bound = |kind, a: i32| ClusteringBound {
        kind,
        values: vec![Some(Bytes::copy_from_slice(&a.to_be_bytes()))],
    };
    Slice {
        start: bound(PrefixKind::InclusiveStart, high),
        end: bound(PrefixKind::ExclusiveEnd, low),
    }
}

/// The deletion that is open at each row, told by the markers around it.
fn covered_rows(unfiltereds: &[Unfiltered], reversed: bool) -> Vec<(Clustering, bool)> {
    let mut open = false;
    let mut found = Vec::new();
    for one in unfiltereds {
        match one {
            Unfiltered::Row(row) => found.push((row.clustering.clone(), open)),
            Unfiltered::Marker(marker) => {
                let (closes, opens) = if reversed {
                    (&marker.start, &marker.end)
                } else {
                    (&marker.end, &marker.start)
                };
                assert_eq!(closes.is_some(), open, "markers alternate: {marker:?}");
                open = opens.is_some();
            }
        }
    }
    assert!(!open, "every range deletion is closed");
    found
}

fn check(written: &Written) {
    let reader = written.open().unwrap();
    verify_digest(&*written.disk, &written.descriptor).unwrap();
    for (key, partition) in &written.partitions {
        let all = reader
            .read_partition(key, &ClusteringFilter::all())
            .unwrap()
            .unwrap()
            .collect()
            .unwrap();
        assert_eq!(&all, partition);
        check_slices(written, &reader, key, partition);
        check_names(written, &reader, key, partition);
    }
    let missing = DecoratedKey::new(Bytes::from_static(b"missing"));
    assert!(
        reader
            .read_partition(&missing, &ClusteringFilter::all())
            .unwrap()
            .is_none()
    );
    check_scans(written, &reader);
}

/// Slices at the edges, inside and outside, both ways.
fn check_slices(
    written: &Written,
    reader: &Arc<SsTableReader>,
    key: &DecoratedKey,
    partition: &Partition,
) {
    let rows = i32::try_from(partition.rows().count()).unwrap();
    let covered: BTreeMap<Vec<u8>, bool> = covered_rows(&partition.unfiltereds, false)
        .into_iter()
        .map(|(clustering, open)| (clustering.0[0].clone().unwrap().to_vec(), open))
        .collect();
    for (low, high) in [
        (-5, rows + 5),
        (rows / 2, rows / 2 + 3),
        (0, 1),
        (3, 8),
        (rows - 1, rows),
        (rows + 1, rows + 2),
    ] {
        for reversed in [false, true] {
            let slices = vec![slice(low, high)];
            let filter = ClusteringFilter::Slices { slices, reversed };
            let got = reader
                .read_partition(key, &filter)
                .unwrap()
                .unwrap()
                .collect()
                .unwrap();
            let mut want = expected_rows(partition, &slice(low, high), &written.table);
            if reversed {
                want.reverse();
            }
            let got_rows: Vec<Row> = got.rows().cloned().collect();
            assert_eq!(got_rows, want, "{low}..{high} reversed {reversed}");
            for (clustering, open) in covered_rows(&got.unfiltereds, reversed) {
                assert_eq!(
                    covered[&clustering.0[0].clone().unwrap().to_vec()],
                    open,
                    "{clustering:?}"
                );
            }
        }
    }
}

/// Single rows by their clustering, both ways.
fn check_names(
    written: &Written,
    reader: &Arc<SsTableReader>,
    key: &DecoratedKey,
    partition: &Partition,
) {
    let rows = i32::try_from(partition.rows().count()).unwrap();
    let names = [0, rows / 3, rows / 2, rows - 1];
    let mut clusterings: Vec<Clustering> = names
        .iter()
        .map(|a| row(&written.table, *a, "x", "").clustering)
        .collect();
    clusterings.sort_by(|a, b| a.compare(b, &written.table));
    clusterings.dedup();
    for reversed in [false, true] {
        let filter = ClusteringFilter::Names {
            clusterings: clusterings.clone(),
            reversed,
        };
        let got = reader
            .read_partition(key, &filter)
            .unwrap()
            .unwrap()
            .collect()
            .unwrap();
        let mut want: Vec<_> = partition
            .rows()
            .filter(|row| clusterings.contains(&row.clustering))
            .map(|row| row.clustering.clone())
            .collect();
        if reversed {
            want.reverse();
        }
        assert_eq!(
            got.rows()
                .map(|row| row.clustering.clone())
                .collect::<Vec<_>>(),
            want
        );
        covered_rows(&got.unfiltereds, reversed);
    }
}

fn check_scans(written: &Written, reader: &Arc<SsTableReader>) {
    let mut positions = vec![
        PartitionPosition::MinOf(Token::MINIMUM),
        PartitionPosition::MinOf(Token(0)),
    ];
    for key in written
        .partitions
        .keys()
        .step_by(written.partitions.len() / 5 + 1)
    {
        positions.push(PartitionPosition::MinOf(key.token));
        positions.push(PartitionPosition::MaxOf(key.token));
        positions.push(PartitionPosition::Key {
            key: key.clone(),
            inclusive: true,
        });
        positions.push(PartitionPosition::Key {
            key: key.clone(),
            inclusive: false,
        });
    }
    for start in &positions {
        for end in &positions {
            for (at, filter) in [
                ClusteringFilter::all(),
                ClusteringFilter::Slices {
                    slices: vec![slice(1, 3)],
                    reversed: true,
                },
            ]
            .into_iter()
            .enumerate()
            {
                let range = DataRange {
                    start: start.clone(),
                    end: end.clone(),
                    filter,
                    resume_after: None,
                };
                let mut scanner = reader.scan(&range).unwrap();
                let mut got = Vec::new();
                while let Some(one) = scanner.next_partition().unwrap() {
                    if at == 0 && got.len() % 2 == 0 {
                        got.push(one.collect().unwrap().key);
                    } else {
                        got.push(one.key);
                    }
                }
                let want: Vec<_> = written
                    .partitions
                    .keys()
                    .filter(|key| range.contains(key))
                    .cloned()
                    .collect();
                assert_eq!(got, want, "{start:?} to {end:?}");
                assert!(want.is_empty() || reader.intersects(&range));
            }
        }
    }
}

#[test]
fn one_small_partition() {
    let table = table(&LZ4);
    check(&write(
        Arc::clone(&table),
        vec![partition(&table, "only", 3, 10)],
    ));
}

#[test]
fn many_partitions_and_wide_ones_with_every_compression() {
    for compression in [
        &LZ4[..],
        &[("enabled", "false")],
        &[
            ("class", "org.apache.cassandra.io.compress.ZstdCompressor"),
            ("compression_level", "1"),
        ],
        &[("class", "SnappyCompressor"), ("min_compress_ratio", "1.5")],
        &[("class", "DeflateCompressor")],
    ] {
        let table = table(compression);
        let mut partitions: Vec<Partition> = (0..300)
            .map(|at| partition(&table, &format!("k{at}"), at % 7 + 1, 9))
            .collect();
        partitions.push(partition(&table, "wide", 900, 200));
        partitions.push(partition(&table, "wide too", 90, 2000));
        partitions.push(partition(&table, "large rows", 5, 40_000));
        check(&write(table, partitions));
    }
}

#[test]
fn tries_larger_than_a_page() {
    let table = table(&LZ4);
    let partitions = (0..20_000)
        .map(|at| partition(&table, &format!("key {at}"), 1, 1))
        .collect();
    let written = write(table, partitions);
    let reader = written.open().unwrap();
    for (key, partition) in written.partitions.iter().step_by(97) {
        let got = reader
            .read_partition(key, &ClusteringFilter::all())
            .unwrap()
            .unwrap()
            .collect()
            .unwrap();
        assert_eq!(&got, partition);
    }
    let mut scanner = reader
        .scan(&DataRange::all(ClusteringFilter::all()))
        .unwrap();
    let mut count = 0;
    while scanner.next_partition().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 20_000);
}

#[test]
fn a_row_index_larger_than_a_page() {
    let table = table(&LZ4);
    let written = write(
        Arc::clone(&table),
        vec![partition(&table, "huge", 20_000, 700)],
    );
    check(&written);
}

#[test]
fn statistics_tell_what_was_written() {
    let table = table(&LZ4);
    let mut one = partition(&table, "k", 20, 10);
    one.deletion = DeletionTime {
        marked_for_delete_at: 1,
        local_deletion_time: 1_600_000_000,
    };
    let written = write(table, vec![one]);
    let reader = written.open().unwrap();
    let stats = &reader.statistics().stats;
    assert_eq!((stats.min_timestamp, stats.max_timestamp), (1, 5));
    assert_eq!(
        (stats.min_local_deletion_time, stats.max_local_deletion_time),
        (1_600_000_000, NO_DELETION_TIME)
    );
    assert!(stats.has_partition_deletions);
    assert_eq!(stats.total_rows, 20);
    assert_eq!(stats.first_key, "k");
    assert_eq!(reader.partition_count(), 1);
}

#[test]
fn wrong_order_is_refused() {
    let table = table(&LZ4);
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::default());
    let descriptor = Descriptor::new("/data", Generation::Number(1));
    let mut writer = SsTableWriter::create(
        Arc::clone(&disk),
        descriptor.clone(),
        Arc::clone(&table),
        WriterOptions::default(),
    )
    .unwrap();
    let one = partition(&table, "k", 2, 1);
    writer.append_partition(&one).unwrap();
    assert!(matches!(
        writer.append_partition(&one),
        Err(SsTableError::Invalid(_))
    ));
    writer.abort().unwrap();
    assert!(disk.list(&descriptor.directory).unwrap().is_empty());
    let writer = SsTableWriter::create(
        Arc::clone(&disk),
        descriptor.clone(),
        table,
        WriterOptions::default(),
    )
    .unwrap();
    assert!(writer.finish().unwrap().is_none());
    assert!(disk.list(&descriptor.directory).unwrap().is_empty());
}

#[test]
fn a_finished_table_survives_a_crash() {
    let table = table(&LZ4);
    let written = write(Arc::clone(&table), vec![partition(&table, "k", 30, 100)]);
    written.disk.crash();
    check(&written);
}

/// Compaction in Cassandra leaves an empty chunk at the end of a file.
#[test]
fn an_empty_last_chunk_is_no_error() {
    let table = table(&LZ4);
    let written = write(Arc::clone(&table), vec![partition(&table, "k", 90, 200)]);
    let (info, data) = (Component::CompressionInfo, Component::Data);
    let mut content = written
        .disk
        .read(&written.descriptor.path(info))
        .unwrap()
        .to_vec();
    let file = written.disk.open(&written.descriptor.path(data)).unwrap();
    let count_at = 2 + "LZ4Compressor".len() + 4 + 4 + 4 + 8;
    let count = u32::from_be_bytes(content[count_at..count_at + 4].try_into().unwrap());
    content[count_at..count_at + 4].copy_from_slice(&(count + 1).to_be_bytes());
    content.extend_from_slice(&file.len().unwrap().to_be_bytes());
    file.append(&[0; 9]).unwrap();
    written.disk.remove(&written.descriptor.path(info)).unwrap();
    written
        .disk
        .create(&written.descriptor.path(info))
        .unwrap()
        .append(&content)
        .unwrap();
    read_everything(&written).unwrap();
}

fn read_everything(written: &Written) -> Result<(), SsTableError> {
    let reader = written.open()?;
    let mut scanner = reader.scan(&DataRange::all(ClusteringFilter::all()))?;
    while let Some(one) = scanner.next_partition()? {
        one.collect()?;
    }
    for key in written.partitions.keys() {
        for reversed in [false, true] {
            let filter = ClusteringFilter::Slices {
                slices: vec![slice(3, 40)],
                reversed,
            };
            if let Some(one) = reader.read_partition(key, &filter)? {
                one.collect()?;
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn broken_files_are_errors_and_never_panics(
        component in prop::sample::select(vec![
            Component::Data, Component::Partitions, Component::Rows, Component::Filter, Component::Statistics,
            Component::CompressionInfo,
        ]),
        at in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        compressed in any::<bool>(),
    ) {
        let table = table(if compressed { &LZ4 } else { &[("enabled", "false")] });
        let component = if component == Component::CompressionInfo && !compressed { Component::Crc } else { component };
        let partitions = vec![partition(&table, "a", 4, 10), partition(&table, "b", 120, 300), partition(&table, "c", 9, 1)];
        let written = write(table, partitions);
        let path = written.descriptor.path(component);
        let length = usize::try_from(written.disk.open(&path).unwrap().len().unwrap()).unwrap();
        if cut {
            written.disk.truncate(&path, at.index(length)).unwrap();
        } else {
            written.disk.flip_byte(&path, at.index(length)).unwrap();
        }
        let result = read_everything(&written);
        // Only what has checksums must be noticed; the others must only not panic.
        if matches!(component, Component::Data | Component::Statistics | Component::CompressionInfo) && !cut {
            let in_info_options = component == Component::CompressionInfo;
            prop_assert!(result.is_err() || in_info_options, "{component:?}");
        }
    }
}
