//! Replicas as a real ring names them (`golden/describering.txt` says how it was made).
#![expect(clippy::unwrap_used, reason = "tests say so by failing")]

use helenus_ring::{RingNode, RingSnapshot, Role};
use helenus_schema::Replication;
use helenus_types::{Endpoint, Token};
use std::collections::BTreeMap;

fn endpoint(text: &str) -> Endpoint {
    Endpoint::new(text.parse().unwrap(), 7000)
}

#[test]
fn replicas_are_cassandras() {
    let golden = include_str!("golden/describering.txt");
    let mut nodes: BTreeMap<Endpoint, RingNode> = BTreeMap::new();
    let mut checked = 0;
    let lines = || {
        golden
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(' ').collect::<Vec<_>>())
    };
    for fields in lines().filter(|fields| fields[0] == "token") {
        let new = RingNode {
            endpoint: endpoint(fields[1]),
            host_id: None,
            dc: fields[2].into(),
            rack: fields[3].into(),
            tokens: Vec::new(),
            role: Role::Normal,
            generation: 1,
        };
        nodes
            .entry(endpoint(fields[1]))
            .or_insert(new)
            .tokens
            .push(Token(fields[4].parse().unwrap()));
    }
    let ring = RingSnapshot::new(endpoint("127.0.40.41"), nodes.into_values());
    for fields in lines().filter(|fields| fields[0] != "token") {
        let (class, option) = fields[0].split_once('/').unwrap();
        let (name, factor) = option
            .split_once(':')
            .unwrap_or(("replication_factor", option));
        let replication = Replication {
            class: format!("org.apache.cassandra.locator.{class}"),
            options: BTreeMap::from([(name.into(), factor.into())]),
        };
        let map = ring.replicas(&replication).unwrap();
        let (after, up_to) = (
            Token(fields[1].parse().unwrap()),
            Token(fields[2].parse().unwrap()),
        );
        assert!(
            map.parts()
                .any(|(range, _)| (range.after, range.up_to) == (after, up_to)),
            "{fields:?}"
        );
        let expected: Vec<Endpoint> = fields[3].split(',').map(endpoint).collect();
        assert_eq!(map.at(up_to).natural, expected, "{fields:?}");
        assert_eq!(
            map.at(Token(after.0.wrapping_add(1))).natural,
            expected,
            "{fields:?}"
        );
        checked += 1;
    }
    assert_eq!(checked, 6 * 12);
}
