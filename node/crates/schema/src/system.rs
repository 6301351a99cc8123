//! Keyspaces that every node has: their tables with exactly Cassandra 5.0's columns, options and
//! identities, as `DESCRIBE` of 5.0.5 shows them.
//!
//! Invariants:
//! S1: a table's id is `UUID.nameUUIDFromBytes(keyspace + table)`, so all nodes agree on it.
//! S2: local keyspaces (`system`, `system_schema`) are never replicated; virtual ones are not stored.

mod tables;

use crate::keyspace::{Keyspace, Replication};
use crate::table::{ColumnKind, TableId, TableMetadata, TableParams};
use helenus_types::CqlType;
use md5::{Digest, Md5};
use std::sync::Arc;

/// Keyspaces of nodes alone.
pub const LOCAL_KEYSPACES: [&str; 2] = ["system", "system_schema"];
/// Keyspaces of the cluster that nodes make themselves.
pub const REPLICATED_KEYSPACES: [&str; 3] = ["system_auth", "system_distributed", "system_traces"];
/// Keyspaces whose rows are made when asked for.
pub const VIRTUAL_KEYSPACES: [&str; 2] = ["system_views", "system_virtual_schema"];

/// The tables of `system_schema` in the order of Cassandra's schema digest.
pub const SCHEMA_TABLES: [&str; 11] = [
    "column_masks",
    "columns",
    "dropped_columns",
    "triggers",
    "types",
    "functions",
    "aggregates",
    "indexes",
    "tables",
    "views",
    "keyspaces",
];

/// Whether a keyspace is one of those that every node has.
pub fn is_system_keyspace(name: &str) -> bool {
    LOCAL_KEYSPACES.contains(&name)
        || REPLICATED_KEYSPACES.contains(&name)
        || VIRTUAL_KEYSPACES.contains(&name)
}

/// Whether a keyspace's tables are virtual.
pub fn is_virtual_keyspace(name: &str) -> bool {
    VIRTUAL_KEYSPACES.contains(&name)
}

/// How a table compacts.
enum Strategy {
    SizeTiered,
    SizeTieredFromTwo,
    Leveled,
    TimeWindowDays,
}

/// A table in short.
struct Definition {
    name: &'static str,
    comment: &'static str,
    /// `name type [static]`, separated by `; `.
    columns: &'static str,
    /// Names, separated by commas.
    partition_key: &'static str,
    /// Names, separated by commas.
    clustering: &'static str,
    strategy: Strategy,
    default_ttl_seconds: i32,
}

/// The identity of a system table (S1).
pub fn system_table_id(keyspace: &str, table: &str) -> TableId {
    let mut digest = Md5::new();
    digest.update(keyspace.as_bytes());
    digest.update(table.as_bytes());
    TableId(name_uuid(digest.finalize().into()))
}

/// A version 3 UUID of an MD5 digest (Java's `UUID.nameUUIDFromBytes`).
pub fn name_uuid(mut digest: [u8; 16]) -> uuid::Uuid {
    digest[6] = (digest[6] & 0x0f) | 0x30;
    digest[8] = (digest[8] & 0x3f) | 0x80;
    uuid::Uuid::from_bytes(digest)
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|name| !name.is_empty())
}

/// Quotes around a name are CQL's.
fn unquoted(name: &str) -> &str {
    name.trim_matches('"')
}

fn define(keyspace: &str, definition: &Definition) -> TableMetadata {
    let columns: Vec<(&str, CqlType, bool)> = definition
        .columns
        .split("; ")
        .filter_map(|column| {
            let (name, rest) = column.split_once(' ')?;
            let (type_text, is_static) = rest
                .strip_suffix(" static")
                .map_or((rest, false), |text| (text, true));
            let cql_type = CqlType::parse(type_text, &|_| None).ok()?;
            Some((unquoted(name), cql_type, is_static))
        })
        .collect();
    let mut builder = TableMetadata::builder(
        keyspace,
        definition.name,
        system_table_id(keyspace, definition.name),
    );
    for (kind, list) in [
        (ColumnKind::PartitionKey, definition.partition_key),
        (ColumnKind::Clustering, definition.clustering),
    ] {
        for name in names(list).map(unquoted) {
            if let Some(column) = columns.iter().find(|column| column.0 == name) {
                builder.push(name, kind, column.1.clone(), false);
            }
        }
    }
    for (name, cql_type, is_static) in columns {
        if !builder.columns.iter().any(|column| column.name == name) {
            let kind = if is_static {
                ColumnKind::Static
            } else {
                ColumnKind::Regular
            };
            builder.push(name, kind, cql_type, false);
        }
    }
    builder.params = params(keyspace, definition);
    builder.build()
}

