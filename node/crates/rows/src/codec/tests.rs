//! Round trips of random partitions in every version, and mutated input.

use super::columns::{decode_subset, encode_subset};
use super::partition::PartitionOptions;
use super::{
    CodecError, EncodingStats, SerializationHeader, Version, mutation, partition, unfiltered,
};
use crate::codec::ColumnSet;
use crate::deletion::NO_DELETION_TIME;
use crate::{
    Cell, Clustering, ClusteringBound, ColumnData, ComplexData, DeletionTime, LivenessInfo,
    Mutation, Partition, PartitionUpdate, PrefixKind, RangeTombstoneMarker, Row, Unfiltered,
};
use bytes::{Bytes, BytesMut};
use helenus_schema::{ColumnId, Keyspace, Replication, Schema, TableId, TableMetadata};
use helenus_types::{CqlType, DecoratedKey, Reader};
use proptest::prelude::*;
use std::sync::Arc;
use uuid::Uuid;

const VERSIONS: [Version; 4] = [
    Version::MESSAGING_12,
    Version::MESSAGING_13,
    Version::SSTABLE_NB,
    Version::SSTABLE_OA,
];

fn table(wide: bool) -> Arc<TableMetadata> {
    let set = CqlType::Set {
        element: Arc::new(CqlType::Text),
        frozen: false,
    };
    let mut builder = TableMetadata::builder("k", "t", TableId(Uuid::from_u128(7)))
        .partition_key("p", CqlType::Blob)
        .clustering("c1", CqlType::Int)
        .clustering("c2", CqlType::Text)
        .column("s", helenus_schema::ColumnKind::Static, CqlType::BigInt)
        .regular("a", CqlType::Int)
        .regular("b", CqlType::Text)
        .regular("m", set);
    if wide {
        for at in 0..70 {
            builder = builder.regular(format!("x{at}"), CqlType::TinyInt);
        }
    }
    Arc::new(builder.build())
}

fn id(table: &TableMetadata, name: &str) -> ColumnId {
    table.column(name).unwrap().id
}

fn times() -> impl Strategy<Value = i64> {
    prop_oneof![
        0..100_i64,
        Just(1_700_000_000_000_000),
        1_442_880_000_000_000..1_442_880_000_000_900_i64
    ]
}

fn deletion() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![
        3 => Just(DeletionTime::LIVE),
        1 => (times(), 0..2_000_000_000_i64)
            .prop_map(|(marked_for_delete_at, local_deletion_time)| DeletionTime { marked_for_delete_at, local_deletion_time }),
    ]
}

fn some_deletion() -> impl Strategy<Value = DeletionTime> {
    (times(), 1..2_000_000_000_i64).prop_map(|(marked_for_delete_at, local_deletion_time)| {
        DeletionTime {
            marked_for_delete_at,
            local_deletion_time,
        }
    })
}

fn cell(
    value: impl Strategy<Value = Bytes> + 'static,
    path: Option<Bytes>,
) -> impl Strategy<Value = Cell> {
    (
        times(),
        value,
        0..3_u8,
        1..1000_i32,
        1_500_000_000..1_900_000_000_i64,
    )
        .prop_map(move |(timestamp, value, kind, ttl, seconds)| match kind {
            0 => Cell {
                timestamp,
                ttl: 0,
                local_deletion_time: NO_DELETION_TIME,
                path: path.clone(),
                value,
            },
            1 => Cell {
                timestamp,
                ttl,
                local_deletion_time: seconds,
                path: path.clone(),
                value,
            },
            _ => Cell {
                timestamp,
                ttl: 0,
                local_deletion_time: seconds,
                path: path.clone(),
                value: Bytes::new(),
            },
        })
}

fn fixed(length: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), length).prop_map(Bytes::from)
}

fn blob() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn liveness() -> impl Strategy<Value = LivenessInfo> {
    prop_oneof![
        Just(LivenessInfo::EMPTY),
        times().prop_map(|timestamp| LivenessInfo {
            timestamp,
            ..LivenessInfo::EMPTY
        }),
        (times(), 1..1000_i32, 1_500_000_000..1_900_000_000_i64).prop_map(
            |(timestamp, ttl, local_expiration_time)| LivenessInfo {
                timestamp,
                ttl,
                local_expiration_time
            }
        ),
    ]
}

