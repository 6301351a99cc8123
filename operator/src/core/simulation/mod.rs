//! A simulated world for the planner: an API server with preconditions, kubelets, a ring of nodes
//! that found, join, replace and gossip late, and faults: the operator dies after any write, an old
//! leader acts on what it read long ago, Pods, processes, Kubernetes nodes and claims go away.
//!
//! Invariants O1 to O6 of `core` are checked after every write; after the faults stop the cluster
//! must become as asked. `HELENUS_SIM_SEEDS=20000 cargo test -p helenus-operator simulation` runs more.

mod environment;

use std::collections::BTreeMap;

use helenus_crds::{
    CassandraClusterStatus, CassandraNode, CassandraNodeStatus, DataVolume, HostSpread, NodeReport,
    NodeState, Peer, PeerState, Rack, names,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::plan::{self, Change, NodeDraft, Plan, Step};
use super::validate::ValidatedCluster;
use super::world::{Claim, ClusterObject, Host, NodeObject, Pod, World};
use super::{seeds, status};

const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const LOST_NODE_SECS: i64 = 10;
const JOIN_SECS: i64 = 4;
const GOSSIP_SECS: i64 = 2;
const FORGET_SECS: i64 = 8;

/// xorshift64*: the same seed gives the same run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let sides = u64::try_from(all.len()).ok().filter(|sides| *sides > 0)?;
        all.get(usize::try_from(self.roll(sides)).ok()?).cloned()
    }
}

/// What is on a volume. It lives as long as its claim.
#[derive(Clone, Debug, Default)]
struct Disk {
    host_id: Option<String>,
    member: bool,
    host: Option<String>,
}

/// A node's process in a Pod.
#[derive(Clone, Debug)]
struct Process {
    claim_uid: String,
    node: String,
    state: NodeState,
    founded: bool,
    joined_in: i64,
}

/// What gossip knows of a host id.
#[derive(Clone, Debug)]
struct Member {
    rack: String,
    normal: bool,
    since: i64,
    last_alive: i64,
}

struct Sim {
    dice: Dice,
    seed: u64,
    now: i64,
    next: u64,
    version: u64,
    cluster: ClusterObject,
    cluster_version: u64,
    nodes: BTreeMap<String, NodeObject>,
    node_versions: BTreeMap<String, u64>,
    claims: BTreeMap<String, Claim>,
    pods: BTreeMap<String, Pod>,
    hosts: BTreeMap<String, (Host, String)>,
    disks: BTreeMap<String, Disk>,
    processes: BTreeMap<String, Process>,
    ring: BTreeMap<String, Member>,
    foundings: Vec<String>,
    trace: Vec<String>,
}

/// What an operator read, with the versions that guard its writes.
struct Snapshot {
    world: World,
    cluster_version: u64,
    node_versions: BTreeMap<String, u64>,
}

