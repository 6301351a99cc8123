//! Names and types of modifications.

use super::{Body, Change, Kind, Operation, PreparedModification};
use crate::analysis::{Analysis, Receiver, column_of};
use crate::ast::{
    Assignment, Attributes, Comparison, Delete, Deletion, Insert, InsertValues, Relation, Term,
    Update,
};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::restrictions::Restrictions;
use crate::text;
use helenus_schema::{Column, ColumnKind, TableMetadata};
use helenus_types::CqlType;
use std::sync::Arc;

const NO_CONDITIONS: &str = "a lightweight transaction (IF)";

/// `[timestamp]` and `[ttl]`, typed; the order of the text is the order of the markers anyway.
fn attributes(
    analysis: &mut Analysis<'_>,
    attributes: &Attributes,
) -> Result<(Option<Expr>, Option<Expr>), CqlError> {
    let mut typed = |term: &Option<Term>, name: &str, cql_type: CqlType| {
        term.as_ref()
            .map(|term| analysis.term(term, &Receiver::new(name, cql_type)))
            .transpose()
    };
    Ok((
        typed(&attributes.timestamp, "[timestamp]", CqlType::BigInt)?,
        typed(&attributes.ttl, "[ttl]", CqlType::Int)?,
    ))
}

/// Resolves an INSERT.
pub(crate) fn insert(
    analysis: &mut Analysis<'_>,
    insert: &Insert,
    table: &Arc<TableMetadata>,
) -> Result<PreparedModification, CqlError> {
    analysis.table = Some(Arc::clone(table));
    if table.is_counter() {
        return Err(invalid!(
            "INSERT statements are not allowed on counter tables, use UPDATE instead"
        ));
    }
    if insert.if_not_exists {
        return Err(CqlError::unsupported(NO_CONDITIONS));
    }
    let body = match &insert.values {
        InsertValues::Json {
            value,
            default_unset,
        } => {
            let document = analysis.term(value, &Receiver::new("[json]", CqlType::Text))?;
            Body::Json {
                document,
                default_unset: *default_unset,
            }
        }
        InsertValues::Columns(columns, values) => insert_columns(analysis, table, columns, values)?,
    };
    let (timestamp, ttl) = attributes(analysis, &insert.attributes)?;
    Ok(PreparedModification {
        kind: Kind::Insert,
        table: Arc::clone(table),
        body,
        timestamp,
        ttl,
    })
}

fn insert_columns(
    analysis: &mut Analysis<'_>,
    table: &Arc<TableMetadata>,
    columns: &[String],
    values: &[Term],
) -> Result<Body, CqlError> {
    if columns.len() != values.len() {
        return Err(invalid!("Unmatched column names/values"));
    }
    let mut relations = Vec::new();
    let mut operations = Vec::new();
    for (at, (name, value)) in columns.iter().zip(values).enumerate() {
        let column = column_of(table, name)?;
        if columns[..at].contains(name) {
            return Err(invalid!("The column names contains duplicates"));
        }
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => relations.push(Relation::Column {
                column: name.clone(),
                comparison: Comparison::Equal,
                value: value.clone(),
            }),
            ColumnKind::Static | ColumnKind::Regular => {
                let receiver = Receiver::new(name, column.cql_type.clone());
                operations.push(operation(
                    column,
                    Change::Set(analysis.term(value, &receiver)?),
                ));
            }
        }
    }
    let restrictions = Restrictions::prepare(analysis, table, &relations)?;
    let given = columns.iter().map(String::as_str).collect::<Vec<_>>();
    let missing = |columns: &[Column]| -> Vec<String> {
        columns
            .iter()
            .filter(|column| !given.contains(&column.name.as_str()))
            .map(|column| column.name.clone())
            .collect()
    };
    let missing_key = missing(table.partition_key());
    if !missing_key.is_empty() {
        return Err(invalid!(
            "Some partition key parts are missing: {}",
            missing_key.join(", ")
        ));
    }
    let missing_clustering = missing(table.clustering());
    let only_static =
        !operations.is_empty() && operations.iter().all(|operation| operation.is_static);
    let only_key = only_static && missing_clustering.len() == table.clustering().len();
    if !(missing_clustering.is_empty() || only_key) {
        return Err(invalid!(
            "Some clustering keys are missing: {}",
            missing_clustering.join(", ")
        ));
    }
    Ok(Body::Columns {
        restrictions: Box::new(restrictions),
        operations,
    })
}

