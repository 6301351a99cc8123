//! Which ranges a joining or replacing node fetches from whom.

use crate::replication::{ReplicationError, RingNode, RingSnapshot, Role, TokenRange};
use helenus_schema::Replication;
use helenus_types::Endpoint;
use std::collections::BTreeMap;

/// Ranges of one keyspace to fetch from one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The keyspace.
    pub keyspace: String,
    /// The node that has the data.
    pub from: Endpoint,
    /// What to fetch.
    pub ranges: Vec<TokenRange>,
}

/// No plan can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A keyspace's replication is not understood.
    #[error("keyspace {keyspace}")]
    Replication {
        /// The keyspace.
        keyspace: String,
        /// What is wrong with it.
        source: ReplicationError,
    },
    /// The replica that hands a range over is down: another's copy may lack the newest writes.
    #[error("{endpoint}, which hands {range} of {keyspace} over, is down")]
    SourceDown {
        /// The replica.
        endpoint: Endpoint,
        /// The range.
        range: TokenRange,
        /// The keyspace.
        keyspace: String,
    },
    /// Nobody who has a range is up.
    #[error("no replica of {range} of {keyspace} is up")]
    NoSource {
        /// The range.
        range: TokenRange,
        /// The keyspace.
        keyspace: String,
    },
}

/// What `joining` must fetch to hold what the ring `before` will give it. A joining node takes a
/// range from the replica that loses it, so that a quorum stays a quorum; where nobody loses one
/// (fewer nodes than copies, or a replacement) from any live replica, its own rack and data center
/// first.
pub fn fetches(
    before: &RingSnapshot,
    joining: &RingNode,
    keyspaces: &[(String, Replication)],
    is_alive: &dyn Fn(&Endpoint) -> bool,
) -> Result<Vec<Fetch>, PlanError> {
    let mut plan: BTreeMap<(&str, Endpoint), Vec<TokenRange>> = BTreeMap::new();
    let after = before.with(joining.clone());
    for (keyspace, replication) in keyspaces
        .iter()
        .filter(|(_, replication)| !replication.is_local())
    {
        let replication_error = |source| PlanError::Replication {
            keyspace: keyspace.clone(),
            source,
        };
        let (old, new) = (
            before.replicas(replication).map_err(replication_error)?,
            after.replicas(replication).map_err(replication_error)?,
        );
        // every end of an old part is one of the new parts' too: a new part lies within one old part
        for (range, placement) in new
            .parts()
            .filter(|(_, placement)| placement.natural.contains(&joining.endpoint))
        {
            let holders = &old.at(range.up_to).natural;
            let replaced = if let Role::Replacing(dead) = joining.role {
                Some(dead)
            } else {
                None
            };
            let loser = holders
                .iter()
                .find(|holder| !placement.natural.contains(holder) && Some(**holder) != replaced);
            let down = |endpoint: &Endpoint| PlanError::SourceDown {
                endpoint: *endpoint,
                range,
                keyspace: keyspace.clone(),
            };
            let source = match loser {
                Some(loser) if replaced.is_none() => is_alive(loser)
                    .then_some(*loser)
                    .ok_or_else(|| down(loser))?,
                _ => {
                    let live = holders
                        .iter()
                        .filter(|holder| Some(**holder) != replaced && is_alive(holder));
                    let nearest = live.min_by_key(|holder| distance(before, joining, holder));
                    match nearest {
                        Some(holder) => *holder,
                        None if holders.iter().all(|holder| Some(*holder) == replaced)
                            && replaced.is_none() =>
                        {
                            continue;
                        }
                        None => {
                            return Err(PlanError::NoSource {
                                range,
                                keyspace: keyspace.clone(),
                            });
                        }
                    }
                }
            };
            plan.entry((keyspace, source)).or_default().push(range);
        }
    }
    Ok(plan
        .into_iter()
        .map(|((keyspace, from), ranges)| Fetch {
            keyspace: keyspace.to_owned(),
            from,
            ranges: TokenRange::joined(ranges),
        })
        .collect())
}

/// 0 for the same rack, 1 for the same data center, 2 for elsewhere.
fn distance(ring: &RingSnapshot, joining: &RingNode, endpoint: &Endpoint) -> u8 {
    match ring.node(endpoint) {
        Some(node) if node.dc == joining.dc && node.rack == joining.rack => 0,
        Some(node) if node.dc == joining.dc => 1,
        _ => 2,
    }
}
