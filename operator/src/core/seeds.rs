//! The seed service's answers, from the status of the objects alone: any replica of the operator
//! may answer, and all answer alike.
//!
//! - Only the node (by UID) with the volume (by UID) that was granted the founding may found, and
//!   only while the ring has no name.
//! - A node that was never a member is told live members only, and only while the operation under way
//!   is its own: whatever an old leader of the operator may have made, no two nodes join at a time.
//! - A member that finds no live one (everything was restarted) is told of other members on their
//!   way up, so that they find each other at their new addresses.

use std::collections::BTreeMap;

use helenus_crds::{CassandraCluster, CassandraNode, CassandraNodeStatus, NodeState, SeedAnswer};

/// At most so many addresses are answered.
const MOST: usize = 3;

/// Answers a node, or says what is not known yet.
pub fn answer(
    cluster: Option<&CassandraCluster>,
    nodes: &[&CassandraNode],
    asking: &str,
) -> Result<SeedAnswer, String> {
    let Some(cluster) = cluster else {
        return Err("this operator does not know the cluster".to_owned());
    };
    let Some(me) = nodes
        .iter()
        .find(|node| node.metadata.name.as_deref() == Some(asking))
    else {
        return Err(format!("this operator does not know node {asking}"));
    };
    let status = cluster.status.clone().unwrap_or_default();
    let mine = me.status.clone().unwrap_or_default();
    if status.cluster_id.is_none() {
        let granted = status.founding.is_some_and(|grant| {
            grant.node == asking
                && me.metadata.uid.as_ref() == Some(&grant.node_uid)
                && mine.claim_uid.as_ref() == Some(&grant.claim_uid)
        });
        return if granted {
            Ok(SeedAnswer {
                is_seed: true,
                seeds: Vec::new(),
            })
        } else {
            Err("the ring is not founded yet and another node has, or will have, the grant to found it".to_owned())
        };
    }
    let turn = status
        .operation
        .is_some_and(|operation| operation.node == asking);
    if !mine.joined && !turn {
        return Err("it is not this node's turn to join".to_owned());
    }
    let others = |wanted: &dyn Fn(&CassandraNodeStatus) -> bool| {
        let others = nodes
            .iter()
            .filter(|node| node.metadata.name.as_deref() != Some(asking));
        spread(others.filter_map(|node| {
            let status = node.status.as_ref().filter(|status| wanted(status))?;
            Some((node.spec.rack.as_str(), status.address.as_deref()?))
        }))
    };
    let mut seeds = others(&|status| {
        status.ready && status.state.as_deref() == Some(NodeState::Normal.as_str())
    });
    if seeds.is_empty() && mine.joined {
        seeds = others(&|status| status.joined);
    }
    if seeds.is_empty() && !mine.joined {
        return Err("no member of the ring is live".to_owned());
    }
    Ok(SeedAnswer {
        is_seed: false,
        seeds,
    })
}

