//! CREATE, ALTER and DROP TABLE.

use super::{
    ChangeKind, DdlContext, SchemaChange, change, check_modifiable, is_valid_name, keyspace_of,
    options,
};
use crate::analysis::column_of;
use crate::ast::{AlterTableAction, CreateTable, Properties, QualifiedName, RawType};
use crate::error::{CqlError, invalid};
use crate::raw_type::resolve_type;
use helenus_schema::{
    ColumnKind, DroppedColumn, Keyspace, Schema, TableBuilder, TableId, TableMetadata, TableParams,
};
use helenus_types::CqlType;
use std::sync::Arc;

type Outcome = Result<Option<SchemaChange>, CqlError>;

pub(super) fn create(schema: &Schema, create: &CreateTable, context: &DdlContext<'_>) -> Outcome {
    let name = QualifiedName {
        keyspace: create.keyspace.clone(),
        name: create.name.clone(),
    };
    let keyspace = keyspace_of(&name, context)?;
    check_modifiable(&keyspace)?;
    let Some(before) = schema.keyspace(&keyspace) else {
        return Err(invalid!("Keyspace '{keyspace}' doesn't exist"));
    };
    if before.tables.contains_key(&create.name) {
        if create.if_not_exists {
            return Ok(None);
        }
        let message = format!(
            "Cannot add already existing table \"{}\" to keyspace \"{keyspace}\"",
            create.name
        );
        return Err(CqlError::AlreadyExists {
            keyspace,
            table: create.name.clone(),
            message,
        });
    }
    if !is_valid_name(&create.name) {
        let qualified = format!("{keyspace}.{}", create.name);
        return Err(CqlError::Config(format!(
            "{qualified}: Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got \"{}\")",
            create.name
        )));
    }
    let mut warnings = Vec::new();
    let table = define(
        schema,
        create,
        &keyspace,
        context.new_table_id,
        &mut warnings,
    )?;
    let mut after = Keyspace::clone(before);
    after.tables.insert(create.name.clone(), Arc::new(table));
    let mut made = change(before, after, ChangeKind::Created, "TABLE", &create.name);
    made.warnings = warnings;
    Ok(Some(made))
}

/// The table that CREATE TABLE describes.
fn define(
    schema: &Schema,
    create: &CreateTable,
    keyspace: &str,
    id: uuid::Uuid,
    warnings: &mut Vec<String>,
) -> Result<TableMetadata, CqlError> {
    // as the statement names it
    let shown = create.keyspace.as_ref().map_or_else(
        || create.name.clone(),
        |keyspace| format!("{keyspace}.{}", create.name),
    );
    if create.compact_storage {
        options::parse(&create.properties, &TableParams::default(), warnings)?;
        return Err(invalid!(
            "COMPACT STORAGE tables are not allowed, see https://cassandra.apache.org/doc/latest/cassandra/operating/compact-storage.html"
        ));
    }
    if create.masked {
        return Err(invalid!(
            "Cannot mask columns because dynamic data masking is not enabled. You can enable it with the dynamic_data_masking_enabled property on cassandra.yaml"
        ));
    }
    let (id, properties) = split_id(create, id)?;
    let params = options::parse(&properties, &TableParams::default(), warnings)?;
    let mut types = Vec::with_capacity(create.columns.len());
    for (at, (name, raw, _)) in create.columns.iter().enumerate() {
        if create.columns[..at]
            .iter()
            .any(|earlier| earlier.0 == *name)
        {
            return Err(invalid!(
                "Duplicate column '{name}' declaration for table '{shown}'"
            ));
        }
        types.push(resolve_type(raw, schema, Some(keyspace))?);
    }
    let (partition_key, clustering) = match &create.primary_keys[..] {
        [] => {
            return Err(invalid!(
                "No PRIMARY KEY specifed for table '{shown}' (exactly one required)"
            ));
        }
        [only] => only,
        _ => {
            return Err(invalid!(
                "Multiple PRIMARY KEY specified for table '{shown}' (exactly one required)"
            ));
        }
    };
    check_order(create, clustering)?;
    let mut builder = TableMetadata::builder(keyspace, &create.name, TableId(id));
    builder.params = params;
    for (kind, names) in [
        (ColumnKind::PartitionKey, partition_key),
        (ColumnKind::Clustering, clustering),
    ] {
        add_key_columns(create, &types, kind, names, &mut builder)?;
    }
    add_data_columns(create, &types, &mut builder)?;
    Ok(builder.build())
}

