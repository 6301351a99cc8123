//! The schema as rows of `system_schema`: read at start and after each change.

use crate::shards::LocalData;
use anyhow::{Context, Result};
use helenus_cql::schema_rows::{
    SchemaPartitions as SchemaRows, all_rows, keyspaces_of, schema_version,
};
use helenus_rows::{
    ClusteringFilter, ColumnFilter, DataLimits, DataRange, Mutation, ReadCommand, ReadKind,
    RowFilter,
};
use helenus_schema::system::{
    LOCAL_KEYSPACES, REPLICATED_KEYSPACES, SCHEMA_TABLES, is_virtual_keyspace, system_keyspaces,
};
use helenus_schema::{Keyspace, Schema, TableMetadata};
use helenus_storage::Engine;
use std::sync::Arc;
use uuid::Uuid;

/// The keyspaces that are not stored as rows: local and virtual ones.
pub(crate) fn system_schema() -> Schema {
    let fixed = system_keyspaces().into_iter().filter(|keyspace| {
        LOCAL_KEYSPACES.contains(&keyspace.name.as_str()) || is_virtual_keyspace(&keyspace.name)
    });
    Schema::new(fixed.map(Arc::new), Uuid::nil())
}

/// A schema of the system's own tables only, with the ids that they have in `schema`: for decoding
/// changes of the schema itself.
pub(crate) fn system_only(schema: &Schema) -> Schema {
    let fixed = schema
        .keyspaces()
        .filter(|keyspace| keyspace.is_local_system());
    Schema::new(fixed.cloned(), Uuid::nil())
}

fn read_all(table: &Arc<TableMetadata>, now_in_seconds: i64) -> ReadCommand {
    ReadCommand {
        table: Arc::clone(table),
        now_in_seconds,
        columns: ColumnFilter::All {
            queried: Vec::new(),
        },
        row_filter: RowFilter::default(),
        limits: DataLimits::NONE,
        kind: ReadKind::Range(DataRange::all(ClusteringFilter::all())),
    }
}

fn tables(schema: &Schema) -> impl Iterator<Item = &Arc<TableMetadata>> {
    SCHEMA_TABLES
        .iter()
        .filter_map(|name| schema.table("system_schema", name))
}

/// The schema that the rows say, over the fixed keyspaces of `base`; tables that `base` has keep
/// their column ids.
fn schema_of(rows: &SchemaRows, base: &Schema, now_in_seconds: i64) -> Result<Schema> {
    let loaded =
        keyspaces_of(base, rows, now_in_seconds).context("understand the stored schema")?;
    let version = schema_version(base, rows, now_in_seconds);
    let mut keyspaces: Vec<Arc<Keyspace>> = base
        .keyspaces()
        .filter(|keyspace| is_fixed(&keyspace.name))
        .cloned()
        .collect();
    for mut keyspace in loaded {
        for table in keyspace.tables.values_mut() {
            if let Some(known) = base.table_by_id(table.id) {
                let renewed = table.with_ids_of(known);
                // unchanged tables stay the same object, so that nobody takes them for changed
                *table = if renewed == **known {
                    Arc::clone(known)
                } else {
                    Arc::new(renewed)
                };
            }
        }
        keyspaces.push(Arc::new(keyspace));
    }
    Ok(Schema::new(keyspaces, version))
}

fn is_fixed(name: &str) -> bool {
    LOCAL_KEYSPACES.contains(&name) || is_virtual_keyspace(name)
}

/// Reads the schema from the shards.
pub(crate) async fn load(local: &LocalData, base: &Schema, now_in_seconds: i64) -> Result<Schema> {
    let mut rows = SchemaRows::new();
    for table in tables(base) {
        let partitions = local
            .read(read_all(table, now_in_seconds))
            .await
            .context("read the stored schema")?;
        rows.insert(table.name.clone(), partitions);
    }
    schema_of(&rows, base, now_in_seconds)
}

/// Reads the schema from engines before their threads exist.
pub(crate) fn load_from_engines(
    engines: &mut [Engine],
    base: &Schema,
    now_in_seconds: i64,
) -> Result<Schema> {
    let mut rows = SchemaRows::new();
    for table in tables(base) {
        let mut partitions = Vec::new();
        for engine in engines.iter_mut() {
            let outcome = engine
                .read(&read_all(table, now_in_seconds))
                .context("read the stored schema")?;
            partitions.extend(outcome.partitions);
        }
        rows.insert(table.name.clone(), partitions);
    }
    schema_of(&rows, base, now_in_seconds)
}

/// Every row of `system_schema` about replicated keyspaces, as mutations for a peer.
pub(crate) async fn rows(
    local: &LocalData,
    schema: &Schema,
    now_in_seconds: i64,
) -> Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    for table in tables(schema) {
        let partitions = local
            .read(read_all(table, now_in_seconds))
            .await
            .context("read the stored schema")?;
        let shared = partitions
            .into_iter()
            .filter(|partition| !is_local_key(&partition.key.key));
        mutations.extend(shared.map(|partition| {
            Mutation::of(helenus_rows::PartitionUpdate {
                table: Arc::clone(table),
                partition,
            })
        }));
    }
    Ok(mutations)
}

/// Whether a partition of `system_schema` describes a keyspace that each node has for itself: such
/// rows are neither sent nor taken.
pub(crate) fn is_local_key(key: &[u8]) -> bool {
    LOCAL_KEYSPACES.iter().any(|name| name.as_bytes() == key)
}

/// Rows of the node's own keyspaces, for clients that read `system_schema`.
pub(crate) fn local_rows(schema: &Schema, now_micros: i64) -> Result<Vec<Mutation>> {
    LOCAL_KEYSPACES
        .iter()
        .filter_map(|name| schema.keyspace(name))
        .map(|keyspace| {
            all_rows(
                keyspace,
                schema,
                now_micros,
                now_micros.div_euclid(1_000_000),
            )
            .context("describe the system keyspaces")
        })
        .collect()
}

/// Rows of the keyspaces that every ring has and this schema lacks. All nodes write the same rows
/// with the same, oldest timestamp, so that a later ALTER wins wherever they meet.
pub(crate) fn missing_distributed(schema: &Schema, now_in_seconds: i64) -> Result<Vec<Mutation>> {
    system_keyspaces()
        .into_iter()
        .filter(|keyspace| REPLICATED_KEYSPACES.contains(&keyspace.name.as_str()))
        .filter(|keyspace| schema.keyspace(&keyspace.name).is_none())
        .map(|keyspace| {
            all_rows(&keyspace, schema, 0, now_in_seconds).context("write a system keyspace")
        })
        .collect()
}
