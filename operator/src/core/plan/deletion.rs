//! Deleting a cluster: every node stops, then its objects go, then (if asked) its volumes.

use super::super::world::World;
use super::{Plan, Step};

/// Plans for a cluster that is being deleted.
pub(super) fn plan(world: &World, plan: &mut Plan) {
    if !world.cluster.finalizer {
        return;
    }
    // An invalid spec cannot say that volumes may go, so they stay.
    let retain = world
        .cluster
        .spec
        .as_ref()
        .map_or(true, |spec| spec.retain_volumes);
    for pod in world.pods.values() {
        let overdue = pod.gone_by.is_some_and(|gone_by| {
            world.now.duration_since(gone_by).as_secs() > world.lost_node_secs
                && world.host_lost(pod)
        });
        if pod.gone_by.is_none() || overdue {
            plan.steps.push(Step::DeletePod {
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
                force: overdue,
                why: "the cluster is deleted".to_owned(),
            });
        }
    }
    if !world.pods.is_empty() {
        plan.waiting = Some(format!("{} Pods are stopping", world.pods.len()));
        return;
    }
    for node in world.nodes.values() {
        if !node.terminating {
            plan.steps.push(Step::DeleteNode {
                name: node.name.clone(),
                uid: node.uid.clone(),
            });
        }
        if node.finalizer {
            plan.steps.push(Step::ReleaseNode {
                name: node.name.clone(),
                uid: node.uid.clone(),
            });
        }
    }
    if !retain {
        for claim in world.claims.values().filter(|claim| !claim.terminating) {
            plan.steps.push(Step::DeleteClaim {
                claim: claim.name.clone(),
                uid: claim.uid.clone(),
                why: "the cluster is deleted and its deletionPolicy is Delete".to_owned(),
            });
        }
    }
    if world.nodes.is_empty() && (retain || world.claims.is_empty()) {
        plan.steps.push(Step::ReleaseCluster);
    }
}
