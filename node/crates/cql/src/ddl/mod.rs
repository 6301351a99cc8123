//! CREATE, ALTER, DROP: pure functions from one schema to a change of it.

mod keyspace;
mod options;
mod table;
mod user_type;

pub use keyspace::replication_of;
pub(crate) use user_type::uses as uses_type;

use crate::ast::{QualifiedName, Statement};
use crate::error::{CqlError, invalid};
use helenus_schema::{Keyspace, Schema};
use helenus_types::TimestampMicros;
use std::sync::Arc;
use uuid::Uuid;

/// What a schema change takes from outside.
#[derive(Debug, Clone)]
pub struct DdlContext<'a> {
    /// The session's keyspace.
    pub keyspace: Option<&'a str>,
    /// Wall clock in microseconds.
    pub now_micros: TimestampMicros,
    /// Identity of a table that is made: a time UUID of now.
    pub new_table_id: Uuid,
    /// Known data centers; empty: not known, and not checked.
    pub datacenters: &'a [String],
}

/// Kinds of change in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

impl ChangeKind {
    /// The native protocol's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        }
    }
}

/// What changed, as events and results tell clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaEvent {
    /// Created, updated or dropped.
    pub change: ChangeKind,
    /// `KEYSPACE`, `TABLE` or `TYPE`.
    pub target: &'static str,
    /// Its keyspace.
    pub keyspace: String,
    /// Name of the table or type; empty for a keyspace.
    pub name: String,
}

/// A change of one keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// Which.
    pub keyspace: String,
    /// As it was; `None` when it is new.
    pub before: Option<Arc<Keyspace>>,
    /// As it will be; `None` when it is dropped.
    pub after: Option<Keyspace>,
    /// For clients.
    pub event: SchemaEvent,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Keyspaces that only the system changes.
pub(crate) fn is_system(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system"
            | "system_schema"
            | "system_auth"
            | "system_traces"
            | "system_distributed"
            | "system_views"
            | "system_virtual_schema"
    )
}

fn is_local_system(keyspace: &str) -> bool {
    matches!(
        keyspace,
        "system" | "system_schema" | "system_views" | "system_virtual_schema"
    )
}

/// The change that a DDL statement makes; `None` when IF [NOT] EXISTS makes it nothing.
pub fn apply_ddl(
    schema: &Schema,
    statement: &Statement,
    context: &DdlContext<'_>,
) -> Result<Option<SchemaChange>, CqlError> {
    let change = change_of(schema, statement, context)?;
    // a change that changes nothing is none: no version, no event
    Ok(change.filter(|change| change.before.as_deref() != change.after.as_ref()))
}

fn change_of(
    schema: &Schema,
    statement: &Statement,
    context: &DdlContext<'_>,
) -> Result<Option<SchemaChange>, CqlError> {
    match statement {
        Statement::CreateKeyspace {
            name,
            if_not_exists,
            properties,
        } => keyspace::create(schema, name, *if_not_exists, properties, context),
        Statement::AlterKeyspace {
            name,
            if_exists,
            properties,
        } => keyspace::alter(schema, name, *if_exists, properties, context),
        Statement::DropKeyspace { name, if_exists } => keyspace::drop(schema, name, *if_exists),
        Statement::CreateTable(create) => table::create(schema, create, context),
        Statement::AlterTable {
            table,
            if_exists,
            action,
        } => table::alter(schema, table, *if_exists, action, context),
        Statement::DropTable { table, if_exists } => {
            table::drop(schema, table, *if_exists, context)
        }
        Statement::CreateType {
            name,
            if_not_exists,
            fields,
        } => user_type::create(schema, name, *if_not_exists, fields, context),
        Statement::AlterType {
            name,
            if_exists,
            action,
        } => user_type::alter(schema, name, *if_exists, action, context),
        Statement::DropType { name, if_exists } => {
            user_type::drop(schema, name, *if_exists, context)
        }
        Statement::Unsupported(feature) => Err(CqlError::unsupported(feature)),
        _ => Err(invalid!("the statement does not change the schema")),
    }
}

/// The keyspace that a name is in.
fn keyspace_of(name: &QualifiedName, context: &DdlContext<'_>) -> Result<String, CqlError> {
    name.keyspace
        .clone()
        .or_else(|| context.keyspace.map(str::to_owned))
        .ok_or_else(crate::prepared::no_keyspace)
}

/// Refuses changes within system keyspaces; of replicated ones, tables may be altered.
fn check_modifiable(keyspace: &str) -> Result<(), CqlError> {
    if is_system(keyspace) {
        return Err(CqlError::Unauthorized(format!(
            "{keyspace} keyspace is not user-modifiable."
        )));
    }
    Ok(())
}

fn change(
    before: &Arc<Keyspace>,
    after: Keyspace,
    kind: ChangeKind,
    target: &'static str,
    name: &str,
) -> SchemaChange {
    SchemaChange {
        keyspace: before.name.clone(),
        before: Some(Arc::clone(before)),
        after: Some(after),
        event: SchemaEvent {
            change: kind,
            target,
            keyspace: before.name.clone(),
            name: name.to_owned(),
        },
        warnings: Vec::new(),
    }
}

/// Whether a name may be a keyspace's or table's.
fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 48
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
