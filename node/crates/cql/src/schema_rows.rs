//! The schema as rows of `system_schema`: a changed keyspace to a mutation, rows to keyspaces, and
//! the digest that is the schema version.
//!
//! Invariants:
//! W1: the mutation of a change holds exactly the rows that Cassandra 5.0 writes for it, all under
//!     one timestamp, so that the digests of nodes agree.
//! W2: reading back what was written gives the same keyspace.

mod read;
mod write;

pub use read::{SchemaPartitions, keyspaces_of};
pub use write::{all_rows, mutation_of};

use helenus_rows::cell::ColumnData;
use helenus_rows::{DeletionTime, Partition, PrefixKind, Row};
use helenus_schema::system::{LOCAL_KEYSPACES, SCHEMA_TABLES, name_uuid};
use helenus_schema::{Schema, TableMetadata};
use helenus_types::NowInSeconds;
use md5::{Digest, Md5};
use uuid::Uuid;

/// The schema version: digest of the live rows of all `system_schema` tables but those of local
/// keyspaces, tables in the order of [`SCHEMA_TABLES`], partitions in the order of their tokens
/// (Cassandra's `SchemaKeyspace.calculateSchemaDigest`).
pub fn schema_version(schema: &Schema, partitions: &SchemaPartitions, now: NowInSeconds) -> Uuid {
    let mut digest = Md5::new();
    for name in SCHEMA_TABLES {
        let Some(table) = schema.table("system_schema", name) else {
            continue;
        };
        let mut of_table: Vec<&Partition> = partitions
            .get(name)
            .map(|list| list.iter().collect())
            .unwrap_or_default();
        of_table.sort_by(|a, b| a.key.cmp(&b.key));
        for partition in of_table {
            let local = LOCAL_KEYSPACES
                .iter()
                .any(|local| local.as_bytes() == &partition.key.key[..]);
            if !local {
                digest_partition(&mut digest, table, partition, now);
            }
        }
    }
    {
        let md: [u8; 16] = digest.finalize().into();
        name_uuid(Md5::digest(md).into())
    }
}

/// A partition as readers see it: tombstones do not count.
fn digest_partition(
    digest: &mut Md5,
    table: &TableMetadata,
    partition: &Partition,
    now: NowInSeconds,
) {
    let live: Vec<&Row> = partition.rows().filter(|row| row.is_live(now)).collect();
    if live.is_empty() && !partition.static_row.is_live(now) {
        return;
    }
    digest.update(&partition.key.key);
    for column in table.regular_columns().iter().chain(table.static_columns()) {
        digest.update(column.name.as_bytes());
    }
    digest.update([1]); // not reversed: Cassandra writes 0 for true
    digest_row(
        digest,
        table,
        &partition.static_row,
        PrefixKind::Static,
        now,
    );
    for row in live {
        digest_row(digest, table, row, PrefixKind::Clustering, now);
    }
}

fn digest_row(
    digest: &mut Md5,
    table: &TableMetadata,
    row: &Row,
    kind: PrefixKind,
    now: NowInSeconds,
) {
    digest.update([0]);
    for value in row.clustering.0.iter().flatten() {
        digest.update(value);
    }
    digest.update([kind.ordinal()]);
    digest.update(DeletionTime::LIVE.marked_for_delete_at.to_be_bytes());
    digest.update([1]); // not shadowable
    digest.update(row.liveness.timestamp.to_be_bytes());
    for column in table.static_columns().iter().chain(table.regular_columns()) {
        let Some(data) = row.column(column.id) else {
            continue;
        };
        let cells = match data {
            ColumnData::Simple(cell) => std::slice::from_ref(cell),
            ColumnData::Complex(complex) => &complex.cells[..],
        };
        for cell in cells.iter().filter(|cell| cell.is_live(now)) {
            digest.update(&cell.value);
            digest.update(cell.timestamp.to_be_bytes());
            digest.update(cell.ttl.to_be_bytes());
            digest.update([1]); // no counter
            if let Some(path) = &cell.path {
                digest.update(path);
            }
        }
    }
}
