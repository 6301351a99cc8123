//! CQL: statement in, plan out. Lexer, parser, name and type analysis, planner, functions, result
//! building, schema changes and the rows of `system_schema`. No input or output, no clock, no
//! randomness: what a plan needs of them comes in a [`BindContext`].
//!
//! Invariants:
//! Q1: no text, bound value or paging state makes this crate panic.
//! Q2: what is understood but not done yet is refused with [`CqlError::Invalid`] naming it.
//! Q3: a plan depends only on the statement, the schema it was prepared with, the bound values
//!     and the context.

mod analysis;
pub mod ast;
pub mod binding;
pub mod ddl;
pub mod describe;
pub mod error;
pub mod execution;
mod expr;
mod functions;
pub mod lexer;
mod modification;
pub mod paging;
pub mod parser;
pub mod plan;
pub mod prepared;
mod raw_type;
mod restrictions;
mod result;
pub mod schema_rows;
mod select;
mod text;

pub use binding::{BindContext, BoundValue, BoundValues, ColumnSpec};
pub use ddl::{ChangeKind, DdlContext, SchemaChange, SchemaEvent, apply_ddl};
pub use describe::ClusterFacts;
pub use error::CqlError;
pub use execution::{SelectExecution, SelectPlan};
pub use modification::Existing;
pub use paging::PagingState;
pub use parser::parse;
pub use plan::{Plan, ResultRows, WriteKind};
pub use prepared::{
    Prepared, StatementKind, bind_batch_message, is_fully_qualified, mutations_of, prepare,
    prepare_parsed, prepared_id, result_metadata_id,
};
