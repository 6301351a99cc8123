//! Keyspaces to rows of `system_schema`.

use crate::ddl::SchemaChange;
use crate::error::CqlError;
use bytes::Bytes;
use helenus_rows::{
    Cell, Clustering, DeletionTime, LivenessInfo, Mutation, Partition, PartitionUpdate, Row,
    Unfiltered,
};
use helenus_schema::system::{REPLICATED_KEYSPACES, SCHEMA_TABLES};
use helenus_schema::{Column, ColumnKind, DroppedColumn, Keyspace, Schema, TableMetadata};
use helenus_types::{CqlType, DecoratedKey, NowInSeconds, TimestampMicros, UserType, elements};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Collects rows of one keyspace.
struct Writer<'a> {
    schema: &'a Schema,
    key: DecoratedKey,
    timestamp: TimestampMicros,
    now: NowInSeconds,
    updates: BTreeMap<&'static str, PartitionUpdate>,
}

/// A value for a column of a row.
enum Value {
    Text(String),
    Int(i32),
    Double(f64),
    Boolean(bool),
    Raw(Bytes),
    Map(BTreeMap<String, String>),
    List(Vec<String>),
    Blobs(BTreeMap<String, Bytes>),
}

impl Value {
    fn encode(self) -> Result<Bytes, CqlError> {
        Ok(match self {
            Self::Text(text) => Bytes::from(text),
            Self::Int(value) => Bytes::copy_from_slice(&value.to_be_bytes()),
            Self::Double(value) => Bytes::copy_from_slice(&value.to_be_bytes()),
            Self::Boolean(value) => Bytes::copy_from_slice(&[u8::from(value)]),
            Self::Raw(bytes) => bytes,
            Self::Map(map) => elements::write_map(&map.into_iter().collect::<Vec<_>>())?,
            Self::List(list) => elements::write_list(&list)?,
            Self::Blobs(map) => elements::write_map(&map.into_iter().collect::<Vec<_>>())?,
        })
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn kind_word(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Regular => "regular",
        ColumnKind::Static => "static",
    }
}

impl<'a> Writer<'a> {
    fn new(
        schema: &'a Schema,
        keyspace: &str,
        timestamp: TimestampMicros,
        now: NowInSeconds,
    ) -> Self {
        let key = DecoratedKey::new(Bytes::copy_from_slice(keyspace.as_bytes()));
        Self {
            schema,
            key,
            timestamp,
            now,
            updates: BTreeMap::new(),
        }
    }

    fn deletion(&self) -> DeletionTime {
        DeletionTime {
            marked_for_delete_at: self.timestamp,
            local_deletion_time: self.now,
        }
    }

    fn update(&mut self, name: &'static str) -> Result<&mut PartitionUpdate, CqlError> {
        if !self.updates.contains_key(name) {
            let table = self.schema.table("system_schema", name).cloned();
            let table = table.ok_or_else(|| {
                CqlError::Invalid(format!("table system_schema.{name} is missing"))
            })?;
            self.updates.insert(
                name,
                PartitionUpdate {
                    table,
                    partition: Partition::new(self.key.clone()),
                },
            );
        }
        self.updates
            .get_mut(name)
            .ok_or_else(|| CqlError::Invalid(format!("table system_schema.{name} is missing")))
    }

    fn clustering(parts: &[&str]) -> Clustering {
        Clustering(
            parts
                .iter()
                .map(|part| Some(Bytes::copy_from_slice(part.as_bytes())))
                .collect(),
        )
    }

    fn add_row(&mut self, name: &'static str, row: Row) -> Result<(), CqlError> {
        let update = self.update(name)?;
        let table = Arc::clone(&update.table);
        let rows = &mut update.partition.unfiltereds;
        let at = rows.binary_search_by(|present| match present {
            Unfiltered::Row(present) => present.clustering.compare(&row.clustering, &table),
            Unfiltered::Marker(_) => std::cmp::Ordering::Less,
        });
        match at {
            Err(at) => rows.insert(at, Unfiltered::Row(row)),
            Ok(at) => {
                if let Some(Unfiltered::Row(present)) = rows.get_mut(at) {
                    present.merge(row, &table);
                }
            }
        }
        Ok(())
    }

