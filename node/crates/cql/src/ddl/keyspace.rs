//! CREATE, ALTER and DROP KEYSPACE.

use super::{
    ChangeKind, DdlContext, SchemaChange, SchemaEvent, is_local_system, is_system, is_valid_name,
};
use crate::ast::{Properties, PropertyValue};
use crate::error::{CqlError, invalid};
use helenus_schema::{Keyspace, Replication, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";

struct Options {
    replication: Option<BTreeMap<String, String>>,
    durable_writes: Option<bool>,
}

fn options(properties: &Properties) -> Result<Options, CqlError> {
    let mut options = Options {
        replication: None,
        durable_writes: None,
    };
    for (name, value) in properties {
        match (name.as_str(), value) {
            ("replication", PropertyValue::Map(map)) => {
                options.replication = Some(map.iter().cloned().collect());
            }
            ("durable_writes", PropertyValue::Simple(text)) => {
                options.durable_writes = Some(match text.to_ascii_lowercase().as_str() {
                    "true" | "1" | "yes" => true,
                    "false" | "0" | "no" => false,
                    _ => {
                        return Err(CqlError::Syntax(format!(
                            "Invalid boolean value {text} for '{name}'"
                        )));
                    }
                });
            }
            ("replication" | "durable_writes", _) => {
                return Err(CqlError::Syntax(format!(
                    "Invalid value for property '{name}'"
                )));
            }
            _ => return Err(CqlError::Syntax(format!("Unknown property '{name}'"))),
        }
    }
    Ok(options)
}

fn factor(text: &str) -> Result<(), CqlError> {
    let (full, transient) = text.split_once('/').unwrap_or((text, "0"));
    if transient.trim() != "0" {
        return Err(CqlError::unsupported("transient replication"));
    }
    let parsed: i64 = full.trim().parse().map_err(|_| {
        CqlError::Config(format!("Replication factor must be numeric; found {text}"))
    })?;
    if parsed < 0 {
        return Err(CqlError::Config(format!(
            "Replication factor must be non-negative; found {text}"
        )));
    }
    Ok(())
}

/// The replication of a `replication` map: class in full, options checked and completed.
pub fn replication_of(
    keyspace: &str,
    mut map: BTreeMap<String, String>,
    datacenters: &[String],
    previous: Option<&Replication>,
) -> Result<Replication, CqlError> {
    let class = map
        .remove("class")
        .ok_or_else(|| CqlError::Config("Missing replication strategy class".into()))?;
    let class = if class.contains('.') {
        class
    } else {
        format!("{PACKAGE}{class}")
    };
    let short = class.strip_prefix(PACKAGE).unwrap_or_default().to_owned();
    match short.as_str() {
        "SimpleStrategy" => {
            if let Some(name) = map.keys().find(|name| *name != FACTOR) {
                return Err(CqlError::Config(format!(
                    "Unrecognized strategy option {{{name}}} passed to SimpleStrategy for keyspace {keyspace}"
                )));
            }
            map.entry(FACTOR.into()).or_insert_with(|| "1".into());
        }
        "NetworkTopologyStrategy" => network_topology(keyspace, &mut map, datacenters, previous)?,
        "LocalStrategy" => {
            return Err(CqlError::Config(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use."
                    .into(),
            ));
        }
        _ => {
            return Err(CqlError::Config(format!(
                "Unable to find replication strategy class '{class}'"
            )));
        }
    }
    for value in map.values() {
        factor(value)?;
    }
    Ok(Replication {
        class,
        options: map,
    })
}

/// `replication_factor` stands for every known data center that is not named; a 0 leaves one out.
fn network_topology(
    keyspace: &str,
    map: &mut BTreeMap<String, String>,
    datacenters: &[String],
    previous: Option<&Replication>,
) -> Result<(), CqlError> {
    let everywhere = map.remove(FACTOR);
    if let Some(everywhere) = &everywhere {
        if datacenters.is_empty() {
            return Err(CqlError::Config(
                "replication_factor of NetworkTopologyStrategy needs known data centers".into(),
            ));
        }
        factor(everywhere)?;
        if let Some(previous) =
            previous.filter(|previous| previous.short_class() == "NetworkTopologyStrategy")
        {
            for (name, value) in &previous.options {
                map.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        for name in datacenters {
            map.entry(name.clone())
                .or_insert_with(|| everywhere.clone());
        }
    }
    let strange = map.keys().find(|name| !datacenters.contains(name));
    if let (Some(name), false) = (strange, datacenters.is_empty()) {
        return Err(CqlError::Config(format!(
            "Unrecognized strategy option {{{name}}} passed to NetworkTopologyStrategy for keyspace {keyspace}"
        )));
    }
    if everywhere.is_some() {
        map.retain(|_, value| value.trim() != "0");
    }
    if map.is_empty() && everywhere.is_none() {
        return Err(CqlError::Config(
            "Configuration for at least one datacenter must be present".into(),
        ));
    }
    Ok(())
}

pub(super) fn create(
    schema: &Schema,
    name: &str,
    if_not_exists: bool,
    properties: &Properties,
    context: &DdlContext<'_>,
) -> Result<Option<SchemaChange>, CqlError> {
    let options = options(properties)?;
    let map = options
        .replication
        .ok_or_else(|| invalid!("Missing mandatory option 'replication'"))?;
    if is_local_system(name) || is_system(name) {
        return Err(invalid!("System keyspace '{name}' is not user-modifiable"));
    }
    if !is_valid_name(name) {
        return Err(invalid!(
            "Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got '{name}')"
        ));
    }
    if schema.keyspace(name).is_some() {
        if if_not_exists {
            return Ok(None);
        }
        return Err(CqlError::AlreadyExists {
            keyspace: name.into(),
            table: String::new(),
            message: format!("Cannot add existing keyspace \"{name}\""),
        });
    }
    let mut after = Keyspace::new(name, replication_of(name, map, context.datacenters, None)?);
    after.durable_writes = options.durable_writes.unwrap_or(true);
    Ok(Some(SchemaChange {
        keyspace: name.into(),
        before: None,
        after: Some(after),
        event: SchemaEvent {
            change: ChangeKind::Created,
            target: "KEYSPACE",
            keyspace: name.into(),
            name: String::new(),
        },
        warnings: Vec::new(),
    }))
}

pub(super) fn alter(
    schema: &Schema,
    name: &str,
    if_exists: bool,
    properties: &Properties,
    context: &DdlContext<'_>,
) -> Result<Option<SchemaChange>, CqlError> {
    let options = options(properties)?;
    if is_local_system(name) {
        return Err(CqlError::Unauthorized(format!(
            "{name} keyspace is not user-modifiable."
        )));
    }
    let Some(before) = schema.keyspace(name) else {
        return if if_exists {
            Ok(None)
        } else {
            Err(invalid!("Keyspace '{name}' doesn't exist"))
        };
    };
    let mut after = Keyspace::clone(before);
    if let Some(map) = options.replication {
        after.replication =
            replication_of(name, map, context.datacenters, Some(&before.replication))?;
    }
    if let Some(durable_writes) = options.durable_writes {
        after.durable_writes = durable_writes;
    }
    Ok(Some(super::change(
        before,
        after,
        ChangeKind::Updated,
        "KEYSPACE",
        "",
    )))
}

pub(super) fn drop(
    schema: &Schema,
    name: &str,
    if_exists: bool,
) -> Result<Option<SchemaChange>, CqlError> {
    super::check_modifiable(name)?;
    let Some(before) = schema.keyspace(name) else {
        return if if_exists {
            Ok(None)
        } else {
            Err(invalid!("Keyspace '{name}' doesn't exist"))
        };
    };
    Ok(Some(SchemaChange {
        keyspace: name.into(),
        before: Some(Arc::clone(before)),
        after: None,
        event: SchemaEvent {
            change: ChangeKind::Dropped,
            target: "KEYSPACE",
            keyspace: name.into(),
            name: String::new(),
        },
        warnings: Vec::new(),
    }))
}
