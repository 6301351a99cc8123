//! A table: its columns, their order, and its options.

use bytes::Bytes;
use helenus_types::{CqlType, NowInSeconds, TimestampMicros};
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// A table's identity for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub Uuid);

impl std::fmt::Display for TableId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A column's identity in one process (C2); the order of ids means nothing but is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Part of the clustering.
    Clustering,
    /// One value per row.
    Regular,
    /// One value per partition.
    Static,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name without quotes.
    pub name: String,
    /// Identity in this process.
    pub id: ColumnId,
    /// Role.
    pub kind: ColumnKind,
    /// Index within a primary-key part; 0 for others.
    pub position: usize,
    /// Type.
    pub cql_type: CqlType,
    /// Clustering order is descending.
    pub reversed: bool,
}

/// A column that was dropped; cells with older timestamps are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedColumn {
    /// Name without quotes.
    pub name: String,
    /// Type when it was dropped.
    pub cql_type: CqlType,
    /// Static or regular.
    pub kind: ColumnKind,
    /// When, in microseconds.
    pub dropped_time: TimestampMicros,
}

/// The options of a table, named and valued as in `system_schema.tables`.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are Cassandra's table options")]
pub struct TableParams {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: bool,
    pub bloom_filter_fp_chance: f64,
    pub caching: BTreeMap<String, String>,
    pub cdc: bool,
    pub comment: String,
    /// With `class` (full Java name).
    pub compaction: BTreeMap<String, String>,
    /// With `class` (full Java name) unless `enabled` is false.
    pub compression: BTreeMap<String, String>,
    pub crc_check_chance: f64,
    pub default_time_to_live_seconds: i32,
    pub extensions: BTreeMap<String, Bytes>,
    pub gc_grace_seconds: i32,
    pub incremental_backups: bool,
    pub max_index_interval: i32,
    pub memtable: String,
    pub memtable_flush_period_in_ms: i32,
    pub min_index_interval: i32,
    pub read_repair: String,
    pub speculative_retry: String,
}

impl Eq for TableParams {}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