fn row(table: Arc<TableMetadata>, clustering: Clustering) -> impl Strategy<Value = Row> {
    let simple = (
        prop::option::of(cell(fixed(4), None)),
        prop::option::of(cell(blob(), None)),
        prop::option::of((
            deletion(),
            prop::collection::btree_set(0..50_u8, 0..4),
            any::<u8>(),
        )),
        prop::collection::btree_set(0..70_usize, 0..70),
        cell(fixed(1), None),
    );
    (liveness(), deletion(), simple).prop_map(
        move |(liveness, deletion, (a, b, m, extra, filler))| {
            let mut columns = Vec::new();
            columns.extend(a.map(|cell| (id(&table, "a"), ColumnData::Simple(cell))));
            columns.extend(b.map(|cell| (id(&table, "b"), ColumnData::Simple(cell))));
            if let Some((deletion, paths, seed)) = m {
                let cells: Vec<Cell> = paths
                    .into_iter()
                    .map(|path| {
                        Cell::live(
                            i64::from(seed),
                            0,
                            0,
                            Some(Bytes::from(vec![path])),
                            Bytes::new(),
                        )
                    })
                    .collect();
                if !cells.is_empty() || !deletion.is_live() {
                    columns.push((
                        id(&table, "m"),
                        ColumnData::Complex(ComplexData { deletion, cells }),
                    ));
                }
            }
            for at in extra {
                if let Some(column) = table.column(&format!("x{at}")) {
                    columns.push((column.id, ColumnData::Simple(filler.clone())));
                }
            }
            columns.sort_by_key(|entry| entry.0);
            Row {
                clustering: clustering.clone(),
                liveness,
                deletion,
                columns,
            }
        },
    )
}

fn unfiltereds(table: &Arc<TableMetadata>) -> impl Strategy<Value = Vec<Unfiltered>> + use<> {
    let table = Arc::clone(table);
    let value = (0..4_u8, blob());
    let clustering = value
        .prop_map(|(kind, text)| match kind {
            0 => Clustering(vec![None, Some(text)]),
            1 => Clustering(vec![Some(Bytes::new()), Some(Bytes::new())]),
            _ => Clustering(vec![Some(Bytes::from_static(&[0, 0, 0, 9])), Some(text)]),
        })
        .boxed();
    let row =
        (clustering.clone()).prop_flat_map(move |clustering| row(Arc::clone(&table), clustering));
    let marker = (
        clustering,
        some_deletion(),
        some_deletion(),
        0..3_usize,
        0..6_usize,
    )
        .prop_map(|(clustering, end, start, length, kind)| {
            let kind = [
                PrefixKind::ExclusiveEnd,
                PrefixKind::InclusiveStart,
                PrefixKind::ExclusiveEndInclusiveStart,
                PrefixKind::InclusiveEndExclusiveStart,
                PrefixKind::InclusiveEnd,
                PrefixKind::ExclusiveStart,
            ][kind];
            RangeTombstoneMarker {
                bound: ClusteringBound {
                    kind,
                    values: clustering.0[..length].to_vec(),
                },
                end: kind.is_end().then_some(end),
                start: kind.is_start().then_some(start),
            }
        });
    let one = prop_oneof![
        4 => row.prop_filter("empty", |row| !row.is_empty()).prop_map(Unfiltered::Row),
        1 => marker.prop_map(Unfiltered::Marker),
    ];
    prop::collection::vec(one, 0..6)
}

fn partitions(wide: bool) -> impl Strategy<Value = (Arc<TableMetadata>, Partition)> {
    let table = table(wide);
    let rows = unfiltereds(&table);
    let statics = prop::option::of(cell(fixed(8), None));
    (blob(), deletion(), statics, rows).prop_map(
        move |(key, deletion, static_cell, unfiltereds)| {
            let mut partition = Partition::new(DecoratedKey::new(key));
            partition.deletion = deletion;
            if let Some(cell) = static_cell {
                partition
                    .static_row
                    .columns
                    .push((id(&table, "s"), ColumnData::Simple(cell)));
            }
            partition.unfiltereds = unfiltereds;
            (Arc::clone(&table), partition)
        },
    )
}

