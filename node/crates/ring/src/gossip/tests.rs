//! The rules of gossip, one by one.

use super::*;
use helenus_seams::SeededEntropy;
use proptest::prelude::*;
use uuid::Uuid;

const WALL_MS: i64 = 1_700_000_000_000;

fn endpoint(n: u8) -> Endpoint {
    Endpoint::new([10, 0, 0, n].into(), 7000)
}

fn at(seconds: u64) -> Moment {
    Moment {
        monotonic: Duration::from_secs(seconds),
        wall_ms: WALL_MS + i64::try_from(seconds * 1000).unwrap(),
    }
}

fn gossiper() -> Gossiper {
    let mut gossiper = Gossiper::new(
        GossipSettings::new("ring", endpoint(1), vec![endpoint(2)]),
        1_700_000_000,
    );
    gossiper.set_local(ApplicationState::HostId, Uuid::from_u128(1).to_string());
    gossiper.enable();
    gossiper
}

fn state(generation: i32, version: i32, host: u128, status: &str) -> EndpointState {
    let mut state = EndpointState {
        heartbeat: HeartBeatState {
            generation,
            version,
        },
        states: BTreeMap::new(),
    };
    state.states.insert(
        ApplicationState::HostId,
        VersionedValue::new(Uuid::from_u128(host).to_string(), 1),
    );
    state.states.insert(
        ApplicationState::Tokens,
        VersionedValue::new(
            helenus_internode::gossip::encode_token_text(&[Token(i64::try_from(host).unwrap())]),
            2,
        ),
    );
    state.states.insert(
        ApplicationState::StatusWithPort,
        VersionedValue::new(status, 3),
    );
    state
}

fn tell(gossiper: &mut Gossiper, about: u8, state: EndpointState, now: u64) -> Vec<GossipAction> {
    let states = BTreeMap::from([(endpoint(about), state)]);
    gossiper.receive(
        endpoint(9),
        GossipMessage::Ack2 { states },
        at(now),
        &SeededEntropy::new(1),
    )
}

fn echo(to: u8) -> GossipAction {
    GossipAction::Send {
        to: endpoint(to),
        message: GossipMessage::EchoRequest,
    }
}

fn answer_echo(gossiper: &mut Gossiper, from: u8, now: u64) -> Vec<GossipAction> {
    gossiper.receive(
        endpoint(from),
        GossipMessage::EchoResponse,
        at(now),
        &SeededEntropy::new(1),
    )
}

#[test]
fn a_node_is_up_only_after_its_echo() {
    let mut gossiper = gossiper();
    assert_eq!(
        tell(&mut gossiper, 2, state(100, 5, 2, "NORMAL,2"), 1),
        [GossipAction::Joined(endpoint(2)), echo(2)]
    );
    assert!(!gossiper.is_alive(&endpoint(2)));
    // an echo that nobody asked for proves nothing
    assert_eq!(answer_echo(&mut gossiper, 3, 1), []);
    assert_eq!(
        answer_echo(&mut gossiper, 2, 1),
        [GossipAction::Up(endpoint(2))]
    );
    // a new start is a new node until it answers
    let actions = tell(&mut gossiper, 2, state(101, 1, 2, "NORMAL,2"), 2);
    assert_eq!(
        actions,
        [
            GossipAction::Down(endpoint(2)),
            GossipAction::Joined(endpoint(2)),
            echo(2)
        ]
    );
    // older news of any kind is ignored
    assert_eq!(
        tell(&mut gossiper, 2, state(100, 999, 2, "LEFT,2,5"), 2),
        []
    );
}

