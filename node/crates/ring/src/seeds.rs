//! Where the first peers come from, and the decision that follows: found a ring, join one, rejoin,
//! or wait. Pure: asking (HTTP, DNS) is the edge's.
//!
//! Invariants:
//! S1: a ring is founded only with leave: `isSeed` of the seed service with nobody else listed, or
//!     the first place in a static list.
//! S2: who has answers of a ring joins it, whatever the seed provider says.
//! S3: a node that was part of a ring never founds one.
//! S4: no answer of the provider means waiting, for a node that was never part of a ring.

use crate::gossip::ShadowRound;
use crate::membership::members_of_shadow;
use crate::status::Status;
use helenus_types::{Endpoint, HostId};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// What a seed provider said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedAnswer {
    /// A list from the settings, the same on every node.
    Static(Vec<Endpoint>),
    /// An answer of the seed service.
    Service {
        /// Whether this node may found a ring.
        is_seed: bool,
        /// Live members.
        seeds: Vec<Endpoint>,
    },
}

impl SeedAnswer {
    /// The seeds named.
    pub fn seeds(&self) -> &[Endpoint] {
        match self {
            Self::Static(seeds) | Self::Service { seeds, .. } => seeds,
        }
    }
}

/// An answer that cannot be used: ask again.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// Not the JSON that was expected.
    #[error("read the seed service's answer")]
    Json(#[from] serde_json::Error),
    /// A seed that is neither an address nor a name with an optional port.
    #[error("seed {0:?} is not an address, a name, or either with a port")]
    BadSeed(String),
}

/// A seed as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedName {
    /// An address.
    Address(Endpoint),
    /// A name that the edge must look up.
    Name {
        /// The name.
        host: String,
        /// The storage port.
        port: u16,
    },
}

/// Reads one seed: address, address with port (`10.0.0.1:7000`, `[::1]:7000`), name, name with port.
pub fn parse_seed(text: &str, default_port: u16) -> Result<SeedName, SeedError> {
    let text = text.trim();
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(SeedName::Address(Endpoint(address)));
    }
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SeedName::Address(Endpoint::new(address, default_port)));
    }
    let bad = || SeedError::BadSeed(text.to_owned());
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| bad())?),
        None => (text, default_port),
    };
    let valid = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    if valid {
        Ok(SeedName::Name {
            host: host.to_owned(),
            port,
        })
    } else {
        Err(bad())
    }
}

/// Reads `seeds` of SimpleSeedProvider: seeds parted by commas.
pub fn parse_static(text: &str, default_port: u16) -> Result<Vec<SeedName>, SeedError> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| parse_seed(part, default_port))
        .collect()
}

/// The seed service's answer, names not looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAnswer {
    /// Whether the asking node may found a ring.
    pub is_seed: bool,
    /// Live members.
    pub seeds: Vec<SeedName>,
}

/// Reads the body of `GET /v1/seeds`: `{"isSeed": bool, "seeds": ["10.0.0.1:7000", ...]}`. Fields
/// that are not known are ignored; one that is missing makes the answer unusable.
pub fn parse_service(body: &[u8], default_port: u16) -> Result<ServiceAnswer, SeedError> {
    #[derive(serde::Deserialize)]
    struct Body {
        #[serde(rename = "isSeed")]
        is_seed: bool,
        seeds: Vec<String>,
    }
    let body: Body = serde_json::from_slice(body)?;
    let seeds = body
        .seeds
        .iter()
        .map(|seed| parse_seed(seed, default_port))
        .collect::<Result<_, _>>()?;
    Ok(ServiceAnswer {
        is_seed: body.is_seed,
        seeds,
    })
}

/// All that the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct StartFacts<'a> {
    /// Our endpoint.
    pub me: Endpoint,
    /// Our identity.
    pub host_id: HostId,
    /// Whether this node's data says that it was a member.
    pub was_member: bool,
    /// Peers of before the restart.
    pub saved_peers: &'a [Endpoint],
    /// The provider's last answer, `None` as long as it gave none.
    pub answer: Option<&'a SeedAnswer>,
    /// What the shadow round found so far.
    pub shadow: &'a ShadowRound,
    /// How long the shadow round has gone on.
    pub asked_for: Duration,
    /// How long others are given to answer.
    pub patience: Duration,
}

/// What a starting node shall do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartDecision {
    /// Ask on; the reason is for the log and the node's status.
    Wait(String),
    /// Begin a ring.
    Found,
    /// Join the ring that these are part of.
    Join {
        /// Who answered.
        seeds: Vec<Endpoint>,
    },
    /// Go on as the member that this node was.
    Rejoin {
        /// Whom to gossip with first.
        peers: Vec<Endpoint>,
    },
    /// Starting would do harm: stop.
    Refuse(String),
}

