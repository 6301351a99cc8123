//! Bind variables, the values bound to them, and what a plan takes from outside.

use crate::error::{CqlError, invalid};
use bytes::Bytes;
use helenus_types::timeuuid;
use helenus_types::{CqlType, NowInSeconds, TimestampMicros};
use std::cell::Cell;
use uuid::Uuid;

/// A column of a result, or a bind variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace of the table.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// Name.
    pub name: String,
    /// Type.
    pub cql_type: CqlType,
}

/// A value given for a bind variable, or what an expression evaluates to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundValue {
    /// A serialized value.
    Value(Bytes),
    /// Null: deletes.
    Null,
    /// Leaves alone.
    Unset,
}

impl BoundValue {
    /// From an optional value.
    pub fn of(value: Option<Bytes>) -> Self {
        value.map_or(Self::Null, Self::Value)
    }
}

/// The values of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundValues {
    /// In the order of the markers.
    Positional(Vec<BoundValue>),
    /// By name.
    Named(Vec<(String, BoundValue)>),
}

impl Default for BoundValues {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}

/// What a plan takes from outside: times, paging, randomness.
#[derive(Debug, Clone, Default)]
pub struct BindContext {
    /// Default timestamp of writes in microseconds: the client's if it sent one, else the coordinator's clock.
    pub timestamp_micros: TimestampMicros,
    /// The coordinator's wall clock in microseconds (for `now()` and list positions).
    pub now_micros: TimestampMicros,
    /// The time at which TTLs are judged.
    pub now_in_seconds: NowInSeconds,
    /// Rows per page; `None` reads everything at once.
    pub page_size: Option<u32>,
    /// Where to go on, as an earlier result said.
    pub paging_state: Option<Bytes>,
    /// Fresh randomness for this request.
    pub entropy: [u8; 16],
    /// Known data centers (for replication options); empty: not known, and not checked.
    pub datacenters: Vec<String>,
    /// What was read for a write that needs it; see `Prepared::required_reads`.
    pub existing: Option<std::sync::Arc<crate::modification::Existing>>,
    /// For DESCRIBE CLUSTER.
    pub cluster: crate::describe::ClusterFacts,
}

/// The state of one evaluation.
pub(crate) struct Evaluation<'a> {
    pub(crate) context: &'a BindContext,
    pub(crate) values: &'a [BoundValue],
    counter: Cell<u64>,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(context: &'a BindContext, values: &'a [BoundValue]) -> Self {
        Self {
            context,
            values,
            counter: Cell::new(0),
        }
    }

    fn tick(&self) -> u64 {
        let tick = self.counter.get();
        self.counter.set(tick + 1);
        tick
    }

    /// A version 1 UUID of now; later calls give greater ones.
    pub(crate) fn time_uuid(&self) -> Uuid {
        let first = timeuuid::from_micros(self.context.now_micros, 0, [0; 6]);
        let ticks = timeuuid::ticks(&first).unwrap_or(0) + self.tick();
        let e = self.context.entropy;
        timeuuid::from_ticks(
            ticks,
            u16::from_be_bytes([e[0], e[1]]),
            [e[2] | 1, e[3], e[4], e[5], e[6], e[7]],
        )
    }

    /// A random UUID.
    pub(crate) fn random_uuid(&self) -> Uuid {
        let mixed = u128::from_be_bytes(self.context.entropy).wrapping_add(
            u128::from(self.tick()).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        );
        uuid::Builder::from_random_bytes(mixed.to_be_bytes()).into_uuid()
    }
}

/// Puts the values in the order of the markers; counts and types must fit.
pub(crate) fn arrange(
    specs: &[ColumnSpec],
    values: &BoundValues,
) -> Result<Vec<BoundValue>, CqlError> {
    let arranged = match values {
        BoundValues::Positional(values) => {
            if values.len() != specs.len() {
                return Err(wrong_count(specs.len(), values.len()));
            }
            values.clone()
        }
        BoundValues::Named(named) => {
            let find = |spec: &ColumnSpec| {
                named
                    .iter()
                    .find(|entry| entry.0 == spec.name)
                    .map(|entry| entry.1.clone())
            };
            specs
                .iter()
                .map(|spec| find(spec).ok_or_else(|| wrong_count(specs.len(), named.len())))
                .collect::<Result<_, _>>()?
        }
    };
    Ok(arranged)
}

fn wrong_count(markers: usize, values: usize) -> CqlError {
    if values == 0 && markers > 0 {
        return invalid!("there were {markers} markers(?) in CQL but 0 bound variables");
    }
    invalid!("there were {markers} markers(?) in CQL but {values} bound variables")
}
