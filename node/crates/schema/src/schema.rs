//! A snapshot of all keyspaces.

use crate::keyspace::Keyspace;
use crate::table::{TableId, TableMetadata};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use uuid::Uuid;

/// An immutable snapshot of the whole schema.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    keyspaces: BTreeMap<String, Arc<Keyspace>>,
    tables: HashMap<TableId, Arc<TableMetadata>>,
    /// Cassandra's schema version: digest of the `system_schema` rows of replicated keyspaces.
    pub version: Uuid,
}

impl Schema {
    /// A schema of these keyspaces and version.
    pub fn new(keyspaces: impl IntoIterator<Item = Arc<Keyspace>>, version: Uuid) -> Self {
        let keyspaces: BTreeMap<_, _> = keyspaces
            .into_iter()
            .map(|ks| (ks.name.clone(), ks))
            .collect();
        let tables = keyspaces
            .values()
            .flat_map(|ks| {
                ks.tables
                    .values()
                    .map(|table| (table.id, Arc::clone(table)))
            })
            .collect();
        Self {
            keyspaces,
            tables,
            version,
        }
    }

    /// Keyspaces in the order of their names.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<Keyspace>> {
        self.keyspaces.values()
    }

    /// The keyspace with this name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<Keyspace>> {
        self.keyspaces.get(name)
    }

    /// The table with these names.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<TableMetadata>> {
        self.keyspaces.get(keyspace)?.tables.get(table)
    }

    /// The table with this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableMetadata>> {
        self.tables.get(&id)
    }

    /// A new snapshot in which `keyspace` stands instead of any of its name. Tables that were there
    /// keep their column ids (C2).
    #[must_use]
    pub fn with_keyspace(&self, mut keyspace: Keyspace, version: Uuid) -> Self {
        for table in keyspace.tables.values_mut() {
            if let Some(previous) = self.tables.get(&table.id)
                && !Arc::ptr_eq(previous, table)
            {
                *table = Arc::new(table.with_ids_of(previous));
            }
        }
        let mut keyspaces = self.keyspaces.clone();
        keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        Self::new(keyspaces.into_values(), version)
    }

    /// A new snapshot without this keyspace.
    #[must_use]
    pub fn without_keyspace(&self, name: &str, version: Uuid) -> Self {
        let mut keyspaces = self.keyspaces.clone();
        keyspaces.remove(name);
        Self::new(keyspaces.into_values(), version)
    }
}