/// The id that the statement itself gives, as `DESCRIBE WITH INTERNALS` writes it, or else `id`; and
/// the properties besides.
fn split_id(create: &CreateTable, id: uuid::Uuid) -> Result<(uuid::Uuid, Properties), CqlError> {
    let mut id_override = None;
    let mut properties = create.properties.clone();
    properties.retain(|(name, value)| {
        if name == "id"
            && let crate::ast::PropertyValue::Simple(text) = value
        {
            id_override = Some(text.clone());
            return false;
        }
        true
    });
    let id = match id_override {
        None => id,
        Some(text) => text
            .parse()
            .map_err(|_| CqlError::Config("Invalid table id".into()))?,
    };
    Ok((id, properties))
}

fn add_key_columns(
    create: &CreateTable,
    types: &[CqlType],
    kind: ColumnKind,
    names: &[String],
    builder: &mut TableBuilder,
) -> Result<(), CqlError> {
    for name in names {
        let at = create
            .columns
            .iter()
            .position(|column| column.0 == *name)
            .ok_or_else(|| {
                invalid!(
                    "Unknown column '{name}' referenced in PRIMARY KEY for table '{}'",
                    create.name
                )
            })?;
        check_key_column(name, &types[at], create.columns[at].2)?;
        if builder.columns.iter().any(|column| column.name == *name) {
            return Err(invalid!(
                "Duplicate column '{name}' in PRIMARY KEY clause for table '{}'",
                create.name
            ));
        }
        let descending = create
            .clustering_order
            .iter()
            .any(|(column, descending)| column == name && *descending);
        builder.push(name, kind, types[at].clone(), descending);
    }
    Ok(())
}

fn add_data_columns(
    create: &CreateTable,
    types: &[CqlType],
    builder: &mut TableBuilder,
) -> Result<(), CqlError> {
    let has_clustering = builder
        .columns
        .iter()
        .any(|column| column.kind == ColumnKind::Clustering);
    let is_key = |name: &str, builder: &TableBuilder| {
        builder.columns.iter().any(|column| column.name == name)
    };
    let data: Vec<_> = create
        .columns
        .iter()
        .zip(types)
        .filter(|(column, _)| !is_key(&column.0, builder))
        .collect();
    let counters = data
        .iter()
        .filter(|(_, cql_type)| **cql_type == CqlType::Counter)
        .count();
    if counters > 0 && counters < data.len() {
        return Err(invalid!(
            "Cannot mix counter and non counter columns in the same table"
        ));
    }
    if counters > 0 {
        builder.flags.push("counter".into());
        if builder.params.default_time_to_live_seconds > 0 {
            return Err(invalid!(
                "Cannot set default_time_to_live on a table with counters"
            ));
        }
    }
    for ((name, _, is_static), cql_type) in data {
        if *is_static && !has_clustering {
            return Err(invalid!(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
            ));
        }
        let kind = if *is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        };
        builder.push(name, kind, cql_type.clone(), false);
    }
    Ok(())
}

fn check_key_column(name: &str, cql_type: &CqlType, is_static: bool) -> Result<(), CqlError> {
    if is_static {
        return Err(invalid!(
            "Static column '{name}' cannot be part of the PRIMARY KEY"
        ));
    }
    if cql_type.is_multi_cell() {
        let kind = if matches!(cql_type, CqlType::Udt(_)) {
            "user-defined type"
        } else {
            "collection type"
        };
        return Err(invalid!(
            "Invalid non-frozen {kind} {cql_type} for PRIMARY KEY column '{name}'"
        ));
    }
    if matches!(cql_type, CqlType::Counter | CqlType::Duration) {
        return Err(invalid!(
            "{cql_type} type is not supported for PRIMARY KEY column '{name}'"
        ));
    }
    Ok(())
}