fn spec(nodes: usize) -> ValidatedCluster {
    ValidatedCluster {
        cluster_name: "o".to_owned(),
        datacenter: "d".to_owned(),
        racks: ZONES
            .iter()
            .map(|zone| Rack {
                name: format!("r{zone}"),
                zone: Some((*zone).to_owned()),
            })
            .collect(),
        nodes,
        image: "i".to_owned(),
        cassandra_yaml: String::new(),
        config_map: "c".to_owned(),
        resources: None,
        volume: DataVolume::default(),
        hosts: HostSpread::Preferred,
        seed_url: Some("http://seeds".to_owned()),
        replace: true,
        replace_after_secs: 5,
        retain_volumes: true,
    }
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut sim = Self {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            seed,
            now: 1_800_000_000,
            next: 0,
            version: 1,
            cluster: ClusterObject {
                namespace: "n".to_owned(),
                name: "o".to_owned(),
                uid: "cluster".to_owned(),
                generation: Some(1),
                terminating: false,
                finalizer: false,
                spec: Ok(spec(3)),
                status: CassandraClusterStatus::default(),
            },
            cluster_version: 1,
            nodes: BTreeMap::new(),
            node_versions: BTreeMap::new(),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            hosts: BTreeMap::new(),
            disks: BTreeMap::new(),
            processes: BTreeMap::new(),
            ring: BTreeMap::new(),
            foundings: Vec::new(),
            trace: Vec::new(),
        };
        for zone in ZONES {
            sim.add_host(zone);
            sim.add_host(zone);
        }
        sim
    }

    fn id(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}-{}", self.next)
    }

    fn add_host(&mut self, zone: &str) {
        let name = self.id("host");
        self.hosts.insert(
            name.clone(),
            (
                Host {
                    hostname: name,
                    ready: true,
                },
                zone.to_owned(),
            ),
        );
    }

    fn note(&mut self, line: impl std::fmt::Display) {
        self.trace
            .push(format!("{} {line}", self.now - 1_800_000_000));
    }

    #[track_caller]
    fn must(&self, holds: bool, what: &str) {
        if !holds {
            let tail = self.trace.len().saturating_sub(60);
            panic!(
                "seed {}: {what}\n{}",
                self.seed,
                self.trace[tail..].join("\n")
            );
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    // ---- what the operator reads

    fn snapshot(&mut self) -> Snapshot {
        let mut reports = BTreeMap::new();
        let names: Vec<_> = self.processes.keys().cloned().collect();
        for pod in names {
            if !self.dice.one_in(20)
                && let Some(report) = self.report(&pod)
            {
                reports.insert(report.node_name.clone(), report);
            }
        }
        let world = World {
            now: self.time(),
            cluster: self.cluster.clone(),
            nodes: self.nodes.clone(),
            claims: self.claims.clone(),
            pods: self.pods.clone(),
            hosts: self
                .hosts
                .iter()
                .map(|(name, (host, _))| (name.clone(), host.clone()))
                .collect(),
            reports,
            lost_node_secs: LOST_NODE_SECS,
            gossip_secs: GOSSIP_SECS + 2,
        };
        Snapshot {
            world,
            cluster_version: self.cluster_version,
            node_versions: self.node_versions.clone(),
        }
    }

    fn report(&self, pod: &str) -> Option<NodeReport> {
        let process = self.processes.get(pod)?;
        let host = self.pods.get(pod)?.host.clone()?;
        self.hosts.get(&host).filter(|(host, _)| host.ready)?;
        let own = self.disks.get(&process.claim_uid)?.host_id.clone();
        let alive: Vec<_> = self
            .processes
            .values()
            .filter(|one| matches!(one.state, NodeState::Normal | NodeState::Joining))
            .filter_map(|one| self.disks.get(&one.claim_uid)?.host_id.clone())
            .collect();
        let peers = self
            .ring
            .iter()
            .filter(|(id, member)| {
                Some(*id) != own.as_ref() && member.since + GOSSIP_SECS <= self.now
            })
            .map(|(id, member)| Peer {
                host_id: id.clone(),
                address: String::new(),
                datacenter: "d".to_owned(),
                rack: member.rack.clone(),
                up: alive.contains(id),
                state: if member.normal {
                    PeerState::Normal
                } else {
                    PeerState::Joining
                },
                tokens: 16,
                schema_version: None,
            })
            .collect();
        let in_ring = matches!(process.state, NodeState::Normal | NodeState::Joining);
        Some(NodeReport {
            node_name: process.node.clone(),
            host_id: own,
            cluster_name: "o".to_owned(),
            state: process.state,
            message: String::new(),
            datacenter: "d".to_owned(),
            rack: String::new(),
            broadcast_address: String::new(),
            tokens: 16,
            release_version: "5.0.5".to_owned(),
            schema_version: None,
            cql_ready: process.state == NodeState::Normal,
            founded: process.founded,
            peers: if in_ring { peers } else { Vec::new() },
        })
    }

    // ---- what the operator writes

    /// Carries a plan out; `budget` writes, then the operator dies.
    fn carry_out(&mut self, seen: &Snapshot, plan: &Plan, mut budget: u64) {
        for step in &plan.steps {
            if budget == 0 {
                return;
            }
            budget -= 1;
            self.write(seen, step);
            self.check();
            if self.dice.one_in(4) {
                self.live(1);
            }
        }
        if budget > 0 {
            self.write_status(seen, plan);
            self.check();
        }
    }

    fn bump(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn write_status(&mut self, seen: &Snapshot, plan: &Plan) {
        let status = status::cluster_status(&seen.world, plan);
        if seen.cluster_version != self.cluster_version || status == self.cluster.status {
            return;
        }
        if let Some(change) = &plan.change {
            self.note(format!("decided {change:?}"));
            if matches!(change, Change::Begin(_)) {
                self.must(
                    self.cluster.status.operation.is_none(),
                    "two operations at a time",
                );
            }
        }
        if let (Some(old), Some(new)) = (&self.cluster.status.cluster_id, &status.cluster_id) {
            self.must(old == new, "O1: the cluster id changed");
        }
        self.cluster.status = status;
        self.cluster_version = self.bump();
    }

    fn write(&mut self, seen: &Snapshot, step: &Step) {
        if !matches!(
            step,
            Step::SetNodeStatus { .. } | Step::AnnotateClaim { .. }
        ) {
            self.note(format!("{step:?}").chars().take(150).collect::<String>());
        }
        match step {
            Step::HoldCluster | Step::ReleaseCluster => {
                if seen.cluster_version == self.cluster_version {
                    self.cluster.finalizer = *step == Step::HoldCluster;
                    self.cluster_version = self.bump();
                }
            }
            Step::CreateNode(draft) => self.create_node(draft),
            Step::DeleteNode { name, uid } => {
                if let Some(node) = self.nodes.get_mut(name).filter(|node| &node.uid == uid) {
                    node.terminating = true;
                    let version = self.bump();
                    self.node_versions.insert(name.clone(), version);
                }
            }
            Step::ReleaseNode { name, uid } => {
                let same = seen.node_versions.get(name) == self.node_versions.get(name);
                if same
                    && self
                        .nodes
                        .get(name)
                        .is_some_and(|node| &node.uid == uid && node.terminating)
                {
                    self.nodes.remove(name);
                }
            }
            Step::SetNodeStatus { name, uid, status } => {
                self.set_node_status(seen, name, uid, status);
            }
            Step::CreateClaim { node } => self.create_claim(seen, node),
            Step::AnnotateClaim {
                claim,
                uid,
                annotations,
            } => self.annotate(claim, uid, annotations),
            Step::DeleteClaim { claim, uid, .. } => {
                if self
                    .claims
                    .get(claim)
                    .is_some_and(|claim| &claim.uid == uid)
                {
                    let host_id = self.disks.get(uid).and_then(|disk| disk.host_id.clone());
                    let in_ring = host_id.is_some_and(|id| self.ring.contains_key(&id));
                    self.must(
                        self.cluster.terminating || !in_ring,
                        "O3: a claim is deleted whose host id is in the ring",
                    );
                    self.remove_claim(claim);
                }
            }
            Step::CreatePod { node } => self.create_pod(seen, node),
            Step::DeletePod {
                pod, uid, force, ..
            } => self.delete_pod(pod, uid, *force),
        }
    }

    fn annotate(&mut self, claim: &str, uid: &str, annotations: &BTreeMap<String, String>) {
        if let Some(claim) = self.claims.get_mut(claim).filter(|claim| claim.uid == uid) {
            let get = |key: &str, old: &Option<String>| {
                annotations.get(key).cloned().or_else(|| old.clone())
            };
            claim.host_id = get(names::HOST_ID, &claim.host_id);
            claim.cluster_id = get(names::CLUSTER_ID, &claim.cluster_id);
            claim.node_uid = get(names::NODE_UID, &claim.node_uid);
            claim.datacenter = get(names::DATACENTER_NAME, &claim.datacenter);
            claim.rack = get(names::RACK_NAME, &claim.rack);
        }
    }

    fn create_node(&mut self, draft: &NodeDraft) {
        if self.nodes.contains_key(&draft.name) {
            return;
        }
        let uid = self.id("node");
        self.nodes.insert(
            draft.name.clone(),
            NodeObject {
                name: draft.name.clone(),
                uid,
                terminating: false,
                finalizer: true,
                spec: draft.spec.clone(),
                status: CassandraNodeStatus::default(),
            },
        );
        let version = self.bump();
        self.node_versions.insert(draft.name.clone(), version);
    }

    fn set_node_status(
        &mut self,
        seen: &Snapshot,
        name: &str,
        uid: &str,
        status: &CassandraNodeStatus,
    ) {
        let same = seen.node_versions.get(name) == self.node_versions.get(name);
        let Some(old) = self
            .nodes
            .get(name)
            .filter(|node| same && node.uid == uid)
            .map(|node| node.status.clone())
        else {
            return;
        };
        self.must(
            old.claim_uid.is_none() || old.claim_uid == status.claim_uid,
            "O6: a node got a second claim",
        );
        self.must(
            old.host_id.is_none() || old.host_id == status.host_id,
            "a node's host id changed",
        );
        self.must(!old.joined || status.joined, "a member was forgotten");
        if let Some(node) = self.nodes.get_mut(name) {
            node.status = status.clone();
        }
        let version = self.bump();
        self.node_versions.insert(name.to_owned(), version);
    }

    fn create_claim(&mut self, seen: &Snapshot, node: &str) {
        let name = names::claim_name(node);
        let Some(node) = seen.world.nodes.get(node) else {
            return;
        };
        if self.claims.contains_key(&name) {
            return;
        }
        let uid = self.id("claim");
        self.disks.insert(uid.clone(), Disk::default());
        let claim = Claim {
            name: name.clone(),
            uid,
            node: Some(node.name.clone()),
            node_uid: Some(node.uid.clone()),
            host_id: None,
            cluster_id: None,
            datacenter: Some(node.spec.datacenter.clone()),
            rack: Some(node.spec.rack.clone()),
            terminating: false,
            lost: None,
        };
        self.claims.insert(name, claim);
    }

    /// A claim in use goes when its Pod has gone.
    fn remove_claim(&mut self, name: &str) {
        let used = self.claims.get(name).is_some_and(|claim| {
            claim
                .node
                .as_ref()
                .is_some_and(|node| self.pods.contains_key(node))
        });
        if used {
            if let Some(claim) = self.claims.get_mut(name) {
                claim.terminating = true;
            }
        } else if let Some(claim) = self.claims.remove(name) {
            self.disks.remove(&claim.uid);
        }
    }

    fn create_pod(&mut self, seen: &Snapshot, node: &str) {
        let Some(node) = seen.world.nodes.get(node) else {
            return;
        };
        if self.pods.contains_key(&node.name) {
            return;
        }
        let uid = self.id("pod");
        let pod = Pod {
            name: node.name.clone(),
            uid,
            node_uid: Some(node.uid.clone()),
            address: None,
            host: None,
            ready: false,
            ended: false,
            gone_by: None,
            trouble: None,
        };
        self.pods.insert(node.name.clone(), pod);
    }

    fn delete_pod(&mut self, name: &str, uid: &str, force: bool) {
        let by = self.time() + SignedDuration::from_secs(3);
        let Some(pod) = self.pods.get_mut(name).filter(|pod| pod.uid == uid) else {
            return;
        };
        pod.gone_by = pod.gone_by.or(Some(by));
        if force || pod.host.is_none() {
            self.drop_pod(name);
        }
    }

    fn drop_pod(&mut self, name: &str) {
        self.pods.remove(name);
        self.processes.remove(name);
        let claim = names::claim_name(name);
        if self
            .claims
            .get(&claim)
            .is_some_and(|claim| claim.terminating)
        {
            self.remove_claim(&claim);
        }
    }

    // ---- runs

    fn operate(&mut self, kill: bool) {
        let seen = self.snapshot();
        let plan = plan::plan(&seen.world);
        let budget = if kill { self.dice.roll(4) } else { u64::MAX };
        self.carry_out(&seen, &plan, budget);
    }

    fn settled(&self) -> bool {
        let asked = self.cluster.spec.as_ref().map_or(0, |spec| spec.nodes);
        self.cluster.status.operation.is_none()
            && self.nodes.len() == asked
            && self.pods.len() == asked
            && self
                .pods
                .values()
                .all(|pod| pod.ready && pod.gone_by.is_none())
            && self
                .nodes
                .values()
                .all(|node| node.status.ready && node.status.joined)
            && self
                .cluster
                .status
                .conditions
                .iter()
                .any(|one| one.type_ == "Ready" && one.reason == "AllNodesUp")
    }

    fn run(&mut self) {
        let mut old: Option<(Snapshot, Plan)> = None;
        for _ in 0..150 {
            if self.dice.one_in(4) {
                self.fault();
            }
            if old.is_none() && self.dice.one_in(10) {
                let seen = self.snapshot();
                let plan = plan::plan(&seen.world);
                old = Some((seen, plan));
            } else if self.dice.one_in(10)
                && let Some((seen, plan)) = old.take()
            {
                self.note("an old leader goes on".to_owned());
                self.carry_out(&seen, &plan, u64::MAX);
            }
            let kill = self.dice.one_in(3);
            self.operate(kill);
            let pause = i64::try_from(self.dice.roll(3)).unwrap();
            self.live(pause);
        }
        self.mend();
        self.note("no more faults".to_owned());
        for _ in 0..600 {
            if self.settled() {
                break;
            }
            self.operate(false);
            self.live(1);
        }
        let state = format!(
            "not as asked in the end: {:?}\n{:#?}\n{:?}",
            self.cluster.status,
            self.nodes
                .values()
                .map(|node| (&node.name, &node.status, node.terminating))
                .collect::<Vec<_>>(),
            self.ring
        );
        let known = self.cluster.status.cluster_id.is_some();
        self.must(self.settled(), &state);
        self.must(known, "a settled cluster has an id");
        self.must(
            self.ring.len() == self.nodes.len(),
            "the ring has other members than the cluster",
        );
        // O5: nothing to do, nothing done.
        for _ in 0..5 {
            let seen = self.snapshot();
            let plan = plan::plan(&seen.world);
            let weighty = plan.is_weighty();
            self.must(
                !weighty,
                &format!("O5: a settled cluster is touched: {plan:?}"),
            );
            self.live(1);
        }
    }
}

fn seeds() -> u64 {
    std::env::var("HELENUS_SIM_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(300)
}

#[test]
fn clusters_become_as_asked_and_every_invariant_holds() {
    let first = std::env::var("HELENUS_SIM_FIRST")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    for seed in first..first + seeds() {
        Sim::new(seed).run();
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = || {
        let mut sim = Sim::new(7);
        sim.run();
        sim.trace
    };
    assert_eq!(trace(), trace());
}
