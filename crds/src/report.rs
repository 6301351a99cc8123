//! What a node says of itself (`GET /v1/node` on port 9180) and what the seed service answers
//! (`GET /v1/seeds` on port 8080 of the operator).
//!
//! Unknown fields are ignored by both sides, so that either may be newer; a missing field of
//! [`NodeReport`] is an error, because to the operator unknown never means done.

use serde::{Deserialize, Serialize};

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NodeState {
    /// The process is up and reads its disk.
    Starting,
    /// No seed answered and there are no saved peers: the node waits.
    WaitingForSeeds,
    /// The node takes its part of the ring and receives data.
    Joining,
    /// Member of the ring.
    Normal,
    /// Stopping: requests are finished, memory is flushed.
    Draining,
    /// Stopped serving; the process ends.
    Drained,
    /// Cannot go on; `message` says why.
    Failed,
}

impl NodeState {
    /// The word used in JSON and in `kubectl get`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "STARTING",
            Self::WaitingForSeeds => "WAITING_FOR_SEEDS",
            Self::Joining => "JOINING",
            Self::Normal => "NORMAL",
            Self::Draining => "DRAINING",
            Self::Drained => "DRAINED",
            Self::Failed => "FAILED",
        }
    }
}

/// Where a peer stands, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PeerState {
    /// Member of the ring.
    Normal,
    /// Receives its data.
    Joining,
    /// Hands its data over.
    Leaving,
    /// Changes its tokens.
    Moving,
    /// Out of the ring.
    Left,
}

/// One peer in a node's view of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// Host id, a UUID in text.
    pub host_id: String,
    /// Broadcast address.
    pub address: String,
    /// Data center name.
    pub datacenter: String,
    /// Rack name.
    pub rack: String,
    /// The failure detector's opinion.
    pub up: bool,
    /// Ring state.
    pub state: PeerState,
    /// Number of tokens.
    pub tokens: u32,
    /// Schema version, a UUID in text; absent while unknown.
    #[serde(default)]
    pub schema_version: Option<String>,
}

/// The answer of `GET /v1/node`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// `HELENUS_NODE_NAME` as given.
    pub node_name: String,
    /// Host id, a UUID in text; `null` until the node has one on disk.
    pub host_id: Option<String>,
    /// Cluster name.
    pub cluster_name: String,
    /// Where the node stands.
    pub state: NodeState,
    /// Why, for people.
    pub message: String,
    /// Data center name.
    pub datacenter: String,
    /// Rack name.
    pub rack: String,
    /// Broadcast address.
    pub broadcast_address: String,
    /// Number of tokens.
    pub tokens: u32,
    /// Version, as `system.local.release_version` says it.
    pub release_version: String,
    /// Schema version, a UUID in text; absent while unknown.
    #[serde(default)]
    pub schema_version: Option<String>,
    /// CQL accepts connections.
    pub cql_ready: bool,
    /// This node founded its ring.
    pub founded: bool,
    /// Every other node that gossip knows.
    pub peers: Vec<Peer>,
}

/// The answer of `GET /v1/seeds?cluster=NAMESPACE/NAME&node=NODENAME` with status 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedAnswer {
    /// The asking node may found the ring.
    pub is_seed: bool,
    /// Addresses of live members, at most three, never the asking node's own.
    pub seeds: Vec<String>,
}

/// The body of a seed service's answer with another status than 200: the node waits and asks again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedRefusal {
    /// What the operator does not know yet, for people.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"nodeName":"orders-us-east-a-0","hostId":"0b8a4a0e-54c5-4f06-b2d4-5f3a1f4a6f11",
        "clusterName":"orders","state":"WAITING_FOR_SEEDS","message":"no seed answered","datacenter":"us-east",
        "rack":"a","broadcastAddress":"10.101.1.4","tokens":16,"releaseVersion":"5.0.5",
        "schemaVersion":"2207c2a9-f598-3971-986b-2926e09e239d","cqlReady":false,"founded":false,
        "peers":[{"hostId":"c6b5d4a2-2f33-4b6a-bb0a-90c2a2ab2d01","address":"10.101.2.4","datacenter":"us-east",
        "rack":"b","up":true,"state":"JOINING","tokens":16,"schemaVersion":null}], "later": 1}"#;

    #[test]
    fn report_reads_the_contract_and_ignores_what_is_newer() {
        let report: NodeReport = serde_json::from_str(EXAMPLE).unwrap();
        assert_eq!(report.state, NodeState::WaitingForSeeds);
        assert_eq!(report.peers[0].state, PeerState::Joining);
        let again: NodeReport =
            serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again, report);
    }

    #[test]
    fn host_id_may_be_null_but_state_may_not_be_absent() {
        let text = EXAMPLE.replace("\"0b8a4a0e-54c5-4f06-b2d4-5f3a1f4a6f11\"", "null");
        assert_eq!(
            serde_json::from_str::<NodeReport>(&text).unwrap().host_id,
            None
        );
        assert!(serde_json::from_str::<NodeReport>(r#"{"nodeName":"x"}"#).is_err());
    }

    #[test]
    fn states_have_the_words_of_the_contract() {
        for (state, word) in [
            (NodeState::Starting, "STARTING"),
            (NodeState::WaitingForSeeds, "WAITING_FOR_SEEDS"),
            (NodeState::Normal, "NORMAL"),
        ] {
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("\"{word}\"")
            );
            assert_eq!(state.as_str(), word);
        }
    }

    #[test]
    fn seed_answer_has_the_words_of_the_contract() {
        let answer = SeedAnswer {
            is_seed: true,
            seeds: vec![],
        };
        assert_eq!(
            serde_json::to_string(&answer).unwrap(),
            r#"{"isSeed":true,"seeds":[]}"#
        );
    }
}
