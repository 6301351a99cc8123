//! What the nodes' reports say together. Every question is answered with yes or with the reason
//! why not: a report that is missing is a reason (O7).

use std::collections::BTreeSet;

use helenus_crds::{NodeReport, NodeState, PeerState};

use super::world::{NodeObject, World};

/// Why a question about the ring is not answered with yes, for people.
pub type NotYet = String;

/// The report of a node that is a ready member and says so itself.
fn member<'a>(world: &'a World, node: &NodeObject) -> Result<(&'a NodeReport, &'a str), NotYet> {
    let name = &node.name;
    let Some(pod) = world.pod_of(node) else {
        return Err(format!("{name} has no Pod"));
    };
    let Some(report) = world.report_of(node) else {
        return Err(match &pod.trouble {
            Some(trouble) => format!("{name} does not answer: {trouble}"),
            None => format!("{name} does not answer"),
        });
    };
    if report.state != NodeState::Normal {
        return Err(format!(
            "{name} is {}: {}",
            report.state.as_str(),
            report.message
        ));
    }
    if !pod.ready || !report.cql_ready {
        return Err(format!("{name} does not serve CQL yet"));
    }
    match (&report.host_id, &node.status.host_id) {
        (None, _) => Err(format!("{name} has no host id yet")),
        (Some(now), Some(known)) if now != known => Err(format!(
            "{name} says host id {now}, but its volume belongs to {known}"
        )),
        (Some(now), _) => Ok((report, now)),
    }
}

/// `from` sees the node `host_id` as an up member.
fn sees(from: &NodeReport, host_id: &str, name: &str) -> Result<(), NotYet> {
    match from.peers.iter().find(|peer| peer.host_id == host_id) {
        None => Err(format!("{} does not know {name} yet", from.node_name)),
        Some(peer) if peer.state != PeerState::Normal => Err(format!(
            "{} does not see {name} as a member yet",
            from.node_name
        )),
        Some(peer) if !peer.up => Err(format!("{} sees {name} as down", from.node_name)),
        Some(_) => Ok(()),
    }
}

/// Nodes that cannot be witnesses of anything: those whose volume is lost, and `also`.
pub fn lost_members<'a>(world: &'a World, also: Option<&'a str>) -> Vec<&'a str> {
    let lost = world
        .nodes
        .values()
        .filter(|node| world.volume_loss(node).is_some());
    lost.map(|node| node.name.as_str()).chain(also).collect()
}

/// A node is a member as seen by itself and by every ready node, and sees them too.
pub fn joined_everywhere(world: &World, node: &NodeObject, without: &[&str]) -> Result<(), NotYet> {
    let (own, host_id) = member(world, node)?;
    let others = world
        .nodes
        .values()
        .filter(|other| other.name != node.name && !without.contains(&other.name.as_str()));
    let (mut members, mut witnesses) = (0_usize, 0_usize);
    for other in others {
        members += usize::from(other.status.joined);
        if !world.pod_of(other).is_some_and(|pod| pod.ready) {
            continue;
        }
        let (report, other_id) = member(world, other)?;
        sees(report, host_id, &node.name)?;
        sees(own, other_id, &other.name)?;
        witnesses += 1;
    }
    if members > 0 && witnesses == 0 {
        return Err(format!(
            "no ready node can confirm that {} is a member",
            node.name
        ));
    }
    Ok(())
}

/// Every node but `without` is a ready member and sees every other one up.
pub fn all_up(world: &World, without: Option<&str>) -> Result<(), NotYet> {
    let mut members = Vec::new();
    for node in world
        .nodes
        .values()
        .filter(|node| Some(node.name.as_str()) != without)
    {
        members.push((node, member(world, node)?));
    }
    for (node, (_, host_id)) in &members {
        for (other, (report, _)) in &members {
            if other.name != node.name {
                sees(report, host_id, &node.name)?;
            }
        }
    }
    Ok(())
}

/// Every ready node was asked, there is at least one, and none knows `host_id` any more.
pub fn host_id_gone(world: &World, host_id: &str, without: &[&str]) -> Result<(), NotYet> {
    let mut witnesses = 0_usize;
    for node in world
        .nodes
        .values()
        .filter(|node| !without.contains(&node.name.as_str()))
    {
        if !world.pod_of(node).is_some_and(|pod| pod.ready) {
            if node.status.joined {
                return Err(format!(
                    "{} is not ready and cannot confirm that host id {host_id} has left",
                    node.name
                ));
            }
            continue;
        }
        let (report, own) = member(world, node)?;
        let known = report
            .peers
            .iter()
            .any(|peer| peer.host_id == host_id && peer.state != PeerState::Left);
        if known || own == host_id {
            return Err(format!("{} still knows host id {host_id}", node.name));
        }
        witnesses += 1;
    }
    if witnesses == 0 {
        return Err(format!(
            "no ready node can confirm that host id {host_id} has left"
        ));
    }
    Ok(())
}

/// Every ready node was asked, there is at least one, and none knows a host id that is not a known node's.
pub fn no_strangers(world: &World, without: &[&str]) -> Result<(), NotYet> {
    let known: BTreeSet<&str> = world
        .nodes
        .values()
        .filter_map(|node| node.status.host_id.as_deref())
        .collect();
    let mut witnesses = 0_usize;
    for node in world
        .nodes
        .values()
        .filter(|node| !without.contains(&node.name.as_str()))
    {
        if !world.pod_of(node).is_some_and(|pod| pod.ready) {
            return Err(format!(
                "{} is not ready and cannot say whom it knows",
                node.name
            ));
        }
        let (report, _) = member(world, node)?;
        let stranger = report
            .peers
            .iter()
            .find(|peer| peer.state != PeerState::Left && !known.contains(peer.host_id.as_str()));
        if let Some(stranger) = stranger {
            return Err(format!(
                "{} knows host id {}, which is no known node's",
                node.name, stranger.host_id
            ));
        }
        witnesses += 1;
    }
    if witnesses == 0 {
        return Err("no ready node can say whom it knows".to_owned());
    }
    Ok(())
}

/// The host id of a node that became a member and was never heard of itself (its Kubernetes node fell
/// silent at once, say). In a ring of our own nodes only the operation under way adds members, so a
/// member that is no known node's, in the right rack and the only one such, is the operation's node.
pub fn newcomer(world: &World, node: &NodeObject) -> Option<String> {
    let own_ring = world
        .cluster
        .spec
        .as_ref()
        .is_ok_and(|spec| spec.seed_url.is_some());
    if !own_ring || world.operation()?.node != node.name {
        return None;
    }
    let known: BTreeSet<&str> = world
        .nodes
        .values()
        .filter_map(|node| node.status.host_id.as_deref())
        .collect();
    let ready = world
        .nodes
        .values()
        .filter(|other| world.pod_of(other).is_some_and(|pod| pod.ready));
    let peers = ready
        .filter_map(|other| world.report_of(other))
        .flat_map(|report| &report.peers);
    let strangers: BTreeSet<&str> = peers
        .filter(|peer| peer.state == PeerState::Normal && !known.contains(peer.host_id.as_str()))
        .filter(|peer| peer.datacenter == node.spec.datacenter && peer.rack == node.spec.rack)
        .map(|peer| peer.host_id.as_str())
        .collect();
    (strangers.len() == 1).then(|| strangers.first().map(ToString::to_string))?
}
