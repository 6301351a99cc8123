//! `CassandraCluster`: what a person asks for, and what the operator says about it.
//!
//! Rules that only need the object itself are CEL rules here, so that the API server refuses the
//! object with words that name the field; rules that need more are in the operator's `validate`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A Cassandra cluster: its data center, racks and nodes, and the nodes' shape.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "helenus.dev",
    version = "v1alpha1",
    kind = "CassandraCluster",
    namespaced,
    doc = "A Cassandra cluster: its data center, racks and nodes, and the nodes' shape.",
    status = "CassandraClusterStatus",
    derive = "PartialEq",
    category = "helenus",
    shortname = "cass",
    scale(
        spec_replicas_path = ".spec.nodes",
        status_replicas_path = ".status.nodes",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Datacenter", type_ = "string", json_path = ".spec.datacenters[0].name"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".spec.nodes"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyNodes"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.summary"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Cluster-ID", type_ = "string", json_path = ".status.clusterId", priority = 1),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$') && self.metadata.name.size() <= 28")
        .message("metadata.name: at most 28 letters a-z, digits and '-', starting with a letter: names of nodes, Pods and Services are made of it")
)]
#[x_kube(
    validation = Rule::new("self.clusterName == oldSelf.clusterName")
        .message("spec.clusterName cannot be changed: every node has it on disk"),
    validation = Rule::new("(has(self.nodeTemplate) && has(self.nodeTemplate.config) && has(self.nodeTemplate.config.num_tokens) ? self.nodeTemplate.config.num_tokens : 16) == (has(oldSelf.nodeTemplate) && has(oldSelf.nodeTemplate.config) && has(oldSelf.nodeTemplate.config.num_tokens) ? oldSelf.nodeTemplate.config.num_tokens : 16)")
        .message("spec.nodeTemplate.config.num_tokens cannot be changed: a node's tokens are chosen once, when it joins (16 if it is not given)"),
    validation = Rule::new("self.datacenters.size() == 1")
        .message("spec.datacenters: exactly one data center for now; several data centers are not supported yet"),
    validation = Rule::new("self.datacenters.all(d, oldSelf.datacenters.exists(o, o.name == d.name))")
        .message("spec.datacenters[].name cannot be changed: every node has it on disk"),
    validation = Rule::new("self.datacenters.all(d, self.nodes >= d.racks.size())")
        .message("spec.nodes: at least one node for each rack")
)]
#[serde(rename_all = "camelCase")]
pub struct CassandraClusterSpec {
    /// Name of the cluster as Cassandra and its drivers know it. Cannot be changed.
    #[schemars(length(min = 1, max = 128))]
    pub cluster_name: String,

    /// Image of the nodes; the operator's own default if absent. A change is used by new nodes only
    /// (condition `UpdatePending`): rolling changes are not supported yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,

    /// Number of nodes of the data center, spread evenly over its racks. `kubectl scale` sets it.
    /// Growing adds one node at a time; shrinking is not supported yet and is refused in status.
    #[serde(default = "default_nodes")]
    #[schemars(range(min = 1, max = 9999))]
    pub nodes: i32,

    /// The data centers; exactly one for now.
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub datacenters: Vec<Datacenter>,

    /// The shape of every node.
    #[serde(default)]
    pub node_template: NodeTemplate,

    /// Where a node learns of other nodes.
    #[serde(default)]
    pub seeds: Seeds,

    /// When a node whose volume is lost is replaced by a new one.
    #[serde(default)]
    pub replacement: Replacement,

    /// What happens to the volumes when this object is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn default_nodes() -> i32 {
    3
}

/// A data center: racks over zones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Datacenter {
    /// Name of the data center as Cassandra knows it (replication settings name it). Cannot be changed.
    #[schemars(
        length(min = 1, max = 16),
        pattern("^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$")
    )]
    pub name: String,

    /// The racks, in any order; nodes are spread evenly over them, and the first node of the first rack founds the ring.
    #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub racks: Vec<Rack>,
}

/// A rack: nodes that fail together, so that replicas are placed in different ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rack {
    /// Name of the rack as Cassandra knows it.
    #[schemars(
        length(min = 1, max = 12),
        pattern("^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$")
    )]
    pub name: String,

    /// Zone (label `topology.kubernetes.io/zone`) whose Kubernetes nodes may run this rack; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,
}

/// The shape of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeTemplate {
    /// CPU and memory of a node, as in a Pod. A change is used by new nodes only for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Settings of `cassandra.yaml`, with Apache Cassandra 5.0's names and units. Names and addresses
    /// are the operator's and are refused here. A change is used by new nodes only for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Config>,

    /// Volumes of a node.
    #[serde(default)]
    pub storage: Storage,

    /// Where nodes may run.
    #[serde(default)]
    pub placement: Placement,
}

/// Free-form `cassandra.yaml`; only what a rule needs is named in the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Config(pub BTreeMap<String, serde_json::Value>);

