//! Rows of `system_schema` to keyspaces.

use crate::error::{CqlError, invalid};
use crate::result::value_of;
use bytes::Bytes;
use helenus_rows::{Partition, Row};
use helenus_schema::{
    ColumnKind, DroppedColumn, Keyspace, Replication, Schema, TableBuilder, TableId, TableMetadata,
    TableParams,
};
use helenus_types::{CqlType, NowInSeconds, UserType, elements};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Partitions of `system_schema` tables by the table's name.
pub type SchemaPartitions = BTreeMap<String, Vec<Partition>>;

/// A row with its table.
struct Reader<'a> {
    table: &'a TableMetadata,
    row: &'a Row,
    now: NowInSeconds,
}

impl Reader<'_> {
    fn bytes(&self, column: &str) -> Option<Bytes> {
        let column = self.table.column(column)?;
        if column.kind == ColumnKind::Clustering {
            return self
                .row
                .clustering
                .0
                .get(column.position)
                .cloned()
                .flatten();
        }
        value_of(self.row.column(column.id)?, &column.cql_type, self.now)
    }

    fn text(&self, column: &str) -> Option<String> {
        String::from_utf8(self.bytes(column)?.to_vec()).ok()
    }

    fn need(&self, column: &str) -> Result<String, CqlError> {
        self.text(column).ok_or_else(|| {
            invalid!(
                "column {column} of a row of system_schema.{} is missing",
                self.table.name
            )
        })
    }

    fn int(&self, column: &str) -> Option<i32> {
        Some(i32::from_be_bytes(self.bytes(column)?[..].try_into().ok()?))
    }

    fn double(&self, column: &str) -> Option<f64> {
        Some(f64::from_be_bytes(self.bytes(column)?[..].try_into().ok()?))
    }

    fn boolean(&self, column: &str) -> Option<bool> {
        self.bytes(column)
            .map(|bytes| bytes.first().is_some_and(|byte| *byte != 0))
    }

    fn list(&self, column: &str) -> Option<Vec<String>> {
        let items = elements::read_list(&self.bytes(column)?).ok()?;
        items
            .into_iter()
            .map(|item| String::from_utf8(item.to_vec()).ok())
            .collect()
    }

    fn map(&self, column: &str) -> Option<BTreeMap<String, String>> {
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).ok();
        elements::read_map(&self.bytes(column)?)
            .ok()?
            .into_iter()
            .map(|(key, value)| Some((text(key)?, text(value)?)))
            .collect()
    }

    fn blobs(&self, column: &str) -> Option<BTreeMap<String, Bytes>> {
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).ok();
        elements::read_map(&self.bytes(column)?)
            .ok()?
            .into_iter()
            .map(|(key, value)| Some((text(key)?, value)))
            .collect()
    }
}

/// The live rows of one keyspace in one `system_schema` table.
fn rows<'a>(
    schema: &'a Schema,
    partitions: &'a SchemaPartitions,
    name: &str,
    keyspace: &str,
    now: NowInSeconds,
) -> Vec<Reader<'a>> {
    let Some(table) = schema.table("system_schema", name) else {
        return Vec::new();
    };
    let of_keyspace = partitions
        .get(name)
        .into_iter()
        .flatten()
        .filter(|partition| partition.key.key == keyspace.as_bytes());
    of_keyspace
        .flat_map(Partition::rows)
        .filter(|row| row.is_live(now))
        .map(|row| Reader { table, row, now })
        .collect()
}

/// The keyspaces that partitions of `system_schema` tables describe. Local ones are not among them.
pub fn keyspaces_of(
    schema: &Schema,
    partitions: &SchemaPartitions,
    now: NowInSeconds,
) -> Result<Vec<Keyspace>, CqlError> {
    let mut keyspaces = Vec::new();
    for partition in partitions.get("keyspaces").into_iter().flatten() {
        let name = String::from_utf8(partition.key.key.to_vec())
            .map_err(|_| invalid!("a keyspace's name is no text"))?;
        if helenus_schema::system::LOCAL_KEYSPACES.contains(&name.as_str()) {
            continue;
        }
        let of_keyspace = rows(schema, partitions, "keyspaces", &name, now);
        if let Some(row) = of_keyspace.first() {
            keyspaces.push(keyspace(schema, partitions, &name, row, now)?);
        }
    }
    Ok(keyspaces)
}

