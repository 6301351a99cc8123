//! Bound modifications as updates of partitions.

use super::lists::{self, Place};
use super::{Body, Change, Kind, Operation, PreparedModification};
use crate::binding::{BoundValue, Evaluation};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::restrictions::Restrictions;
use crate::restrictions::RowsBound;
use bytes::Bytes;
use helenus_rows::{
    Cell, Clustering, DeletionTime, LivenessInfo, Partition, PartitionUpdate, RangeTombstoneMarker,
    Row, Slice, Unfiltered,
};
use helenus_schema::{Column, ColumnKind, TableMetadata};
use helenus_types::json_parse::Json;
use helenus_types::{CqlType, DecoratedKey, NowInSeconds, TimestampMicros, composite, elements};
use std::sync::Arc;

/// The greatest TTL in seconds: 20 years.
const MAX_TTL: i32 = 20 * 365 * 24 * 60 * 60;

/// Timestamp and TTL of a write.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    timestamp: TimestampMicros,
    ttl: i32,
    now: NowInSeconds,
}

impl Stamp {
    fn deletion(self) -> DeletionTime {
        DeletionTime {
            marked_for_delete_at: self.timestamp,
            local_deletion_time: self.now,
        }
    }

    /// Deletes what stood before a collection that is written whole.
    fn overwrite(self) -> DeletionTime {
        DeletionTime {
            marked_for_delete_at: self.timestamp.saturating_sub(1),
            local_deletion_time: self.now,
        }
    }
}

fn stamp(
    modification: &PreparedModification,
    evaluation: &Evaluation<'_>,
    batch_timestamp: Option<TimestampMicros>,
) -> Result<Stamp, CqlError> {
    let context = evaluation.context;
    let mut timestamp = batch_timestamp.unwrap_or(context.timestamp_micros);
    if let Some(expr) = &modification.timestamp {
        match expr.value(evaluation)? {
            BoundValue::Unset => {}
            BoundValue::Null => return Err(invalid!("Invalid null value of timestamp")),
            BoundValue::Value(bytes) => timestamp = timestamp_of(&bytes)?,
        }
    }
    let default = modification.table.params.default_time_to_live_seconds;
    let ttl = match modification
        .ttl
        .as_ref()
        .map(|expr| expr.value(evaluation))
        .transpose()?
    {
        None | Some(BoundValue::Unset) => default,
        Some(BoundValue::Null) => 0,
        Some(BoundValue::Value(bytes)) => ttl_of(&bytes)?,
    };
    Ok(Stamp {
        timestamp,
        ttl,
        now: context.now_in_seconds,
    })
}

/// Reads a `[timestamp]`.
pub(crate) fn timestamp_of(bytes: &Bytes) -> Result<TimestampMicros, CqlError> {
    let array = bytes[..]
        .try_into()
        .map_err(|_| invalid!("Invalid timestamp value: must be a valid long"))?;
    let timestamp = i64::from_be_bytes(array);
    if timestamp == i64::MIN {
        return Err(invalid!(
            "Out of bound timestamp, must be in [{}, {}]",
            i64::MIN + 1,
            i64::MAX
        ));
    }
    Ok(timestamp)
}

fn ttl_of(bytes: &Bytes) -> Result<i32, CqlError> {
    let array = bytes[..]
        .try_into()
        .map_err(|_| invalid!("Invalid TTL value: must be a valid int"))?;
    let ttl = i32::from_be_bytes(array);
    if ttl < 0 {
        return Err(invalid!(
            "A TTL must be greater or equal to 0, but was {ttl}"
        ));
    }
    if ttl > MAX_TTL {
        return Err(invalid!(
            "ttl is too large. requested ({ttl}) maximum ({MAX_TTL})"
        ));
    }
    Ok(ttl)
}

/// The updates of a bound modification, one per partition.
pub(crate) fn bind(
    modification: &PreparedModification,
    evaluation: &Evaluation<'_>,
    batch_timestamp: Option<TimestampMicros>,
) -> Result<Vec<PartitionUpdate>, CqlError> {
    let stamp = stamp(modification, evaluation, batch_timestamp)?;
    match &modification.body {
        Body::Json {
            document,
            default_unset,
        } => {
            let text = document
                .option(evaluation, "column [json]")?
                .ok_or_else(|| invalid!("Got null for INSERT JSON values"))?;
            insert_json(
                &modification.table,
                &text,
                *default_unset,
                stamp,
                evaluation,
            )
            .map(|update| vec![update])
        }
        Body::Columns {
            restrictions,
            operations,
        } => {
            let keys = restrictions.keys(evaluation)?;
            let mut updates = Vec::with_capacity(keys.len());
            for key in keys {
                let mut partition = Partition::new(key);
                if modification.kind == Kind::Delete && operations.is_empty() {
                    delete_rows(restrictions, evaluation, stamp, &mut partition)?;
                } else {
                    write_rows(
                        modification,
                        restrictions,
                        operations,
                        evaluation,
                        stamp,
                        &mut partition,
                    )?;
                }
                updates.push(PartitionUpdate {
                    table: Arc::clone(&modification.table),
                    partition,
                });
            }
            Ok(updates)
        }
    }
}