#[test]
fn silence_convicts_and_an_absurd_generation_is_refused() {
    let mut gossiper = gossiper();
    tell(&mut gossiper, 2, state(100, 5, 2, "NORMAL,2"), 1);
    answer_echo(&mut gossiper, 2, 1);
    let mut down_at = None;
    for second in 2..90 {
        if second < 30 {
            let mut news = state(100, 5 + i32::try_from(second).unwrap(), 2, "NORMAL,2");
            news.states.clear();
            tell(&mut gossiper, 2, news, second);
        }
        if gossiper
            .tick(at(second), &SeededEntropy::new(second))
            .contains(&GossipAction::Down(endpoint(2)))
        {
            down_at = Some(second);
        }
    }
    assert!(matches!(down_at, Some(47..=55)), "{down_at:?}");
    assert_eq!(
        tell(
            &mut gossiper,
            3,
            state(1_700_000_000 + 86_400 * 366, 1, 3, "NORMAL,3"),
            90
        ),
        []
    );
    assert!(gossiper.state(&endpoint(3)).is_none());
}

#[test]
fn the_younger_start_keeps_a_host_id() {
    let mut gossiper = gossiper();
    tell(&mut gossiper, 2, state(100, 5, 7, "NORMAL,7"), 1);
    let actions = tell(&mut gossiper, 3, state(200, 5, 7, "NORMAL,7"), 2);
    assert!(
        actions.contains(&GossipAction::Removed(endpoint(2))),
        "{actions:?}"
    );
    // its old self is not learnt again, a newer start at the old address is
    assert_eq!(tell(&mut gossiper, 2, state(100, 9, 7, "NORMAL,7"), 3), []);
    assert!(
        tell(&mut gossiper, 2, state(150, 1, 8, "NORMAL,8"), 4)
            .contains(&GossipAction::Joined(endpoint(2)))
    );
    // somebody younger with our own id
    assert!(
        tell(&mut gossiper, 5, state(1_700_000_001, 1, 1, "NORMAL,1"), 5)
            .contains(&GossipAction::HostIdTaken { by: endpoint(5) })
    );
}

#[test]
fn goodbyes_and_departures() {
    let mut gossiper = gossiper();
    for node in [2, 3, 4] {
        tell(
            &mut gossiper,
            node,
            state(100, 5, u128::from(node), &format!("NORMAL,{node}")),
            1,
        );
        answer_echo(&mut gossiper, node, 1);
    }
    // version 12 says no more than that it goes
    let actions = gossiper.receive(
        endpoint(2),
        GossipMessage::Shutdown { state: None },
        at(2),
        &SeededEntropy::new(1),
    );
    assert_eq!(actions[0], GossipAction::Down(endpoint(2)));
    assert_eq!(gossiper.members()[1].status, Status::Shutdown);
    assert!(gossiper.members()[1].is_owner());
    // an echo still under way does not bring it back
    assert_eq!(answer_echo(&mut gossiper, 2, 2), []);
    // who left is forgotten when its time is over
    let mut left = state(100, 9, 3, "");
    left.states.insert(
        ApplicationState::StatusWithPort,
        VersionedValue::new(format!("LEFT,3,{}", WALL_MS + 10_000), 8),
    );
    assert!(tell(&mut gossiper, 3, left, 3).contains(&GossipAction::Down(endpoint(3))));
    assert!(
        !gossiper
            .tick(at(9), &SeededEntropy::new(1))
            .contains(&GossipAction::Removed(endpoint(3)))
    );
    assert!(
        gossiper
            .tick(at(12), &SeededEntropy::new(1))
            .contains(&GossipAction::Removed(endpoint(3)))
    );
    // we go ourselves
    gossiper.set_status(&Status::Normal { token: Token(1) });
    let goodbyes = gossiper.shut_down();
    assert_eq!(goodbyes.len(), 1);
    assert!(
        matches!(&goodbyes[0], GossipAction::Send { to, message: GossipMessage::Shutdown { state: Some(last) } } if *to == endpoint(4) && last.status() == "shutdown,true")
    );
}