/// One address of each rack, then a second of each, and so on, up to [`MOST`].
fn spread<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut racks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (rack, address) in members {
        racks.entry(rack).or_default().push(address);
    }
    for addresses in racks.values_mut() {
        addresses.sort_unstable();
    }
    let deepest = racks.values().map(Vec::len).max().unwrap_or(0);
    (0..deepest)
        .flat_map(|depth| {
            racks
                .values()
                .filter_map(move |addresses| addresses.get(depth))
        })
        .take(MOST)
        .map(ToString::to_string)
        .collect()
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the callers write json! in place"
)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster(status: serde_json::Value) -> CassandraCluster {
        serde_json::from_value(json!({"apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraCluster",
            "metadata": {"name": "o", "namespace": "db"}, "status": status,
            "spec": {"clusterName": "o", "datacenters": [{"name": "d", "racks": [{"name": "a"}]}]}}))
        .unwrap()
    }

    fn node(name: &str, rack: &str, status: serde_json::Value) -> CassandraNode {
        serde_json::from_value(json!({"apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraNode",
            "metadata": {"name": name, "namespace": "db", "uid": format!("uid-{name}")}, "status": status,
            "spec": {"cluster": "o", "clusterName": "o", "datacenter": "d", "rack": rack, "image": "i",
                     "configMap": "c", "volume": {}}}))
        .unwrap()
    }

    fn operation(node: &str) -> serde_json::Value {
        json!({"type": "ScaleUp", "node": node, "datacenter": "d", "rack": "a", "startedAt": "2026-01-01T00:00:00Z"})
    }

    fn normal(address: &str) -> serde_json::Value {
        json!({"state": "NORMAL", "ready": true, "joined": true, "address": address})
    }

    fn check(
        cluster: &CassandraCluster,
        nodes: &[CassandraNode],
        asking: &str,
    ) -> Result<(bool, Vec<String>), String> {
        let nodes: Vec<_> = nodes.iter().collect();
        answer(Some(cluster), &nodes, asking).map(|answer| (answer.is_seed, answer.seeds))
    }

    fn grant() -> CassandraCluster {
        cluster(
            json!({"founding": {"node": "a-0", "nodeUid": "uid-a-0", "claimUid": "c0", "grantedAt": "2026-01-01T00:00:00Z"}}),
        )
    }

    #[test]
    fn only_the_granted_node_with_the_granted_volume_may_found() {
        let good = node("a-0", "a", json!({"claimUid": "c0"}));
        let other = node("b-0", "b", json!({"claimUid": "c1"}));
        assert_eq!(
            check(&grant(), &[good.clone(), other.clone()], "a-0"),
            Ok((true, vec![]))
        );
        assert!(check(&grant(), &[good.clone(), other], "b-0").is_err());
        assert!(
            check(
                &grant(),
                &[node("a-0", "a", json!({"claimUid": "c9"}))],
                "a-0"
            )
            .is_err()
        );
        let mut reborn = good;
        reborn.metadata.uid = Some("uid-other".to_owned());
        assert!(check(&grant(), &[reborn], "a-0").is_err());
    }

    #[test]
    fn nobody_founds_once_the_ring_has_a_name() {
        let mut founded = grant();
        founded.status.get_or_insert_default().cluster_id = Some("id".to_owned());
        let first = node("a-0", "a", json!({"claimUid": "c0", "joined": true}));
        assert_eq!(check(&founded, &[first], "a-0"), Ok((false, vec![])));
    }

    #[test]
    fn seeds_are_live_members_spread_over_racks_without_the_asker() {
        let founded = cluster(json!({"clusterId": "id", "operation": operation("b-1")}));
        let nodes = [
            node("a-0", "a", normal("1.0.0.1")),
            node("a-1", "a", normal("1.0.0.2")),
            node("b-0", "b", normal("1.0.1.1")),
            node(
                "b-1",
                "b",
                json!({"state": "JOINING", "ready": false, "address": "1.0.1.2"}),
            ),
            node("c-0", "c", normal("1.0.2.1")),
        ];
        let seeds = |asking| check(&founded, &nodes, asking).unwrap().1;
        assert_eq!(seeds("b-1"), ["1.0.0.1", "1.0.1.1", "1.0.2.1"]);
        assert_eq!(seeds("b-0"), ["1.0.0.1", "1.0.2.1", "1.0.0.2"]);
        let other_turn = cluster(json!({"clusterId": "id", "operation": operation("c-1")}));
        assert!(
            check(&other_turn, &nodes, "b-1").is_err(),
            "it is not its turn"
        );
    }

    #[test]
    fn after_a_full_restart_members_find_each_other_and_new_nodes_wait() {
        let founded = cluster(json!({"clusterId": "id"}));
        let nodes = [
            node(
                "a-0",
                "a",
                json!({"state": "STARTING", "joined": true, "address": "1.0.0.9"}),
            ),
            node(
                "b-0",
                "b",
                json!({"state": "STARTING", "joined": true, "address": "1.0.1.9"}),
            ),
            node(
                "c-0",
                "c",
                json!({"state": "WAITING_FOR_SEEDS", "joined": false, "address": "1.0.2.9"}),
            ),
        ];
        assert_eq!(
            check(&founded, &nodes, "a-0"),
            Ok((false, vec!["1.0.1.9".to_owned()]))
        );
        assert!(check(&founded, &nodes, "c-0").is_err());
    }

    #[test]
    fn strangers_are_refused() {
        assert!(answer(None, &[], "a-0").is_err());
        assert!(check(&cluster(json!({"clusterId": "id"})), &[], "a-0").is_err());
    }
}