fn delete_rows(
    restrictions: &Restrictions,
    evaluation: &Evaluation<'_>,
    stamp: Stamp,
    partition: &mut Partition,
) -> Result<(), CqlError> {
    if restrictions.clustering.is_empty() {
        partition.deletion = stamp.deletion();
        return Ok(());
    }
    match restrictions.rows(evaluation)? {
        RowsBound::Names(clusterings) => {
            for clustering in clusterings {
                let mut row = Row::new(clustering);
                row.deletion = stamp.deletion();
                partition.unfiltereds.push(Unfiltered::Row(row));
            }
        }
        RowsBound::Slices(slices) => {
            for Slice { start, end } in slices {
                let deletion = Some(stamp.deletion());
                partition
                    .unfiltereds
                    .push(Unfiltered::Marker(RangeTombstoneMarker {
                        bound: start,
                        end: None,
                        start: deletion,
                    }));
                partition
                    .unfiltereds
                    .push(Unfiltered::Marker(RangeTombstoneMarker {
                        bound: end,
                        end: deletion,
                        start: None,
                    }));
            }
        }
    }
    Ok(())
}

fn write_rows(
    modification: &PreparedModification,
    restrictions: &Restrictions,
    operations: &[Operation],
    evaluation: &Evaluation<'_>,
    stamp: Stamp,
    partition: &mut Partition,
) -> Result<(), CqlError> {
    let table = &modification.table;
    let key = partition.key.clone();
    let place = Place { table, key: &key };
    for operation in operations.iter().filter(|operation| operation.is_static) {
        apply(
            &place,
            operation,
            evaluation,
            stamp,
            &mut partition.static_row,
        )?;
    }
    if !table.clustering().is_empty() && restrictions.clustering.is_empty() {
        return Ok(());
    }
    let clusterings = match restrictions.rows(evaluation)? {
        RowsBound::Names(clusterings) => clusterings,
        RowsBound::Slices(_) => vec![Clustering::default()],
    };
    for clustering in clusterings {
        let length: usize = clustering.0.iter().flatten().map(Bytes::len).sum();
        if clustering
            .0
            .iter()
            .flatten()
            .any(|value| value.len() > usize::from(u16::MAX))
        {
            return Err(invalid!(
                "Key length of {length} is longer than maximum of 65535"
            ));
        }
        let mut row = Row::new(clustering);
        if modification.kind == Kind::Insert {
            row.liveness = LivenessInfo::new(stamp.timestamp, stamp.ttl, stamp.now);
        }
        for operation in operations.iter().filter(|operation| !operation.is_static) {
            apply(&place, operation, evaluation, stamp, &mut row)?;
        }
        if !row.is_empty() {
            partition.unfiltereds.push(Unfiltered::Row(row));
        }
    }
    Ok(())
}

fn element(expr: &Expr, evaluation: &Evaluation<'_>, what: &str) -> Result<Bytes, CqlError> {
    match expr.value(evaluation)? {
        BoundValue::Value(bytes) => Ok(bytes),
        BoundValue::Null => Err(invalid!("Invalid null {what}")),
        BoundValue::Unset => Err(invalid!("Invalid unset {what}")),
    }
}

/// The path of a field's cell: its place in the type.
fn field_path(index: u16) -> Bytes {
    Bytes::copy_from_slice(&index.to_be_bytes())
}

