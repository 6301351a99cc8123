//! Coordination of reads and writes over replicas: consistency levels, digests, read repair, hints.
//!
//! The decisions (how many answers are needed, when it is hopeless, how answers are merged, what
//! must be repaired) are plain functions and structs; [`Coordinator`] is the thin driver that asks
//! replicas through [`Replicas`] and waits.
//!
//! Invariants:
//! O1: a write is acknowledged only after as many replicas as its level demands (pending ones on
//!     top) have it in their commit logs.
//! O2: a read at a level returns the newest of what as many replicas hold; replicas found older are
//!     repaired before the answer (blocking read repair).
//! O3: a replica that was down or did not answer a write gets a hint, unless hints are refused for it.

pub mod consistency;
pub mod coordinator;
pub mod error;
pub mod hints;
pub mod replicas;
pub mod resolve;
pub mod speculation;
pub mod tally;

pub use coordinator::{Coordinator, CoordinatorSettings};
pub use error::{CoordinatorError, FailureReason, WriteKind};
pub use replicas::{
    Replica, ReplicaFailure, ReplicaRequest, ReplicaResponse, ReplicaSet, Replicas,
};
