//! `CassandraNode`: one node of a cluster. The operator makes it; people read it.
//!
//! Its spec is frozen when it is made: the Pod of a node is always built from here, never from the
//! cluster's current spec, so that an edit of the cluster (or a newer operator) changes no running
//! node by accident. Its volume is its identity: a `CassandraNode` has one claim in its life.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::{DataVolume, HostSpread};

/// One node of a Cassandra cluster: its place, its volume, its host id. Made by the operator.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "helenus.dev",
    version = "v1alpha1",
    kind = "CassandraNode",
    namespaced,
    doc = "One node of a Cassandra cluster: its place, its volume, its host id. Made by the operator.",
    status = "CassandraNodeStatus",
    derive = "PartialEq",
    category = "helenus",
    shortname = "cnode",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.cluster",
        priority = 1
    ),
    printcolumn(name = "Rack", type_ = "string", json_path = ".spec.rack"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.address"),
    printcolumn(name = "Host-ID", type_ = "string", json_path = ".status.hostId"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".status.host",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    )
)]
#[x_kube(
    validation = Rule::new("self.cluster == oldSelf.cluster && self.datacenter == oldSelf.datacenter && self.rack == oldSelf.rack && self.clusterName == oldSelf.clusterName")
        .message("spec: cluster, clusterName, datacenter and rack of a node cannot be changed: they are on its disk")
)]
#[serde(rename_all = "camelCase")]
pub struct CassandraNodeSpec {
    /// Name of the `CassandraCluster`.
    pub cluster: String,
    /// Name of the cluster as Cassandra knows it.
    pub cluster_name: String,
    /// Data center.
    pub datacenter: String,
    /// Rack.
    pub rack: String,
    /// Zone whose Kubernetes nodes may run it; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Image.
    pub image: String,
    /// Name of the ConfigMap with its `cassandra.yaml`.
    pub config_map: String,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Data volume.
    pub volume: DataVolume,
    /// Whether it may share a Kubernetes node with another node of the cluster.
    #[serde(default)]
    pub hosts: HostSpread,
    /// URL of the seed service; absent for seeds from a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_url: Option<String>,
    /// Host id of the node whose place it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_host_id: Option<String>,
}

/// What the operator knows of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CassandraNodeStatus {
    /// UID of its data volume's claim. Written once, before its first Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,
    /// Host id, as the node says it. Written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// The node was seen as a member (NORMAL) of the ring.
    #[serde(default)]
    pub joined: bool,
    /// State: the node's own word (`STARTING`, `JOINING`, `NORMAL`, …), or what keeps it from saying one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// It serves CQL.
    #[serde(default)]
    pub ready: bool,
    /// Address of its Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Kubernetes node that runs its Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Version that it says it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release_version: Option<String>,
    /// Since when it has no Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_since: Option<Time>,
    /// Since when its volume is known to be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_lost_since: Option<Time>,
}
