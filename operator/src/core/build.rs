//! Kubernetes objects of a cluster. Pure: the same input gives the same object.
//!
//! A Pod is built from its `CassandraNode` alone (see there); the shared objects from the validated spec.

use std::collections::BTreeMap;

use helenus_crds::{CassandraNode, HostSpread, names};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::plan::NodeDraft;
use super::validate::{DATA_DIR, ValidatedCluster};
use super::world::{ClusterObject, NodeObject};

/// Container that runs the node.
pub const CONTAINER: &str = "helenus";

/// User and group that a node runs as, and that its volume belongs to.
const USER: u32 = 999;

/// An object could not be built: a mistake in this file.
#[derive(Debug, thiserror::Error)]
#[error("build {what}: {source}")]
pub struct BuildError {
    what: &'static str,
    source: serde_json::Error,
}

fn object<T: serde::de::DeserializeOwned>(
    what: &'static str,
    value: Value,
) -> Result<T, BuildError> {
    serde_json::from_value(value).map_err(|source| BuildError { what, source })
}

/// Labels that select the Pods of a cluster.
fn selector(cluster: &str) -> Value {
    json!({ names::CLUSTER: cluster, names::MANAGED_BY: names::OPERATOR })
}

fn labels(cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "helenus".to_owned()),
        ("app.kubernetes.io/instance".to_owned(), cluster.to_owned()),
        (names::MANAGED_BY.to_owned(), names::OPERATOR.to_owned()),
        (names::CLUSTER.to_owned(), cluster.to_owned()),
    ])
}

fn node_labels(
    cluster: &str,
    node: &str,
    datacenter: &str,
    rack: &str,
) -> BTreeMap<String, String> {
    let mut all = labels(cluster);
    all.insert(names::NODE.to_owned(), node.to_owned());
    all.insert(names::DATACENTER.to_owned(), names::name_part(datacenter));
    all.insert(names::RACK.to_owned(), names::name_part(rack));
    all
}

fn cluster_owner(cluster: &ClusterObject) -> Value {
    json!([{ "apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraCluster", "name": cluster.name,
             "uid": cluster.uid, "controller": true, "blockOwnerDeletion": true }])
}

/// A `CassandraNode`.
pub fn node(cluster: &ClusterObject, draft: &NodeDraft) -> Result<CassandraNode, BuildError> {
    let mut node = CassandraNode::new(&draft.name, draft.spec.clone());
    node.metadata.namespace = Some(cluster.namespace.clone());
    node.metadata.labels = Some(node_labels(
        &cluster.name,
        &draft.name,
        &draft.spec.datacenter,
        &draft.spec.rack,
    ));
    node.metadata.finalizers = Some(vec![names::NODE_FINALIZER.to_owned()]);
    node.metadata.owner_references = Some(object("owner of a node", cluster_owner(cluster))?);
    Ok(node)
}

/// The claim of a node's data volume. It has no owner: it outlives the cluster unless deleted on purpose.
pub fn claim(
    cluster: &ClusterObject,
    node: &NodeObject,
) -> Result<PersistentVolumeClaim, BuildError> {
    let spec = &node.spec;
    object(
        "volume claim",
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": names::claim_name(&node.name), "namespace": cluster.namespace,
                "labels": node_labels(&cluster.name, &node.name, &spec.datacenter, &spec.rack),
                "annotations": {
                    names::NODE_UID: node.uid,
                    names::DATACENTER_NAME: spec.datacenter,
                    names::RACK_NAME: spec.rack
                }
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": spec.volume.size } },
                "storageClassName": spec.volume.storage_class_name
            }
        }),
    )
}

/// The Pod of a node.
pub fn pod(
    cluster: &ClusterObject,
    node: &NodeObject,
    lost_node_secs: i64,
) -> Result<Pod, BuildError> {
    let spec = &node.spec;
    object(
        "Pod",
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": node.name, "namespace": cluster.namespace,
                "labels": node_labels(&spec.cluster, &node.name, &spec.datacenter, &spec.rack),
                "ownerReferences": [{ "apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraNode",
                    "name": node.name, "uid": node.uid, "controller": true, "blockOwnerDeletion": true }]
            },
            "spec": {
                "hostname": node.name,
                "subdomain": names::nodes_service(&spec.cluster),
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                    "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": { "type": "RuntimeDefault" }
                },
                "affinity": affinity(node),
                "tolerations": (["not-ready", "unreachable"]).map(|taint| json!({
                    "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": lost_node_secs
                })),
                "containers": [container(node)],
                "volumes": [
                    { "name": "data", "persistentVolumeClaim": { "claimName": names::claim_name(&node.name) } },
                    { "name": "tmp", "emptyDir": { "sizeLimit": "64Mi" } },
                    { "name": "config", "configMap": { "name": spec.config_map } }
                ]
            }
        }),
    )
}

