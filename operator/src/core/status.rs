//! Status of cluster and nodes from what was observed and planned.

use std::collections::BTreeMap;

use helenus_crds::{
    CassandraClusterStatus, CassandraNodeStatus, NodeState, OperationKind, PeerState, names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::plan::{Change, Plan};
use super::ring;
use super::validate::ValidatedCluster;
use super::world::{NodeObject, World};

/// The status a node should have.
///
/// `claim_uid`, `host_id` and `joined` are written once: they outlive every crash and every silence.
pub fn node_status(world: &World, node: &NodeObject) -> CassandraNodeStatus {
    let old = &node.status;
    let pod = world.pod_of(node);
    let report = world.report_of(node);
    let claim_uid = old.claim_uid.clone().or_else(|| {
        let claim = world.claim_of(node).filter(|claim| !claim.terminating)?;
        super::plan::may_take(node, claim).then(|| claim.uid.clone())
    });
    // A claim that was brought along says whose data it holds before the node can.
    let kept = world
        .claim_of(node)
        .filter(|claim| old.claim_uid.as_ref() == Some(&claim.uid))
        .and_then(|claim| Some((claim.host_id.clone()?, claim.cluster_id.is_some())));
    let host_id = old
        .host_id
        .clone()
        .or_else(|| kept.clone().map(|(host_id, _)| host_id))
        .or_else(|| report.and_then(|report| report.host_id.clone()))
        .or_else(|| ring::newcomer(world, node));
    let honest = |said: &Option<String>| said.is_some() && *said == host_id;
    let normal =
        report.is_some_and(|report| report.state == NodeState::Normal && honest(&report.host_id));
    let seen = host_id
        .as_ref()
        .is_some_and(|id| seen_as_member(world, node, id));
    let lost = world.volume_loss(node);
    let (state, message) = state_and_message(world, node, lost.as_deref());
    CassandraNodeStatus {
        claim_uid,
        joined: old.joined || normal || seen || kept.is_some_and(|(_, member)| member),
        state: Some(state),
        message,
        ready: pod.is_some_and(|pod| pod.ready && pod.gone_by.is_none()) && lost.is_none(),
        address: pod.and_then(|pod| pod.address.clone()),
        host: pod.and_then(|pod| pod.host.clone()),
        release_version: report
            .map(|report| report.release_version.clone())
            .or_else(|| old.release_version.clone()),
        stopped_since: (!world.pods.contains_key(&node.name))
            .then(|| old.stopped_since.clone().unwrap_or(Time(world.now))),
        volume_lost_since: lost.map(|_| old.volume_lost_since.clone().unwrap_or(Time(world.now))),
        host_id,
    }
}

/// A ready node's report counts it as a member.
fn seen_as_member(world: &World, node: &NodeObject, host_id: &str) -> bool {
    world
        .nodes
        .values()
        .filter(|other| other.name != node.name && world.pod_of(other).is_some_and(|pod| pod.ready))
        .filter_map(|other| world.report_of(other))
        .any(|report| {
            report
                .peers
                .iter()
                .any(|peer| peer.host_id == host_id && peer.state == PeerState::Normal)
        })
}

fn state_and_message(
    world: &World,
    node: &NodeObject,
    lost: Option<&str>,
) -> (String, Option<String>) {
    if let Some(why) = lost {
        return (
            "LOST".to_owned(),
            Some(format!("the volume is lost: {why}")),
        );
    }
    let Some(pod) = world.pod_of(node) else {
        return ("STOPPED".to_owned(), Some("it has no Pod".to_owned()));
    };
    if pod.gone_by.is_some() {
        return ("STOPPING".to_owned(), pod.trouble.clone());
    }
    if world.host_lost(pod) {
        let host = pod.host.as_deref().unwrap_or("?");
        return (
            "UNKNOWN".to_owned(),
            Some(format!("its Kubernetes node {host} is lost")),
        );
    }
    match world.report_of(node) {
        Some(report) => {
            let message = match (&report.host_id, &node.status.host_id) {
                (Some(now), Some(known)) if now != known => Some(format!(
                    "it says host id {now}, but its volume belongs to {known}"
                )),
                _ => Some(report.message.clone()).filter(|message| !message.is_empty()),
            };
            (report.state.as_str().to_owned(), message)
        }
        None if pod.host.is_none() => ("PENDING".to_owned(), pod.trouble.clone()),
        None if pod.ready => (
            "UNKNOWN".to_owned(),
            Some("it does not answer the operator".to_owned()),
        ),
        None => ("STARTING".to_owned(), pod.trouble.clone()),
    }
}

/// The status a cluster should have, the planned change applied.
pub fn cluster_status(world: &World, plan: &Plan) -> CassandraClusterStatus {
    let old = &world.cluster.status;
    let mut status = old.clone();
    match &plan.change {
        Some(Change::Begin(operation)) => status.operation = Some(operation.clone()),
        Some(Change::Grant(founding)) => status.founding = Some(founding.clone()),
        Some(Change::Finish { cluster_id }) => {
            status.operation = None;
            status.cluster_id = status.cluster_id.or_else(|| cluster_id.clone());
        }
        Some(Change::Recognize { cluster_id }) => {
            status.cluster_id = status.cluster_id.or_else(|| Some(cluster_id.clone()));
        }
        None => {}
    }
    let ready = world
        .nodes
        .values()
        .filter(|node| node_status(world, node).ready)
        .count();
    status.observed_generation = world.cluster.generation;
    status.selector = Some(format!("{}={}", names::CLUSTER, world.cluster.name));
    status.nodes = i32::try_from(world.nodes.len()).unwrap_or(i32::MAX);
    status.ready_nodes = i32::try_from(ready).unwrap_or(i32::MAX);
    let conditions = conditions(world, plan, &status, ready);
    status.summary = Some(summary(world, &status, &conditions));
    status.conditions = conditions
        .into_iter()
        .map(|(type_, (on, reason, message))| {
            let word = if on { "True" } else { "False" };
            let before = old
                .conditions
                .iter()
                .find(|before| before.type_ == type_ && before.status == word);
            Condition {
                last_transition_time: before.map_or(Time(world.now), |before| {
                    before.last_transition_time.clone()
                }),
                message,
                observed_generation: world.cluster.generation,
                reason: reason.to_owned(),
                status: word.to_owned(),
                type_: type_.to_owned(),
            }
        })
        .collect();
    status
}

type Verdict = (bool, &'static str, String);

fn conditions(
    world: &World,
    plan: &Plan,
    status: &CassandraClusterStatus,
    ready: usize,
) -> BTreeMap<&'static str, Verdict> {
    BTreeMap::from([
        ("Ready", ready_condition(world, ready)),
        ("Progressing", progressing(world, plan, status)),
        ("Degraded", degraded(plan)),
        ("SeedsAvailable", seeds_available(world, status)),
        ("UpdatePending", update_pending(world)),
    ])
}

fn ready_condition(world: &World, ready: usize) -> Verdict {
    if world.cluster.terminating {
        return (false, "Deleting", "the cluster is being deleted".to_owned());
    }
    let asked = world
        .cluster
        .spec
        .as_ref()
        .map_or(world.nodes.len(), |spec| spec.nodes);
    if ready >= asked && ready == world.nodes.len() && ready > 0 {
        return match ring::all_up(world, None) {
            Ok(()) => (
                true,
                "AllNodesUp",
                format!("{ready} nodes serve and see each other"),
            ),
            Err(why) => (true, "AllNodesReady", format!("{ready} nodes serve; {why}")),
        };
    }
    (
        false,
        "NodesNotReady",
        format!("{ready} of {asked} nodes serve"),
    )
}

fn progressing(world: &World, plan: &Plan, status: &CassandraClusterStatus) -> Verdict {
    if world.cluster.terminating {
        return (
            true,
            "Deleting",
            plan.waiting
                .clone()
                .unwrap_or_else(|| "objects are being deleted".to_owned()),
        );
    }
    if let Some(operation) = &status.operation {
        let reason = match operation.kind {
            OperationKind::Found => "Founding",
            OperationKind::ScaleUp => "ScalingUp",
            OperationKind::Replace => "Replacing",
        };
        let message = plan
            .waiting
            .clone()
            .unwrap_or_else(|| operation.node.clone());
        return (true, reason, message);
    }
    if let Some(notice) = plan.notices.iter().find(|notice| !notice.degraded) {
        return (false, notice.reason, notice.message.clone());
    }
    if let Some(why) = &plan.waiting {
        return (true, "Waiting", why.clone());
    }
    if plan.is_weighty() {
        return (true, "Working", "objects are being made".to_owned());
    }
    match &world.cluster.spec {
        Err(_) => (
            false,
            "InvalidSpec",
            "nothing is changed until the spec is valid".to_owned(),
        ),
        Ok(_) => (false, "Settled", "the cluster is as asked".to_owned()),
    }
}

fn degraded(plan: &Plan) -> Verdict {
    let notices: Vec<_> = plan
        .notices
        .iter()
        .filter(|notice| notice.degraded)
        .collect();
    match notices.first() {
        None => (false, "AsExpected", String::new()),
        Some(first) => {
            let all: Vec<_> = notices
                .iter()
                .map(|notice| notice.message.as_str())
                .collect();
            (true, first.reason, all.join("; "))
        }
    }
}

fn seeds_available(world: &World, status: &CassandraClusterStatus) -> Verdict {
    if matches!(
        &world.cluster.spec,
        Ok(ValidatedCluster { seed_url: None, .. })
    ) {
        return (
            true,
            "StaticSeeds",
            "seeds are the list in spec.seeds.addresses".to_owned(),
        );
    }
    let live = world
        .nodes
        .values()
        .filter(|node| {
            let now = node_status(world, node);
            now.ready && now.state.as_deref() == Some("NORMAL")
        })
        .count();
    if live > 0 {
        (true, "LiveMembers", format!("{live} live members"))
    } else if status.cluster_id.is_none() {
        (
            false,
            "NotFounded",
            "the ring is not founded yet".to_owned(),
        )
    } else {
        (
            false,
            "NoLiveMember",
            "no member of the ring is live: new nodes wait, members rejoin each other".to_owned(),
        )
    }
}

fn update_pending(world: &World) -> Verdict {
    let Ok(spec) = &world.cluster.spec else {
        return (false, "InvalidSpec", String::new());
    };
    let old: Vec<_> = world
        .nodes
        .values()
        .filter(|node| {
            node.spec.image != spec.image
                || node.spec.config_map != spec.config_map
                || node.spec.resources != spec.resources
                || node.spec.volume != spec.volume
                || node.spec.hosts != spec.hosts
        })
        .map(|node| node.name.as_str())
        .collect();
    if old.is_empty() {
        (false, "UpToDate", String::new())
    } else {
        let message = format!(
            "rolling changes are not supported yet: {} keep what they were made with",
            old.join(", ")
        );
        (true, "RolloutUnsupported", message)
    }
}

fn summary(
    world: &World,
    status: &CassandraClusterStatus,
    conditions: &BTreeMap<&'static str, Verdict>,
) -> String {
    let verdict = |name: &str| {
        conditions
            .get(name)
            .map_or((false, ""), |(on, reason, _)| (*on, *reason))
    };
    if world.cluster.terminating {
        return "Deleting".to_owned();
    }
    if let (true, reason) = verdict("Degraded") {
        return reason.to_owned();
    }
    if let Some(operation) = &status.operation {
        let (_, reason) = verdict("Progressing");
        return format!("{reason} {}", operation.node);
    }
    match (verdict("Ready"), verdict("Progressing")) {
        ((true, _), (false, "Settled") | (true, _)) => "Ready".to_owned(),
        ((true, _), (false, reason)) => format!("Ready, {reason}"),
        ((false, reason), _) => reason.to_owned(),
    }
}
