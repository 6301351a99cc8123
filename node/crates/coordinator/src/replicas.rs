//! What the coordinator needs of the node around it.

use crate::error::FailureReason;
use futures::future::LocalBoxFuture;
use helenus_rows::{Mutation, Partition, ReadCommand};
use helenus_schema::Keyspace;
use helenus_types::{Endpoint, HostId, Token};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A node that holds, or is about to hold, a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Who it is, once known; hints are kept by it.
    pub host_id: Option<HostId>,
    /// Its data center.
    pub datacenter: Arc<str>,
    /// Whether the failure detector holds it up (always, for this node itself).
    pub up: bool,
}

/// The replicas of one token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Those that own it, the nearest to this node first (itself, its data center, others).
    pub natural: Vec<Replica>,
    /// Those that are about to: joining or replacing nodes. They get writes and answer no reads.
    pub pending: Vec<Replica>,
}

/// A request to one replica.
#[derive(Debug, Clone)]
pub enum ReplicaRequest {
    /// Apply a write.
    Write(Rc<Mutation>),
    /// Apply what a read found missing.
    ReadRepair(Rc<Mutation>),
    /// Apply a write that was kept while the replica was away.
    Hint(Rc<Mutation>),
    /// Return data.
    Read(Rc<ReadCommand>),
    /// Return the digest of the data.
    Digest(Rc<ReadCommand>),
}

/// A replica's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplicaResponse {
    /// The write is in the commit log.
    Done,
    /// What it holds, tombstones included.
    Data(Vec<Partition>),
    /// MD5 of what it holds, as Cassandra computes it.
    Digest([u8; 16]),
}

/// Why a replica gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaFailure(pub FailureReason);

/// The ring, the transport and the local shards, as the coordinator sees them.
pub trait Replicas {
    /// This node's endpoint.
    fn me(&self) -> Endpoint;
    /// This node's data center.
    fn datacenter(&self) -> Arc<str>;
    /// The replicas of a token in a keyspace.
    fn replicas(&self, keyspace: &Keyspace, token: Token) -> ReplicaSet;
    /// The ring cut at every token, in order, as ranges (after, up to and including]; the last one
    /// ends at [`Token::MINIMUM`], the end of the ring. One range, all, for a local keyspace.
    fn ranges(&self, keyspace: &Keyspace) -> Vec<(Token, Token)>;
    /// Nodes per data center that hold a copy of each partition, in the order of names.
    fn replication_factors(&self, keyspace: &Keyspace) -> Vec<(Arc<str>, usize)>;
    /// Asks a replica (this node too). Never waits longer than `timeout`.
    fn request(
        &self,
        to: &Replica,
        request: ReplicaRequest,
        timeout: Duration,
    ) -> LocalBoxFuture<'static, Result<ReplicaResponse, ReplicaFailure>>;
    /// Keeps a write for a replica that did not take it. False when hints are refused for it.
    fn hint(&self, to: &Replica, mutation: &Rc<Mutation>) -> bool;
}
