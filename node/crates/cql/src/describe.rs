//! DESCRIBE: the schema as statements that make it again.

use crate::ast::{DescribeTarget, QualifiedName};
use crate::binding::ColumnSpec;
use crate::error::{CqlError, invalid};
use crate::plan::ResultRows;
use bytes::Bytes;
use helenus_schema::{Column, ColumnKind, Keyspace, Schema, TableMetadata, TableParams};
use helenus_types::cql_name::quote_name;
use helenus_types::literal::{format_f64, hex, quote_text};
use helenus_types::{CqlType, UserType};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The columns of the result.
pub(crate) fn columns(target: &DescribeTarget) -> Arc<[ColumnSpec]> {
    let names: &[&str] = match target {
        DescribeTarget::Cluster => &["cluster", "partitioner", "snitch"],
        DescribeTarget::Keyspaces
        | DescribeTarget::Tables
        | DescribeTarget::Types
        | DescribeTarget::Functions
        | DescribeTarget::Aggregates => &["keyspace_name", "type", "name"],
        _ => &["keyspace_name", "type", "name", "create_statement"],
    };
    let spec = |name: &&str| ColumnSpec {
        keyspace: "system".into(),
        table: "describe".into(),
        name: (*name).into(),
        cql_type: CqlType::Text,
    };
    names.iter().map(spec).collect()
}

/// One thing described.
struct Element {
    keyspace: String,
    kind: &'static str,
    name: String,
    statement: String,
}

/// What DESCRIBE tells of the cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterFacts {
    /// Name of the cluster.
    pub name: String,
    /// Java class of the snitch.
    pub snitch: String,
}

/// The rows of a DESCRIBE.
pub(crate) fn describe(
    target: &DescribeTarget,
    internals: bool,
    schema: &Schema,
    keyspace: Option<&str>,
    cluster: &ClusterFacts,
) -> Result<ResultRows, CqlError> {
    let text = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
    let columns = columns(target);
    let rows = if *target == DescribeTarget::Cluster {
        vec![vec![
            text(&cluster.name),
            text("org.apache.cassandra.dht.Murmur3Partitioner"),
            text(&cluster.snitch),
        ]]
    } else {
        let row = |element: Element| {
            let mut row = vec![
                text(&quote_name(&element.keyspace)),
                text(element.kind),
                text(&quote_name(&element.name)),
            ];
            if columns.len() > 3 {
                row.push(text(&element.statement));
            }
            row
        };
        elements(target, internals, schema, keyspace)?
            .into_iter()
            .map(row)
            .collect()
    };
    Ok(ResultRows {
        columns,
        rows,
        paging_state: None,
        warnings: Vec::new(),
    })
}

fn elements(
    target: &DescribeTarget,
    internals: bool,
    schema: &Schema,
    current: Option<&str>,
) -> Result<Vec<Element>, CqlError> {
    let of_keyspaces = |all: bool| -> Vec<&Arc<Keyspace>> {
        schema
            .keyspaces()
            .filter(|ks| {
                if let Some(current) = current {
                    ks.name == current
                } else {
                    all
                }
            })
            .collect()
    };
    Ok(match target {
        DescribeTarget::Schema { full } => schema
            .keyspaces()
            .filter(|ks| *full || !crate::ddl::is_system(&ks.name))
            .flat_map(|ks| keyspace_elements(ks, internals))
            .collect(),
        DescribeTarget::Keyspaces => schema.keyspaces().map(|ks| keyspace_element(ks)).collect(),
        DescribeTarget::Keyspace { name, only } => {
            let name = name
                .as_deref()
                .or(current)
                .ok_or_else(|| invalid!("No keyspace specified and no current keyspace"))?;
            let keyspace = find_keyspace(schema, name)?;
            if *only {
                vec![keyspace_element(keyspace)]
            } else {
                keyspace_elements(keyspace, internals)
            }
        }
        DescribeTarget::Tables => of_keyspaces(true)
            .into_iter()
            .flat_map(|ks| {
                ks.tables
                    .values()
                    .map(|table| table_element(table, internals))
            })
            .collect(),
        DescribeTarget::Types => of_keyspaces(true)
            .into_iter()
            .flat_map(|ks| ks.types.values().map(|t| type_element(t)))
            .collect(),
        DescribeTarget::Cluster | DescribeTarget::Functions | DescribeTarget::Aggregates => {
            Vec::new()
        }
        DescribeTarget::Table(name) => {
            vec![table_element(find_table(schema, name, current)?, internals)]
        }
        DescribeTarget::Type(name) => vec![type_element(find_type(schema, name, current)?)],
        DescribeTarget::Function(name) => {
            return Err(not_found("User defined function", name, current));
        }
        DescribeTarget::Aggregate(name) => {
            return Err(not_found("User defined aggregate", name, current));
        }
        DescribeTarget::Index(name) => return Err(not_found("Index", name, current)),
        DescribeTarget::View(name) => return Err(not_found("Materialized view", name, current)),
        DescribeTarget::Any(name) => any(schema, name, current, internals)?,
    })
}

