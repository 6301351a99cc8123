//! Single decisions of the planner; whole lives are in `core/simulation`.

use std::collections::BTreeMap;

use helenus_crds::{CassandraCluster, CassandraNodeSpec, CassandraNodeStatus};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::super::dereference::{Objects, world};
use super::super::validate::Defaults;
use super::super::world::{Claim, NodeObject, World};
use super::*;

#[expect(
    clippy::needless_pass_by_value,
    reason = "the callers write json! in place"
)]
fn empty(spec: serde_json::Value, status: serde_json::Value) -> World {
    let mut whole = json!({"clusterName": "o", "nodes": 1, "datacenters": [{"name": "d", "racks": [{"name": "a"}]}]});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    let cluster: CassandraCluster = serde_json::from_value(json!({
        "apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraCluster", "spec": whole, "status": status,
        "metadata": {"name": "o", "namespace": "n", "uid": "u", "finalizers": ["helenus.dev/cluster"]}
    }))
    .unwrap();
    let objects = Objects {
        cluster,
        nodes: vec![],
        claims: vec![],
        pods: vec![],
        volumes: vec![],
        hosts: vec![],
        reports: BTreeMap::new(),
    };
    let defaults = Defaults {
        image: "i".to_owned(),
        seed_url: "http://s".to_owned(),
    };
    world(
        &objects,
        Timestamp::from_second(1_800_000_000).unwrap(),
        30,
        &defaults,
    )
}

fn claim(node: &str) -> Claim {
    Claim {
        name: format!("data-{node}"),
        uid: format!("claim-{node}"),
        node: Some(node.to_owned()),
        node_uid: None,
        host_id: None,
        cluster_id: None,
        datacenter: Some("d".to_owned()),
        rack: Some("a".to_owned()),
        terminating: false,
        lost: None,
    }
}

fn add_claim(world: &mut World, claim: Claim) {
    world.claims.insert(claim.name.clone(), claim);
}

fn add_node(world: &mut World, name: &str, status: CassandraNodeStatus) {
    let spec: CassandraNodeSpec = serde_json::from_value(
        json!({"cluster": "o", "clusterName": "o", "datacenter": "d",
        "rack": "a", "image": "i", "configMap": "c", "volume": {}}),
    )
    .unwrap();
    let node = NodeObject {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        terminating: false,
        finalizer: true,
        spec,
        status,
    };
    world.nodes.insert(name.to_owned(), node);
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.notices.iter().map(|notice| notice.reason).collect()
}

#[test]
fn nothing_is_made_before_the_cluster_is_held() {
    let mut world = empty(json!({}), json!({}));
    world.cluster.finalizer = false;
    assert_eq!(plan(&world).steps, [Step::HoldCluster]);
}

#[test]
fn founding_begins_in_the_first_rack_and_only_without_any_volume() {
    let mut world = empty(json!({}), json!({}));
    assert!(
        matches!(plan(&world).change, Some(Change::Begin(operation)) if operation.node == "o-d-a-0")
    );
    add_claim(&mut world, claim("o-d-a-0"));
    let blocked = plan(&world);
    assert_eq!(
        (blocked.change.clone(), reasons(&blocked)),
        (None, vec!["FoundingBlocked"])
    );
}

#[test]
fn a_ring_is_recognized_by_its_volumes_and_its_nodes_come_back() {
    let mut world = empty(json!({}), json!({}));
    let mut kept = claim("o-d-a-7");
    (kept.host_id, kept.cluster_id) = (Some("h".to_owned()), Some("ring".to_owned()));
    add_claim(&mut world, kept);
    assert_eq!(
        plan(&world).change,
        Some(Change::Recognize {
            cluster_id: "ring".to_owned()
        })
    );
    world.cluster.status.cluster_id = Some("ring".to_owned());
    let back = plan(&world);
    assert!(matches!(&back.steps[..], [Step::CreateNode(draft)] if draft.name == "o-d-a-7"));
    world.cluster.status.cluster_id = Some("other".to_owned());
    assert_eq!(reasons(&plan(&world)), ["VolumeNotAdopted"]);
}

#[test]
fn a_lost_founder_is_never_followed_by_another() {
    let grant = json!({"founding": {"node": "o-d-a-0", "nodeUid": "x", "claimUid": "y", "grantedAt": "2026-01-01T00:00:00Z"}});
    let world = empty(json!({}), grant);
    let blocked = plan(&world);
    assert_eq!(
        (blocked.change.clone(), reasons(&blocked)),
        (None, vec!["FoundingBlocked"])
    );
}

#[test]
fn fewer_nodes_are_refused_in_words() {
    let mut world = empty(json!({}), json!({"clusterId": "ring"}));
    for name in ["o-d-a-0", "o-d-a-1"] {
        let uid = format!("claim-{name}");
        let status = CassandraNodeStatus {
            claim_uid: Some(uid),
            joined: true,
            ..CassandraNodeStatus::default()
        };
        add_node(&mut world, name, status);
        let mut own = claim(name);
        own.node_uid = Some(format!("uid-{name}"));
        add_claim(&mut world, own);
    }
    let plan = plan(&world);
    assert_eq!(
        (plan.change.clone(), reasons(&plan)),
        (None, vec!["ScaleDownUnsupported"])
    );
    assert!(
        !plan
            .steps
            .iter()
            .any(|step| matches!(step, Step::DeleteNode { .. } | Step::DeleteClaim { .. }))
    );
}

#[test]
fn a_claim_of_someone_else_is_not_taken() {
    let mut world = empty(json!({}), json!({"clusterId": "ring"}));
    add_node(
        &mut world,
        "o-d-a-0",
        CassandraNodeStatus {
            joined: true,
            ..CassandraNodeStatus::default()
        },
    );
    add_claim(&mut world, claim("o-d-a-0"));
    let plan = plan(&world);
    assert!(reasons(&plan).contains(&"NameTaken"), "{plan:?}");
    assert!(
        !plan
            .steps
            .iter()
            .any(|step| matches!(step, Step::CreatePod { .. } | Step::DeleteClaim { .. }))
    );
}

#[test]
fn volumes_go_with_the_cluster_only_when_asked() {
    for (policy, deletes) in [("Retain", false), ("Delete", true)] {
        let mut world = empty(
            json!({"deletionPolicy": policy}),
            json!({"clusterId": "ring"}),
        );
        world.cluster.terminating = true;
        add_claim(&mut world, claim("o-d-a-0"));
        let steps = plan(&world).steps;
        assert_eq!(
            steps
                .iter()
                .any(|step| matches!(step, Step::DeleteClaim { .. })),
            deletes,
            "{policy}"
        );
        assert_eq!(steps.contains(&Step::ReleaseCluster), !deletes, "{policy}");
    }
}

#[test]
fn an_invalid_spec_stops_topology_and_nothing_else() {
    let mut world = empty(
        json!({"nodeTemplate": {"config": {"cluster_name": "x"}}}),
        json!({"clusterId": "ring"}),
    );
    let status = CassandraNodeStatus {
        claim_uid: Some("claim-o-d-a-0".to_owned()),
        joined: true,
        ..CassandraNodeStatus::default()
    };
    add_node(&mut world, "o-d-a-0", status);
    let mut own = claim("o-d-a-0");
    own.node_uid = Some("uid-o-d-a-0".to_owned());
    add_claim(&mut world, own);
    let plan = plan(&world);
    assert_eq!(reasons(&plan), ["InvalidSpec"]);
    assert!(plan.steps.contains(&Step::CreatePod {
        node: "o-d-a-0".to_owned()
    }));
}