#[test]
fn strangers_and_stray_clients() {
    let mut gossiper = gossiper();
    let syn = |cluster: &str| GossipMessage::Syn {
        cluster: cluster.into(),
        partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".into(),
        digests: vec![],
    };
    let actions = gossiper.receive(endpoint(8), syn("other"), at(1), &SeededEntropy::new(1));
    assert!(matches!(&actions[..], [GossipAction::Foreign { .. }]));
    let actions = gossiper.receive(endpoint(8), syn("ring"), at(1), &SeededEntropy::new(1));
    assert!(
        matches!(&actions[..], [GossipAction::Send { message: GossipMessage::Ack { states, .. }, .. }] if states.len() == 1)
    );
    let mut stray = state(100, 1, 6, "");
    stray.states.remove(&ApplicationState::Tokens);
    tell(&mut gossiper, 6, stray, 1);
    assert!(
        !gossiper
            .tick(at(30), &SeededEntropy::new(1))
            .contains(&GossipAction::Removed(endpoint(6)))
    );
    assert!(
        gossiper
            .tick(at(32), &SeededEntropy::new(1))
            .contains(&GossipAction::Removed(endpoint(6)))
    );
}

#[test]
fn peers_that_remember_a_later_start_raise_our_generation() {
    let mut gossiper = gossiper();
    let actions = tell(&mut gossiper, 1, state(1_700_000_500, 7, 1, "NORMAL,1"), 1);
    assert_eq!(actions, [GossipAction::GenerationRaised(1_700_000_501)]);
    assert_eq!(gossiper.state(&endpoint(1)).unwrap().status(), "");
}

#[test]
fn a_saved_peer_is_known_but_down_and_told_to_those_who_ask() {
    let mut gossiper = gossiper();
    let saved = SavedPeer {
        endpoint: endpoint(4),
        host_id: HostId(Uuid::from_u128(4)),
        tokens: vec![Token(44)],
        dc: "dc".into(),
        rack: "r".into(),
    };
    gossiper.add_saved(saved, at(0));
    let member = &gossiper.members()[1];
    assert!(member.is_owner() && !member.alive && member.tokens == [Token(44)]);
    let syn = GossipMessage::Syn {
        cluster: "ring".into(),
        partitioner: gossiper.settings.partitioner.clone(),
        digests: vec![],
    };
    let actions = gossiper.receive(endpoint(8), syn, at(1), &SeededEntropy::new(1));
    let [
        GossipAction::Send {
            message: GossipMessage::Ack { states, .. },
            ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(states[&endpoint(4)].tokens(), Ok(vec![Token(44)]));
    // it comes back
    assert!(tell(&mut gossiper, 4, state(100, 5, 4, "NORMAL,4"), 2).contains(&echo(4)));
    assert_eq!(gossiper.members()[1].tokens, [Token(4)]);
}

proptest! {
    #[test]
    fn nothing_received_panics(events in prop::collection::vec((0_u8..5, 1_u8..6, any::<i32>(), any::<i32>(), ".{0,12}", 0_u64..100), 0..30)) {
        let mut gossiper = gossiper();
        let entropy = SeededEntropy::new(5);
        let mut now = 0;
        for (kind, about, generation, version, text, later) in events {
            now += later;
            let mut told = state(generation, version, u128::from(about), &text);
            told.states.insert(ApplicationState::Tokens, VersionedValue::new(text, version));
            let states = BTreeMap::from([(endpoint(about), told.clone())]);
            let digests = vec![GossipDigest { endpoint: endpoint(about), generation, max_version: version }];
            let message = match kind {
                0 => GossipMessage::Syn { cluster: "ring".into(), partitioner: gossiper.settings.partitioner.clone(), digests },
                1 => GossipMessage::Ack { digests, states },
                2 => GossipMessage::Ack2 { states },
                3 => GossipMessage::Shutdown { state: Some(told) },
                _ => GossipMessage::EchoResponse,
            };
            gossiper.receive(endpoint(about), message, at(now), &entropy);
            gossiper.tick(at(now), &entropy);
            let ids: Vec<_> = gossiper.members().into_iter().filter_map(|m| m.host_id).collect();
            prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        }
    }
}