fn operation(column: &Column, change: Change) -> Operation {
    Operation {
        column: column.id,
        name: column.name.clone(),
        cql_type: column.cql_type.clone(),
        is_static: column.kind == ColumnKind::Static,
        change,
    }
}

/// Resolves an UPDATE.
pub(crate) fn update(
    analysis: &mut Analysis<'_>,
    update: &Update,
    table: &Arc<TableMetadata>,
) -> Result<PreparedModification, CqlError> {
    analysis.table = Some(Arc::clone(table));
    if update.conditional {
        return Err(CqlError::unsupported(NO_CONDITIONS));
    }
    if table.is_counter() {
        if update.attributes.ttl.is_some() {
            return Err(invalid!("Cannot provide custom TTL for counter updates"));
        }
        if update.attributes.timestamp.is_some() {
            return Err(invalid!(
                "Cannot provide custom timestamp for counter updates"
            ));
        }
    }
    let (timestamp, ttl) = attributes(analysis, &update.attributes)?;
    let mut operations = Vec::new();
    for assignment in &update.assignments {
        operations.push(self::assignment(analysis, table, assignment)?);
    }
    if table.is_counter() {
        return Err(CqlError::unsupported("updating counters"));
    }
    let restrictions = Restrictions::prepare(analysis, table, &update.relations)?;
    validate_where(&restrictions, "UPDATE")?;
    let only_static = operations.iter().all(|operation| operation.is_static);
    if restrictions.has_clustering_slice() {
        return Err(invalid!(
            "Slice restrictions are not supported on the clustering columns in UPDATE statements"
        ));
    }
    let missing = restrictions.missing_clustering();
    if !(missing.is_empty() || only_static && restrictions.clustering.is_empty()) {
        return Err(invalid!(
            "Some clustering keys are missing: {}",
            missing.join(", ")
        ));
    }
    if only_static && !table.clustering().is_empty() && !restrictions.clustering.is_empty() {
        return Err(invalid!(
            "Invalid restrictions on clustering columns since the UPDATE statement modifies only static columns"
        ));
    }
    Ok(PreparedModification {
        kind: Kind::Update,
        table: Arc::clone(table),
        body: Body::Columns {
            restrictions: Box::new(restrictions),
            operations,
        },
        timestamp,
        ttl,
    })
}

fn validate_where(restrictions: &Restrictions, word: &str) -> Result<(), CqlError> {
    if restrictions.has_token() {
        return Err(invalid!(
            "The token function cannot be used in WHERE clauses for {word} statements"
        ));
    }
    if restrictions.key_slices {
        return Err(invalid!(
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for {word} statements"
        ));
    }
    if let Some(filter) = restrictions.filters.iter().find(|filter| {
        restrictions
            .table
            .column_by_id(filter.column)
            .is_some_and(|c| matches!(c.kind, ColumnKind::Static | ColumnKind::Regular))
    }) {
        return Err(invalid!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            filter.name
        ));
    }
    if !restrictions.has_partition_key() {
        return Err(invalid!(
            "Some partition key parts are missing: {}",
            restrictions.missing_partition_key().join(", ")
        ));
    }
    restrictions.gap.clone().map_or(Ok(()), Err)
}

fn target<'t>(table: &'t TableMetadata, name: &str) -> Result<&'t Column, CqlError> {
    let column = column_of(table, name)?;
    if matches!(
        column.kind,
        ColumnKind::PartitionKey | ColumnKind::Clustering
    ) {
        return Err(invalid!("PRIMARY KEY part {name} found in SET part"));
    }
    Ok(column)
}

