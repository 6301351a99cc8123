//! A keyspace and how it is replicated.

use crate::table::{TableId, TableMetadata};
use helenus_types::UserType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The `replication` map of a keyspace: a strategy class and its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Replication {
    /// Full Java class name, such as `org.apache.cassandra.locator.NetworkTopologyStrategy`.
    pub class: String,
    /// Options without `class`: `replication_factor`, or a factor per data center.
    pub options: BTreeMap<String, String>,
}

impl Replication {
    /// `LocalStrategy`: data that never leaves the node.
    pub fn local() -> Self {
        Self {
            class: "org.apache.cassandra.locator.LocalStrategy".into(),
            options: BTreeMap::new(),
        }
    }

    /// `SimpleStrategy` with a replication factor.
    pub fn simple(factor: usize) -> Self {
        Self {
            class: "org.apache.cassandra.locator.SimpleStrategy".into(),
            options: BTreeMap::from([("replication_factor".into(), factor.to_string())]),
        }
    }

    /// The class name behind the last dot.
    pub fn short_class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or(&self.class)
    }

    /// Whether it is `LocalStrategy`.
    pub fn is_local(&self) -> bool {
        self.short_class() == "LocalStrategy"
    }
}

/// A keyspace with everything in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyspace {
    /// Name without quotes.
    pub name: String,
    /// Whether writes go to the commit log.
    pub durable_writes: bool,
    /// How partitions are placed.
    pub replication: Replication,
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<TableMetadata>>,
    /// User types by name (none of them frozen; uses decide).
    pub types: BTreeMap<String, Arc<UserType>>,
}

impl Keyspace {
    /// An empty keyspace.
    pub fn new(name: impl Into<String>, replication: Replication) -> Self {
        Self {
            name: name.into(),
            durable_writes: true,
            replication,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
        }
    }

    /// The table with this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableMetadata>> {
        self.tables.values().find(|table| table.id == id)
    }

    /// Whether it is one of the keyspaces that every node makes for itself.
    pub fn is_local_system(&self) -> bool {
        matches!(self.name.as_str(), "system" | "system_schema")
    }
}
