//! Many gossipers in one thread under one seed: messages are lost and delayed, the network splits,
//! nodes stop, restart and come back at other addresses. A failure names its seed.
#![expect(clippy::unwrap_used, reason = "tests say so by failing")]

use helenus_internode::gossip::{ApplicationState, GossipMessage};
use helenus_ring::{
    GossipAction, GossipSettings, Gossiper, Life, LifeAction, LifeSettings, Moment, RingSnapshot,
    SeedAnswer,
};
use helenus_schema::Replication;
use helenus_seams::{Entropy, SeededEntropy};
use helenus_types::{Endpoint, HostId, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;
use uuid::Uuid;

const TICK_MS: u64 = 1000;
const STEP_MS: u64 = 100;
const RING_DELAY: Duration = Duration::from_secs(10);
const START_MS: i64 = 1_700_000_000_000;

fn endpoint(n: u8) -> Endpoint {
    Endpoint::new([10, 0, 0, n].into(), 7000)
}

/// What a node keeps over restarts.
#[derive(Clone, Default)]
struct Disk {
    tokens: Vec<Token>,
    member: bool,
    generation: i32,
    peers: Vec<Endpoint>,
}

struct Node {
    host: u8,
    gossiper: Gossiper,
    life: Life,
    offset_ms: u64,
}

struct World {
    seed: u64,
    entropy: SeededEntropy,
    now_ms: u64,
    nodes: BTreeMap<Endpoint, Node>,
    disks: BTreeMap<u8, Disk>,
    /// (due, order, from, to, message)
    wire: BTreeMap<(u64, u64), (Endpoint, Endpoint, GossipMessage)>,
    sent: u64,
    loss_percent: usize,
    /// Nodes of one side of a split; the others are the other side.
    split: BTreeSet<Endpoint>,
    founders: Vec<u8>,
    trace: String,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            entropy: SeededEntropy::new(seed),
            now_ms: 0,
            nodes: BTreeMap::new(),
            disks: BTreeMap::new(),
            wire: BTreeMap::new(),
            sent: 0,
            loss_percent: 0,
            split: BTreeSet::new(),
            founders: Vec::new(),
            trace: String::new(),
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            monotonic: Duration::from_millis(self.now_ms),
            wall_ms: START_MS + i64::try_from(self.now_ms).unwrap(),
        }
    }

    /// Starts the node with this host id and its disk at an address.
    fn start(&mut self, host: u8, at: u8, answer: Option<SeedAnswer>) {
        let me = endpoint(at);
        let disk = self.disks.entry(host).or_default().clone();
        let host_id = HostId(Uuid::from_u128(u128::from(host)));
        let mut gossip = GossipSettings::new("simulation", me, Vec::new());
        gossip.ring_delay = RING_DELAY;
        let mut gossiper = Gossiper::new(gossip, disk.generation + 1);
        gossiper.set_local(ApplicationState::HostId, host_id.to_string());
        gossiper.set_local(ApplicationState::Dc, "dc");
        gossiper.set_local(ApplicationState::Rack, format!("r{}", host % 3));
        let mut life = Life::new(LifeSettings {
            me,
            host_id,
            dc: "dc".into(),
            rack: format!("r{}", host % 3),
            tokens: 4,
            factor: 3,
            initial_tokens: Vec::new(),
            stream: true,
            replaces: None,
            ring_delay: RING_DELAY,
            saved_tokens: disk.tokens,
            was_member: disk.member,
            saved_peers: disk.peers,
            saved_generation: disk.generation,
        });
        life.start(&mut gossiper, self.moment());
        if let Some(answer) = answer {
            life.seeds_answered(answer, &mut gossiper);
        }
        let offset_ms = self.entropy.next_u64() % (TICK_MS / STEP_MS) * STEP_MS;
        self.nodes.insert(
            me,
            Node {
                host,
                gossiper,
                life,
                offset_ms,
            },
        );
    }

    fn stop(&mut self, at: u8, in_order: bool) {
        let mut node = self.nodes.remove(&endpoint(at)).unwrap();
        if in_order {
            let actions = node.gossiper.shut_down();
            self.send_all(endpoint(at), actions);
        }
    }

    fn send_all(&mut self, from: Endpoint, actions: Vec<GossipAction>) {
        for action in actions {
            if !matches!(
                action,
                GossipAction::Send { .. } | GossipAction::Changed { .. }
            ) {
                writeln!(self.trace, "{} {from} {action:?}", self.now_ms).unwrap();
            }
            let GossipAction::Send { to, message } = action else {
                continue;
            };
            let parted = self.split.contains(&from) != self.split.contains(&to);
            if !parted && self.entropy.below(100) >= self.loss_percent {
                self.sent += 1;
                let delay = 1 + self.entropy.below(200) as u64;
                self.wire
                    .insert((self.now_ms + delay, self.sent), (from, to, message));
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now_ms + seconds * 1000;
        while self.now_ms < end {
            self.now_ms += STEP_MS;
            let now = self.moment();
            let later = self.wire.split_off(&(self.now_ms + 1, 0));
            for (from, to, message) in std::mem::replace(&mut self.wire, later).into_values() {
                if let Some(node) = self.nodes.get_mut(&to) {
                    let actions = node.gossiper.receive(from, message, now, &self.entropy);
                    self.send_all(to, actions);
                }
            }
            let due: Vec<Endpoint> = self
                .nodes
                .iter()
                .filter(|(_, node)| (self.now_ms + node.offset_ms).is_multiple_of(TICK_MS))
                .map(|(endpoint, _)| *endpoint)
                .collect();
            for endpoint in due {
                self.tick(endpoint, now);
            }
            if self.now_ms.is_multiple_of(1000) {
                self.check_always();
            }
        }
    }

    fn tick(&mut self, at: Endpoint, now: Moment) {
        let node = self.nodes.get_mut(&at).unwrap();
        let actions = node.gossiper.tick(now, &self.entropy);
        let keyspaces = [("ks".to_owned(), Replication::simple(2))];
        let mut done = node
            .life
            .tick(&mut node.gossiper, &keyspaces, now, &self.entropy);
        if done
            .iter()
            .any(|action| matches!(action, LifeAction::FetchSchema(_)))
        {
            node.life.schema_agreed();
        }
        if done
            .iter()
            .any(|action| matches!(action, LifeAction::Stream(_)))
        {
            done.extend(node.life.streams_done(&mut node.gossiper));
        }
        for action in actions.iter().filter(|action| {
            matches!(
                action,
                GossipAction::HostIdTaken { .. } | GossipAction::GenerationRaised(_)
            )
        }) {
            done.extend(node.life.gossip_reported(action));
        }
        let disk = self.disks.get_mut(&node.host).unwrap();
        let fresh = !disk.member
            && !done
                .iter()
                .any(|action| matches!(action, LifeAction::FetchSchema(_)));
        for action in &done {
            match action {
                LifeAction::StoreTokens(tokens) => disk.tokens.clone_from(tokens),
                LifeAction::StoreGeneration(generation) => disk.generation = *generation,
                LifeAction::StoreMember => disk.member = true,
                LifeAction::Stop(reason) => {
                    assert_eq!(reason, "", "seed {}: {at} stopped", self.seed);
                }
                _ => {}
            }
        }
        if fresh
            && done
                .iter()
                .any(|action| matches!(action, LifeAction::StoreGeneration(_)))
        {
            self.founders.push(node.host);
        }
        disk.peers = node.gossiper.live().collect();
        for action in &done {
            writeln!(self.trace, "{} {at} {action:?}", self.now_ms).unwrap();
        }
        self.send_all(at, actions);
    }

    /// Holds at every moment: one founder at most, and on no node two endpoints of one host id.
    fn check_always(&self) {
        assert!(
            self.founders.len() <= 1,
            "seed {}: founders {:?}",
            self.seed,
            self.founders
        );
        for node in self.nodes.values() {
            let ids: Vec<HostId> = node
                .gossiper
                .members()
                .iter()
                .filter_map(|member| member.host_id)
                .collect();
            assert_eq!(
                ids.iter().collect::<BTreeSet<_>>().len(),
                ids.len(),
                "seed {}: {} has a host id twice",
                self.seed,
                node.gossiper.me()
            );
        }
    }

    /// Everybody serves, sees exactly the running nodes, all of them up, and one ring.
    fn check_converged(&self, what: &str) {
        let running: Vec<Endpoint> = self.nodes.keys().copied().collect();
        let mut rings: BTreeSet<Vec<(Token, Endpoint)>> = BTreeSet::new();
        for (endpoint, node) in &self.nodes {
            assert!(
                node.life.is_serving(),
                "seed {}, {what}: {endpoint} does not serve",
                self.seed
            );
            let members = node.gossiper.members();
            let seen: Vec<Endpoint> = members
                .iter()
                .filter(|member| member.alive)
                .map(|member| member.endpoint)
                .collect();
            assert_eq!(
                seen, running,
                "seed {}, {what}: as {endpoint} sees it",
                self.seed
            );
            let ring = RingSnapshot::of_members(*endpoint, &members);
            rings.insert(ring.tokens().collect());
        }
        assert_eq!(rings.len(), 1, "seed {}, {what}: rings differ", self.seed);
        let owned = rings.first().unwrap().len();
        assert_eq!(
            owned,
            self.disks
                .values()
                .map(|disk| disk.tokens.len())
                .sum::<usize>(),
            "seed {}, {what}: tokens",
            self.seed
        );
    }
}

fn service(is_seed: bool, seeds: &[u8]) -> SeedAnswer {
    SeedAnswer::Service {
        is_seed,
        seeds: seeds.iter().copied().map(endpoint).collect(),
    }
}

/// A ring of `count` nodes that came one after the other.
fn grown(seed: u64, count: u8) -> World {
    let mut world = World::new(seed);
    world.loss_percent = 10;
    world.start(1, 1, Some(service(true, &[])));
    world.run(3);
    for n in 2..=count {
        world.start(n, n, Some(service(false, &[1])));
    }
    // one joins at a time, each after the ring delay
    world.run(u64::from(count) * 40);
    world
}

#[test]
fn a_ring_grows_splits_and_heals() {
    for seed in 0..6 {
        let mut world = grown(seed, 8);
        world.check_converged("grown");
        world.loss_percent = 25;
        world.split = (1..=3).map(endpoint).collect();
        world.run(60);
        let seen = world.nodes[&endpoint(1)].gossiper.live().count();
        assert_eq!(seen, 2, "seed {seed}: the split is noticed");
        world.split.clear();
        world.run(60);
        world.check_converged("healed");
    }
}

#[test]
fn twenty_nodes_see_each_other() {
    let mut world = World::new(77);
    world.start(1, 1, Some(service(true, &[])));
    world.run(3);
    for n in 2..=20 {
        world.start(n, n, Some(service(false, &[1, 2])));
        // as saved members, so that all come at once
        world.run(1);
    }
    world.run(20 * 40);
    world.check_converged("twenty");
    // all restart within seconds, nobody answers at first
    for n in 1..=20 {
        world.stop(n, n % 2 == 0);
    }
    world.run(30);
    for n in 1..=20 {
        world.start(n, n, None);
        world.run(1);
    }
    world.run(90);
    world.check_converged("all restarted without a seed provider");
}

#[test]
fn nodes_come_back_elsewhere_and_swap_addresses() {
    for seed in 10..14 {
        let mut world = grown(seed, 5);
        world.check_converged("grown");
        world.stop(2, false);
        world.run(1);
        world.start(2, 12, None);
        world.run(60);
        world.check_converged("another address");
        // 3 and 4 swap addresses, one after the other, while both old places are still known
        world.stop(3, false);
        world.stop(4, false);
        world.run(2);
        world.start(3, 4, None);
        world.run(5);
        world.start(4, 3, None);
        world.run(90);
        world.check_converged("swapped");
        let host = |at: u8| {
            world.nodes[&endpoint(1)]
                .gossiper
                .members()
                .into_iter()
                .find(|m| m.endpoint == endpoint(at))
                .and_then(|m| m.host_id)
        };
        assert_eq!(
            (host(3), host(4)),
            (
                Some(HostId(Uuid::from_u128(4))),
                Some(HostId(Uuid::from_u128(3)))
            ),
            "seed {seed}"
        );
    }
}

#[test]
fn a_static_list_has_one_founder() {
    for seed in 20..26 {
        let mut world = World::new(seed);
        world.loss_percent = 20;
        let seeds = || Some(SeedAnswer::Static((1..=3).map(endpoint).collect()));
        for n in [3, 1, 2] {
            world.start(n, n, seeds());
        }
        world.run(150);
        assert_eq!(world.founders, [1], "seed {seed}");
        world.check_converged("three seeds");
    }
}

#[test]
fn an_orderly_stop_is_seen_at_once() {
    let mut world = grown(30, 4);
    world.loss_percent = 0;
    world.stop(4, true);
    world.run(1);
    for node in world.nodes.values() {
        assert!(!node.gossiper.is_alive(&endpoint(4)));
    }
    world.start(4, 4, None);
    world.run(20);
    world.check_converged("started again");
}

#[test]
fn one_seed_gives_one_trace() {
    let trace = |seed| grown(seed, 5).trace;
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}