impl JsonSchema for Config {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Config".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "num_tokens": {
                    "description": "Number of tokens of each node. Cannot be changed; 16 if absent.",
                    "type": "integer", "minimum": 1, "maximum": 1536
                }
            },
            "x-kubernetes-preserve-unknown-fields": true
        })
    }
}

/// Volumes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// The volume that holds everything a node keeps.
    #[serde(default)]
    pub data: DataVolume,
}

/// The volume that holds everything a node keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("quantity(self.size).isGreaterThan(quantity('0'))").message("storage.data.size: more than nothing, for example 100Gi")
)]
#[serde(rename_all = "camelCase")]
pub struct DataVolume {
    /// Size, for example `100Gi`. A change is used by new nodes only for now.
    #[serde(default = "default_size")]
    #[schemars(
        length(max = 32),
        pattern(r"^[0-9]+(\.[0-9]+)?([kMGTPE]i?|m|[eE][0-9]+)?$")
    )]
    pub size: String,

    /// Storage class; the default class of the Kubernetes cluster if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
}

impl Default for DataVolume {
    fn default() -> Self {
        Self {
            size: default_size(),
            storage_class_name: None,
        }
    }
}

fn default_size() -> String {
    "10Gi".to_owned()
}

/// Where nodes may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Whether two nodes of the cluster may share a Kubernetes node.
    #[serde(default)]
    pub hosts: HostSpread,
}

/// Whether two nodes of a cluster may share a Kubernetes node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostSpread {
    /// Different Kubernetes nodes while there are enough.
    #[default]
    Preferred,
    /// Never the same Kubernetes node: a node waits until there is room.
    Required,
}

/// Where a node learns of other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("self.provider != 'Static' || (has(self.addresses) && self.addresses.size() > 0)")
        .message("seeds.addresses: provider Static needs at least one address"),
    validation = Rule::new("self.provider == 'Static' || !has(self.addresses) || self.addresses.size() == 0")
        .message("seeds.addresses: only for provider Static")
)]
#[serde(rename_all = "camelCase")]
pub struct Seeds {
    /// `Managed`: the operator's seed service. `Static`: a list of nodes of a ring that exists.
    #[serde(default)]
    pub provider: SeedProvider,

    /// Addresses for provider `Static`. The cluster then never founds a ring; it joins theirs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub addresses: Vec<String>,
}

/// Who answers a node that asks for seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SeedProvider {
    /// The operator's seed service.
    #[default]
    Managed,
    /// A fixed list.
    Static,
}

/// When a node whose volume is lost is replaced by a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replacement {
    /// `Automatic`, or `Disabled`: the loss is only reported.
    #[serde(default)]
    pub mode: ReplacementMode,

    /// How long a volume must be lost before its node is replaced, for example `90s`, `15m` or `2h`.
    #[serde(default = "default_after")]
    #[schemars(length(max = 8), pattern("^[0-9]+[smh]$"))]
    pub after_unavailable: String,
}

impl Default for Replacement {
    fn default() -> Self {
        Self {
            mode: ReplacementMode::default(),
            after_unavailable: default_after(),
        }
    }
}

fn default_after() -> String {
    "5m".to_owned()
}

/// Whether lost nodes are replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplacementMode {
    /// One at a time, while every other node is up.
    #[default]
    Automatic,
    /// Never; the condition `Degraded` says what is lost.
    Disabled,
}

/// What happens to the volumes when the cluster is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Volumes stay; a cluster of the same name made later takes them up again.
    #[default]
    Retain,
    /// Volumes are deleted after all nodes have stopped.
    Delete,
}

/// What the operator says about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CassandraClusterStatus {
    /// `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Identity of the ring: the founding node's host id. Written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// The grant to found the ring: given to one node, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub founding: Option<Founding>,

    /// Label selector of the cluster's Pods, for the `scale` subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// Number of `CassandraNode` objects.
    #[serde(default)]
    pub nodes: i32,

    /// Number of nodes that serve CQL.
    #[serde(default)]
    pub ready_nodes: i32,

    /// The state in a few words, for `kubectl get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,

    /// The topology step under way; there is never more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,

    /// `Ready`, `Progressing`, `Degraded`, `SeedsAvailable`, `UpdatePending`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The grant to found the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Founding {
    /// Name of the `CassandraNode` that may found the ring.
    pub node: String,
    /// Its UID: another object of the same name has no grant.
    pub node_uid: String,
    /// UID of its data volume's claim: another volume has no grant.
    pub claim_uid: String,
    /// When the grant was given.
    pub granted_at: Time,
}

/// A topology step under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What is done.
    #[serde(rename = "type")]
    pub kind: OperationKind,
    /// Name of the `CassandraNode` that is added.
    pub node: String,
    /// Its data center.
    pub datacenter: String,
    /// Its rack.
    pub rack: String,
    /// Name of the `CassandraNode` that is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// When it began.
    pub started_at: Time,
}

/// Kind of a topology step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperationKind {
    /// The first node founds the ring.
    Found,
    /// A node joins.
    ScaleUp,
    /// A node takes the place of one whose volume is lost.
    Replace,
}