impl Default for TableParams {
    fn default() -> Self {
        Self {
            additional_write_policy: "99p".into(),
            allow_auto_snapshot: true,
            bloom_filter_fp_chance: 0.01,
            caching: map(&[("keys", "ALL"), ("rows_per_partition", "NONE")]),
            cdc: false,
            comment: String::new(),
            compaction: map(&[
                (
                    "class",
                    "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
                ),
                ("max_threshold", "32"),
                ("min_threshold", "4"),
            ]),
            compression: map(&[
                ("chunk_length_in_kb", "16"),
                ("class", "org.apache.cassandra.io.compress.LZ4Compressor"),
            ]),
            crc_check_chance: 1.0,
            default_time_to_live_seconds: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: true,
            max_index_interval: 2048,
            memtable: String::new(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".into(),
            speculative_retry: "99p".into(),
        }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMetadata {
    /// Keyspace name.
    pub keyspace: String,
    /// Table name.
    pub name: String,
    /// Identity.
    pub id: TableId,
    /// Values of `system_schema.tables.flags`: `compound`, `counter`, `dense`, `super`.
    pub flags: Vec<String>,
    /// Options.
    pub params: TableParams,
    /// Dropped columns by name.
    pub dropped_columns: BTreeMap<String, DroppedColumn>,
    columns: Vec<Column>,
    /// No column had this id or a higher one yet, dropped ones included (C2).
    next_column_id: u32,
    partition_key_count: usize,
    clustering_count: usize,
    static_count: usize,
    by_name: HashMap<String, usize>,
    by_id: HashMap<ColumnId, usize>,
}

impl TableMetadata {
    /// Starts a table.
    pub fn builder(
        keyspace: impl Into<String>,
        name: impl Into<String>,
        id: TableId,
    ) -> TableBuilder {
        TableBuilder {
            keyspace: keyspace.into(),
            name: name.into(),
            id,
            flags: vec!["compound".into()],
            params: TableParams::default(),
            dropped_columns: BTreeMap::new(),
            columns: Vec::new(),
            next_column_id: 0,
        }
    }

    /// A builder with everything of this table, to alter it.
    pub fn to_builder(&self) -> TableBuilder {
        TableBuilder {
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            id: self.id,
            flags: self.flags.clone(),
            params: self.params.clone(),
            dropped_columns: self.dropped_columns.clone(),
            columns: self.columns.clone(),
            next_column_id: self.next_column_id,
        }
    }

    /// All columns: partition key, clustering, static, regular (C3 within each).
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Partition-key columns by position.
    pub fn partition_key(&self) -> &[Column] {
        &self.columns[..self.partition_key_count]
    }

    /// Clustering columns by position.
    pub fn clustering(&self) -> &[Column] {
        &self.columns[self.partition_key_count..self.primary_key_count()]
    }

    /// Static columns in Cassandra's order.
    pub fn static_columns(&self) -> &[Column] {
        let start = self.primary_key_count();
        &self.columns[start..start + self.static_count]
    }

    /// Regular columns in Cassandra's order.
    pub fn regular_columns(&self) -> &[Column] {
        &self.columns[self.primary_key_count() + self.static_count..]
    }

    fn primary_key_count(&self) -> usize {
        self.partition_key_count + self.clustering_count
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.by_name.get(name).map(|&at| &self.columns[at])
    }

    /// The column with this id.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        self.by_id.get(&id).map(|&at| &self.columns[at])
    }

    /// Whether its regular columns are counters.
    pub fn is_counter(&self) -> bool {
        self.flags.iter().any(|flag| flag == "counter")
    }

    /// The same table with the ids that `previous` gave to columns of the same name (C2).
    #[must_use]
    pub fn with_ids_of(&self, previous: &Self) -> Self {
        let mut next = previous.next_column_id;
        let mut builder = self.to_builder();
        builder.next_column_id = next;
        for column in &mut builder.columns {
            // a column that was dropped and added again meanwhile is another one
            let name = &column.name;
            let same_life = self.dropped_columns.get(name) == previous.dropped_columns.get(name);
            let old = previous.column(name).filter(|_| same_life);
            column.id = old.map_or_else(
                || {
                    next += 1;
                    ColumnId(next - 1)
                },
                |old| old.id,
            );
        }
        builder.finish(false)
    }
}

/// Collects the parts of a table.
#[derive(Debug, Clone)]
pub struct TableBuilder {
    /// Keyspace name.
    pub keyspace: String,
    /// Table name.
    pub name: String,
    /// Identity.
    pub id: TableId,
    /// Values of `system_schema.tables.flags`.
    pub flags: Vec<String>,
    /// Options.
    pub params: TableParams,
    /// Dropped columns by name.
    pub dropped_columns: BTreeMap<String, DroppedColumn>,
    /// Columns in any order.
    pub columns: Vec<Column>,
    next_column_id: u32,
}

impl TableBuilder {
    /// Adds a column; primary-key columns take the next position of their kind.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, kind: ColumnKind, cql_type: CqlType) -> Self {
        self.push(name, kind, cql_type, false);
        self
    }

    /// Adds a partition-key column.
    #[must_use]
    pub fn partition_key(self, name: impl Into<String>, cql_type: CqlType) -> Self {
        self.column(name, ColumnKind::PartitionKey, cql_type)
    }

    /// Adds a clustering column in ascending order.
    #[must_use]
    pub fn clustering(self, name: impl Into<String>, cql_type: CqlType) -> Self {
        self.column(name, ColumnKind::Clustering, cql_type)
    }

    /// Adds a regular column.
    #[must_use]
    pub fn regular(self, name: impl Into<String>, cql_type: CqlType) -> Self {
        self.column(name, ColumnKind::Regular, cql_type)
    }

    /// Adds a column, saying whether its clustering order is descending.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        kind: ColumnKind,
        cql_type: CqlType,
        reversed: bool,
    ) {
        let position = match kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => self
                .columns
                .iter()
                .filter(|column| column.kind == kind)
                .count(),
            ColumnKind::Regular | ColumnKind::Static => 0,
        };
        let id = ColumnId(self.unused_id());
        self.columns.push(Column {
            name: name.into(),
            id,
            kind,
            position,
            cql_type,
            reversed,
        });
    }

    /// Removes a column (the caller records it in `dropped_columns`).
    pub fn remove(&mut self, name: &str) -> Option<Column> {
        let at = self.columns.iter().position(|column| column.name == name)?;
        Some(self.columns.remove(at))
    }

    /// The lowest id that no column had yet.
    fn unused_id(&self) -> u32 {
        let present = self.columns.iter().map(|column| column.id.0 + 1).max();
        self.next_column_id.max(present.unwrap_or(0))
    }

    /// The table; ids are given anew in the columns' order.
    pub fn build(self) -> TableMetadata {
        self.finish(true)
    }

    /// The table with the ids that the columns have: for ALTER from [`TableMetadata::to_builder`].
    pub fn build_keeping_ids(self) -> TableMetadata {
        self.finish(false)
    }

    fn finish(mut self, renumber: bool) -> TableMetadata {
        let rank = |kind: ColumnKind| match kind {
            ColumnKind::PartitionKey => 0,
            ColumnKind::Clustering => 1,
            ColumnKind::Static => 2,
            ColumnKind::Regular => 3,
        };
        self.columns.sort_by(|a, b| {
            (rank(a.kind), a.position, a.cql_type.is_multi_cell())
                .cmp(&(rank(b.kind), b.position, b.cql_type.is_multi_cell()))
                .then_with(|| a.name.as_bytes().cmp(b.name.as_bytes()))
        });
        if renumber {
            self.next_column_id = 0;
            for (id, column) in (0_u32..).zip(&mut self.columns) {
                column.id = ColumnId(id);
            }
        }
        let next_column_id = self.unused_id();
        let count = |kind| {
            self.columns
                .iter()
                .filter(|column| column.kind == kind)
                .count()
        };
        TableMetadata {
            partition_key_count: count(ColumnKind::PartitionKey),
            clustering_count: count(ColumnKind::Clustering),
            static_count: count(ColumnKind::Static),
            by_name: self
                .columns
                .iter()
                .enumerate()
                .map(|(at, column)| (column.name.clone(), at))
                .collect(),
            by_id: self
                .columns
                .iter()
                .enumerate()
                .map(|(at, column)| (column.id, at))
                .collect(),
            keyspace: self.keyspace,
            name: self.name,
            id: self.id,
            flags: self.flags,
            params: self.params,
            dropped_columns: self.dropped_columns,
            next_column_id,
            columns: self.columns,
        }
    }
}

