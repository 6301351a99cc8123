//! Plans of fetches, and lives of nodes in a ring without delays.

use super::*;
use helenus_internode::gossip::GossipMessage;
use helenus_seams::SeededEntropy;
use std::collections::BTreeSet;
use uuid::Uuid;

fn endpoint(n: u8) -> Endpoint {
    Endpoint::new([10, 0, 0, n].into(), 7000)
}

fn ring_node(n: u8, rack: &str, tokens: &[i64], role: Role) -> RingNode {
    RingNode {
        endpoint: endpoint(n),
        host_id: None,
        dc: "dc".into(),
        rack: rack.into(),
        tokens: tokens.iter().copied().map(Token).collect(),
        role,
        generation: 1,
    }
}

fn keyspaces(factor: usize) -> Vec<(String, Replication)> {
    vec![
        ("ks".to_owned(), Replication::simple(factor)),
        ("system".to_owned(), Replication::local()),
    ]
}

fn check(
    before: &[RingNode],
    joining: &RingNode,
    factor: usize,
    down: &[u8],
    expected: &[(u8, &[(i64, i64)])],
) {
    let ring = RingSnapshot::new(joining.endpoint, before.to_vec());
    let alive = |e: &Endpoint| !down.iter().any(|n| endpoint(*n) == *e);
    let plan = fetches(&ring, joining, &keyspaces(factor), &alive).unwrap();
    let expected: Vec<Fetch> = expected
        .iter()
        .map(|(n, ranges)| Fetch {
            keyspace: "ks".into(),
            from: endpoint(*n),
            ranges: ranges
                .iter()
                .map(|(a, b)| TokenRange {
                    after: Token(*a),
                    up_to: Token(*b),
                })
                .collect(),
        })
        .collect();
    assert_eq!(plan.fetches, expected);
    assert!(plan.lost.is_empty());
}

#[test]
fn ranges_come_from_those_who_lose_them() {
    let three = [
        ring_node(1, "a", &[0], Role::Normal),
        ring_node(2, "b", &[100], Role::Normal),
        ring_node(3, "c", &[200], Role::Normal),
    ];
    let new = ring_node(4, "d", &[50], Role::Joining);
    check(&three, &new, 1, &[], &[(2, &[(0, 50)])]);
    // with two copies: (0,50] was on 2 and 3, will be on 4 and 2; (200,0] was on 1 and 2, will be on 1 and 4
    check(&three, &new, 2, &[], &[(2, &[(200, 0)]), (3, &[(0, 50)])]);
    // one node, two copies: nobody loses anything
    check(&three[..1], &new, 2, &[], &[(1, &[(50, 50)])]);
    let ring = RingSnapshot::new(endpoint(4), three);
    let error = fetches(&ring, &new, &keyspaces(1), &|e| *e != endpoint(2)).unwrap_err();
    assert!(matches!(error, PlanError::SourceDown { .. }), "{error}");
}

#[test]
fn a_replacement_fetches_from_the_living() {
    let three = [
        ring_node(1, "a", &[0], Role::Normal),
        ring_node(2, "b", &[100], Role::Normal),
        ring_node(3, "c", &[200], Role::Normal),
    ];
    let new = ring_node(4, "c", &[200], Role::Replacing(endpoint(3)));
    check(
        &three,
        &new,
        2,
        &[3],
        &[(1, &[(100, 200)]), (2, &[(0, 100)])],
    );
    let ring = RingSnapshot::new(endpoint(4), three);
    let error = fetches(&ring, &new, &keyspaces(2), &|e| *e == endpoint(1)).unwrap_err();
    assert!(matches!(error, PlanError::NoSource { .. }), "{error}");
    // the only copy is gone: said, and no reason to wait for ever
    let plan = fetches(&ring, &new, &keyspaces(1), &|e| *e != endpoint(3)).unwrap();
    assert_eq!(
        plan.lost["ks"],
        [TokenRange {
            after: Token(100),
            up_to: Token(200)
        }]
    );
    assert!(plan.fetches.is_empty());
}

/// Nodes whose messages arrive at once.
struct World {
    nodes: Vec<(Gossiper, Life, Vec<LifeAction>)>,
    down: BTreeSet<Endpoint>,
    now: u64,
    entropy: SeededEntropy,
}

impl World {
    fn moment(&self) -> Moment {
        Moment {
            monotonic: Duration::from_secs(self.now),
            wall_ms: 1_700_000_000_000 + i64::try_from(self.now * 1000).unwrap(),
        }
    }

    fn start(&mut self, n: u8, change: impl FnOnce(&mut LifeSettings)) -> usize {
        let host_id = HostId(Uuid::from_u128(u128::from(n)));
        let mut settings = LifeSettings {
            me: endpoint(n),
            host_id,
            dc: "dc".into(),
            rack: "r".into(),
            tokens: 4,
            factor: 1,
            initial_tokens: vec![],
            stream: true,
            replaces: None,
            ring_delay: Duration::from_secs(5),
            saved_tokens: vec![],
            was_member: false,
            saved_peers: vec![],
            saved_generation: 0,
        };
        change(&mut settings);
        let mut gossip = crate::gossip::GossipSettings::new("test", endpoint(n), vec![]);
        gossip.ring_delay = settings.ring_delay;
        let mut gossiper = Gossiper::new(gossip, 1);
        gossiper.set_local(ApplicationState::HostId, settings.host_id.to_string());
        gossiper.set_local(ApplicationState::Dc, "dc");
        gossiper.set_local(ApplicationState::Rack, settings.rack.clone());
        let mut life = Life::new(settings);
        let actions = life.start(&mut gossiper, self.moment());
        life.seeds_answered(SeedAnswer::Static(vec![endpoint(1)]), &mut gossiper);
        self.nodes.push((gossiper, life, actions));
        self.nodes.len() - 1
    }

