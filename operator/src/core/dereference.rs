//! From Kubernetes objects to the [`World`]. No decisions are taken here.

use std::collections::BTreeMap;

use helenus_crds::{CassandraCluster, CassandraNode, NodeReport, names};
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::validate::{Defaults, validate};
use super::world::{Claim, ClusterObject, Host, NodeObject, Pod, World};

/// Gossip reaches thousands of nodes in a few rounds of a second each.
const GOSSIP_SECS: i64 = 20;

/// Objects as the API server (or a cache of it) gave them.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The cluster.
    pub cluster: CassandraCluster,
    /// `CassandraNode` objects of the namespace with the cluster's label.
    pub nodes: Vec<CassandraNode>,
    /// Claims with the cluster's label.
    pub claims: Vec<core_v1::PersistentVolumeClaim>,
    /// Pods with the cluster's label.
    pub pods: Vec<core_v1::Pod>,
    /// Every volume that these claims are bound to; others do no harm.
    pub volumes: Vec<core_v1::PersistentVolume>,
    /// Every Kubernetes node.
    pub hosts: Vec<core_v1::Node>,
    /// Reports by node name.
    pub reports: BTreeMap<String, NodeReport>,
}

/// Builds the world.
pub fn world(objects: &Objects, now: Timestamp, lost_node_secs: i64, defaults: &Defaults) -> World {
    let hosts: BTreeMap<String, Host> = objects.hosts.iter().map(host).collect();
    let volumes: BTreeMap<&str, &core_v1::PersistentVolume> = objects
        .volumes
        .iter()
        .filter_map(|volume| Some((volume.metadata.name.as_deref()?, volume)))
        .collect();
    World {
        now,
        cluster: cluster(&objects.cluster, defaults),
        nodes: objects
            .nodes
            .iter()
            .map(|item| (name(&item.metadata), node(item)))
            .collect(),
        claims: objects
            .claims
            .iter()
            .map(|item| (name(&item.metadata), claim(item, &volumes, &hosts)))
            .collect(),
        pods: objects
            .pods
            .iter()
            .map(|item| (name(&item.metadata), pod(item)))
            .collect(),
        reports: objects.reports.clone(),
        hosts,
        lost_node_secs,
        gossip_secs: GOSSIP_SECS,
    }
}

fn name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

fn uid(meta: &ObjectMeta) -> String {
    meta.uid.clone().unwrap_or_default()
}

fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|one| one == finalizer)
}

fn cluster(cluster: &CassandraCluster, defaults: &Defaults) -> ClusterObject {
    let meta = &cluster.metadata;
    ClusterObject {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: name(meta),
        uid: uid(meta),
        generation: meta.generation,
        terminating: meta.deletion_timestamp.is_some(),
        finalizer: has_finalizer(meta, names::CLUSTER_FINALIZER),
        spec: validate(cluster, defaults),
        status: cluster.status.clone().unwrap_or_default(),
    }
}

fn node(node: &CassandraNode) -> NodeObject {
    NodeObject {
        name: name(&node.metadata),
        uid: uid(&node.metadata),
        terminating: node.metadata.deletion_timestamp.is_some(),
        finalizer: has_finalizer(&node.metadata, names::NODE_FINALIZER),
        spec: node.spec.clone(),
        status: node.status.clone().unwrap_or_default(),
    }
}

fn host(node: &core_v1::Node) -> (String, Host) {
    let name = name(&node.metadata);
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|one| one.type_ == "Ready" && one.status == "True");
    let hostname = node
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(names::HOSTNAME))
        .cloned();
    (
        name.clone(),
        Host {
            hostname: hostname.unwrap_or(name),
            ready,
        },
    )
}

fn claim(
    claim: &core_v1::PersistentVolumeClaim,
    volumes: &BTreeMap<&str, &core_v1::PersistentVolume>,
    hosts: &BTreeMap<String, Host>,
) -> Claim {
    let meta = &claim.metadata;
    let annotation = |key: &str| {
        meta.annotations
            .as_ref()
            .and_then(|all| all.get(key))
            .cloned()
    };
    Claim {
        name: name(meta),
        uid: uid(meta),
        node: meta
            .labels
            .as_ref()
            .and_then(|labels| labels.get(names::NODE))
            .cloned(),
        node_uid: annotation(names::NODE_UID),
        host_id: annotation(names::HOST_ID),
        cluster_id: annotation(names::CLUSTER_ID),
        datacenter: annotation(names::DATACENTER_NAME),
        rack: annotation(names::RACK_NAME),
        terminating: meta.deletion_timestamp.is_some(),
        lost: lost(claim, volumes, hosts),
    }
}