    /// Writes a row; `replace` deletes what stood there before.
    fn row(
        &mut self,
        name: &'static str,
        key: &[&str],
        replace: bool,
        values: Vec<(&str, Value)>,
    ) -> Result<(), CqlError> {
        let (timestamp, now) = (self.timestamp, self.now);
        let table = Arc::clone(&self.update(name)?.table);
        let mut row = Row::new(Self::clustering(key));
        row.liveness = LivenessInfo::new(timestamp, 0, now);
        if replace {
            row.deletion = DeletionTime {
                marked_for_delete_at: timestamp - 1,
                local_deletion_time: now,
            };
        }
        for (column, value) in values {
            let found = table.column(column).ok_or_else(|| {
                CqlError::Invalid(format!(
                    "column {column} of system_schema.{name} is missing"
                ))
            })?;
            row.add_cell(
                &table,
                found.id,
                Cell::live(timestamp, 0, now, None, value.encode()?),
            );
        }
        self.add_row(name, row)
    }

    fn delete_row(&mut self, name: &'static str, key: &[&str]) -> Result<(), CqlError> {
        let mut row = Row::new(Self::clustering(key));
        row.deletion = self.deletion();
        self.add_row(name, row)
    }

    fn keyspace(&mut self, keyspace: &Keyspace) -> Result<(), CqlError> {
        let mut replication = keyspace.replication.options.clone();
        replication.insert("class".into(), keyspace.replication.class.clone());
        let values = vec![
            ("durable_writes", Value::Boolean(keyspace.durable_writes)),
            ("replication", Value::Map(replication)),
        ];
        self.row("keyspaces", &[], false, values)
    }

    fn user_type(&mut self, user_type: &UserType) -> Result<(), CqlError> {
        let names = user_type
            .fields
            .iter()
            .map(|field| field.0.clone())
            .collect();
        let types = user_type
            .fields
            .iter()
            .map(|field| field.1.to_string())
            .collect();
        self.row(
            "types",
            &[&user_type.name],
            false,
            vec![
                ("field_names", Value::List(names)),
                ("field_types", Value::List(types)),
            ],
        )
    }

    fn table(&mut self, table: &TableMetadata) -> Result<(), CqlError> {
        self.table_row(table)?;
        for column in table.columns() {
            self.column(table, column)?;
        }
        for dropped in table.dropped_columns.values() {
            self.dropped_column(table, dropped)?;
        }
        Ok(())
    }

    fn table_row(&mut self, table: &TableMetadata) -> Result<(), CqlError> {
        let params = &table.params;
        let mut flags = table.flags.clone();
        flags.sort();
        let mut values = vec![
            (
                "id",
                Value::Raw(Bytes::copy_from_slice(table.id.0.as_bytes())),
            ),
            ("flags", Value::List(flags)),
            (
                "bloom_filter_fp_chance",
                Value::Double(params.bloom_filter_fp_chance),
            ),
            ("comment", text(&params.comment)),
            ("dclocal_read_repair_chance", Value::Double(0.0)),
            (
                "default_time_to_live",
                Value::Int(params.default_time_to_live_seconds),
            ),
            ("gc_grace_seconds", Value::Int(params.gc_grace_seconds)),
            ("max_index_interval", Value::Int(params.max_index_interval)),
            (
                "memtable_flush_period_in_ms",
                Value::Int(params.memtable_flush_period_in_ms),
            ),
            ("min_index_interval", Value::Int(params.min_index_interval)),
            ("read_repair_chance", Value::Double(0.0)),
            ("speculative_retry", text(&params.speculative_retry)),
            (
                "additional_write_policy",
                text(&params.additional_write_policy),
            ),
            ("crc_check_chance", Value::Double(params.crc_check_chance)),
            ("caching", Value::Map(params.caching.clone())),
            ("compaction", Value::Map(params.compaction.clone())),
            ("compression", Value::Map(params.compression.clone())),
            ("read_repair", text(&params.read_repair)),
            ("extensions", Value::Blobs(params.extensions.clone())),
        ];
        if params.cdc {
            values.push(("cdc", Value::Boolean(true)));
        }
        if !params.memtable.is_empty() {
            values.push(("memtable", text(&params.memtable)));
        }
        if !params.allow_auto_snapshot {
            values.push(("allow_auto_snapshot", Value::Boolean(false)));
        }
        if !params.incremental_backups {
            values.push(("incremental_backups", Value::Boolean(false)));
        }
        self.row("tables", &[&table.name], true, values)
    }

