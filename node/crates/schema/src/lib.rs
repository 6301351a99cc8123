//! Keyspaces, tables, columns and types as immutable snapshots.
//!
//! Invariants:
//! C1: a [`Schema`] never changes; a change makes a new one and swaps it in whole.
//! C2: a column keeps its [`ColumnId`] while its table lives, across ALTERs, in one process; ids
//!     are not stored and not sent.
//! C3: within a kind, columns stand in Cassandra's order: primary key columns by position, others
//!     simple before multi-cell, then by name bytes.

pub mod keyspace;
pub mod schema;
pub mod system;
pub mod table;

pub use keyspace::{Keyspace, Replication};
pub use schema::Schema;
pub use table::{
    Column, ColumnId, ColumnKind, DroppedColumn, TableBuilder, TableId, TableMetadata, TableParams,
};
