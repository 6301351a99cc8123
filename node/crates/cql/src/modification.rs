//! INSERT, UPDATE and DELETE: analysed, then bound to the updates of partitions.
//!
//! Invariant M1: a statement whose effect depends on what is stored is bound only with what was read
//! for it (list elements by index, parts of lists by value) or refused (counters, conditions), never
//! guessed.

mod apply;
mod lists;
mod prepare;

pub(crate) use apply::{bind, timestamp_of};
pub use lists::Existing;
pub(crate) use lists::required_reads;
pub(crate) use prepare::{delete, insert, update};

use crate::expr::Expr;
use crate::restrictions::Restrictions;
use helenus_schema::{ColumnId, TableMetadata};
use helenus_types::CqlType;
use std::sync::Arc;

/// What a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Delete,
}

/// One change of one column.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) column: ColumnId,
    pub(crate) name: String,
    pub(crate) cql_type: CqlType,
    pub(crate) is_static: bool,
    pub(crate) change: Change,
}

/// How a column changes.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// To this value.
    Set(Expr),
    /// These elements are added (at the end of a list).
    Append(Expr),
    /// These elements are added at the start of a list.
    Prepend(Expr),
    /// These elements of a set, or keys of a map, are removed.
    Remove(Expr),
    /// These values are removed of a list.
    RemoveValues(Expr),
    /// The element of this index of a list.
    SetIndex(Expr, Expr),
    /// The element of this index of a list is removed.
    DeleteIndex(Expr),
    /// The entry of this key of a map.
    Entry(Expr, Expr),
    /// The field of this index.
    Field(u16, Expr),
    /// The whole column is removed.
    Delete,
    /// The element of a set or key of a map is removed.
    DeleteEntry(Expr),
    /// The field is removed.
    DeleteField(u16),
}

/// Where values of columns come from.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Restrictions and operations.
    Columns {
        restrictions: Box<Restrictions>,
        operations: Vec<Operation>,
    },
    /// A JSON document.
    Json { document: Expr, default_unset: bool },
}

/// A modification with names and types resolved.
#[derive(Debug, Clone)]
pub(crate) struct PreparedModification {
    pub(crate) kind: Kind,
    pub(crate) table: Arc<TableMetadata>,
    pub(crate) body: Body,
    pub(crate) timestamp: Option<Expr>,
    pub(crate) ttl: Option<Expr>,
}