fn not_found(what: &str, name: &QualifiedName, current: Option<&str>) -> CqlError {
    let keyspace = name.keyspace.as_deref().or(current).unwrap_or_default();
    invalid!("{what} '{}' not found in '{keyspace}'", name.name)
}

fn find_keyspace<'s>(schema: &'s Schema, name: &str) -> Result<&'s Arc<Keyspace>, CqlError> {
    schema
        .keyspace(name)
        .ok_or_else(|| invalid!("'{name}' not found in keyspaces"))
}

fn keyspace_named<'s>(
    schema: &'s Schema,
    name: &QualifiedName,
    current: Option<&str>,
) -> Result<&'s Arc<Keyspace>, CqlError> {
    let keyspace = name.keyspace.as_deref().or(current);
    find_keyspace(
        schema,
        keyspace.ok_or_else(|| invalid!("No keyspace specified and no current keyspace"))?,
    )
}

fn find_table<'s>(
    schema: &'s Schema,
    name: &QualifiedName,
    current: Option<&str>,
) -> Result<&'s Arc<TableMetadata>, CqlError> {
    let keyspace = keyspace_named(schema, name, current)?;
    keyspace.tables.get(&name.name).ok_or_else(|| {
        invalid!(
            "Table '{}' not found in keyspace '{}'",
            name.name,
            keyspace.name
        )
    })
}

fn find_type<'s>(
    schema: &'s Schema,
    name: &QualifiedName,
    current: Option<&str>,
) -> Result<&'s Arc<UserType>, CqlError> {
    let keyspace = keyspace_named(schema, name, current)?;
    keyspace.types.get(&name.name).ok_or_else(|| {
        invalid!(
            "User defined type '{}' not found in '{}'",
            name.name,
            keyspace.name
        )
    })
}

fn any(
    schema: &Schema,
    name: &QualifiedName,
    current: Option<&str>,
    internals: bool,
) -> Result<Vec<Element>, CqlError> {
    if name.keyspace.is_none()
        && let Some(keyspace) = schema.keyspace(&name.name)
    {
        return Ok(keyspace_elements(keyspace, internals));
    }
    let Some(keyspace) = name.keyspace.as_deref().or(current) else {
        return Err(invalid!("'{}' not found in keyspaces", name.name));
    };
    let keyspace = find_keyspace(schema, keyspace)?;
    match keyspace.tables.get(&name.name) {
        Some(table) => Ok(vec![table_element(table, internals)]),
        None => Err(invalid!(
            "'{}' not found in keyspace '{}'",
            name.name,
            keyspace.name
        )),
    }
}

fn keyspace_element(keyspace: &Keyspace) -> Element {
    Element {
        keyspace: keyspace.name.clone(),
        kind: "keyspace",
        name: keyspace.name.clone(),
        statement: keyspace_statement(keyspace),
    }
}

fn type_element(user_type: &UserType) -> Element {
    Element {
        keyspace: user_type.keyspace.clone(),
        kind: "type",
        name: user_type.name.clone(),
        statement: type_statement(user_type),
    }
}

fn table_element(table: &TableMetadata, internals: bool) -> Element {
    Element {
        keyspace: table.keyspace.clone(),
        kind: "table",
        name: table.name.clone(),
        statement: table_statement(table, internals),
    }
}