/// The rack's zone, and different Kubernetes nodes for different nodes.
fn affinity(node: &NodeObject) -> Value {
    let apart = json!({
        "topologyKey": names::HOSTNAME,
        "labelSelector": { "matchLabels": selector(&node.spec.cluster) }
    });
    let apart = match node.spec.hosts {
        HostSpread::Required => {
            json!({ "requiredDuringSchedulingIgnoredDuringExecution": [apart] })
        }
        HostSpread::Preferred => json!({
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "podAffinityTerm": apart }]
        }),
    };
    let mut affinity = json!({ "podAntiAffinity": apart });
    if let Some(zone) = &node.spec.zone {
        affinity["nodeAffinity"] = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": names::ZONE, "operator": "In", "values": [zone] }] }
        ] } });
    }
    affinity
}

fn container(node: &NodeObject) -> Value {
    let probe = |path: &str, period: u32, failures: u32| {
        json!({ "httpGet": { "path": path, "port": "http" }, "periodSeconds": period,
                "failureThreshold": failures, "timeoutSeconds": 3 })
    };
    json!({
        "name": CONTAINER,
        "image": node.spec.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/helenus", "node", "--config", "/etc/helenus/cassandra.yaml"],
        "env": environment(node),
        "ports": [
            { "name": "cql", "containerPort": names::CQL_PORT },
            { "name": "internode", "containerPort": names::INTERNODE_PORT },
            { "name": "http", "containerPort": names::HTTP_PORT }
        ],
        "resources": node.spec.resources,
        "startupProbe": probe("/health/live", 1, 300),
        "livenessProbe": probe("/health/live", 10, 6),
        "readinessProbe": probe("/health/ready", 1, 3),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true
        },
        "volumeMounts": [
            { "name": "data", "mountPath": DATA_DIR },
            { "name": "tmp", "mountPath": "/tmp" },
            { "name": "config", "mountPath": "/etc/helenus", "readOnly": true }
        ]
    })
}

fn environment(node: &NodeObject) -> Vec<Value> {
    let spec = &node.spec;
    let pod_ip = || json!({ "fieldRef": { "fieldPath": "status.podIP" } });
    let mut all = vec![
        json!({ "name": "HELENUS_LISTEN_ADDRESS", "valueFrom": pod_ip() }),
        json!({ "name": "HELENUS_BROADCAST_ADDRESS", "valueFrom": pod_ip() }),
        json!({ "name": "HELENUS_DC", "value": spec.datacenter }),
        json!({ "name": "HELENUS_RACK", "value": spec.rack }),
        json!({ "name": "HELENUS_CLUSTER_NAME", "value": spec.cluster_name }),
        json!({ "name": "HELENUS_NODE_NAME", "value": node.name }),
    ];
    let given = [
        ("HELENUS_SEED_URL", &spec.seed_url),
        ("HELENUS_REPLACE_HOST_ID", &spec.replace_host_id),
    ];
    all.extend(
        given
            .into_iter()
            .filter_map(|(name, value)| Some(json!({ "name": name, "value": value.as_ref()? }))),
    );
    all
}

/// Objects that the whole cluster shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// `cassandra.yaml`.
    pub config: ConfigMap,
    /// Resolves to every node.
    pub nodes: Service,
    /// What clients connect to.
    pub cql: Service,
    /// One voluntary loss at a time. Kubernetes counts `maxUnavailable` only for controllers with a
    /// `scale` subresource, so it is said as all members but one and follows their number.
    pub budget: PodDisruptionBudget,
}

/// Builds the shared objects for a ring of so many members.
pub fn shared(
    cluster: &ClusterObject,
    spec: &ValidatedCluster,
    members: usize,
) -> Result<Shared, BuildError> {
    let meta = |name: &str| {
        json!({ "name": name, "namespace": cluster.namespace, "labels": labels(&cluster.name),
                "ownerReferences": cluster_owner(cluster) })
    };
    let port = |name: &str, number: u16| json!({ "name": name, "port": number, "targetPort": name, "protocol": "TCP" });
    Ok(Shared {
        config: object(
            "ConfigMap",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(&spec.config_map), "immutable": true,
                    "data": { "cassandra.yaml": spec.cassandra_yaml } }),
        )?,
        nodes: object(
            "headless Service",
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": meta(&names::nodes_service(&cluster.name)),
                    "spec": { "clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector(&cluster.name),
                              "ports": [port("cql", names::CQL_PORT), port("internode", names::INTERNODE_PORT),
                                        port("http", names::HTTP_PORT)] } }),
        )?,
        cql: object(
            "client Service",
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": meta(&names::cql_service(&cluster.name)),
                    "spec": { "selector": selector(&cluster.name), "ports": [port("cql", names::CQL_PORT)] } }),
        )?,
        budget: object(
            "PodDisruptionBudget",
            json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta(&cluster.name),
                    "spec": { "minAvailable": members.saturating_sub(1), "selector": { "matchLabels": selector(&cluster.name) } } }),
        )?,
    })
}