    fn column(&mut self, table: &TableMetadata, column: &Column) -> Result<(), CqlError> {
        let position = match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => {
                i32::try_from(column.position).unwrap_or(i32::MAX)
            }
            ColumnKind::Regular | ColumnKind::Static => -1,
        };
        let order = match (column.kind, column.reversed) {
            (ColumnKind::Clustering, true) => "desc",
            (ColumnKind::Clustering, false) => "asc",
            _ => "none",
        };
        let values = vec![
            (
                "column_name_bytes",
                Value::Raw(Bytes::copy_from_slice(column.name.as_bytes())),
            ),
            ("kind", text(kind_word(column.kind))),
            ("position", Value::Int(position)),
            ("clustering_order", text(order)),
            ("type", Value::Text(column.cql_type.to_string())),
        ];
        self.row("columns", &[&table.name, &column.name], false, values)?;
        if !REPLICATED_KEYSPACES.contains(&table.keyspace.as_str()) {
            self.delete_row("column_masks", &[&table.name, &column.name])?;
        }
        Ok(())
    }

    fn drop_column(&mut self, table: &TableMetadata, column: &Column) -> Result<(), CqlError> {
        self.delete_row("columns", &[&table.name, &column.name])?;
        self.delete_row("column_masks", &[&table.name, &column.name])
    }

    fn dropped_column(
        &mut self,
        table: &TableMetadata,
        dropped: &DroppedColumn,
    ) -> Result<(), CqlError> {
        let millis = dropped.dropped_time.div_euclid(1000);
        let values = vec![
            (
                "dropped_time",
                Value::Raw(Bytes::copy_from_slice(&millis.to_be_bytes())),
            ),
            (
                "type",
                Value::Text(dropped.cql_type.freeze_user_types().to_string()),
            ),
            ("kind", text(kind_word(dropped.kind))),
        ];
        self.row(
            "dropped_columns",
            &[&table.name, &dropped.name],
            false,
            values,
        )
    }

    fn drop_table(&mut self, table: &TableMetadata) -> Result<(), CqlError> {
        self.delete_row("tables", &[&table.name])?;
        for column in table.columns() {
            self.drop_column(table, column)?;
        }
        for dropped in table.dropped_columns.values() {
            self.delete_row("dropped_columns", &[&table.name, &dropped.name])?;
        }
        Ok(())
    }

