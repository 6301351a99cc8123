//! Topology: which nodes there are. One operation at a time, recorded before it is acted on.

use helenus_crds::{CassandraNodeSpec, Founding, NodeState, Operation, OperationKind, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::ring;
use super::super::validate::ValidatedCluster;
use super::super::world::{Claim, NodeObject, World};
use super::node::is_replaced;
use super::{Change, NodeDraft, Plan, Step};

/// Plans the next topology step.
pub(super) fn plan(world: &World, spec: &ValidatedCluster, plan: &mut Plan) {
    report_losses(world, spec, plan);
    for node in world.nodes.values().filter(|node| is_stray(world, node)) {
        release(
            world,
            node,
            &format!("{} was made for an operation that is over", node.name),
            plan,
        );
    }
    if let Some(operation) = world.operation() {
        go_on(world, spec, operation, plan);
    } else if spec.seed_url.is_some() && world.cluster.status.cluster_id.is_none() {
        found(world, spec, plan);
    } else {
        grow(world, spec, plan);
    }
}

/// A node that an operator made too late: it never was a member and no operation under way is about it.
fn is_stray(world: &World, node: &NodeObject) -> bool {
    let brought_along = world
        .claim_of(node)
        .is_some_and(|claim| claim.cluster_id.is_some());
    let wanted = world
        .operation()
        .is_some_and(|operation| operation.node == node.name);
    !node.status.joined && !brought_along && !wanted && world.cluster.status.cluster_id.is_some()
}

/// Nodes whose volume is lost, whatever is done about them.
fn report_losses(world: &World, spec: &ValidatedCluster, plan: &mut Plan) {
    for node in world.nodes.values() {
        if let Some(why) = world.volume_loss(node) {
            let next = if is_replaced(world, node) {
                "another node takes its place"
            } else if !node.status.joined {
                "it was not a member yet"
            } else if spec.replace {
                "it will be replaced"
            } else {
                "spec.replacement.mode is Disabled, so nothing is done about it"
            };
            plan.notice(
                true,
                "VolumeLost",
                format!("the volume of {} is lost ({why}); {next}", node.name),
            );
        }
    }
}

/// Nothing is known of a ring yet: recognize one, or begin to found one.
fn found(world: &World, spec: &ValidatedCluster, plan: &mut Plan) {
    let known = world
        .claims
        .values()
        .find_map(|claim| claim.cluster_id.clone());
    if let Some(cluster_id) = known {
        plan.change = Some(Change::Recognize { cluster_id });
        return;
    }
    let blocked = |plan: &mut Plan, message: String| plan.notice(true, "FoundingBlocked", message);
    if let Some(founding) = &world.cluster.status.founding {
        blocked(
            plan,
            format!(
                "{} had the grant to found the ring and no ring is known; delete the cluster to begin anew",
                founding.node
            ),
        );
    } else if let Some(node) = world.nodes.values().next() {
        blocked(
            plan,
            format!(
                "CassandraNode {} exists although no ring is known",
                node.name
            ),
        );
    } else if let Some(claim) = world.claims.values().next() {
        blocked(
            plan,
            format!(
                "volume claim {} exists and may hold the data of an earlier ring; delete it, or give it the annotations {} and {}",
                claim.name,
                names::HOST_ID,
                names::CLUSTER_ID
            ),
        );
    } else if let Some(rack) = spec.racks.first() {
        plan.change = Some(begin(world, spec, OperationKind::Found, &rack.name, None));
    }
}

/// An operation is under way: do its next step.
fn go_on(world: &World, spec: &ValidatedCluster, operation: &Operation, plan: &mut Plan) {
    let Some(node) = world.nodes.get(&operation.node) else {
        start_node(world, spec, operation, plan);
        return;
    };
    match operation.kind {
        OperationKind::Found => found_on(world, node, plan),
        OperationKind::ScaleUp => scale_up_on(world, spec, node, plan),
        OperationKind::Replace => replace_on(world, operation, node, plan),
    }
}

/// The operation is recorded, its node is not made yet.
fn start_node(world: &World, spec: &ValidatedCluster, operation: &Operation, plan: &mut Plan) {
    if let Some(founding) = &world.cluster.status.founding
        && operation.kind == OperationKind::Found
    {
        plan.notice(
            true,
            "FoundingBlocked",
            format!(
                "{} had the grant to found the ring and is gone; delete the cluster to begin anew",
                founding.node
            ),
        );
        return;
    }
    if operation.kind == OperationKind::ScaleUp && due_replacement(world, spec).is_some() {
        plan.change = Some(Change::Finish { cluster_id: None });
        return;
    }
    let mut replaced = None;
    if let Some(old) = &operation.replaces {
        let host_id = world
            .nodes
            .get(old)
            .and_then(|old| old.status.host_id.clone());
        let Some(host_id) = host_id else {
            plan.change = Some(Change::Finish { cluster_id: None });
            return;
        };
        if world.pods.contains_key(old) {
            plan.waiting = Some(format!("the Pod of {old} is not gone yet"));
            return;
        }
        replaced = Some(host_id);
    }
    let mut draft = draft(world, spec, &operation.node, &operation.rack);
    draft.spec.replace_host_id = replaced;
    plan.steps.push(Step::CreateNode(Box::new(draft)));
}

/// The first node exists: give it the grant, once its volume is known; then wait for the ring.
fn found_on(world: &World, node: &NodeObject, plan: &mut Plan) {
    let Some(claim_uid) = &node.status.claim_uid else {
        plan.waiting = Some(format!("{} has no volume claim yet", node.name));
        return;
    };
    match &world.cluster.status.founding {
        None => {
            let strange = world.claims.values().find(|claim| &claim.uid != claim_uid);
            let other = world.nodes.values().find(|other| other.uid != node.uid);
            if let Some(claim) = strange {
                plan.notice(
                    true,
                    "FoundingBlocked",
                    format!("volume claim {} exists and may hold the data of an earlier ring", claim.name),
                );
            } else if let Some(other) = other {
                plan.notice(true, "FoundingBlocked", format!("CassandraNode {} exists before the ring is founded", other.name));
            } else if world.volume_loss(node).is_none() {
                plan.change = Some(Change::Grant(Founding {
                    node: node.name.clone(),
                    node_uid: node.uid.clone(),
                    claim_uid: claim_uid.clone(),
                    granted_at: Time(world.now),
                }));
            }
        }
        Some(grant) if grant.node_uid != node.uid || &grant.claim_uid != claim_uid => plan.notice(
            true,
            "FoundingBlocked",
            format!("{} is not the node that has the grant to found the ring; delete the cluster to begin anew", node.name),
        ),
        Some(_) => match world.report_of(node) {
            Some(report) if report.state == NodeState::Normal && !report.founded => plan.notice(
                true,
                "UnexpectedRing",
                format!("{} is in a ring that it did not found, although this cluster has none", node.name),
            ),
            _ => match (ring::joined_everywhere(world, node, &[]), &node.status.host_id) {
                (Ok(()), Some(host_id)) => plan.change = Some(Change::Finish { cluster_id: Some(host_id.clone()) }),
                (Ok(()), None) => plan.waiting = Some(format!("the host id of {} is not recorded yet", node.name)),
                (Err(why), _) => plan.waiting = Some(why),
            },
        },
    }
}

/// The new node lost its volume before the step was finished. If it became a member, the step is
/// done, and replacing it is another one; if it did not, it begins again from nothing.
fn lost_on_its_way(world: &World, node: &NodeObject, plan: &mut Plan) {
    if node.status.joined {
        plan.change = Some(Change::Finish { cluster_id: None });
    } else {
        release(
            world,
            node,
            &format!("{} lost its volume before it was a member", node.name),
            plan,
        );
    }
}

/// A node joins; but if it cannot because a member is lost, it steps back so that the member can be replaced.
fn scale_up_on(world: &World, spec: &ValidatedCluster, node: &NodeObject, plan: &mut Plan) {
    if world.volume_loss(node).is_some() {
        lost_on_its_way(world, node, plan);
        return;
    }
    match ring::joined_everywhere(world, node, &ring::lost_members(world, None)) {
        Ok(()) => plan.change = Some(Change::Finish { cluster_id: None }),
        Err(_)
            if !node.status.joined
                && (node.terminating || due_replacement(world, spec).is_some()) =>
        {
            release(
                world,
                node,
                &format!(
                    "{} steps back so that a lost node can be replaced first",
                    node.name
                ),
                plan,
            );
        }
        Err(why) => plan.waiting = Some(why),
    }
}

/// The new node exists: wait until it has the place, then let the old one go.
fn replace_on(world: &World, operation: &Operation, node: &NodeObject, plan: &mut Plan) {
    let old = operation
        .replaces
        .as_ref()
        .and_then(|old| world.nodes.get(old));
    let gone = ring::lost_members(world, None);
    let lost = world.volume_loss(node).is_some();
    if lost && (old.is_none() || !node.status.joined) {
        lost_on_its_way(world, node, plan);
        return;
    }
    if !lost && let Err(why) = ring::joined_everywhere(world, node, &gone) {
        plan.waiting = Some(why);
        return;
    }
    match old {
        None => plan.change = Some(Change::Finish { cluster_id: None }),
        Some(old) => release(
            world,
            old,
            &format!("{} has taken the place of {}", node.name, old.name),
            plan,
        ),
    }
}

/// Takes a node apart that is not, or no longer, in the ring: object, Pod, then (only when every
/// ready node has forgotten its host id) its volume. Each is seen gone before the next.
fn release(world: &World, old: &NodeObject, why: &str, plan: &mut Plan) {
    if let Some(pod) = world.pods.get(&old.name) {
        // The object first: it keeps the Pod from being made again.
        if !old.terminating {
            plan.steps.push(Step::DeleteNode {
                name: old.name.clone(),
                uid: old.uid.clone(),
            });
        }
        if pod.gone_by.is_none() {
            let (pod, uid) = (pod.name.clone(), pod.uid.clone());
            plan.steps.push(Step::DeletePod {
                pod,
                uid,
                force: false,
                why: why.to_owned(),
            });
        }
        plan.waiting = Some(format!("the Pod of {} is not gone yet", old.name));
        return;
    }
    let stopped = old
        .status
        .stopped_since
        .as_ref()
        .map(|since| world.now.duration_since(since.0).as_secs());
    if stopped.is_none_or(|secs| secs < world.gossip_secs) {
        plan.waiting = Some(format!(
            "news of {} may still be on its way to other nodes",
            old.name
        ));
        return;
    }
    let without = ring::lost_members(world, Some(&old.name));
    let forgotten = match &old.status.host_id {
        Some(host_id) => ring::host_id_gone(world, host_id, &without),
        None => ring::no_strangers(world, &without),
    };
    if let Err(why) = forgotten {
        plan.waiting = Some(format!("to take {} apart: {why}", old.name));
        return;
    }
    if !old.terminating {
        plan.steps.push(Step::DeleteNode {
            name: old.name.clone(),
            uid: old.uid.clone(),
        });
    } else if let Some(claim) = world.claim_of(old) {
        if !claim.terminating {
            plan.steps.push(Step::DeleteClaim {
                claim: claim.name.clone(),
                uid: claim.uid.clone(),
                why: why.to_owned(),
            });
        }
    } else if old.finalizer {
        plan.steps.push(Step::ReleaseNode {
            name: old.name.clone(),
            uid: old.uid.clone(),
        });
    }
}

/// A ring exists and nothing is under way: bring back what it had, replace what is lost, grow.
fn grow(world: &World, spec: &ValidatedCluster, plan: &mut Plan) {
    if adopt(world, spec, plan) {
        return;
    }
    if let Some(lost) = due_replacement(world, spec) {
        match ring::all_up(world, Some(&lost.name)) {
            Ok(()) => {
                plan.change = Some(begin(
                    world,
                    spec,
                    OperationKind::Replace,
                    &lost.spec.rack,
                    Some(lost.name.clone()),
                ));
            }
            Err(why) => plan.waiting = Some(format!("to replace {}: {why}", lost.name)),
        }
        return;
    }
    if world.nodes.len() > spec.nodes {
        plan.notice(
            false,
            "ScaleDownUnsupported",
            format!(
                "{} nodes are asked for and {} exist: taking nodes out of the ring is not supported yet, so they stay",
                spec.nodes,
                world.nodes.len()
            ),
        );
    } else if world.nodes.len() < spec.nodes {
        match ring::all_up(world, None) {
            Ok(()) => {
                plan.change = Some(begin(
                    world,
                    spec,
                    OperationKind::ScaleUp,
                    emptiest_rack(world, spec),
                    None,
                ));
            }
            Err(why) => plan.waiting = Some(why),
        }
    }
}

/// Volumes of members whose `CassandraNode` is gone (the cluster was deleted and made again): they
/// are members, so all may come back at once.
fn adopt(world: &World, spec: &ValidatedCluster, plan: &mut Plan) -> bool {
    let mut any = false;
    for claim in world.claims.values().filter(|claim| !claim.terminating) {
        let Some(node) = claim
            .node
            .as_ref()
            .filter(|node| !world.nodes.contains_key(*node))
        else {
            continue;
        };
        match place(world, spec, claim) {
            Ok(rack) => {
                any = true;
                plan.steps
                    .push(Step::CreateNode(Box::new(draft(world, spec, node, &rack))));
            }
            Err(why) => plan.notice(
                true,
                "VolumeNotAdopted",
                format!("volume claim {} has no node: {why}", claim.name),
            ),
        }
    }
    any
}

/// The rack of a volume without a node, if it is part of this ring.
fn place(world: &World, spec: &ValidatedCluster, claim: &Claim) -> Result<String, String> {
    if claim.host_id.is_none() || claim.cluster_id.is_none() {
        return Err("it holds no member's data; delete it".to_owned());
    }
    if claim.cluster_id != world.cluster.status.cluster_id {
        return Err("its data is of another ring".to_owned());
    }
    if claim.datacenter.as_deref() != Some(spec.datacenter.as_str()) {
        return Err("its data is of another data center".to_owned());
    }
    let rack = claim.rack.clone().unwrap_or_default();
    if spec.racks.iter().any(|known| known.name == rack) {
        Ok(rack)
    } else {
        Err(format!("its rack {rack:?} is not in the spec"))
    }
}

/// The member whose volume has been lost for the longest, if it is time to replace it.
fn due_replacement<'a>(world: &'a World, spec: &ValidatedCluster) -> Option<&'a NodeObject> {
    world
        .nodes
        .values()
        .filter(|node| spec.replace && node.status.joined && node.status.host_id.is_some())
        .filter(|node| world.volume_loss(node).is_some())
        .filter_map(|node| {
            node.status
                .volume_lost_since
                .as_ref()
                .map(|since| (since.0, node))
        })
        .filter(|(since, _)| world.now.duration_since(*since).as_secs() >= spec.replace_after_secs)
        .min_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.name.cmp(&other.name)))
        .map(|(_, node)| node)
}