/// A keyspace with everything in it, user types before those that use them.
fn keyspace_elements(keyspace: &Keyspace, internals: bool) -> Vec<Element> {
    let mut elements = vec![keyspace_element(keyspace)];
    let mut left: Vec<&Arc<UserType>> = keyspace.types.values().collect();
    while !left.is_empty() {
        let uses_left = |user_type: &UserType| {
            left.iter().any(|other| {
                other.name != user_type.name
                    && user_type
                        .fields
                        .iter()
                        .any(|field| uses(&field.1, &other.name))
            })
        };
        let (ready, rest): (Vec<_>, Vec<_>) = left
            .iter()
            .copied()
            .partition(|user_type| !uses_left(user_type));
        if ready.is_empty() {
            elements.extend(rest.into_iter().map(|user_type| type_element(user_type)));
            break;
        }
        elements.extend(ready.into_iter().map(|user_type| type_element(user_type)));
        left = rest;
    }
    let mut tables: Vec<_> = keyspace.tables.values().collect();
    tables.sort_by_cached_key(|table| table.name.to_lowercase());
    elements.extend(
        tables
            .into_iter()
            .map(|table| table_element(table, internals)),
    );
    elements
}

fn uses(cql_type: &CqlType, name: &str) -> bool {
    crate::ddl::uses_type(cql_type, name)
}

fn text_map(entries: &BTreeMap<String, String>) -> String {
    let entries: Vec<_> = entries
        .iter()
        .map(|(key, value)| format!("{}: {}", quote_text(key), quote_text(value)))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// CREATE KEYSPACE.
pub fn keyspace_statement(keyspace: &Keyspace) -> String {
    if helenus_schema::system::is_virtual_keyspace(&keyspace.name) {
        return format!(
            "/*\nWarning: Keyspace {0} is a virtual keyspace and cannot be recreated with CQL.\nStructure, for reference:\nVIRTUAL KEYSPACE {0};\n*/",
            quote_name(&keyspace.name)
        );
    }
    let class = &keyspace.replication.class;
    let mut replication = format!(
        "{{'class': {}",
        quote_text(
            class
                .strip_prefix("org.apache.cassandra.locator.")
                .unwrap_or(class)
        )
    );
    for (name, value) in &keyspace.replication.options {
        push(
            &mut replication,
            format_args!(", {}: {}", quote_text(name), quote_text(value)),
        );
    }
    let name = quote_name(&keyspace.name);
    format!(
        "CREATE KEYSPACE {name} WITH replication = {replication}}}  AND durable_writes = {};",
        keyspace.durable_writes
    )
}

/// Writing to a string cannot fail.
fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).unwrap_or_default();
}

/// CREATE TYPE.
pub fn type_statement(user_type: &UserType) -> String {
    let fields: Vec<_> = user_type
        .fields
        .iter()
        .map(|(name, t)| format!("    {} {t}", quote_name(name)))
        .collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quote_name(&user_type.keyspace),
        quote_name(&user_type.name),
        fields.join(",\n")
    )
}

/// CREATE TABLE; with `internals` also its id and dropped columns.
pub fn table_statement(table: &TableMetadata, internals: bool) -> String {
    let single = table.partition_key().len() == 1 && table.clustering().is_empty();
    let is_virtual = matches!(
        table.keyspace.as_str(),
        "system_views" | "system_virtual_schema"
    );
    let (mut lines, suffix) = column_lines(table, internals, single);
    if !single {
        lines.push(format!("    PRIMARY KEY ({})", primary_key(table)));
    }
    let word = if is_virtual {
        "VIRTUAL TABLE"
    } else {
        "CREATE TABLE"
    };
    let mut out = format!(
        "{word} {}.{} (\n{}\n) WITH ",
        quote_name(&table.keyspace),
        quote_name(&table.name),
        lines.join(",\n")
    );
    let mut options = Vec::new();
    if internals {
        options.push(format!("ID = {}", table.id));
    }
    if !table.clustering().is_empty() {
        let direction = |column: &Column| if column.reversed { "DESC" } else { "ASC" };
        let order: Vec<_> = table
            .clustering()
            .iter()
            .map(|c| format!("{} {}", quote_name(&c.name), direction(c)))
            .collect();
        options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
    }
    if is_virtual {
        options.push(format!("comment = {}", quote_text(&table.params.comment)));
    } else {
        options.extend(options_of(&table.params));
    }
    out.push_str(&options.join("\n    AND "));
    out.push(';');
    out.push_str(&suffix);
    if is_virtual {
        format!(
            "/*\nWarning: Table {}.{} is a virtual table and cannot be recreated with CQL.\nStructure, for reference:\n{out}\n*/",
            quote_name(&table.keyspace),
            quote_name(&table.name)
        )
    } else {
        out
    }
}