fn keyspace(
    schema: &Schema,
    partitions: &SchemaPartitions,
    name: &str,
    row: &Reader<'_>,
    now: NowInSeconds,
) -> Result<Keyspace, CqlError> {
    let mut options = row
        .map("replication")
        .ok_or_else(|| invalid!("replication of keyspace {name} cannot be read"))?;
    let class = options
        .remove("class")
        .ok_or_else(|| invalid!("replication of keyspace {name} has no class"))?;
    let mut keyspace = Keyspace::new(name, Replication { class, options });
    keyspace.durable_writes = row.boolean("durable_writes").unwrap_or(true);
    keyspace.types = types(name, &rows(schema, partitions, "types", name, now))?;
    let columns = rows(schema, partitions, "columns", name, now);
    let dropped = rows(schema, partitions, "dropped_columns", name, now);
    for row in rows(schema, partitions, "tables", name, now) {
        let table = table(&keyspace, &row, &columns, &dropped)?;
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
    }
    Ok(keyspace)
}

/// User types, those first that others use.
fn types(keyspace: &str, rows: &[Reader<'_>]) -> Result<BTreeMap<String, Arc<UserType>>, CqlError> {
    let mut known: BTreeMap<String, Arc<UserType>> = BTreeMap::new();
    let mut left: Vec<&Reader<'_>> = rows.iter().collect();
    while !left.is_empty() {
        let before = left.len();
        let mut waiting = Vec::new();
        for row in left {
            let name = row.need("type_name")?;
            let names = row.list("field_names").unwrap_or_default();
            let texts = row.list("field_types").unwrap_or_default();
            let parsed: Result<Vec<CqlType>, _> = texts
                .iter()
                .map(|text| CqlType::parse(text, &|name| known.get(name).cloned()))
                .collect();
            match parsed {
                Ok(parsed) if parsed.len() == names.len() => {
                    let fields = names.into_iter().zip(parsed).collect();
                    known.insert(
                        name.clone(),
                        Arc::new(UserType {
                            keyspace: keyspace.into(),
                            name,
                            fields,
                            frozen: false,
                        }),
                    );
                }
                _ => waiting.push(row),
            }
        }
        left = waiting;
        if left.len() == before {
            return Err(invalid!("user types of keyspace {keyspace} cannot be read"));
        }
    }
    Ok(known)
}

fn table(
    keyspace: &Keyspace,
    row: &Reader<'_>,
    columns: &[Reader<'_>],
    dropped: &[Reader<'_>],
) -> Result<TableMetadata, CqlError> {
    let name = row.need("table_name")?;
    let id = row
        .bytes("id")
        .and_then(|bytes| Uuid::from_slice(&bytes).ok());
    let id = id.ok_or_else(|| invalid!("table {}.{name} has no id", keyspace.name))?;
    let mut builder = TableMetadata::builder(&keyspace.name, &name, TableId(id));
    builder.flags = row.list("flags").unwrap_or_default();
    builder.params = params(row);
    let mut own: Vec<(i32, ColumnKind, String, CqlType, bool)> = Vec::new();
    for column in columns
        .iter()
        .filter(|column| column.text("table_name").as_ref() == Some(&name))
    {
        let column_name = column.need("column_name")?;
        let cql_type = parse_type(keyspace, &column.need("type")?)?;
        let kind = kind_of(&column.need("kind")?)?;
        let reversed = column
            .text("clustering_order")
            .is_some_and(|order| order == "desc");
        own.push((
            column.int("position").unwrap_or(-1),
            kind,
            column_name,
            cql_type,
            reversed,
        ));
    }
    own.sort_by(|a, b| (a.0, &a.2).cmp(&(b.0, &b.2)));
    for (_, kind, column_name, cql_type, reversed) in own {
        builder.push(column_name, kind, cql_type, reversed);
    }
    add_dropped(keyspace, &name, dropped, &mut builder)?;
    let table = builder.build();
    if table.partition_key().is_empty() {
        return Err(invalid!(
            "table {}.{name} has no partition key",
            keyspace.name
        ));
    }
    Ok(table)
}

fn add_dropped(
    keyspace: &Keyspace,
    name: &str,
    dropped: &[Reader<'_>],
    builder: &mut TableBuilder,
) -> Result<(), CqlError> {
    for column in dropped
        .iter()
        .filter(|column| column.text("table_name").as_deref() == Some(name))
    {
        let column_name = column.need("column_name")?;
        let millis = column
            .bytes("dropped_time")
            .and_then(|bytes| Some(i64::from_be_bytes(bytes[..].try_into().ok()?)))
            .unwrap_or(0);
        builder.dropped_columns.insert(
            column_name.clone(),
            DroppedColumn {
                name: column_name,
                cql_type: parse_type(keyspace, &column.need("type")?)?,
                kind: column
                    .text("kind")
                    .map_or(Ok(ColumnKind::Regular), |kind| kind_of(&kind))?,
                dropped_time: millis.saturating_mul(1000),
            },
        );
    }
    Ok(())
}

fn parse_type(keyspace: &Keyspace, text: &str) -> Result<CqlType, CqlError> {
    CqlType::parse(text, &|name| keyspace.types.get(name).cloned())
        .map_err(|error| invalid!("{error}"))
}

fn kind_of(word: &str) -> Result<ColumnKind, CqlError> {
    Ok(match word {
        "partition_key" => ColumnKind::PartitionKey,
        "clustering" => ColumnKind::Clustering,
        "regular" => ColumnKind::Regular,
        "static" => ColumnKind::Static,
        other => return Err(invalid!("unknown kind of column: {other}")),
    })
}

fn params(row: &Reader<'_>) -> TableParams {
    let default = TableParams::default();
    TableParams {
        additional_write_policy: row
            .text("additional_write_policy")
            .unwrap_or(default.additional_write_policy),
        allow_auto_snapshot: row.boolean("allow_auto_snapshot").unwrap_or(true),
        bloom_filter_fp_chance: row
            .double("bloom_filter_fp_chance")
            .unwrap_or(default.bloom_filter_fp_chance),
        caching: row.map("caching").unwrap_or(default.caching),
        cdc: row.boolean("cdc").unwrap_or(false),
        comment: row.text("comment").unwrap_or_default(),
        compaction: row.map("compaction").unwrap_or(default.compaction),
        compression: row.map("compression").unwrap_or(default.compression),
        crc_check_chance: row
            .double("crc_check_chance")
            .unwrap_or(default.crc_check_chance),
        default_time_to_live_seconds: row.int("default_time_to_live").unwrap_or(0),
        extensions: row.blobs("extensions").unwrap_or_default(),
        gc_grace_seconds: row
            .int("gc_grace_seconds")
            .unwrap_or(default.gc_grace_seconds),
        incremental_backups: row.boolean("incremental_backups").unwrap_or(true),
        max_index_interval: row
            .int("max_index_interval")
            .unwrap_or(default.max_index_interval),
        memtable: row.text("memtable").unwrap_or_default(),
        memtable_flush_period_in_ms: row.int("memtable_flush_period_in_ms").unwrap_or(0),
        min_index_interval: row
            .int("min_index_interval")
            .unwrap_or(default.min_index_interval),
        read_repair: row.text("read_repair").unwrap_or(default.read_repair),
        speculative_retry: row
            .text("speculative_retry")
            .unwrap_or(default.speculative_retry),
    }
}