/// The rack with the fewest nodes, the first of the spec among equals.
fn emptiest_rack<'a>(world: &World, spec: &'a ValidatedCluster) -> &'a str {
    spec.racks
        .iter()
        .min_by_key(|rack| {
            world
                .nodes
                .values()
                .filter(|node| node.spec.rack == rack.name)
                .count()
        })
        .map_or("", |rack| rack.name.as_str())
}

fn begin(
    world: &World,
    spec: &ValidatedCluster,
    kind: OperationKind,
    rack: &str,
    replaces: Option<String>,
) -> Change {
    Change::Begin(Operation {
        kind,
        node: next_name(world, spec, rack),
        datacenter: spec.datacenter.clone(),
        rack: rack.to_owned(),
        replaces,
        started_at: Time(world.now),
    })
}

/// A name that no node and no claim has; numbers grow, so that a name is not given twice while its volume exists.
fn next_name(world: &World, spec: &ValidatedCluster, rack: &str) -> String {
    let name = |ordinal| names::node_name(&world.cluster.name, &spec.datacenter, rack, ordinal);
    let prefix = name(0);
    let prefix = prefix.trim_end_matches('0');
    let claimed = world
        .claims
        .values()
        .filter_map(|claim| claim.node.as_deref());
    let taken = world
        .nodes
        .keys()
        .chain(world.pods.keys())
        .map(String::as_str)
        .chain(claimed);
    let highest = taken
        .filter_map(|name| name.strip_prefix(prefix)?.parse::<u32>().ok())
        .max();
    name(highest.map_or(0, |highest| highest.saturating_add(1)))
}

fn draft(world: &World, spec: &ValidatedCluster, name: &str, rack: &str) -> NodeDraft {
    let zone = spec
        .racks
        .iter()
        .find(|known| known.name == rack)
        .and_then(|rack| rack.zone.clone());
    let seed_url = spec.seed_url.as_ref().map(|base| {
        format!(
            "{}/v1/seeds?cluster={}/{}&node={name}",
            base.trim_end_matches('/'),
            world.cluster.namespace,
            world.cluster.name
        )
    });
    NodeDraft {
        name: name.to_owned(),
        spec: CassandraNodeSpec {
            cluster: world.cluster.name.clone(),
            cluster_name: spec.cluster_name.clone(),
            datacenter: spec.datacenter.clone(),
            rack: rack.to_owned(),
            zone,
            image: spec.image.clone(),
            config_map: spec.config_map.clone(),
            resources: spec.resources.clone(),
            volume: spec.volume.clone(),
            hosts: spec.hosts,
            seed_url,
            replace_host_id: None,
        },
    }
}