/// When a cell that expires is gone: no overflow past what the format can say (2106).
pub const MAX_DELETION_TIME: NowInSeconds = u32::MAX as NowInSeconds - 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_tables_keep_column_ids() {
        let id = TableId(Uuid::from_u128(1));
        let first = TableMetadata::builder("k", "t", id)
            .partition_key("p", CqlType::Int)
            .regular("b", CqlType::Int)
            .regular("z", CqlType::Int)
            .build();
        let mut builder = first.to_builder();
        builder.push("a", ColumnKind::Regular, CqlType::Int, false);
        let second = builder.build().with_ids_of(&first);
        for column in first.columns() {
            assert_eq!(
                second.column(&column.name).map(|found| found.id),
                Some(column.id)
            );
        }
        assert_eq!(second.regular_columns()[0].name, "a");
        assert_eq!(second.column("a").map(|found| found.id), Some(ColumnId(3)));
    }

    #[test]
    fn ids_of_dropped_columns_are_not_given_again() {
        let id = TableId(Uuid::from_u128(1));
        let first = TableMetadata::builder("k", "t", id)
            .partition_key("p", CqlType::Int)
            .regular("z", CqlType::Int)
            .build();
        let mut without = first.to_builder();
        let dropped = without.remove("z").unwrap();
        without.dropped_columns.insert(
            "z".into(),
            DroppedColumn {
                name: "z".into(),
                cql_type: dropped.cql_type,
                kind: dropped.kind,
                dropped_time: 5,
            },
        );
        let second = without.build().with_ids_of(&first);
        let mut with = second.to_builder();
        with.push("z", ColumnKind::Regular, CqlType::Text, false);
        let third = with.build();
        for previous in [&second, &first] {
            let again = third.with_ids_of(previous);
            let new = again.column("z").map(|found| found.id);
            assert_ne!(new, Some(dropped.id));
            assert_eq!(new, Some(ColumnId(2)));
        }
    }
}