fn apply(
    place: &Place<'_>,
    operation: &Operation,
    evaluation: &Evaluation<'_>,
    stamp: Stamp,
    row: &mut Row,
) -> Result<(), CqlError> {
    let (id, table) = (operation.column, place.table);
    let cell = |path: Option<Bytes>, value: Option<Bytes>| match value {
        Some(value) => Cell::live(stamp.timestamp, stamp.ttl, stamp.now, path, value),
        None => Cell::tombstone(stamp.timestamp, stamp.now, path),
    };
    let put = |row: &mut Row, path: Bytes, value: BoundValue| match value {
        BoundValue::Unset => {}
        BoundValue::Null => row.add_cell(table, id, cell(Some(path), None)),
        BoundValue::Value(value) => row.add_cell(table, id, cell(Some(path), Some(value))),
    };
    match &operation.change {
        Change::Set(expr) => match expr.value(evaluation)? {
            BoundValue::Unset => {}
            BoundValue::Null => set_value(table, operation, None, evaluation, stamp, row)?,
            BoundValue::Value(bytes) => {
                set_value(table, operation, Some(bytes), evaluation, stamp, row)?;
            }
        },
        Change::Append(expr) => {
            if let BoundValue::Value(bytes) = expr.value(evaluation)? {
                add_elements(table, operation, &bytes, evaluation, stamp, row)?;
            }
        }
        Change::Prepend(expr) => {
            if let BoundValue::Value(bytes) = expr.value(evaluation)? {
                prepend(table, operation, &bytes, evaluation, stamp, row)?;
            }
        }
        Change::Remove(expr) => {
            if let BoundValue::Value(bytes) = expr.value(evaluation)? {
                for path in elements::read_set(&bytes)? {
                    row.add_cell(table, id, cell(Some(path), None));
                }
            }
        }
        Change::RemoveValues(_) | Change::SetIndex(..) | Change::DeleteIndex(_) => {
            for (path, value) in lists::changed(place, operation, row, evaluation)? {
                row.add_cell(table, id, cell(Some(path), value));
            }
        }
        Change::Entry(key, value) => {
            let key = element(key, evaluation, "map key")?;
            put(row, key, value.value(evaluation)?);
        }
        Change::Field(index, value) => put(row, field_path(*index), value.value(evaluation)?),
        Change::Delete if operation.cql_type.is_multi_cell() => {
            row.add_complex_deletion(table, id, stamp.deletion());
        }
        Change::Delete => row.add_cell(table, id, cell(None, None)),
        Change::DeleteEntry(key) => {
            let what = if matches!(operation.cql_type, CqlType::Map { .. }) {
                "map key"
            } else {
                "set element"
            };
            row.add_cell(table, id, cell(Some(element(key, evaluation, what)?), None));
        }
        Change::DeleteField(index) => {
            row.add_cell(table, id, cell(Some(field_path(*index)), None));
        }
    }
    Ok(())
}

/// Writes a whole value, or null.
fn set_value(
    table: &TableMetadata,
    operation: &Operation,
    value: Option<Bytes>,
    evaluation: &Evaluation<'_>,
    stamp: Stamp,
    row: &mut Row,
) -> Result<(), CqlError> {
    if operation.cql_type.is_multi_cell() {
        row.add_complex_deletion(table, operation.column, stamp.overwrite());
        return value.map_or(Ok(()), |bytes| {
            add_elements(table, operation, &bytes, evaluation, stamp, row)
        });
    }
    let cell = match value {
        Some(value) => Cell::live(stamp.timestamp, stamp.ttl, stamp.now, None, value),
        None => Cell::tombstone(stamp.timestamp, stamp.now, None),
    };
    row.add_cell(table, operation.column, cell);
    Ok(())
}

/// Adds the elements of a serialized collection, or the fields of a user type.
fn add_elements(
    table: &TableMetadata,
    operation: &Operation,
    bytes: &Bytes,
    evaluation: &Evaluation<'_>,
    stamp: Stamp,
    row: &mut Row,
) -> Result<(), CqlError> {
    let mut add = |path: Bytes, value: Option<Bytes>| {
        let cell = match value {
            Some(value) => Cell::live(stamp.timestamp, stamp.ttl, stamp.now, Some(path), value),
            None => Cell::tombstone(stamp.timestamp, stamp.now, Some(path)),
        };
        row.add_cell(table, operation.column, cell);
    };
    match &operation.cql_type {
        CqlType::List { .. } => {
            for item in elements::read_list(bytes)? {
                add(
                    Bytes::copy_from_slice(evaluation.time_uuid().as_bytes()),
                    Some(item),
                );
            }
        }
        CqlType::Set { element, .. } => {
            for item in elements::read_set(bytes)? {
                if item.len() > usize::from(u16::MAX) {
                    return Err(invalid!(
                        "Set value is too long. Set values are limited to 65535 bytes but {} bytes value provided",
                        item.len()
                    ));
                }
                debug_assert!(!element.is_multi_cell());
                add(item, Some(Bytes::new()));
            }
        }
        CqlType::Map { .. } => {
            for (key, value) in elements::read_map(bytes)? {
                if key.len() > usize::from(u16::MAX) {
                    return Err(invalid!(
                        "Map key is too long. Map keys are limited to 65535 bytes but {} bytes keys provided",
                        key.len()
                    ));
                }
                add(key, Some(value));
            }
        }
        CqlType::Udt(user_type) => {
            let fields = elements::read_fields(bytes, user_type.fields.len(), "UDT")?;
            for (index, field) in (0_u16..).zip(fields) {
                if field.is_some() {
                    add(Bytes::copy_from_slice(&index.to_be_bytes()), field);
                }
            }
        }
        other => {
            return Err(invalid!(
                "Column {} of type {other} has no elements",
                operation.name
            ));
        }
    }
    Ok(())
}