/// Why the volume behind a claim is lost for good. A volume that may be used from another Kubernetes
/// node, or whose own one is only silent, is not lost: the zone or the machine may come back.
fn lost(
    claim: &core_v1::PersistentVolumeClaim,
    volumes: &BTreeMap<&str, &core_v1::PersistentVolume>,
    hosts: &BTreeMap<String, Host>,
) -> Option<String> {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if phase == Some("Lost") {
        return Some("its PersistentVolume was deleted".to_owned());
    }
    // A claim that is not bound, or whose volume the cache does not know yet, says nothing.
    let volume = volumes.get(claim.spec.as_ref()?.volume_name.as_deref()?)?;
    if volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Failed")
    {
        return Some("its PersistentVolume failed".to_owned());
    }
    // Before any Kubernetes node is known, none is known to be gone.
    let pinned = pinned_hosts(volume)?;
    let gone = !hosts.is_empty()
        && !pinned
            .iter()
            .any(|one| hosts.values().any(|host| &host.hostname == one));
    gone.then(|| {
        format!(
            "its PersistentVolume is on Kubernetes node {}, which no longer exists",
            pinned.join(", ")
        )
    })
}

/// Host names that a volume is bound to; `None` if it is not bound to any.
fn pinned_hosts(volume: &core_v1::PersistentVolume) -> Option<Vec<String>> {
    let required = volume
        .spec
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required
        .as_ref()?;
    let mut pinned = Vec::new();
    for term in &required.node_selector_terms {
        let expressions = term.match_expressions.iter().flatten();
        let mut hosts =
            expressions.filter(|one| one.key == names::HOSTNAME && one.operator == "In");
        // Terms are alternatives: one that names no host may be satisfied elsewhere.
        pinned.extend(hosts.next()?.values.clone().unwrap_or_default());
    }
    (!pinned.is_empty()).then_some(pinned)
}

fn pod(pod: &core_v1::Pod) -> Pod {
    let meta = &pod.metadata;
    let status = pod.status.clone().unwrap_or_default();
    let owner = meta
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == "CassandraNode");
    let condition = |type_: &str| {
        status
            .conditions
            .iter()
            .flatten()
            .find(|one| one.type_ == type_)
    };
    Pod {
        name: name(meta),
        uid: uid(meta),
        node_uid: owner.map(|owner| owner.uid.clone()),
        address: status.pod_ip.clone().filter(|ip| !ip.is_empty()),
        host: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        ready: condition("Ready").is_some_and(|one| one.status == "True"),
        ended: matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")),
        // The API server writes the moment by which the Pod should be gone.
        gone_by: meta.deletion_timestamp.as_ref().map(|time| time.0),
        trouble: trouble(&status, condition("PodScheduled")),
    }
}

fn trouble(
    status: &core_v1::PodStatus,
    scheduled: Option<&core_v1::PodCondition>,
) -> Option<String> {
    if let Some(condition) = scheduled.filter(|condition| condition.status == "False") {
        return condition
            .message
            .clone()
            .or_else(|| condition.reason.clone());
    }
    for container in status.container_statuses.iter().flatten() {
        let state = container.state.as_ref();
        let last = container
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
            let exit = last
                .map(|last| format!("; it ended with code {}", last.exit_code))
                .unwrap_or_default();
            let message = waiting
                .message
                .as_ref()
                .map(|message| format!(": {message}"))
                .unwrap_or_default();
            return Some(format!(
                "{}{message}{exit}",
                waiting.reason.as_deref().unwrap_or("waiting")
            ));
        }
    }
    status.message.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check_lost(volume: Value, hosts: &[&str]) -> Option<String> {
        let claim = serde_json::from_value(json!({"metadata": {"name": "data-x"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}))
        .unwrap();
        let volume: core_v1::PersistentVolume = serde_json::from_value(volume).unwrap();
        let volumes = BTreeMap::from([("pv", &volume)]);
        let hosts = hosts
            .iter()
            .map(|name| {
                (
                    (*name).to_owned(),
                    Host {
                        hostname: (*name).to_owned(),
                        ready: false,
                    },
                )
            })
            .collect();
        lost(&claim, &volumes, &hosts)
    }

    fn pinned(key: &str, value: &str) -> Value {
        json!({"metadata": {"name": "pv"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}}}})
    }

    #[test]
    fn a_volume_is_lost_with_the_kubernetes_node_it_is_on_and_not_before() {
        let volume = || pinned(names::HOSTNAME, "n1");
        assert_eq!(
            check_lost(volume(), &["n1", "n2"]),
            None,
            "its node exists, ready or not"
        );
        assert!(check_lost(volume(), &["n2"]).unwrap().contains("n1"));
        assert_eq!(check_lost(volume(), &[]), None, "no node is known yet");
    }

    #[test]
    fn a_volume_of_a_zone_waits_for_the_zone() {
        assert_eq!(check_lost(pinned(names::ZONE, "z1"), &["n2"]), None);
    }

    #[test]
    fn a_failed_volume_is_lost() {
        let volume = json!({"metadata": {"name": "pv"}, "spec": {}, "status": {"phase": "Failed"}});
        assert!(check_lost(volume, &["n1"]).is_some());
    }

    #[test]
    fn trouble_names_the_reason_and_the_exit_code() {
        let status: core_v1::PodStatus = serde_json::from_value(json!({"containerStatuses": [{
            "name": "helenus", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 2}}}]}))
        .unwrap();
        assert_eq!(
            trouble(&status, None).unwrap(),
            "CrashLoopBackOff; it ended with code 2"
        );
    }
}
