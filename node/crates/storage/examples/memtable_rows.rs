//! How long rows of one large partition take to go into a memtable, and one row to be read from it:
//! `cargo run --release -p helenus-storage --example memtable_rows [rows]`. Prints; asserts nothing.

use bytes::Bytes;
use helenus_rows::{
    Cell, Clustering, ClusteringFilter, ColumnFilter, LivenessInfo, Partition, PartitionUpdate,
    Row, Unfiltered,
};
use helenus_schema::{TableId, TableMetadata};
use helenus_seams::{Clock, RealClock};
use helenus_storage::memtable::Memtable;
use helenus_types::{CqlType, DecoratedKey};
use std::sync::Arc;

fn main() {
    let asked = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let rows: i32 = asked.unwrap_or(1_000_000);
    let id = TableId(uuid::Uuid::from_u128(1));
    let table = TableMetadata::builder("k", "t", id)
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .regular("v", CqlType::Text);
    let table = Arc::new(table.build());
    let column = table.regular_columns()[0].id;
    let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
    let mut memtable = Memtable::new(Arc::clone(&table));
    let clock = RealClock::new();
    let begin = clock.monotonic();
    for number in 0..rows {
        // neighbours in time are far apart in place
        let place = number.wrapping_mul(-1_640_531_535);
        let clustering = Clustering(vec![Some(Bytes::copy_from_slice(&place.to_be_bytes()))]);
        let mut row = Row::new(clustering);
        row.liveness = LivenessInfo::new(1, 0, 0);
        let value = Bytes::from_static(b"a value of some length");
        row.add_cell(&table, column, Cell::live(1, 0, 0, None, value));
        let mut partition = Partition::new(key.clone());
        partition.unfiltereds.push(Unfiltered::Row(row));
        let table = Arc::clone(&table);
        memtable.apply(PartitionUpdate { table, partition }, None);
    }
    let written = clock.monotonic().saturating_sub(begin);
    println!(
        "{rows} rows in {written:?}: {:?} each, {} bytes counted a row",
        written / rows.unsigned_abs().max(1),
        memtable.size_bytes() / usize::try_from(rows).unwrap_or(1).max(1)
    );
    let columns = ColumnFilter::All {
        queried: Vec::new(),
    };
    let reads: u32 = 100_000;
    let (begin, mut found) = (clock.monotonic(), 0);
    for number in 0..reads.cast_signed() {
        let place = (number % rows.max(1)).wrapping_mul(-1_640_531_535);
        let clustering = Clustering(vec![Some(Bytes::copy_from_slice(&place.to_be_bytes()))]);
        let filter = ClusteringFilter::Names {
            clusterings: vec![clustering],
            reversed: false,
        };
        let source = memtable.read::<std::io::Error>(&key, &filter, &columns);
        found += source.map_or(0, |source| source.unfiltereds.count());
    }
    let read = clock.monotonic().saturating_sub(begin);
    println!(
        "{found} rows read by name in {read:?}: {:?} each",
        read / reads
    );
}
