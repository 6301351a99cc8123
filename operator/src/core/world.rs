//! The observed world of one cluster: what the API server and the nodes say, reduced to what
//! decisions need.

use std::collections::BTreeMap;

use helenus_crds::{CassandraClusterStatus, CassandraNodeSpec, CassandraNodeStatus, NodeReport};
use k8s_openapi::jiff::Timestamp;

use super::validate::{Invalid, ValidatedCluster};

/// Everything the planner may look at.
#[derive(Clone, Debug)]
pub struct World {
    /// Wall clock of this observation.
    pub now: Timestamp,
    /// The `CassandraCluster`.
    pub cluster: ClusterObject,
    /// Its `CassandraNode` objects by name.
    pub nodes: BTreeMap<String, NodeObject>,
    /// Claims that carry the cluster's label, by name.
    pub claims: BTreeMap<String, Claim>,
    /// Pods that carry the cluster's label, by name.
    pub pods: BTreeMap<String, Pod>,
    /// Kubernetes nodes by name.
    pub hosts: BTreeMap<String, Host>,
    /// Answers of `GET /v1/node` by node name; absent where there was none.
    pub reports: BTreeMap<String, NodeReport>,
    /// How long a Kubernetes node may be lost before its Pod is removed by force, in seconds.
    pub lost_node_secs: i64,
    /// How long news of a node may take to reach every other node, in seconds: before that, a host
    /// id that is not seen may only not be seen yet.
    pub gossip_secs: i64,
}

/// The `CassandraCluster`, validated or not.
#[derive(Clone, Debug)]
pub struct ClusterObject {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// It is being deleted.
    pub terminating: bool,
    /// It carries our finalizer.
    pub finalizer: bool,
    /// Its spec, or why it cannot be used.
    pub spec: Result<ValidatedCluster, Invalid>,
    /// Its status.
    pub status: CassandraClusterStatus,
}

/// A `CassandraNode`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeObject {
    /// Name, also of its Pod.
    pub name: String,
    /// UID.
    pub uid: String,
    /// It is being deleted.
    pub terminating: bool,
    /// It carries our finalizer.
    pub finalizer: bool,
    /// Its spec.
    pub spec: CassandraNodeSpec,
    /// Its status.
    pub status: CassandraNodeStatus,
}

/// A claim of a data volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Name of the node it is labelled with.
    pub node: Option<String>,
    /// UID of the node it was made for.
    pub node_uid: Option<String>,
    /// Host id of the data on it.
    pub host_id: Option<String>,
    /// Cluster id of the data on it.
    pub cluster_id: Option<String>,
    /// Data center name of the data on it.
    pub datacenter: Option<String>,
    /// Rack name of the data on it.
    pub rack: Option<String>,
    /// It is being deleted.
    pub terminating: bool,
    /// Why its volume is lost for good, if it is.
    pub lost: Option<String>,
}

/// A Pod of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// UID of the `CassandraNode` that owns it.
    pub node_uid: Option<String>,
    /// Its address, when it has one.
    pub address: Option<String>,
    /// Kubernetes node that it is bound to.
    pub host: Option<String>,
    /// Its readiness probe succeeds.
    pub ready: bool,
    /// It ended and its kubelet will not start it again (evicted, for example).
    pub ended: bool,
    /// When it should be gone, if it is being deleted.
    pub gone_by: Option<Timestamp>,
    /// What keeps it from running, for people.
    pub trouble: Option<String>,
}

/// A Kubernetes node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Value of its host name label.
    pub hostname: String,
    /// Its kubelet reports.
    pub ready: bool,
}

impl World {
    /// The operation under way.
    pub fn operation(&self) -> Option<&helenus_crds::Operation> {
        self.cluster.status.operation.as_ref()
    }

    /// The claim of a node, whatever its state.
    pub fn claim_of(&self, node: &NodeObject) -> Option<&Claim> {
        self.claims
            .get(&helenus_crds::names::claim_name(&node.name))
    }

    /// The Pod of a node, if it is this very node's.
    pub fn pod_of(&self, node: &NodeObject) -> Option<&Pod> {
        self.pods
            .get(&node.name)
            .filter(|pod| pod.node_uid.as_deref() == Some(node.uid.as_str()))
    }

    /// What the node says, if its Pod is its own and it speaks of itself.
    pub fn report_of(&self, node: &NodeObject) -> Option<&NodeReport> {
        self.pod_of(node)?;
        self.reports
            .get(&node.name)
            .filter(|report| report.node_name == node.name)
    }

    /// Why the volume of a node is lost for good, if it is. A claim that was never recorded is not lost.
    pub fn volume_loss(&self, node: &NodeObject) -> Option<String> {
        let recorded = node.status.claim_uid.as_deref()?;
        match self.claim_of(node) {
            None => Some("its claim was deleted".to_owned()),
            Some(claim) if claim.uid != recorded => {
                Some("its claim was deleted and made again by someone else".to_owned())
            }
            Some(claim) => claim.lost.clone(),
        }
    }

    /// The Kubernetes node of a Pod is gone or silent.
    pub fn host_lost(&self, pod: &Pod) -> bool {
        pod.host
            .as_ref()
            .is_some_and(|host| self.hosts.get(host).is_none_or(|host| !host.ready))
    }
}
