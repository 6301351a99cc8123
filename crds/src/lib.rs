//! The custom resources of Helenus, the names it gives to things in Kubernetes, and the two JSON
//! documents that a node and the operator exchange.
//!
//! This crate holds data and schemas only: no client, no decisions. The YAML under
//! `charts/helenus-operator/crds/` is generated from these types (`helenus-operator crd`) and a
//! test of the operator keeps both equal.

#![allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "KubeSchema repeats each type inside a function; kube takes many printcolumn attributes"
)]

pub mod cluster;
pub mod names;
pub mod node;
pub mod report;

pub use cluster::{
    CassandraCluster, CassandraClusterSpec, CassandraClusterStatus, Config, DataVolume, Datacenter,
    DeletionPolicy, Founding, HostSpread, NodeTemplate, Operation, OperationKind, Placement, Rack,
    Replacement, ReplacementMode, SeedProvider, Seeds, Storage,
};
pub use node::{CassandraNode, CassandraNodeSpec, CassandraNodeStatus};
pub use report::{NodeReport, NodeState, Peer, PeerState, SeedAnswer, SeedRefusal};
