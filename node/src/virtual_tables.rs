//! Virtual tables: made from what the node knows when they are read.

use bytes::Bytes;
use helenus_rows::{
    Cell, Clustering, ColumnData, DataRange, LivenessInfo, Partition, PartitionPosition,
    ReadCommand, ReadKind, Row, Unfiltered,
};
use helenus_schema::system::{VIRTUAL_KEYSPACES, is_virtual_keyspace};
use helenus_schema::{ColumnKind, Schema, TableMetadata};
use helenus_types::DecoratedKey;
use std::collections::BTreeMap;

/// A row as text by column name; absent columns are null.
type TextRow = BTreeMap<&'static str, Bytes>;

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// The partitions that a command asks of a virtual table; `None` when its table is a stored one.
pub(crate) fn read(command: &ReadCommand, schema: &Schema) -> Option<Vec<Partition>> {
    let table = &command.table;
    if !is_virtual_keyspace(&table.keyspace) {
        return None;
    }
    let rows = match (table.keyspace.as_str(), table.name.as_str()) {
        ("system_virtual_schema", "keyspaces") => keyspaces(),
        ("system_virtual_schema", "tables") => tables(schema),
        ("system_virtual_schema", "columns") => columns(schema),
        _ => Vec::new(),
    };
    let mut partitions: BTreeMap<DecoratedKey, Partition> = BTreeMap::new();
    for row in rows {
        add(&mut partitions, table, &row);
    }
    let mut chosen: Vec<Partition> = match &command.kind {
        ReadKind::Partition { key, .. } => partitions.remove(key).into_iter().collect(),
        ReadKind::Range(range) => range_of(partitions.into_values().collect(), range),
    };
    for partition in &mut chosen {
        keep_wanted(partition, command);
    }
    Some(chosen)
}

/// Partitions of a range in the order of their keys, as virtual tables have it (not of tokens).
fn range_of(mut partitions: Vec<Partition>, range: &DataRange) -> Vec<Partition> {
    partitions.sort_by(|a, b| a.key.key.cmp(&b.key.key));
    match &range.start {
        // a later page
        PartitionPosition::Key { key, inclusive } => partitions.retain(|partition| {
            let order = partition.key.key.cmp(&key.key);
            order.is_gt() || (*inclusive && order.is_eq())
        }),
        _ => partitions.retain(|partition| range.contains(&partition.key)),
    }
    partitions
}

fn virtual_tables(schema: &Schema) -> impl Iterator<Item = &TableMetadata> {
    VIRTUAL_KEYSPACES
        .iter()
        .filter_map(|name| schema.keyspace(name))
        .flat_map(|keyspace| keyspace.tables.values())
        .map(std::convert::AsRef::as_ref)
}

fn keyspaces() -> Vec<TextRow> {
    VIRTUAL_KEYSPACES
        .iter()
        .map(|name| BTreeMap::from([("keyspace_name", text(name))]))
        .collect()
}

fn tables(schema: &Schema) -> Vec<TextRow> {
    virtual_tables(schema)
        .map(|table| {
            BTreeMap::from([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("comment", text(&table.params.comment)),
            ])
        })
        .collect()
}

fn columns(schema: &Schema) -> Vec<TextRow> {
    virtual_tables(schema)
        .flat_map(|table| {
            table.columns().iter().map(move |column| {
                let (kind, position) = match column.kind {
                    ColumnKind::PartitionKey => {
                        ("partition_key", i32::try_from(column.position).unwrap_or(0))
                    }
                    ColumnKind::Clustering => {
                        ("clustering", i32::try_from(column.position).unwrap_or(0))
                    }
                    ColumnKind::Regular => ("regular", -1),
                    ColumnKind::Static => ("static", -1),
                };
                let order = match (column.kind, column.reversed) {
                    (ColumnKind::Clustering, true) => "desc",
                    (ColumnKind::Clustering, false) => "asc",
                    _ => "none",
                };
                BTreeMap::from([
                    ("keyspace_name", text(&table.keyspace)),
                    ("table_name", text(&table.name)),
                    ("column_name", text(&column.name)),
                    ("clustering_order", text(order)),
                    ("column_name_bytes", text(&column.name)),
                    ("kind", text(kind)),
                    ("position", Bytes::copy_from_slice(&position.to_be_bytes())),
                    ("type", text(&column.cql_type.to_string())),
                ])
            })
        })
        .collect()
}

fn add(
    partitions: &mut BTreeMap<DecoratedKey, Partition>,
    table: &TableMetadata,
    values: &TextRow,
) {
    let value = |name: &str| values.get(name).cloned();
    let keys: Vec<Bytes> = table
        .partition_key()
        .iter()
        .map(|column| value(&column.name).unwrap_or_default())
        .collect();
    let key = match &keys[..] {
        [single] => single.clone(),
        several => helenus_types::composite::build(several).unwrap_or_default(),
    };
    let key = DecoratedKey::new(key);
    let partition = partitions
        .entry(key.clone())
        .or_insert_with(|| Partition::new(key));
    let clustering = table
        .clustering()
        .iter()
        .map(|column| value(&column.name))
        .collect();
    let mut row = Row::new(Clustering(clustering));
    row.liveness = LivenessInfo {
        timestamp: 0,
        ..LivenessInfo::EMPTY
    };
    for column in table.regular_columns() {
        if let Some(bytes) = value(&column.name) {
            row.columns.push((
                column.id,
                ColumnData::Simple(Cell::live(0, 0, 0, None, bytes)),
            ));
        }
    }
    row.columns.sort_by_key(|entry| entry.0);
    partition.unfiltereds.push(Unfiltered::Row(row));
}

/// Rows in order, only those that the command asks for.
fn keep_wanted(partition: &mut Partition, command: &ReadCommand) {
    let table = &command.table;
    let (filter, resume) = match &command.kind {
        ReadKind::Partition { filter, .. } => (filter, None),
        // only the first partition of a later page is gone on with
        ReadKind::Range(range) => {
            let first =
                matches!(&range.start, PartitionPosition::Key { key, .. } if *key == partition.key);
            (&range.filter, range.resume_after.as_ref().filter(|_| first))
        }
    };
    let mut rows: Vec<Row> = partition
        .unfiltereds
        .drain(..)
        .filter_map(|unfiltered| match unfiltered {
            Unfiltered::Row(row) => Some(row),
            Unfiltered::Marker(_) => None,
        })
        .filter(|row| filter.includes(&row.clustering, table))
        .filter(|row| {
            resume.is_none_or(|after| after.clustering.compare(&row.clustering, table).is_lt())
        })
        .collect();
    rows.sort_by(|a, b| a.clustering.compare(&b.clustering, table));
    if filter.is_reversed() {
        rows.reverse();
    }
    partition.unfiltereds = rows.into_iter().map(Unfiltered::Row).collect();
}