fn params(keyspace: &str, definition: &Definition) -> TableParams {
    let mut params = TableParams {
        comment: definition.comment.into(),
        ..TableParams::default()
    };
    let (gc_grace, flush_period) = match keyspace {
        "system" => (0, 3_600_000),
        "system_schema" => (604_800, 3_600_000),
        "system_auth" => (7_776_000, 0),
        "system_traces" => (0, 0),
        _ => (864_000, 0),
    };
    params.gc_grace_seconds = gc_grace;
    params.memtable_flush_period_in_ms = flush_period;
    params.default_time_to_live_seconds = definition.default_ttl_seconds;
    let mut set =
        |name: &str, value: &str| params.compaction.insert(name.to_owned(), value.to_owned());
    match definition.strategy {
        Strategy::SizeTiered => {}
        Strategy::SizeTieredFromTwo => {
            set("min_threshold", "2");
        }
        Strategy::Leveled => {
            set(
                "class",
                "org.apache.cassandra.db.compaction.LeveledCompactionStrategy",
            );
        }
        Strategy::TimeWindowDays => {
            set(
                "class",
                "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
            );
            set("compaction_window_size", "1");
            set("compaction_window_unit", "DAYS");
        }
    }
    params
}

fn keyspace(name: &str, replication: Replication, definitions: &[Definition]) -> Keyspace {
    let mut keyspace = Keyspace::new(name, replication);
    for definition in definitions {
        keyspace
            .tables
            .insert(definition.name.into(), Arc::new(define(name, definition)));
    }
    keyspace
}

/// All keyspaces that every node has; the replicated ones as Cassandra first makes them.
pub fn system_keyspaces() -> Vec<Keyspace> {
    vec![
        keyspace("system", Replication::local(), tables::SYSTEM),
        keyspace("system_schema", Replication::local(), tables::SYSTEM_SCHEMA),
        keyspace("system_auth", Replication::simple(1), tables::SYSTEM_AUTH),
        keyspace(
            "system_distributed",
            Replication::simple(3),
            tables::SYSTEM_DISTRIBUTED,
        ),
        keyspace(
            "system_traces",
            Replication::simple(2),
            tables::SYSTEM_TRACES,
        ),
        keyspace("system_views", Replication::local(), tables::SYSTEM_VIEWS),
        keyspace(
            "system_virtual_schema",
            Replication::local(),
            tables::SYSTEM_VIRTUAL_SCHEMA,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_cassandras() {
        let id = |keyspace, table| system_table_id(keyspace, table).to_string();
        assert_eq!(
            id("system", "local"),
            "7ad54392-bcdd-35a6-8417-4e047860b377"
        );
        assert_eq!(
            id("system_schema", "tables"),
            "afddfb9d-bc1e-3068-8056-eed6c302ba09"
        );
    }

    #[test]
    fn every_column_is_there() {
        let lists = [
            tables::SYSTEM,
            tables::SYSTEM_SCHEMA,
            tables::SYSTEM_AUTH,
            tables::SYSTEM_DISTRIBUTED,
            tables::SYSTEM_TRACES,
            tables::SYSTEM_VIEWS,
            tables::SYSTEM_VIRTUAL_SCHEMA,
        ];
        for definition in lists.into_iter().flatten() {
            let table = define("k", definition);
            assert_eq!(
                table.columns().len(),
                definition.columns.split("; ").count(),
                "{}",
                definition.name
            );
            assert_eq!(
                table.partition_key().len(),
                names(definition.partition_key).count(),
                "{}",
                definition.name
            );
            assert_eq!(
                table.clustering().len(),
                names(definition.clustering).count(),
                "{}",
                definition.name
            );
        }
    }
}