fn assignment(
    analysis: &mut Analysis<'_>,
    table: &TableMetadata,
    assignment: &Assignment,
) -> Result<Operation, CqlError> {
    match assignment {
        Assignment::Set(name, value) => {
            let column = target(table, name)?;
            if column.cql_type == CqlType::Counter {
                return Err(invalid!(
                    "Cannot set the value of counter column {name} (counters can only be incremented/decremented, not set)"
                ));
            }
            let value = analysis.term(value, &Receiver::new(name, column.cql_type.clone()))?;
            Ok(operation(column, Change::Set(value)))
        }
        Assignment::Append(name, value) => {
            let column = target(table, name)?;
            let shown = || format!("{name} = {name} + {}", text::term(value));
            grow(analysis, column, value, &shown)
                .map(|value| operation(column, Change::Append(value)))
        }
        Assignment::Prepend(name, value) => {
            let column = target(table, name)?;
            let shown = || format!("{name} = {} + {name}", text::term(value));
            if !matches!(column.cql_type, CqlType::List { frozen: false, .. }) {
                return Err(invalid!(
                    "Invalid operation ({}) for non list column {name}",
                    shown()
                ));
            }
            let value = grow(analysis, column, value, &shown)?;
            Ok(operation(column, Change::Prepend(value)))
        }
        Assignment::Subtract(name, value) => subtract(analysis, target(table, name)?, value),
        Assignment::Element(name, key, value) => {
            set_element(analysis, target(table, name)?, key, value)
        }
        Assignment::Field(name, field, value) => {
            let column = target(table, name)?;
            let shown = || format!("{name}.{field} = {}", text::term(value));
            let (index, field_type) = field_of(column, field, &shown)?;
            let value =
                analysis.term(value, &Receiver::new(format!("{name}.{field}"), field_type))?;
            Ok(operation(column, Change::Field(index, value)))
        }
    }
}

/// `column[key] = value`.
fn set_element(
    analysis: &mut Analysis<'_>,
    column: &Column,
    key: &Term,
    value: &Term,
) -> Result<Operation, CqlError> {
    let name = &column.name;
    let shown = || format!("{name}[{}] = {}", text::term(key), text::term(value));
    match &column.cql_type {
        CqlType::Map {
            key: key_type,
            value: value_type,
            frozen: false,
        } => {
            let key = analysis.term(
                key,
                &Receiver::new(format!("key({name})"), (**key_type).clone()),
            )?;
            let value = analysis.term(
                value,
                &Receiver::new(format!("value({name})"), (**value_type).clone()),
            )?;
            Ok(operation(column, Change::Entry(key, value)))
        }
        CqlType::List {
            element,
            frozen: false,
        } => {
            let index = list_index(analysis, name, key)?;
            let value = analysis.term(
                value,
                &Receiver::new(format!("value({name})"), (**element).clone()),
            )?;
            Ok(operation(column, Change::SetIndex(index, value)))
        }
        CqlType::Set { frozen: false, .. } => Err(invalid!(
            "Invalid operation ({}) for set column {name}",
            shown()
        )),
        CqlType::Map { .. } | CqlType::List { .. } | CqlType::Set { .. } => Err(invalid!(
            "Invalid operation ({}) for frozen collection column {name}",
            shown()
        )),
        _ => Err(invalid!(
            "Invalid operation ({}) for non collection column {name}",
            shown()
        )),
    }
}

fn list_index(analysis: &mut Analysis<'_>, name: &str, index: &Term) -> Result<Expr, CqlError> {
    analysis.term(index, &Receiver::new(format!("idx({name})"), CqlType::Int))
}

fn field_of(
    column: &Column,
    field: &str,
    shown: &dyn Fn() -> String,
) -> Result<(u16, CqlType), CqlError> {
    let CqlType::Udt(user_type) = &column.cql_type else {
        return Err(invalid!(
            "Invalid operation ({}) for non-UDT column {}",
            shown(),
            column.name
        ));
    };
    if user_type.frozen {
        return Err(invalid!(
            "Invalid operation ({}) for frozen UDT column {}",
            shown(),
            column.name
        ));
    }
    let at = user_type.fields.iter().position(|entry| entry.0 == field);
    let at = at.ok_or_else(|| {
        invalid!(
            "UDT column {} does not have a field named {field}",
            column.name
        )
    })?;
    let index = u16::try_from(at)
        .map_err(|_| invalid!("UDT column {} has too many fields", column.name))?;
    Ok((index, user_type.fields[at].1.clone()))
}

/// Checks that a column may grow by a value, and types the value.
fn grow(
    analysis: &mut Analysis<'_>,
    column: &Column,
    value: &Term,
    shown: &dyn Fn() -> String,
) -> Result<Expr, CqlError> {
    match &column.cql_type {
        CqlType::Counter => {}
        CqlType::List { frozen, .. }
        | CqlType::Set { frozen, .. }
        | CqlType::Map { frozen, .. } => {
            if *frozen {
                return Err(invalid!(
                    "Invalid operation ({}) for frozen collection column {}",
                    shown(),
                    column.name
                ));
            }
        }
        _ => {
            return Err(invalid!(
                "Invalid operation ({}) for non counter column {}",
                shown(),
                column.name
            ));
        }
    }
    analysis.term(value, &Receiver::new(&column.name, column.cql_type.clone()))
}