/// Milliseconds since 1970 of Cassandra's reference for prepended list elements: 2010-01-01.
const PREPEND_REFERENCE_MS: i64 = 1_262_304_000_000;

/// Elements before all others of a list: their positions run backwards from a reference time.
fn prepend(
    table: &TableMetadata,
    operation: &Operation,
    bytes: &Bytes,
    evaluation: &Evaluation<'_>,
    stamp: Stamp,
    row: &mut Row,
) -> Result<(), CqlError> {
    let items = elements::read_list(bytes)?;
    let reference = PREPEND_REFERENCE_MS * 1000;
    let mirrored = reference - (evaluation.context.now_micros - reference);
    // later elements of one statement stand behind earlier ones
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    for (at, item) in (0_i64..).zip(items) {
        let e = evaluation.context.entropy;
        let uuid = helenus_types::timeuuid::from_micros(
            mirrored.saturating_sub(count) + at,
            u16::from_be_bytes([e[0], e[1]]),
            [e[2] | 1, e[3], e[4], e[5], e[6], e[7]],
        );
        let path = Some(Bytes::copy_from_slice(uuid.as_bytes()));
        row.add_cell(
            table,
            operation.column,
            Cell::live(stamp.timestamp, stamp.ttl, stamp.now, path, item),
        );
    }
    Ok(())
}

/// The columns that a JSON object names, with their values; one named twice is there twice.
fn json_columns<'t>(
    table: &'t TableMetadata,
    text: &Bytes,
) -> Result<Vec<(&'t Column, Option<Bytes>)>, CqlError> {
    let text = std::str::from_utf8(text).map_err(|_| invalid!("String didn't validate."))?;
    let bad = |reason: &dyn std::fmt::Display| {
        invalid!("Could not decode JSON string as a map: {reason}. (String was: {text})")
    };
    let Json::Object(entries) = Json::parse(text).map_err(|error| bad(&error))? else {
        return Err(bad(&"it is no object"));
    };
    let mut values = Vec::with_capacity(entries.len());
    for (key, value) in &entries {
        let name = helenus_types::json::column_name(key);
        let column = table
            .column(&name)
            .ok_or_else(|| invalid!("JSON values map contains unrecognized column: {name}"))?;
        let decoded = column
            .cql_type
            .from_json_value(value)
            .map_err(|error| invalid!("Error decoding JSON value for {name}: {error}"))?;
        values.push((column, decoded));
    }
    Ok(values)
}

fn insert_json(
    table: &Arc<TableMetadata>,
    text: &Bytes,
    default_unset: bool,
    stamp: Stamp,
    evaluation: &Evaluation<'_>,
) -> Result<PartitionUpdate, CqlError> {
    let values = json_columns(table, text)?;
    let find = |column: &Column| {
        values
            .iter()
            .rev()
            .find(|entry| entry.0.id == column.id)
            .map(|entry| entry.1.clone())
    };
    let required = |column: &Column| {
        find(column)
            .flatten()
            .ok_or_else(|| invalid!("Invalid null value in condition for column {}", column.name))
    };
    let parts: Vec<Bytes> = table
        .partition_key()
        .iter()
        .map(required)
        .collect::<Result<_, _>>()?;
    let key = composite::build(&parts).map_err(|error| invalid!("{error}"))?;
    if key.is_empty() {
        return Err(invalid!("Key may not be empty"));
    }
    let clustering: Vec<Option<Bytes>> = table
        .clustering()
        .iter()
        .map(|column| required(column).map(Some))
        .collect::<Result<_, _>>()?;
    let mut partition = Partition::new(DecoratedKey::new(key));
    let mut row = Row::new(Clustering(clustering));
    row.liveness = LivenessInfo::new(stamp.timestamp, stamp.ttl, stamp.now);
    for column in table.static_columns().iter().chain(table.regular_columns()) {
        let value = match find(column) {
            Some(value) => value,
            None if default_unset => continue,
            None => None,
        };
        let operation = Operation {
            column: column.id,
            name: column.name.clone(),
            cql_type: column.cql_type.clone(),
            is_static: column.kind == ColumnKind::Static,
            change: Change::Delete,
        };
        let target = if operation.is_static {
            &mut partition.static_row
        } else {
            &mut row
        };
        set_value(table, &operation, value, evaluation, stamp, target)?;
    }
    partition.unfiltereds.push(Unfiltered::Row(row));
    Ok(PartitionUpdate {
        table: Arc::clone(table),
        partition,
    })
}