/// Decides; to be asked again whenever a fact has changed.
pub fn decide(facts: &StartFacts) -> StartDecision {
    let others: BTreeSet<Endpoint> = facts
        .answer
        .map(SeedAnswer::seeds)
        .unwrap_or_default()
        .iter()
        .copied()
        .filter(|seed| *seed != facts.me)
        .collect();
    if facts.was_member {
        return rejoin(facts, &others);
    }
    if !facts.shadow.answered.is_empty() {
        return StartDecision::Join {
            seeds: facts.shadow.answered.iter().copied().collect(),
        };
    }
    let shown = |set: &BTreeSet<Endpoint>| {
        set.iter()
            .map(Endpoint::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let silent: BTreeSet<Endpoint> = others
        .difference(&facts.shadow.in_shadow)
        .copied()
        .collect();
    match facts.answer {
        None => StartDecision::Wait("the seed provider has not answered".to_owned()),
        Some(SeedAnswer::Service { is_seed: true, .. }) if others.is_empty() => {
            StartDecision::Found
        }
        Some(SeedAnswer::Service { .. }) if others.is_empty() => StartDecision::Wait(
            "the seed service names no live member and this node may not found the ring".to_owned(),
        ),
        Some(SeedAnswer::Service { .. }) => StartDecision::Wait(format!(
            "none of the seeds answers for a ring: {}",
            shown(&others)
        )),
        Some(SeedAnswer::Static(seeds)) if seeds.first() == Some(&facts.me) => {
            if silent.is_empty() || facts.asked_for >= facts.patience {
                StartDecision::Found
            } else {
                StartDecision::Wait(format!("asking the other seeds: {}", shown(&silent)))
            }
        }
        Some(SeedAnswer::Static(seeds)) if seeds.is_empty() => {
            StartDecision::Wait("the list of seeds is empty".to_owned())
        }
        Some(SeedAnswer::Static(_)) => StartDecision::Wait(format!(
            "no seed answers for a ring, and only the first of the list may found one: {}",
            shown(&others)
        )),
    }
}

fn rejoin(facts: &StartFacts, others: &BTreeSet<Endpoint>) -> StartDecision {
    for member in members_of_shadow(&facts.shadow.states) {
        if member.host_id == Some(facts.host_id)
            && matches!(member.status, Status::Left { .. } | Status::Removed { .. })
        {
            return StartDecision::Refuse(format!(
                "this node ({}) was removed from the ring; start it with an empty data directory to join as a new one",
                facts.host_id
            ));
        }
    }
    let peers: BTreeSet<Endpoint> = facts
        .saved_peers
        .iter()
        .copied()
        .filter(|peer| *peer != facts.me)
        .chain(others.iter().copied())
        .chain(facts.shadow.answered.iter().copied())
        .collect();
    let anyone = !facts.shadow.answered.is_empty() || peers.is_empty();
    if anyone || facts.asked_for >= facts.patience || peers.is_subset(&facts.shadow.in_shadow) {
        StartDecision::Rejoin {
            peers: peers.into_iter().collect(),
        }
    } else {
        StartDecision::Wait("asking the peers of before the restart".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_internode::gossip::{ApplicationState, EndpointState, VersionedValue};
    use uuid::Uuid;

    fn endpoint(n: u8) -> Endpoint {
        Endpoint::new([10, 0, 0, n].into(), 7000)
    }

    fn check(
        answer: Option<&SeedAnswer>,
        was_member: bool,
        shadow: &ShadowRound,
        waited: u64,
    ) -> StartDecision {
        let saved = [endpoint(8)];
        decide(&StartFacts {
            me: endpoint(1),
            host_id: HostId(Uuid::from_u128(1)),
            was_member,
            saved_peers: if was_member { &saved } else { &[] },
            answer,
            shadow,
            asked_for: Duration::from_secs(waited),
            patience: Duration::from_secs(30),
        })
    }

    fn shadow(answered: &[u8], in_shadow: &[u8]) -> ShadowRound {
        ShadowRound {
            answered: answered.iter().copied().map(endpoint).collect(),
            in_shadow: in_shadow.iter().copied().map(endpoint).collect(),
            ..ShadowRound::default()
        }
    }

    #[test]
    fn only_the_granted_node_founds() {
        let nobody = shadow(&[], &[]);
        let service = |is_seed, seeds: &[u8]| SeedAnswer::Service {
            is_seed,
            seeds: seeds.iter().copied().map(endpoint).collect(),
        };
        let listed =
            |seeds: &[u8]| SeedAnswer::Static(seeds.iter().copied().map(endpoint).collect());
        let waits = |decision| assert!(matches!(decision, StartDecision::Wait(_)), "{decision:?}");
        assert_eq!(
            check(Some(&service(true, &[])), false, &nobody, 0),
            StartDecision::Found
        );
        assert_eq!(
            check(Some(&service(true, &[1])), false, &nobody, 0),
            StartDecision::Found
        );
        waits(check(Some(&service(true, &[2])), false, &nobody, 10_000));
        waits(check(Some(&service(false, &[])), false, &nobody, 10_000));
        waits(check(None, false, &nobody, 10_000));
        assert_eq!(
            check(Some(&listed(&[1])), false, &nobody, 0),
            StartDecision::Found
        );
        waits(check(Some(&listed(&[1, 2])), false, &nobody, 0));
        assert_eq!(
            check(Some(&listed(&[1, 2])), false, &shadow(&[], &[2]), 0),
            StartDecision::Found
        );
        assert_eq!(
            check(Some(&listed(&[1, 2])), false, &nobody, 30),
            StartDecision::Found
        );
        waits(check(
            Some(&listed(&[2, 1])),
            false,
            &shadow(&[], &[2]),
            10_000,
        ));
        waits(check(Some(&listed(&[])), false, &nobody, 10_000));
    }

    #[test]
    fn who_hears_of_a_ring_joins_it() {
        let ring = shadow(&[2], &[3]);
        for answer in [
            SeedAnswer::Service {
                is_seed: true,
                seeds: vec![],
            },
            SeedAnswer::Static(vec![endpoint(1), endpoint(2)]),
        ] {
            assert_eq!(
                check(Some(&answer), false, &ring, 0),
                StartDecision::Join {
                    seeds: vec![endpoint(2)]
                }
            );
        }
    }

    #[test]
    fn a_member_rejoins_even_alone() {
        let rejoin = |decision, peers: &[u8]| {
            assert_eq!(
                decision,
                StartDecision::Rejoin {
                    peers: peers.iter().copied().map(endpoint).collect()
                }
            );
        };
        assert!(matches!(
            check(None, true, &shadow(&[], &[]), 0),
            StartDecision::Wait(_)
        ));
        rejoin(check(None, true, &shadow(&[], &[]), 30), &[8]);
        rejoin(check(None, true, &shadow(&[8], &[]), 0), &[8]);
        rejoin(check(None, true, &shadow(&[], &[8]), 0), &[8]);
        let founder = SeedAnswer::Service {
            is_seed: true,
            seeds: vec![],
        };
        rejoin(check(Some(&founder), true, &shadow(&[], &[]), 30), &[8]);
        let mut removed = shadow(&[8], &[]);
        let mut state = EndpointState::default();
        state.states.insert(
            ApplicationState::HostId,
            VersionedValue::new(Uuid::from_u128(1).to_string(), 1),
        );
        state.states.insert(
            ApplicationState::StatusWithPort,
            VersionedValue::new("LEFT,5,99", 2),
        );
        removed.states.insert(endpoint(5), state);
        assert!(matches!(
            check(None, true, &removed, 0),
            StartDecision::Refuse(_)
        ));
    }

    #[test]
    fn answers_are_read() {
        let answer = parse_service(br#"{"isSeed":true,"seeds":["10.0.0.1:7001","10.0.0.2","[::1]:7000","::2","node-0.ring"],"more":1}"#, 7000).unwrap();
        assert!(answer.is_seed);
        let address = |text: &str| SeedName::Address(Endpoint(text.parse().unwrap()));
        let name = SeedName::Name {
            host: "node-0.ring".into(),
            port: 7000,
        };
        assert_eq!(
            answer.seeds,
            [
                address("10.0.0.1:7001"),
                address("10.0.0.2:7000"),
                address("[::1]:7000"),
                address("[::2]:7000"),
                name
            ]
        );
        assert_eq!(
            parse_static(" 10.0.0.1, a:7001 ,", 7000).unwrap(),
            [
                address("10.0.0.1:7000"),
                SeedName::Name {
                    host: "a".into(),
                    port: 7001
                }
            ]
        );
        for body in [
            &b""[..],
            b"{}",
            b"[]",
            br#"{"isSeed":1,"seeds":[]}"#,
            br#"{"isSeed":true}"#,
            br#"{"isSeed":true,"seeds":["a b"]}"#,
            br#"{"isSeed":true,"seeds":[":7"]}"#,
            br#"{"isSeed":true,"seeds":["a:99999"]}"#,
        ] {
            assert!(
                parse_service(body, 7000).is_err(),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }
}
