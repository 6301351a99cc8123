//! How people, tools and the operator look at a node and tell it what to do: health, metrics, a
//! read-only report over HTTP, and the admin API on a local socket, of which `nodetool` is a client.
//!
//! Invariants:
//! A1: what listens on the network answers questions only; what changes the node is reachable by
//!     the local socket alone (mutual TLS comes with the operator's later work).
//! A2: `/health/ready` is true only while CQL serves.

pub mod client;
pub mod http;
pub mod nodetool;
pub mod report;

pub use http::{AdminNode, serve_admin, serve_public};
pub use report::{NodeReport, NodeState, NodeView, PeerReport, PeerState, RingView};
