//! Decisions of the operator, without input or output.
//!
//! Invariants, checked by the simulator in `simulation`:
//! - O1: at most one node ever founds the ring of a cluster.
//! - O2: at most one node joins (or takes another's place) at a time.
//! - O3: a claim is deleted only after its host id has left the ring, or with the whole cluster.
//! - O4: every delete carries the UID of what was seen.
//! - O5: the Pod of a node that runs as asked is not touched.
//! - O6: a node has one claim in its life; a second one is never given to it.
//! - O7: unknown is never taken for done: a report that is missing blocks, it does not allow.

pub mod build;
pub mod dereference;
pub mod event;
pub mod lease;
pub mod plan;
pub mod ring;
pub mod seeds;
#[cfg(test)]
mod simulation;
pub mod status;
pub mod validate;
pub mod world;