    fn alter_table(
        &mut self,
        before: &TableMetadata,
        after: &TableMetadata,
    ) -> Result<(), CqlError> {
        self.table_row(after)?;
        for column in before
            .columns()
            .iter()
            .filter(|column| after.column(&column.name).is_none())
        {
            self.drop_column(before, column)?;
        }
        let like = |a: &Column, b: &Column| {
            (a.kind, a.position, &a.cql_type, a.reversed)
                == (b.kind, b.position, &b.cql_type, b.reversed)
        };
        for column in after.columns() {
            if before
                .column(&column.name)
                .is_none_or(|old| !like(old, column))
            {
                self.column(after, column)?;
            }
        }
        for dropped in after.dropped_columns.values() {
            if before.dropped_columns.get(&dropped.name) != Some(dropped) {
                self.dropped_column(after, dropped)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Mutation {
        // in the order in which Cassandra's tables stand
        let updates = SCHEMA_TABLES
            .iter()
            .filter_map(|name| self.updates.remove(name))
            .collect();
        Mutation {
            keyspace: "system_schema".into(),
            key: self.key,
            updates,
        }
    }
}

/// Not a method of Cassandra's types: user types in records of dropped columns are written as
/// tuples, because the type itself may be dropped later.
trait FreezeUserTypes {
    fn freeze_user_types(&self) -> CqlType;
}

impl FreezeUserTypes for CqlType {
    fn freeze_user_types(&self) -> CqlType {
        let inner = |t: &Arc<CqlType>| Arc::new(t.freeze_user_types());
        match self {
            CqlType::Udt(user_type) => CqlType::Tuple(
                user_type
                    .fields
                    .iter()
                    .map(|field| field.1.freeze_user_types().freeze())
                    .collect(),
            ),
            CqlType::List { element, frozen } => CqlType::List {
                element: inner(element),
                frozen: *frozen,
            },
            CqlType::Set { element, frozen } => CqlType::Set {
                element: inner(element),
                frozen: *frozen,
            },
            CqlType::Map { key, value, frozen } => CqlType::Map {
                key: inner(key),
                value: inner(value),
                frozen: *frozen,
            },
            CqlType::Tuple(types) => CqlType::Tuple(
                types
                    .iter()
                    .map(FreezeUserTypes::freeze_user_types)
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

/// The mutation of `system_schema` that a change makes. `schema` needs to hold `system_schema` only.
pub fn mutation_of(
    change: &SchemaChange,
    schema: &Schema,
    timestamp: TimestampMicros,
    now: NowInSeconds,
) -> Result<Mutation, CqlError> {
    let mut writer = Writer::new(schema, &change.keyspace, timestamp, now);
    let Some(after) = &change.after else {
        let deletion = writer.deletion();
        for name in SCHEMA_TABLES {
            writer.update(name)?.partition.deletion = deletion;
        }
        return Ok(writer.finish());
    };
    writer.keyspace(after)?;
    let empty = Keyspace::new(&change.keyspace, after.replication.clone());
    let before = change.before.as_deref().unwrap_or(&empty);
    for user_type in before
        .types
        .values()
        .filter(|old| !after.types.contains_key(&old.name))
    {
        writer.delete_row("types", &[&user_type.name])?;
    }
    for user_type in after.types.values() {
        if before.types.get(&user_type.name) != Some(user_type) {
            writer.user_type(user_type)?;
        }
    }
    for table in before.tables.values() {
        if after
            .tables
            .get(&table.name)
            .is_none_or(|new| new.id != table.id)
        {
            writer.drop_table(table)?;
        }
    }
    for table in after.tables.values() {
        match before.tables.get(&table.name) {
            Some(old) if old == table => {}
            Some(old) if old.id == table.id => writer.alter_table(old, table)?,
            _ => writer.table(table)?,
        }
    }
    Ok(writer.finish())
}

/// Every row of a keyspace: for system keyspaces at start, and to answer schema pulls without a store.
pub fn all_rows(
    keyspace: &Keyspace,
    schema: &Schema,
    timestamp: TimestampMicros,
    now: NowInSeconds,
) -> Result<Mutation, CqlError> {
    let mut writer = Writer::new(schema, &keyspace.name, timestamp, now);
    writer.keyspace(keyspace)?;
    for user_type in keyspace.types.values() {
        writer.user_type(user_type)?;
    }
    for table in keyspace.tables.values() {
        writer.table(table)?;
    }
    Ok(writer.finish())
}
