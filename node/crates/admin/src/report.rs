//! What a node says of itself and of the ring, as JSON.

use serde::{Deserialize, Serialize};

/// Where a node is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeState {
    /// Reads its settings and data.
    Starting,
    /// Waits for its seed provider.
    WaitingForSeeds,
    /// Streams its share of the data.
    Joining,
    /// Serves.
    Normal,
    /// Refuses new requests and flushes.
    Draining,
    /// Has flushed everything and may be ended.
    Drained,
    /// Cannot go on; the message says why.
    Failed,
}

/// Where a peer is in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the names are Cassandra's")]
pub enum PeerState {
    Normal,
    Joining,
    Leaving,
    Moving,
    Left,
}

/// A node's report of itself: the answer to `GET /v1/node`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Name that the operator gave it.
    pub node_name: String,
    /// Host id, once known.
    pub host_id: Option<String>,
    /// Name of the cluster.
    pub cluster_name: String,
    /// Where it is in its life.
    pub state: NodeState,
    /// Why, for people.
    pub message: String,
    /// Data center.
    pub datacenter: String,
    /// Rack.
    pub rack: String,
    /// Address by which peers know it.
    pub broadcast_address: String,
    /// Count of its tokens.
    pub tokens: usize,
    /// Cassandra's version that it stands for.
    pub release_version: String,
    /// Schema version.
    pub schema_version: String,
    /// Whether clients are served.
    pub cql_ready: bool,
    /// Whether it founded the ring.
    pub founded: bool,
    /// The other nodes, as it sees them.
    pub peers: Vec<PeerReport>,
}

/// Another node as this one sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerReport {
    /// Host id.
    pub host_id: String,
    /// Broadcast address.
    pub address: String,
    /// Data center.
    pub datacenter: String,
    /// Rack.
    pub rack: String,
    /// Whether the failure detector holds it up.
    pub up: bool,
    /// Where it is in the ring.
    pub state: PeerState,
    /// Count of its tokens.
    pub tokens: usize,
    /// Its schema version.
    pub schema_version: String,
}

/// The whole ring with tokens, for `nodetool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RingView {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Every member, this node included, by data center, rack and address.
    pub nodes: Vec<NodeView>,
    /// Keyspaces with strategy class and options, as text.
    pub keyspaces: Vec<(String, String, String)>,
    /// Gossip's application states by endpoint, as text lines.
    pub gossip: Vec<(String, Vec<String>)>,
    /// Seconds since the node started.
    pub uptime_seconds: u64,
    /// Generation of this node's gossip.
    pub generation: i32,
    /// Memory in use by this process in bytes.
    pub memory_used_bytes: u64,
    /// Memory budget in bytes.
    pub memory_budget_bytes: u64,
    /// The node's own report.
    pub me: NodeReport,
}

/// A member of the ring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Broadcast address.
    pub address: String,
    /// Storage port.
    pub port: u16,
    /// Host id.
    pub host_id: String,
    /// Data center.
    pub datacenter: String,
    /// Rack.
    pub rack: String,
    /// Whether the failure detector holds it up.
    pub up: bool,
    /// Where it is in the ring.
    pub state: PeerState,
    /// Bytes on disk, once known.
    pub load_bytes: Option<u64>,
    /// Its tokens, ascending.
    pub tokens: Vec<i64>,
    /// Share of the data that it holds, from 0 to 1 (primary ranges; replicas not counted).
    pub owns: f64,
    /// Its schema version.
    pub schema_version: String,
    /// Its release version.
    pub release_version: String,
}