fn subtract(
    analysis: &mut Analysis<'_>,
    column: &Column,
    value: &Term,
) -> Result<Operation, CqlError> {
    let name = &column.name;
    let shown = || format!("{name} = {name} - {}", text::term(value));
    let wanted = match &column.cql_type {
        // keys of a map are removed by a set of them
        CqlType::Map {
            key, frozen: false, ..
        } => CqlType::Set {
            element: Arc::clone(key),
            frozen: false,
        },
        other => other.clone(),
    };
    let typed = Column {
        cql_type: wanted,
        ..column.clone()
    };
    let is_list = matches!(typed.cql_type, CqlType::List { .. });
    let is_map = matches!(column.cql_type, CqlType::Map { frozen: false, .. });
    let expr = grow(analysis, &typed, value, &shown).map_err(|error| {
        if is_map {
            invalid!(
                "Value for a map substraction has to be a set, but was: '{}'",
                text::term(value)
            )
        } else {
            error
        }
    })?;
    let change = if is_list {
        Change::RemoveValues(expr)
    } else {
        Change::Remove(expr)
    };
    Ok(operation(column, change))
}

/// Resolves a DELETE.
pub(crate) fn delete(
    analysis: &mut Analysis<'_>,
    delete: &Delete,
    table: &Arc<TableMetadata>,
) -> Result<PreparedModification, CqlError> {
    analysis.table = Some(Arc::clone(table));
    if delete.conditional {
        return Err(CqlError::unsupported(NO_CONDITIONS));
    }
    let mut operations = Vec::new();
    for deletion in &delete.deletions {
        operations.push(self::deletion(analysis, table, deletion)?);
    }
    let (timestamp, ttl) = attributes(analysis, &delete.attributes)?;
    let restrictions = Restrictions::prepare(analysis, table, &delete.relations)?;
    validate_where(&restrictions, "DELETE")?;
    let covers_rows = restrictions.value_columns() == table.clustering().len()
        && !restrictions.has_clustering_slice();
    let only_static =
        !operations.is_empty() && operations.iter().all(|operation| operation.is_static);
    let static_row = only_static && restrictions.clustering.is_empty();
    if !(operations.is_empty() || covers_rows || static_row) {
        return Err(invalid!(
            "Range deletions are not supported for specific columns"
        ));
    }
    Ok(PreparedModification {
        kind: Kind::Delete,
        table: Arc::clone(table),
        body: Body::Columns {
            restrictions: Box::new(restrictions),
            operations,
        },
        timestamp,
        ttl,
    })
}

fn deletion(
    analysis: &mut Analysis<'_>,
    table: &TableMetadata,
    deletion: &Deletion,
) -> Result<Operation, CqlError> {
    let column = match deletion {
        Deletion::Column(name) | Deletion::Element(name, _) | Deletion::Field(name, _) => {
            column_of(table, name)?
        }
    };
    let name = &column.name;
    if matches!(
        column.kind,
        ColumnKind::PartitionKey | ColumnKind::Clustering
    ) {
        return Err(invalid!(
            "Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"
        ));
    }
    match deletion {
        Deletion::Column(_) => Ok(operation(column, Change::Delete)),
        Deletion::Field(_, field) => {
            let (index, _) = field_of(column, field, &|| format!("{name}.{field}"))?;
            Ok(operation(column, Change::DeleteField(index)))
        }
        Deletion::Element(_, key) => {
            let (element, prefix) = match &column.cql_type {
                CqlType::Map {
                    key, frozen: false, ..
                } => (key, "key"),
                CqlType::Set {
                    element,
                    frozen: false,
                } => (element, "value"),
                CqlType::List { frozen: false, .. } => {
                    let index = list_index(analysis, name, key)?;
                    return Ok(operation(column, Change::DeleteIndex(index)));
                }
                CqlType::Map { .. } | CqlType::Set { .. } | CqlType::List { .. } => {
                    return Err(invalid!(
                        "Invalid deletion operation for frozen collection column {name}"
                    ));
                }
                _ => {
                    return Err(invalid!(
                        "Invalid deletion operation for non collection column {name}"
                    ));
                }
            };
            let key = analysis.term(
                key,
                &Receiver::new(format!("{prefix}({name})"), (**element).clone()),
            )?;
            Ok(operation(column, Change::DeleteEntry(key)))
        }
    }
}
