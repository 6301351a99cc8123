//! What bound statements ask for: reads, writes, and the rest.

use crate::binding::ColumnSpec;
use crate::ddl::SchemaChange;
use crate::execution::SelectPlan;
use bytes::Bytes;
use helenus_rows::Mutation;
use helenus_schema::TableMetadata;
use std::sync::Arc;

/// How writes of one request belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// One INSERT, UPDATE or DELETE.
    Simple,
    /// Through the batch log: all or nothing.
    LoggedBatch,
    /// One by one.
    UnloggedBatch,
}

/// A bound statement.
#[derive(Debug)]
pub enum Plan {
    /// Read.
    Read(Box<SelectPlan>),
    /// Write these mutations, at most one per keyspace and partition key.
    Write {
        /// How they belong together.
        kind: WriteKind,
        /// The mutations; may be none.
        mutations: Vec<Mutation>,
        /// Warnings for the client.
        warnings: Vec<String>,
    },
    /// Change the schema; `None` when IF [NOT] EXISTS makes it nothing.
    Schema(Option<Box<SchemaChange>>),
    /// Make this the session's keyspace.
    Use(String),
    /// Delete everything in this table on every node.
    Truncate(Arc<TableMetadata>),
    /// Answer with these rows.
    Rows(ResultRows),
}

/// Rows for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRows {
    /// Names and types of the columns.
    pub columns: Arc<[ColumnSpec]>,
    /// Values by row.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Where the next page starts, if there may be one.
    pub paging_state: Option<Bytes>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}