    fn deliver(&mut self, from: Endpoint, actions: Vec<GossipAction>) {
        let mut queue: Vec<(Endpoint, GossipAction)> =
            actions.into_iter().map(|action| (from, action)).collect();
        let now = self.moment();
        while let Some((from, action)) = queue.pop() {
            let GossipAction::Send { to, message } = action else {
                continue;
            };
            let message: GossipMessage = message;
            if self.down.contains(&to) || self.down.contains(&from) {
                continue;
            }
            if let Some((gossiper, ..)) = self
                .nodes
                .iter_mut()
                .find(|(gossiper, ..)| gossiper.me() == to)
            {
                queue.extend(
                    gossiper
                        .receive(from, message, now, &self.entropy)
                        .into_iter()
                        .map(|action| (to, action)),
                );
            }
        }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            let now = self.moment();
            for index in 0..self.nodes.len() {
                let (gossiper, life, done) = &mut self.nodes[index];
                let me = gossiper.me();
                if self.down.contains(&me) {
                    continue;
                }
                let actions = gossiper.tick(now, &self.entropy);
                let mut own = life.tick(gossiper, &keyspaces(2), now, &self.entropy);
                if own
                    .iter()
                    .any(|action| matches!(action, LifeAction::FetchSchema(_)))
                {
                    life.schema_agreed();
                }
                if own
                    .iter()
                    .any(|action| matches!(action, LifeAction::Stream(_)))
                {
                    own.extend(life.streams_done(gossiper));
                }
                done.extend(own);
                self.deliver(me, actions);
            }
        }
    }

    fn did(&self, index: usize, what: impl Fn(&LifeAction) -> bool) -> bool {
        self.nodes[index].2.iter().any(what)
    }
}

fn world() -> World {
    World {
        nodes: Vec::new(),
        down: BTreeSet::new(),
        now: 1,
        entropy: SeededEntropy::new(3),
    }
}

#[test]
fn found_join_replace_rejoin() {
    let mut world = world();
    let first = world.start(1, |_| {});
    world.run(2);
    assert!(world.nodes[first].1.is_serving());
    assert!(!world.did(first, |action| matches!(action, LifeAction::Stream(_))));

    // two at once: both come in, one after the other
    let second = world.start(2, |_| {});
    let third = world.start(3, |_| {});
    world.run(40);
    for index in [second, third] {
        assert!(
            world.nodes[index].1.is_serving(),
            "{:?}",
            world.nodes[index].2
        );
        assert!(world.did(index, |action| matches!(action, LifeAction::Stream(_))));
    }
    let tokens: BTreeSet<Token> = world
        .nodes
        .iter()
        .flat_map(|(_, life, _)| life.tokens().to_vec())
        .collect();
    assert_eq!(tokens.len(), 12);

    // a dead node is replaced by one with its tokens, and forgotten
    world.down.insert(endpoint(3));
    world.run(40);
    assert!(!world.nodes[first].0.is_alive(&endpoint(3)));
    let dead_tokens = world.nodes[third].1.tokens().to_vec();
    let fourth = world.start(4, |settings| {
        settings.replaces = Some(Replaced::At(endpoint(3)));
    });
    world.run(20);
    assert!(
        world.nodes[fourth].1.is_serving(),
        "{:?}",
        world.nodes[fourth].2
    );
    assert_eq!(world.nodes[fourth].1.tokens(), dead_tokens);
    let owners: Vec<Endpoint> = world.nodes[first]
        .0
        .members()
        .iter()
        .filter(|m| m.is_owner())
        .map(|m| m.endpoint)
        .collect();
    assert_eq!(owners, [endpoint(1), endpoint(2), endpoint(4)]);

    // a member comes back at another address
    world.down.insert(endpoint(2));
    let saved = world.nodes[second].1.tokens().to_vec();
    let returned = world.start(7, |settings| {
        settings.host_id = HostId(Uuid::from_u128(2));
        settings.was_member = true;
        settings.saved_tokens.clone_from(&saved);
        settings.saved_peers = vec![endpoint(4)];
    });
    world.run(10);
    assert!(world.nodes[returned].1.is_serving());
    let members: Vec<Endpoint> = world.nodes[first]
        .0
        .members()
        .iter()
        .map(|m| m.endpoint)
        .collect();
    assert_eq!(members, [endpoint(1), endpoint(4), endpoint(7)]);
}

#[test]
fn a_live_node_cannot_be_replaced() {
    let mut world = world();
    world.start(1, |_| {});
    world.run(2);
    let second = world.start(2, |settings| {
        settings.replaces = Some(Replaced::Host(HostId(Uuid::from_u128(1))));
    });
    world.run(10);
    assert!(
        world.did(
            second,
            |action| matches!(action, LifeAction::Stop(reason) if reason.contains("is up"))
        ),
        "{:?}",
        world.nodes[second].2
    );
}

#[test]
fn generations_only_grow() {
    let now = Moment {
        monotonic: Duration::ZERO,
        wall_ms: 1_700_000_000_000,
    };
    let id = HostId(Uuid::from_u128(1));
    assert_eq!(
        next_generation(now, 0, endpoint(1), id, &EndpointStates::new()),
        1_700_000_000
    );
    assert_eq!(
        next_generation(now, 1_800_000_000, endpoint(1), id, &EndpointStates::new()),
        1_800_000_001
    );
    let mut states = EndpointStates::new();
    states.entry(endpoint(1)).or_default().heartbeat.generation = 1_900_000_000;
    assert_eq!(
        next_generation(now, 0, endpoint(1), id, &states),
        1_900_000_001
    );
}
