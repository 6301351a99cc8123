//! A schema that statements change, for tests.
#![allow(
    clippy::panic,
    dead_code,
    unreachable_pub,
    reason = "each test file uses its part"
)]

use helenus_cql::{BindContext, BoundValues, CqlError, Plan, SchemaChange, prepare};
use helenus_schema::Schema;
use helenus_schema::system::system_keyspaces;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use uuid::Uuid;

/// Each context is of a later time, so that time UUIDs differ.
static CALLS: AtomicI64 = AtomicI64::new(0);

/// A context; writes have one timestamp.
pub(crate) fn context() -> BindContext {
    BindContext {
        timestamp_micros: 1_700_000_000_000_000,
        now_micros: 1_700_000_000_000_000 + CALLS.fetch_add(1, Ordering::Relaxed) * 100,
        now_in_seconds: 1_700_000_000,
        entropy: [7; 16],
        ..BindContext::default()
    }
}

/// The schema of a new node.
pub(crate) fn fresh() -> Schema {
    Schema::new(system_keyspaces().into_iter().map(Arc::new), Uuid::nil())
}

/// The schema after a change.
pub(crate) fn applied(schema: &Schema, change: &SchemaChange) -> Schema {
    match &change.after {
        Some(keyspace) => schema.with_keyspace(keyspace.clone(), Uuid::nil()),
        None => schema.without_keyspace(&change.keyspace, Uuid::nil()),
    }
}

/// Runs a statement; DDL changes the schema.
pub(crate) fn run(
    schema: &mut Schema,
    text: &str,
    keyspace: Option<&str>,
) -> Result<Plan, CqlError> {
    let plan =
        prepare(text, schema, keyspace)?.bind(&BoundValues::default(), &context(), schema)?;
    if let Plan::Schema(Some(change)) = &plan {
        *schema = applied(schema, change);
    }
    Ok(plan)
}

/// The schema of the golden files; an index on the way is left out.
pub(crate) fn golden_schema() -> Schema {
    let mut schema = fresh();
    for statement in include_str!("../golden/schema.cql")
        .lines()
        .filter(|line| !line.starts_with("CREATE INDEX"))
    {
        run(&mut schema, statement, None).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    schema
}