/// CLUSTERING ORDER must name the clustering columns from the first on.
fn check_order(create: &CreateTable, clustering: &[String]) -> Result<(), CqlError> {
    let ordered: Vec<&String> = create
        .clustering_order
        .iter()
        .map(|entry| &entry.0)
        .collect();
    let strange: Vec<&str> = ordered
        .iter()
        .filter(|name| !clustering.contains(name))
        .map(|name| name.as_str())
        .collect();
    if !strange.is_empty() {
        return Err(invalid!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strange.join(", ")
        ));
    }
    for (at, name) in clustering
        .iter()
        .enumerate()
        .take(ordered.len().max(usize::from(!ordered.is_empty())))
    {
        match ordered.get(at) {
            Some(found) if *found == name => {}
            Some(found) if !ordered.contains(&name) => {
                debug_assert!(clustering.contains(found));
                return Err(invalid!("Missing CLUSTERING ORDER for column {name}"));
            }
            _ => {
                return Err(invalid!(
                    "The order of columns in the CLUSTERING ORDER directive must be that of the clustering columns ({})",
                    clustering.join(", ")
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn alter(
    schema: &Schema,
    name: &QualifiedName,
    if_exists: bool,
    action: &AlterTableAction,
    context: &DdlContext<'_>,
) -> Outcome {
    let keyspace = keyspace_of(name, context)?;
    if !matches!(action, AlterTableAction::With(_)) || super::is_local_system(&keyspace) {
        check_modifiable(&keyspace)?;
    }
    let found = schema
        .keyspace(&keyspace)
        .and_then(|ks| Some((ks, ks.tables.get(&name.name)?)));
    let Some((before, table)) = found else {
        return if if_exists {
            Ok(None)
        } else {
            Err(invalid!("Table '{keyspace}.{}' doesn't exist", name.name))
        };
    };
    let mut warnings = Vec::new();
    let altered = match action {
        AlterTableAction::Add {
            columns,
            if_not_exists,
        } => add(schema, table, columns, *if_not_exists)?,
        AlterTableAction::Drop {
            columns,
            if_exists,
            timestamp,
        } => drop_columns(
            table,
            columns,
            *if_exists,
            timestamp.unwrap_or(context.now_micros),
        )?,
        AlterTableAction::Rename { renames, if_exists } => rename(table, renames, *if_exists)?,
        AlterTableAction::AlterType => {
            return Err(invalid!("Altering column types is no longer supported"));
        }
        AlterTableAction::DropCompactStorage => {
            return Err(invalid!(
                "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"
            ));
        }
        AlterTableAction::Mask => return Err(CqlError::unsupported("dynamic data masking")),
        AlterTableAction::With(properties) => {
            let mut builder = table.to_builder();
            builder.params = options::parse(properties, &table.params, &mut warnings)?;
            if table.is_counter() && builder.params.default_time_to_live_seconds > 0 {
                return Err(invalid!(
                    "Cannot set default_time_to_live on a table with counters"
                ));
            }
            builder.build_keeping_ids()
        }
    };
    let mut after = Keyspace::clone(before);
    after.tables.insert(name.name.clone(), Arc::new(altered));
    let mut made = change(before, after, ChangeKind::Updated, "TABLE", &name.name);
    made.warnings = warnings;
    Ok(Some(made))
}

fn add(
    schema: &Schema,
    table: &TableMetadata,
    columns: &[(String, RawType, bool)],
    if_not_exists: bool,
) -> Result<TableMetadata, CqlError> {
    let mut builder = table.to_builder();
    for (name, raw, is_static) in columns {
        if builder.columns.iter().any(|column| column.name == *name) {
            if if_not_exists {
                continue;
            }
            return Err(invalid!("Column with name '{name}' already exists"));
        }
        let cql_type = resolve_type(raw, schema, Some(&table.keyspace))?;
        if *is_static && table.clustering().is_empty() {
            return Err(invalid!(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
            ));
        }
        if let Some(dropped) = table.dropped_columns.get(name) {
            check_readded(name, &cql_type, *is_static, dropped)?;
        }
        let qualified = format!("{}.{}", table.keyspace, table.name);
        if (cql_type == CqlType::Counter) != table.is_counter() {
            return Err(CqlError::Config(if table.is_counter() {
                format!(
                    "{qualified}: Cannot have a non counter column (\"{name}\") in a counter table"
                )
            } else {
                format!(
                    "{qualified}: Cannot have a counter column (\"{name}\") in a non counter table"
                )
            }));
        }
        let kind = if *is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        };
        builder.push(name, kind, cql_type, false);
    }
    Ok(builder.build_keeping_ids())
}

fn check_readded(
    name: &str,
    cql_type: &CqlType,
    is_static: bool,
    dropped: &DroppedColumn,
) -> Result<(), CqlError> {
    // the type in the records of dropped columns has user types as tuples and is frozen
    let compatible = cql_type.freeze() == dropped.cql_type.freeze()
        && cql_type.is_multi_cell() == dropped.cql_type.is_multi_cell()
        || matches!(
            (&dropped.cql_type, cql_type),
            (CqlType::Ascii, CqlType::Text) | (_, CqlType::Blob)
        );
    if !compatible {
        return Err(invalid!(
            "Cannot re-add previously dropped column '{name}' of type {cql_type}, incompatible with previous type {}",
            dropped.cql_type
        ));
    }
    if is_static != (dropped.kind == ColumnKind::Static) {
        let (was, is) = if is_static {
            ("regular", "static")
        } else {
            ("static", "regular")
        };
        return Err(invalid!(
            "Cannot re-add previously dropped column '{name}' of kind {is}, incompatible with previous kind {was}"
        ));
    }
    if *cql_type == CqlType::Counter {
        return Err(invalid!(
            "Cannot re-add previously dropped counter column {name}"
        ));
    }
    Ok(())
}

fn drop_columns(
    table: &TableMetadata,
    columns: &[String],
    if_exists: bool,
    dropped_time: i64,
) -> Result<TableMetadata, CqlError> {
    let mut builder = table.to_builder();
    for name in columns {
        let Some(column) = table.column(name) else {
            if if_exists {
                continue;
            }
            return Err(invalid!(
                "Column {name} was not found in table '{}.{}'",
                table.keyspace,
                table.name
            ));
        };
        if matches!(
            column.kind,
            ColumnKind::PartitionKey | ColumnKind::Clustering
        ) {
            return Err(invalid!("Cannot drop PRIMARY KEY column {name}"));
        }
        if let CqlType::Udt(_) = &column.cql_type
            && column.cql_type.is_multi_cell()
        {
            return Err(invalid!(
                "Cannot drop non-frozen column {name} of user type {}",
                column.cql_type
            ));
        }
        builder.remove(name);
        let dropped = DroppedColumn {
            name: name.clone(),
            cql_type: column.cql_type.clone(),
            kind: column.kind,
            dropped_time,
        };
        builder.dropped_columns.insert(name.clone(), dropped);
    }
    Ok(builder.build_keeping_ids())
}

fn rename(
    table: &TableMetadata,
    renames: &[(String, String)],
    if_exists: bool,
) -> Result<TableMetadata, CqlError> {
    let mut builder = table.to_builder();
    for (from, to) in renames {
        if if_exists && table.column(from).is_none() {
            continue;
        }
        let column = column_of(table, from)?;
        if !matches!(
            column.kind,
            ColumnKind::PartitionKey | ColumnKind::Clustering
        ) {
            return Err(invalid!("Cannot rename non PRIMARY KEY column {from}"));
        }
        if builder.columns.iter().any(|column| column.name == *to) {
            return Err(invalid!(
                "Cannot rename column {from} to {to} in table '{}.{}'; another column with that name already exists",
                table.keyspace,
                table.name
            ));
        }
        for column in &mut builder.columns {
            if column.name == *from {
                column.name.clone_from(to);
            }
        }
    }
    Ok(builder.build_keeping_ids())
}

pub(super) fn drop(
    schema: &Schema,
    name: &QualifiedName,
    if_exists: bool,
    context: &DdlContext<'_>,
) -> Outcome {
    let keyspace = keyspace_of(name, context)?;
    check_modifiable(&keyspace)?;
    let Some(before) = schema
        .keyspace(&keyspace)
        .filter(|ks| ks.tables.contains_key(&name.name))
    else {
        return if if_exists {
            Ok(None)
        } else {
            Err(invalid!("Table '{keyspace}.{}' doesn't exist", name.name))
        };
    };
    let mut after = Keyspace::clone(before);
    after.tables.remove(&name.name);
    Ok(Some(change(
        before,
        after,
        ChangeKind::Dropped,
        "TABLE",
        &name.name,
    )))
}
