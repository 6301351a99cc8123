//! CREATE, ALTER and DROP TYPE.

use super::{ChangeKind, DdlContext, SchemaChange, change, check_modifiable, keyspace_of};
use crate::ast::{AlterTypeAction, QualifiedName, RawType};
use crate::error::{CqlError, invalid};
use crate::raw_type::resolve_type;
use helenus_schema::{Keyspace, Schema, TableMetadata};
use helenus_types::{CqlType, UserType};
use std::sync::Arc;

type Outcome = Result<Option<SchemaChange>, CqlError>;

pub(super) fn create(
    schema: &Schema,
    name: &QualifiedName,
    if_not_exists: bool,
    fields: &[(String, RawType)],
    context: &DdlContext<'_>,
) -> Outcome {
    let keyspace = keyspace_of(name, context)?;
    check_modifiable(&keyspace)?;
    let Some(before) = schema.keyspace(&keyspace) else {
        return Err(invalid!("Keyspace '{keyspace}' doesn't exist"));
    };
    if before.types.contains_key(&name.name) {
        if if_not_exists {
            return Ok(None);
        }
        return Err(invalid!(
            "A user type with name '{}' already exists",
            name.name
        ));
    }
    let mut typed = Vec::with_capacity(fields.len());
    for (at, (field, raw)) in fields.iter().enumerate() {
        if fields[..at].iter().any(|earlier| earlier.0 == *field) {
            return Err(invalid!(
                "Duplicate field name '{field}' in type '{}'",
                name.name
            ));
        }
        typed.push((field.clone(), field_type(schema, &keyspace, field, raw)?));
    }
    let mut after = Keyspace::clone(before);
    let user_type = UserType {
        keyspace: keyspace.clone(),
        name: name.name.clone(),
        fields: typed,
        frozen: false,
    };
    after.types.insert(name.name.clone(), Arc::new(user_type));
    Ok(Some(change(
        before,
        after,
        ChangeKind::Created,
        "TYPE",
        &name.name,
    )))
}

fn field_type(
    schema: &Schema,
    keyspace: &str,
    field: &str,
    raw: &RawType,
) -> Result<CqlType, CqlError> {
    let cql_type = resolve_type(raw, schema, Some(keyspace))?;
    if cql_type == CqlType::Counter {
        return Err(invalid!("A user type cannot contain counters"));
    }
    if let CqlType::Udt(user_type) = &cql_type
        && !user_type.frozen
    {
        return Err(invalid!(
            "A user type cannot contain non-frozen UDTs ({field})"
        ));
    }
    Ok(cql_type)
}

pub(super) fn alter(
    schema: &Schema,
    name: &QualifiedName,
    if_exists: bool,
    action: &AlterTypeAction,
    context: &DdlContext<'_>,
) -> Outcome {
    let keyspace = keyspace_of(name, context)?;
    check_modifiable(&keyspace)?;
    let before = schema.keyspace(&keyspace);
    let Some((before, present)) = before.and_then(|ks| Some((ks, ks.types.get(&name.name)?)))
    else {
        return if if_exists {
            Ok(None)
        } else {
            Err(invalid!("Type {keyspace}.{} doesn't exist", name.name))
        };
    };
    let qualified = format!("{keyspace}.{}", name.name);
    let mut user_type = UserType::clone(present);
    match action {
        AlterTypeAction::AlterType => {
            return Err(invalid!("Altering field types is no longer supported"));
        }
        AlterTypeAction::Add {
            name: field,
            field_type: raw,
            if_not_exists,
        } => {
            if user_type.fields.iter().any(|entry| entry.0 == *field) {
                if *if_not_exists {
                    return Ok(None);
                }
                return Err(invalid!(
                    "Cannot add field {field} to type {qualified}: a field with name {field} already exists"
                ));
            }
            user_type
                .fields
                .push((field.clone(), field_type(schema, &keyspace, field, raw)?));
        }
        AlterTypeAction::Rename { renames, if_exists } => {
            rename_fields(&mut user_type, &qualified, renames, *if_exists)?;
        }
    }
    Ok(Some(change(
        before,
        with_changed_type(before, user_type),
        ChangeKind::Updated,
        "TYPE",
        &name.name,
    )))
}

