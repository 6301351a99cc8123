//! Replication against hand-calculated rings, and its invariants on generated ones.

use super::*;
use proptest::prelude::*;

fn endpoint(n: u8) -> Endpoint {
    Endpoint::new([10, 0, 0, n].into(), 7000)
}

fn node(n: u8, dc: &str, rack: &str, tokens: &[i64], role: Role) -> RingNode {
    RingNode {
        endpoint: endpoint(n),
        host_id: None,
        dc: dc.into(),
        rack: rack.into(),
        tokens: tokens.iter().copied().map(Token).collect(),
        role,
        generation: i32::from(n),
    }
}

fn topology(factors: &[(&str, &str)]) -> Replication {
    let options = factors
        .iter()
        .map(|(dc, factor)| ((*dc).to_owned(), (*factor).to_owned()))
        .collect();
    Replication {
        class: "org.apache.cassandra.locator.NetworkTopologyStrategy".into(),
        options,
    }
}

fn replicas(ring: &RingSnapshot, replication: &Replication, token: i64) -> (Vec<u8>, Vec<u8>) {
    let map = ring.replicas(replication).unwrap();
    let placement = map.at(Token(token));
    let last = |endpoints: &[Endpoint]| {
        endpoints
            .iter()
            .map(|e| {
                if let std::net::IpAddr::V4(ip) = e.address() {
                    ip.octets()[3]
                } else {
                    0
                }
            })
            .collect()
    };
    (last(&placement.natural), last(&placement.pending))
}

#[test]
fn simple_strategy_walks_the_ring() {
    let ring = RingSnapshot::new(
        endpoint(1),
        [
            node(1, "dc", "r", &[0, 40], Role::Normal),
            node(2, "dc", "r", &[10, 20], Role::Normal),
            node(3, "dc", "r", &[30], Role::Normal),
        ],
    );
    let two = Replication::simple(2);
    assert_eq!(replicas(&ring, &two, 0).0, [1, 2]);
    assert_eq!(replicas(&ring, &two, 1).0, [2, 3]);
    assert_eq!(replicas(&ring, &two, 30).0, [3, 1]);
    assert_eq!(replicas(&ring, &two, 41).0, [1, 2]);
    assert_eq!(replicas(&ring, &two, i64::MIN).0, [1, 2]);
    assert_eq!(replicas(&ring, &Replication::simple(9), 5).0, [2, 3, 1]);
    assert_eq!(replicas(&ring, &Replication::local(), 5).0, [1]);
    let everywhere = Replication {
        class: "EverywhereStrategy".into(),
        options: BTreeMap::new(),
    };
    assert_eq!(replicas(&ring, &everywhere, 5).0, [1, 2, 3]);
    let map = ring.replicas(&two).unwrap();
    assert_eq!(map.scan_ranges().len(), 6);
    // node 3 holds what ends at 20 and 30 with its neighbour 10 to 20: (0, 30]
    assert_eq!(
        map.ranges_of(&endpoint(3)),
        [TokenRange {
            after: Token(0),
            up_to: Token(30)
        }]
    );
    assert_eq!(
        ring.primary_ranges(&endpoint(3)),
        [TokenRange {
            after: Token(20),
            up_to: Token(30)
        }]
    );
}

#[test]
fn network_topology_spreads_over_racks() {
    let ring = RingSnapshot::new(
        endpoint(1),
        [
            node(1, "east", "a", &[0], Role::Normal),
            node(2, "east", "a", &[10], Role::Normal),
            node(3, "east", "b", &[20], Role::Normal),
            node(4, "west", "a", &[5], Role::Normal),
            node(5, "west", "a", &[15], Role::Normal),
        ],
    );
    // node 2 shares a rack with node 1, so node 3 comes first
    assert_eq!(replicas(&ring, &topology(&[("east", "2")]), 0).0, [1, 3]);
    // two racks for three copies: one repeat is taken as met
    assert_eq!(replicas(&ring, &topology(&[("east", "3")]), 0).0, [1, 2, 3]);
    assert_eq!(
        replicas(&ring, &topology(&[("east", "2"), ("west", "2")]), 0).0,
        [1, 4, 5, 3]
    );
    assert_eq!(
        replicas(
            &ring,
            &topology(&[("east", "0"), ("west", "9"), ("nowhere", "3")]),
            6
        )
        .0,
        [5, 4]
    );
}

#[test]
fn joining_nodes_are_pending() {
    let members = [
        node(1, "dc", "a", &[0], Role::Normal),
        node(2, "dc", "b", &[100], Role::Normal),
    ];
    let joining = node(3, "dc", "c", &[50], Role::Joining);
    let ring = RingSnapshot::new(
        endpoint(1),
        members.iter().cloned().chain([joining.clone()]),
    );
    let one = topology(&[("dc", "1")]);
    assert_eq!(replicas(&ring, &one, 50), (vec![2], vec![3]));
    assert_eq!(replicas(&ring, &one, 51), (vec![2], vec![]));
    assert_eq!(
        ring.replicas(&one).unwrap().pending_ranges_of(&endpoint(3)),
        [TokenRange {
            after: Token(0),
            up_to: Token(50)
        }]
    );
    // the whole ring when every node holds everything
    let three = topology(&[("dc", "3")]);
    assert_eq!(
        ring.replicas(&three)
            .unwrap()
            .pending_ranges_of(&endpoint(3))
            .iter()
            .map(TokenRange::size)
            .sum::<u128>(),
        1 << 64
    );
    assert_eq!(replicas(&ring.with(joining), &one, 50), (vec![3], vec![]));
}

