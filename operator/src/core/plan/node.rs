//! Independent steps for one node: its claim, its Pod, its status. Nothing here waits for another node.

use std::collections::BTreeMap;

use helenus_crds::names;
use k8s_openapi::jiff::SignedDuration;

use super::super::ring;
use super::super::status::node_status;
use super::super::world::{Claim, NodeObject, Pod, World};
use super::{Plan, Step};

/// Plans for one node.
pub(super) fn plan(world: &World, node: &NodeObject, plan: &mut Plan) {
    let status = node_status(world, node);
    if status != node.status {
        plan.steps.push(Step::SetNodeStatus {
            name: node.name.clone(),
            uid: node.uid.clone(),
            status: Box::new(status),
        });
    }
    if node.terminating && !is_replaced(world, node) && node.status.joined {
        plan.notice(
            true,
            "DecommissionUnsupported",
            format!(
                "{} is asked to be deleted, but a node cannot leave the ring yet: it goes on running, and it goes when \
                 the cluster is deleted",
                node.name
            ),
        );
    }
    claim(world, node, plan);
    pod(world, node, plan);
}

/// The node's place is being taken by another.
pub(super) fn is_replaced(world: &World, node: &NodeObject) -> bool {
    world
        .operation()
        .is_some_and(|operation| operation.replaces.as_deref() == Some(node.name.as_str()))
}

/// Whether a claim was made for this node, or brought along from an earlier cluster of this name.
pub(crate) fn may_take(node: &NodeObject, claim: &Claim) -> bool {
    claim.node.as_deref() == Some(node.name.as_str())
        && (claim.node_uid.as_deref() == Some(node.uid.as_str()) || claim.host_id.is_some())
}

fn claim(world: &World, node: &NodeObject, plan: &mut Plan) {
    let name = names::claim_name(&node.name);
    let Some(claim) = world.claim_of(node) else {
        if node.status.claim_uid.is_none() && !node.terminating {
            plan.steps.push(Step::CreateClaim {
                node: node.name.clone(),
            });
        }
        return;
    };
    match node.status.claim_uid.as_deref() {
        None if claim.terminating => {
            plan.notice(true, "ClaimTerminating", format!("{name} is being deleted; {} waits for it to be gone", node.name));
        }
        None if is_leftover(world, node, claim) => plan.steps.push(Step::DeleteClaim {
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            why: "it was made for an earlier node of this name that never was a member".to_owned(),
        }),
        None if !may_take(node, claim) => plan.notice(
            true,
            "NameTaken",
            format!("PersistentVolumeClaim {name} exists and is not {}'s; delete it if its data is not needed", node.name),
        ),
        Some(uid) if uid == claim.uid => annotate(world, node, claim, plan),
        None | Some(_) => {}
    }
    if claim.terminating && world.pod_of(node).is_some() {
        plan.notice(
            true,
            "ClaimTerminating",
            format!(
                "{name} is being deleted: when the Pod of {} stops, its data is gone",
                node.name
            ),
        );
    }
}

/// The claim was made for an earlier node of this name, by an operator that wrote too late. It holds
/// no member's data if it names no host id and no ready node knows a member that is no known node's.
fn is_leftover(world: &World, node: &NodeObject, claim: &Claim) -> bool {
    let earlier = claim.node_uid.as_ref().is_some_and(|uid| *uid != node.uid);
    let ringed = world.cluster.status.cluster_id.is_some();
    let idle = !world.pods.contains_key(&node.name);
    earlier
        && ringed
        && idle
        && claim.host_id.is_none()
        && ring::no_strangers(world, &ring::lost_members(world, Some(&node.name))).is_ok()
}

/// The claim says whose data it holds, so that it is recognized when every other object is gone.
fn annotate(world: &World, node: &NodeObject, claim: &Claim, plan: &mut Plan) {
    let mut annotations = BTreeMap::new();
    let mut want = |key: &str, have: Option<&str>, value: &str| {
        if have != Some(value) {
            annotations.insert(key.to_owned(), value.to_owned());
        }
    };
    want(names::NODE_UID, claim.node_uid.as_deref(), &node.uid);
    want(
        names::DATACENTER_NAME,
        claim.datacenter.as_deref(),
        &node.spec.datacenter,
    );
    want(names::RACK_NAME, claim.rack.as_deref(), &node.spec.rack);
    if let Some(host_id) = &node.status.host_id {
        want(names::HOST_ID, claim.host_id.as_deref(), host_id);
        // Only a member's volume is part of a ring.
        if let Some(cluster_id) = world
            .cluster
            .status
            .cluster_id
            .as_ref()
            .filter(|_| node.status.joined)
        {
            want(names::CLUSTER_ID, claim.cluster_id.as_deref(), cluster_id);
        }
    }
    if !annotations.is_empty() {
        plan.steps.push(Step::AnnotateClaim {
            claim: claim.name.clone(),
            uid: claim.uid.clone(),
            annotations,
        });
    }
}

fn pod(world: &World, node: &NodeObject, plan: &mut Plan) {
    let Some(pod) = world.pods.get(&node.name) else {
        let claim = world.claim_of(node).filter(|claim| !claim.terminating);
        let recorded =
            claim.is_some_and(|claim| node.status.claim_uid.as_ref() == Some(&claim.uid));
        let turn = world
            .operation()
            .is_some_and(|operation| operation.node == node.name);
        let leaves =
            is_replaced(world, node) || (!node.status.joined && (node.terminating || !turn));
        if recorded && world.volume_loss(node).is_none() && !leaves {
            plan.steps.push(Step::CreatePod {
                node: node.name.clone(),
            });
        }
        return;
    };
    let mut delete = |force: bool, why: String| {
        plan.steps.push(Step::DeletePod {
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            force,
            why,
        });
    };
    if let Some(gone_by) = pod.gone_by {
        if stuck(world, pod, gone_by) {
            delete(
                true,
                format!(
                    "its Kubernetes node {} is lost and cannot stop it",
                    pod.host.as_deref().unwrap_or("?")
                ),
            );
        }
    } else if pod.node_uid.as_deref() != Some(node.uid.as_str()) {
        delete(
            false,
            "it belongs to an earlier node of this name".to_owned(),
        );
    } else if is_replaced(world, node) {
        delete(false, "another node takes its place".to_owned());
    } else if pod.host.is_none() && world.claim_of(node).is_some_and(|claim| claim.terminating) {
        delete(
            false,
            "its claim is being deleted, so it can run nowhere".to_owned(),
        );
    } else if pod.ended {
        delete(
            false,
            "it ended and its kubelet will not start it again".to_owned(),
        );
    }
}

/// The Pod should be gone for long, and its Kubernetes node cannot say so.
fn stuck(world: &World, pod: &Pod, gone_by: k8s_openapi::jiff::Timestamp) -> bool {
    let overdue =
        world.now.duration_since(gone_by) > SignedDuration::from_secs(world.lost_node_secs);
    overdue && (pod.host.is_none() || world.host_lost(pod))
}
