//! What a consistency level demands of a replica set. Pure; after Cassandra's `ConsistencyLevel`
//! and `ReplicaPlans`.

use crate::error::CoordinatorError;
use crate::replicas::{Replica, ReplicaSet};
use crate::tally::Need;
use helenus_types::ConsistencyLevel;
use std::sync::Arc;

/// Replication as the levels see it.
#[derive(Debug, Clone)]
pub struct Factors {
    /// The coordinator's data center.
    pub local: Arc<str>,
    /// Copies per data center.
    pub per_datacenter: Vec<(Arc<str>, usize)>,
}

impl Factors {
    fn total(&self) -> usize {
        self.per_datacenter.iter().map(|entry| entry.1).sum()
    }

    fn of(&self, datacenter: &str) -> usize {
        self.per_datacenter
            .iter()
            .find(|entry| &*entry.0 == datacenter)
            .map_or(0, |entry| entry.1)
    }
}

fn majority(factor: usize) -> usize {
    factor / 2 + 1
}

/// Answers needed for a level, without regard to pending replicas.
pub fn needs(level: ConsistencyLevel, factors: &Factors) -> Vec<Need> {
    let anywhere = |count| {
        vec![Need {
            datacenter: None,
            count,
        }]
    };
    // strategies without data centers have one factor under no name: local levels count everywhere
    let unnamed = factors
        .per_datacenter
        .iter()
        .all(|entry| entry.0.is_empty());
    let locally = |count| {
        vec![Need {
            datacenter: (!unnamed).then(|| Arc::clone(&factors.local)),
            count,
        }]
    };
    match level {
        ConsistencyLevel::Any | ConsistencyLevel::One | ConsistencyLevel::NodeLocal => anywhere(1),
        ConsistencyLevel::Two => anywhere(2),
        ConsistencyLevel::Three => anywhere(3),
        ConsistencyLevel::Quorum | ConsistencyLevel::Serial => anywhere(majority(factors.total())),
        ConsistencyLevel::All => anywhere(factors.total()),
        ConsistencyLevel::LocalOne => locally(1),
        ConsistencyLevel::LocalQuorum | ConsistencyLevel::LocalSerial => {
            locally(majority(if unnamed {
                factors.total()
            } else {
                factors.of(&factors.local)
            }))
        }
        ConsistencyLevel::EachQuorum => factors
            .per_datacenter
            .iter()
            .filter(|entry| entry.1 > 0)
            .map(|(name, factor)| Need {
                datacenter: (!unnamed).then(|| Arc::clone(name)),
                count: majority(*factor),
            })
            .collect(),
    }
}

fn counts(need: &Need, replica: &Replica) -> bool {
    need.datacenter
        .as_ref()
        .is_none_or(|datacenter| *datacenter == replica.datacenter)
}

/// Needs of a write: every pending replica that counts adds one, so that a joining node's copy never
/// stands in for an owner's.
pub fn write_needs(
    level: ConsistencyLevel,
    factors: &Factors,
    replicas: &ReplicaSet,
) -> Result<Vec<Need>, CoordinatorError> {
    let mut needs = needs(level, factors);
    if level == ConsistencyLevel::Any {
        return Ok(needs);
    }
    for need in &mut needs {
        need.count += replicas
            .pending
            .iter()
            .filter(|replica| counts(need, replica))
            .count();
        let all = || replicas.natural.iter().chain(&replicas.pending);
        let alive = all()
            .filter(|replica| replica.up && counts(need, replica))
            .count();
        if alive < need.count {
            return Err(CoordinatorError::Unavailable {
                level,
                required: need.count,
                alive,
            });
        }
    }
    Ok(needs)
}

/// Whom a read asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadTargets {
    /// As many as the level needs, nearest first.
    pub chosen: Vec<Replica>,
    /// Others that would count as well, for when one of the chosen fails or is slow.
    pub spares: Vec<Replica>,
}

/// The replicas a read asks.
pub fn read_targets(
    level: ConsistencyLevel,
    factors: &Factors,
    replicas: &ReplicaSet,
) -> Result<ReadTargets, CoordinatorError> {
    let mut targets = ReadTargets::default();
    for need in needs(level, factors) {
        let alive: Vec<&Replica> = replicas
            .natural
            .iter()
            .filter(|replica| replica.up && counts(&need, replica))
            .collect();
        if alive.len() < need.count {
            return Err(CoordinatorError::Unavailable {
                level,
                required: need.count,
                alive: alive.len(),
            });
        }
        let (chosen, spares) = alive.split_at(need.count);
        targets.chosen.extend(chosen.iter().copied().cloned());
        targets.spares.extend(spares.iter().copied().cloned());
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helenus_types::Endpoint;
    use std::net::{IpAddr, Ipv4Addr};

    fn replica(last: u8, datacenter: &str, up: bool) -> Replica {
        let endpoint = Endpoint::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 7000);
        Replica {
            endpoint,
            host_id: None,
            datacenter: datacenter.into(),
            up,
        }
    }

    fn factors() -> Factors {
        Factors {
            local: "east".into(),
            per_datacenter: vec![("east".into(), 3), ("west".into(), 3)],
        }
    }

    fn set() -> ReplicaSet {
        let natural = (1..=6_u8)
            .map(|n| replica(n, if n <= 3 { "east" } else { "west" }, n != 3))
            .collect();
        ReplicaSet {
            natural,
            pending: Vec::new(),
        }
    }

    #[test]
    fn levels_count_as_cassandra_counts() {
        let total = |level| {
            needs(level, &factors())
                .iter()
                .map(|need| need.count)
                .sum::<usize>()
        };
        for (level, expected) in [
            (ConsistencyLevel::One, 1),
            (ConsistencyLevel::Quorum, 4),
            (ConsistencyLevel::LocalQuorum, 2),
            (ConsistencyLevel::EachQuorum, 4),
            (ConsistencyLevel::All, 6),
        ] {
            assert_eq!(total(level), expected, "{level}");
        }
    }

    #[test]
    fn pending_replicas_raise_what_a_write_needs() {
        let mut replicas = set();
        replicas.pending.push(replica(9, "east", true));
        let needs = write_needs(ConsistencyLevel::LocalQuorum, &factors(), &replicas);
        assert_eq!(needs.map(|needs| needs[0].count), Ok(3));
    }

    #[test]
    fn too_few_live_replicas_are_unavailable() {
        let mut replicas = set();
        replicas.natural[1].up = false;
        assert_eq!(
            read_targets(ConsistencyLevel::LocalQuorum, &factors(), &replicas),
            Err(CoordinatorError::Unavailable {
                level: ConsistencyLevel::LocalQuorum,
                required: 2,
                alive: 1
            })
        );
    }
}