#[test]
fn a_replacing_node_gets_what_the_dead_one_had() {
    let ring = RingSnapshot::new(
        endpoint(1),
        [
            node(1, "dc", "a", &[0], Role::Normal),
            node(2, "dc", "b", &[100], Role::Normal),
            node(3, "dc", "c", &[50], Role::Normal),
            node(4, "dc", "c", &[50], Role::Replacing(endpoint(3))),
        ],
    );
    let two = topology(&[("dc", "2")]);
    assert_eq!(replicas(&ring, &two, 50), (vec![3, 2], vec![4]));
    assert_eq!(replicas(&ring, &two, 0), (vec![1, 3], vec![4]));
    assert_eq!(replicas(&ring, &two, 100), (vec![2, 1], vec![]));
}

#[test]
fn heirs_of_a_leaving_node_are_pending() {
    let ring = RingSnapshot::new(
        endpoint(1),
        [
            node(1, "dc", "a", &[0], Role::Normal),
            node(2, "dc", "a", &[50], Role::Leaving),
            node(3, "dc", "a", &[100], Role::Normal),
        ],
    );
    assert_eq!(
        replicas(&ring, &Replication::simple(1), 20),
        (vec![2], vec![3])
    );
    assert_eq!(
        replicas(&ring, &Replication::simple(2), 20),
        (vec![2, 3], vec![1])
    );
    assert_eq!(
        replicas(&ring, &Replication::simple(1), 70),
        (vec![3], vec![])
    );
}

#[test]
fn a_token_belongs_to_the_younger_start() {
    let ring = RingSnapshot::new(
        endpoint(1),
        [
            node(9, "dc", "a", &[5], Role::Normal),
            node(2, "dc", "a", &[5, 7], Role::Normal),
        ],
    );
    assert_eq!(
        ring.tokens().collect::<Vec<_>>(),
        [(Token(5), endpoint(9)), (Token(7), endpoint(2))]
    );
}

#[test]
fn bad_replications_are_refused() {
    let parse = |r: &Replication| super::Strategy::parse(r).unwrap_err().to_string();
    assert!(parse(&topology(&[("dc", "three")])).contains("not a number"));
    assert!(parse(&topology(&[("dc", "3/1")])).contains("transient"));
    assert!(
        parse(&Replication {
            class: "x.MyStrategy".into(),
            options: BTreeMap::new()
        })
        .contains("MyStrategy")
    );
    assert!(
        parse(&Replication {
            class: "SimpleStrategy".into(),
            options: BTreeMap::new()
        })
        .contains("replication_factor")
    );
    let empty = RingSnapshot::new(endpoint(1), []);
    assert_eq!(
        replicas(&empty, &Replication::simple(3), 5),
        (vec![], vec![])
    );
}

proptest! {
    #[test]
    fn every_token_has_distinct_replicas_and_parts_cover_the_ring(
        layout in prop::collection::vec((0_u8..3, 0_u8..4, prop::collection::btree_set(any::<i64>(), 1..5), 0_u8..6), 1..8),
        factors in prop::array::uniform3(0_usize..4),
        token in any::<i64>(),
    ) {
        let nodes: Vec<RingNode> = layout.iter().enumerate().map(|(index, (dc, rack, tokens, role))| {
            let role = match role { 0 => Role::Joining, 1 => Role::Leaving, _ => Role::Normal };
            let tokens: Vec<i64> = tokens.iter().copied().collect();
            node(u8::try_from(index).unwrap(), &format!("dc{dc}"), &format!("r{rack}"), &tokens, role)
        }).collect();
        let factors: Vec<(String, String)> = factors.iter().enumerate().map(|(n, f)| (format!("dc{n}"), f.to_string())).collect();
        let replication = topology(&factors.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect::<Vec<_>>());
        let ring = RingSnapshot::new(endpoint(0), nodes);
        let map = ring.replicas(&replication).unwrap();
        prop_assert_eq!(map.parts().map(|(range, _)| range.size()).sum::<u128>(), 1_u128 << 64);
        let here: Vec<_> = map.parts().filter(|(range, _)| range.contains(Token(token))).collect();
        prop_assert_eq!(here.len(), 1);
        prop_assert_eq!(here[0].1, map.at(Token(token)));
        for (_, placement) in map.parts() {
            let all: Vec<_> = placement.natural.iter().chain(&placement.pending).collect();
            prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        }
        let held: u128 = ring.nodes().map(|n| map.ranges_of(&n.endpoint).iter().map(TokenRange::size).sum::<u128>()).sum();
        prop_assert_eq!(held, map.parts().map(|(range, placement)| range.size() * placement.natural.len() as u128).sum::<u128>());
    }
}