fn rename_fields(
    user_type: &mut UserType,
    qualified: &str,
    renames: &[(String, String)],
    if_exists: bool,
) -> Result<(), CqlError> {
    for (from, to) in renames {
        if user_type.fields.iter().any(|entry| entry.0 == *to) {
            return Err(invalid!("Duplicate field name {to} in type {qualified}"));
        }
        match user_type.fields.iter_mut().find(|entry| entry.0 == *from) {
            Some(entry) => entry.0.clone_from(to),
            None if if_exists => {}
            None => {
                return Err(invalid!("Unkown field {from} in user type {qualified}"));
            }
        }
    }
    Ok(())
}

/// The keyspace with the type's new form, also inside the types and tables that use it.
fn with_changed_type(before: &Keyspace, user_type: UserType) -> Keyspace {
    let mut after = Keyspace::clone(before);
    let changed = Arc::new(user_type);
    for other in after.types.values_mut() {
        let fields = other
            .fields
            .iter()
            .map(|(field, t)| (field.clone(), replace(t, &changed)))
            .collect();
        *other = Arc::new(UserType {
            fields,
            ..UserType::clone(other)
        });
    }
    after
        .types
        .insert(changed.name.clone(), Arc::clone(&changed));
    for table in after.tables.values_mut() {
        *table = Arc::new(with_type(table, &changed));
    }
    after
}

fn with_type(table: &TableMetadata, changed: &Arc<UserType>) -> TableMetadata {
    let mut builder = table.to_builder();
    for column in &mut builder.columns {
        column.cql_type = replace(&column.cql_type, changed);
    }
    builder.build_keeping_ids()
}

/// A type with every use of a user type replaced by its new form, frozen as before.
fn replace(cql_type: &CqlType, changed: &Arc<UserType>) -> CqlType {
    let inner = |t: &Arc<CqlType>| Arc::new(replace(t, changed));
    match cql_type {
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
        CqlType::Vector { element, dimension } => CqlType::Vector {
            element: inner(element),
            dimension: *dimension,
        },
        CqlType::Tuple(elements) => {
            CqlType::Tuple(elements.iter().map(|t| replace(t, changed)).collect())
        }
        CqlType::Udt(user_type)
            if user_type.name == changed.name && user_type.keyspace == changed.keyspace =>
        {
            let plain = CqlType::Udt(Arc::clone(changed));
            if user_type.frozen {
                plain.freeze()
            } else {
                plain
            }
        }
        CqlType::Udt(user_type) => {
            let fields = user_type
                .fields
                .iter()
                .map(|(field, t)| (field.clone(), replace(t, changed)))
                .collect();
            CqlType::Udt(Arc::new(UserType {
                fields,
                ..UserType::clone(user_type)
            }))
        }
        other => other.clone(),
    }
}

/// Whether a type uses a user type.
pub(crate) fn uses(cql_type: &CqlType, name: &str) -> bool {
    match cql_type {
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => uses(element, name),
        CqlType::Map { key, value, .. } => uses(key, name) || uses(value, name),
        CqlType::Tuple(elements) => elements.iter().any(|t| uses(t, name)),
        CqlType::Udt(user_type) => {
            user_type.name == name || user_type.fields.iter().any(|field| uses(&field.1, name))
        }
        _ => false,
    }
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
        .filter(|ks| ks.types.contains_key(&name.name))
    else {
        return if if_exists {
            Ok(None)
        } else {
            Err(invalid!("Type '{keyspace}.{}' doesn't exist", name.name))
        };
    };
    let types: Vec<&str> = before
        .types
        .values()
        .filter(|other| {
            other.name != name.name && other.fields.iter().any(|field| uses(&field.1, &name.name))
        })
        .map(|other| other.name.as_str())
        .collect();
    if !types.is_empty() {
        return Err(invalid!(
            "Cannot drop user type '{keyspace}.{}' as it is still used by user types {}",
            name.name,
            types.join(", ")
        ));
    }
    let tables: Vec<&str> = before
        .tables
        .values()
        .filter(|table| {
            table
                .columns()
                .iter()
                .any(|column| uses(&column.cql_type, &name.name))
        })
        .map(|table| table.name.as_str())
        .collect();
    if !tables.is_empty() {
        return Err(invalid!(
            "Cannot drop user type '{keyspace}.{}' as it is still used by tables {}",
            name.name,
            tables.join(", ")
        ));
    }
    let mut after = Keyspace::clone(before);
    after.types.remove(&name.name);
    Ok(Some(change(
        before,
        after,
        ChangeKind::Dropped,
        "TYPE",
        &name.name,
    )))
}