fn check_all_versions(table: &Arc<TableMetadata>, partition: &Partition) {
    let mut keyspace = Keyspace::new("k", Replication::local());
    keyspace.tables.insert("t".into(), Arc::clone(table));
    let schema = Schema::new([Arc::new(keyspace)], Uuid::nil());
    let update = PartitionUpdate {
        table: Arc::clone(table),
        partition: partition.clone(),
    };
    let written = Mutation::of(update);
    for version in [Version::MESSAGING_12, Version::MESSAGING_13] {
        let mut out = BytesMut::new();
        mutation::encode(&written, version, &mut out).unwrap();
        let mut reader = Reader::new(out.freeze());
        assert_eq!(
            mutation::decode(&mut reader, &schema, version).unwrap(),
            written
        );
        assert!(reader.is_empty());
        let all = ColumnSet::all(table);
        let options = PartitionOptions {
            superset: Some(&all),
            ..PartitionOptions::default()
        };
        let mut out = BytesMut::new();
        partition::encode(partition, table, options, version, &mut out).unwrap();
        let decoded =
            partition::decode(&mut Reader::new(out.freeze()), table, Some(&all), version).unwrap();
        assert_eq!(&decoded.partition, partition);
    }
    for version in VERSIONS {
        for stats in [EncodingStats::NONE, EncodingStats::of_partition(partition)] {
            let header =
                SerializationHeader::new(table, &ColumnSet::all(table), stats, version).unwrap();
            let mut out = BytesMut::new();
            let mut previous = 0;
            for one in &partition.unfiltereds {
                let start = out.len();
                unfiltered::encode(one, &header, previous, &mut out).unwrap();
                previous = (out.len() - start) as u64;
            }
            unfiltered::encode_end(&mut out);
            let mut reader = Reader::new(out.freeze());
            for one in &partition.unfiltereds {
                assert_eq!(
                    unfiltered::decode(&mut reader, &header).unwrap().as_ref(),
                    Some(one)
                );
            }
            assert_eq!(unfiltered::decode(&mut reader, &header).unwrap(), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn k1_partitions_round_trip((table, partition) in partitions(false)) {
        check_all_versions(&table, &partition);
    }

    #[test]
    fn k1_partitions_of_many_columns_round_trip((table, partition) in partitions(true)) {
        check_all_versions(&table, &partition);
    }

    #[test]
    fn k2_mutated_partitions_never_panic(
        (table, partition) in partitions(true),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut out = BytesMut::new();
        let version = Version::MESSAGING_13;
        partition::encode(&partition, &table, PartitionOptions::default(), version, &mut out).unwrap();
        for (at, byte) in &flips {
            let at = at.index(out.len());
            out[at] = *byte;
        }
        let whole = out.freeze();
        let cut = whole.slice(..cut.index(whole.len() + 1));
        for input in [whole, cut] {
            if let Ok(decoded) = partition::decode(&mut Reader::new(input), &table, None, version) {
                let mut again = BytesMut::new();
                let result = partition::encode(&decoded.partition, &table, PartitionOptions::default(), version, &mut again);
                prop_assert!(result.is_ok() || matches!(result, Err(CodecError::Invalid(_))));
            }
        }
    }

    #[test]
    fn subsets_round_trip(count in 0..200_usize, picks in prop::collection::btree_set(0..200_usize, 0..200)) {
        let present: Vec<usize> = picks.into_iter().filter(|at| *at < count).collect();
        let mut out = BytesMut::new();
        encode_subset(&present, count, &mut out);
        prop_assert_eq!(decode_subset(&mut Reader::new(out.freeze()), count).unwrap(), present);
    }
}

#[test]
fn deletion_times_round_trip() {
    for version in VERSIONS {
        for (marked, seconds) in [
            (0, 0),
            (5, 1_700_000_000),
            (1_700_000_000_000_000, i64::from(i32::MAX) - 1),
        ] {
            let deletion = DeletionTime {
                marked_for_delete_at: marked,
                local_deletion_time: seconds,
            };
            for deletion in [deletion, DeletionTime::LIVE] {
                let mut out = BytesMut::new();
                super::deletion::encode(deletion, version, &mut out);
                assert_eq!(
                    super::deletion::decode(&mut Reader::new(out.freeze()), version).unwrap(),
                    deletion
                );
            }
        }
    }
}
