//! Writes an SSTable whose indexes are many pages long, for real Cassandra to read.
//!
//! `cargo run -p helenus-sstable --example generate -- FOLDER`, then in Cassandra:
//! `CREATE TABLE g.t (p text, a int, b text, v text, PRIMARY KEY (p, a, b)) WITH CLUSTERING ORDER BY (a DESC, b ASC)`
//! and `nodetool import g t FOLDER`. Partitions `key 0` to `key 49999` have a row (0, '', 'v'); `wide` has rows
//! (0, 'x', …) to (29999, 'x', …) and a range deletion of 10000 ≤ a < 20000 that is older than the rows.

use bytes::Bytes;
use helenus_rows::{
    Cell, Clustering, ClusteringBound, DeletionTime, LivenessInfo, Partition, PrefixKind,
    RangeTombstoneMarker, Row, Unfiltered,
};
use helenus_schema::{ColumnKind, TableId, TableMetadata};
use helenus_seams::{Disk, RealDisk};
use helenus_sstable::{Descriptor, Generation, SsTableError, SsTableWriter, WriterOptions};
use helenus_types::{CqlType, DecoratedKey};
use std::path::PathBuf;
use std::sync::Arc;

const TIMESTAMP: i64 = 1_700_000_000_000_000;

fn row(table: &TableMetadata, a: i32, b: &'static str, value: String) -> Unfiltered {
    let mut row = Row::new(Clustering(vec![
        Some(Bytes::copy_from_slice(&a.to_be_bytes())),
        Some(Bytes::from_static(b.as_bytes())),
    ]));
    row.liveness = LivenessInfo {
        timestamp: TIMESTAMP,
        ..LivenessInfo::EMPTY
    };
    if let Some(column) = table.column("v") {
        row.add_cell(
            table,
            column.id,
            Cell::live(TIMESTAMP, 0, 0, None, Bytes::from(value)),
        );
    }
    Unfiltered::Row(row)
}

fn marker(kind: PrefixKind, a: i32) -> Unfiltered {
    let deletion = DeletionTime {
        marked_for_delete_at: TIMESTAMP - 1,
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

fn wide(table: &TableMetadata) -> Partition {
    let mut partition = Partition::new(DecoratedKey::new(Bytes::from_static(b"wide")));
    for a in (0..30_000).rev() {
        if a == 19_999 {
            partition
                .unfiltereds
                .push(marker(PrefixKind::ExclusiveStart, 20_000));
        }
        partition
            .unfiltereds
            .push(row(table, a, "x", format!("{a:0>400}")));
        if a == 10_000 {
            partition
                .unfiltereds
                .push(marker(PrefixKind::InclusiveEnd, 10_000));
        }
    }
    partition
}

fn main() -> Result<(), SsTableError> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| SsTableError::Invalid("usage: generate FOLDER".into()))?;
    let mut builder = TableMetadata::builder("g", "t", TableId(uuid::Uuid::nil()))
        .partition_key("p", CqlType::Text)
        .regular("v", CqlType::Text);
    builder.push("a", ColumnKind::Clustering, CqlType::Int, true);
    builder.push("b", ColumnKind::Clustering, CqlType::Text, false);
    let table = Arc::new(builder.build());
    let mut partitions: Vec<Partition> = (0..50_000)
        .map(|at| {
            let mut partition = Partition::new(DecoratedKey::new(Bytes::from(format!("key {at}"))));
            partition.unfiltereds.push(row(&table, 0, "", "v".into()));
            partition
        })
        .collect();
    partitions.push(wide(&table));
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let options = WriterOptions {
        estimated_partitions: partitions.len() as u64,
        ..WriterOptions::default()
    };
    let descriptor = Descriptor::new(folder, Generation::Number(1));
    let mut writer = SsTableWriter::create(disk, descriptor, table, options)?;
    for partition in &partitions {
        writer.append_partition(partition)?;
    }
    writer.finish().map(|_| ())
}