/// Lines of columns, and the statements that drop again those that were dropped.
fn column_lines(table: &TableMetadata, internals: bool, single: bool) -> (Vec<String>, String) {
    let mut lines = Vec::new();
    for column in table.columns() {
        let is_static = if column.kind == ColumnKind::Static {
            " static"
        } else {
            ""
        };
        let key = if single && column.kind == ColumnKind::PartitionKey {
            " PRIMARY KEY"
        } else {
            ""
        };
        lines.push(format!(
            "    {} {}{is_static}{key}",
            quote_name(&column.name),
            column.cql_type
        ));
    }
    let mut suffix = String::new();
    if internals {
        for dropped in table.dropped_columns.values() {
            if table.column(&dropped.name).is_none() {
                let is_static = if dropped.kind == ColumnKind::Static {
                    " static"
                } else {
                    ""
                };
                lines.push(format!(
                    "    {} {}{is_static}",
                    quote_name(&dropped.name),
                    dropped.cql_type
                ));
            }
            let name = format!(
                "{}.{}",
                quote_name(&table.keyspace),
                quote_name(&table.name)
            );
            push(
                &mut suffix,
                format_args!(
                    "\nALTER TABLE {name} DROP {} USING TIMESTAMP {};",
                    quote_name(&dropped.name),
                    dropped.dropped_time
                ),
            );
            if let Some(column) = table.column(&dropped.name) {
                let is_static = if column.kind == ColumnKind::Static {
                    " static"
                } else {
                    ""
                };
                push(
                    &mut suffix,
                    format_args!(
                        "\nALTER TABLE {name} ADD {} {}{is_static};",
                        quote_name(&column.name),
                        column.cql_type
                    ),
                );
            }
        }
    }
    (lines, suffix)
}

fn primary_key(table: &TableMetadata) -> String {
    let names = |columns: &[Column]| {
        columns
            .iter()
            .map(|column| quote_name(&column.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut key = names(table.partition_key());
    if table.partition_key().len() > 1 {
        key = format!("({key})");
    }
    if !table.clustering().is_empty() {
        push(&mut key, format_args!(", {}", names(table.clustering())));
    }
    key
}

fn options_of(params: &TableParams) -> Vec<String> {
    let extensions: Vec<_> = params
        .extensions
        .iter()
        .map(|(key, value)| format!("{}: 0x{}", quote_text(key), hex(value)))
        .collect();
    let memtable = if params.memtable.is_empty() {
        "default"
    } else {
        &params.memtable
    };
    vec![
        format!(
            "additional_write_policy = {}",
            quote_text(&params.additional_write_policy)
        ),
        format!("allow_auto_snapshot = {}", params.allow_auto_snapshot),
        format!(
            "bloom_filter_fp_chance = {}",
            format_f64(params.bloom_filter_fp_chance)
        ),
        format!("caching = {}", text_map(&params.caching)),
        format!("cdc = {}", params.cdc),
        format!("comment = {}", quote_text(&params.comment)),
        format!("compaction = {}", text_map(&params.compaction)),
        format!("compression = {}", text_map(&params.compression)),
        format!("memtable = {}", quote_text(memtable)),
        format!("crc_check_chance = {}", format_f64(params.crc_check_chance)),
        format!(
            "default_time_to_live = {}",
            params.default_time_to_live_seconds
        ),
        format!("extensions = {{{}}}", extensions.join(", ")),
        format!("gc_grace_seconds = {}", params.gc_grace_seconds),
        format!("incremental_backups = {}", params.incremental_backups),
        format!("max_index_interval = {}", params.max_index_interval),
        format!(
            "memtable_flush_period_in_ms = {}",
            params.memtable_flush_period_in_ms
        ),
        format!("min_index_interval = {}", params.min_index_interval),
        format!("read_repair = {}", quote_text(&params.read_repair)),
        format!(
            "speculative_retry = {}",
            quote_text(&params.speculative_retry)
        ),
    ]
}
