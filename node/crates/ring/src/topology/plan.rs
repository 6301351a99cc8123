//! Which ranges a joining or replacing node fetches from whom.

use crate::replication::{Placement, ReplicationError, RingNode, RingSnapshot, Role, TokenRange};
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

/// What a node fetches to become a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FetchPlan {
    /// What to fetch from whom.
    pub fetches: Vec<Fetch>,
    /// Ranges whose only copy was on the dead node, by keyspace: nobody can give them back.
    pub lost: BTreeMap<String, Vec<TokenRange>>,
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
) -> Result<FetchPlan, PlanError> {
    let mut fetched: BTreeMap<(&str, Endpoint), Vec<TokenRange>> = BTreeMap::new();
    let mut plan = FetchPlan::default();
    let after = before.with(joining.clone());
    for (keyspace, replication) in keyspaces
        .iter()
        .filter(|(_, replication)| !replication.is_local())
    {
        let failed = |source| PlanError::Replication {
            keyspace: keyspace.clone(),
            source,
        };
        let old = before.replicas(replication).map_err(failed)?;
        let new = after.replicas(replication).map_err(failed)?;
        // every end of an old part is one of the new parts' too: a new part lies within one old part
        for (range, placement) in new
            .parts()
            .filter(|(_, placement)| placement.natural.contains(&joining.endpoint))
        {
            let part = Part {
                before,
                joining,
                keyspace,
                range,
                holders: &old.at(range.up_to).natural,
            };
            match part.source(placement, is_alive)? {
                Some(source) => fetched.entry((keyspace, source)).or_default().push(range),
                None => plan.lost.entry(keyspace.clone()).or_default().push(range),
            }
        }
    }
    let fetch = |((keyspace, from), ranges): ((&str, Endpoint), Vec<TokenRange>)| Fetch {
        keyspace: keyspace.to_owned(),
        from,
        ranges: TokenRange::joined(ranges),
    };
    plan.fetches = fetched.into_iter().map(fetch).collect();
    Ok(plan)
}

/// One range that the joining node will hold.
struct Part<'a> {
    before: &'a RingSnapshot,
    joining: &'a RingNode,
    keyspace: &'a str,
    range: TokenRange,
    holders: &'a [Endpoint],
}

impl Part<'_> {
    /// Whom to fetch it from; `None` when nobody but the dead node had it.
    fn source(
        &self,
        after: &Placement,
        is_alive: &dyn Fn(&Endpoint) -> bool,
    ) -> Result<Option<Endpoint>, PlanError> {
        let replaced = match self.joining.role {
            Role::Replacing(dead) => Some(dead),
            Role::Normal | Role::Leaving | Role::Joining => None,
        };
        let loser = self
            .holders
            .iter()
            .find(|holder| !after.natural.contains(holder));
        if let (Some(loser), None) = (loser, replaced) {
            let down = || PlanError::SourceDown {
                endpoint: *loser,
                range: self.range,
                keyspace: self.keyspace.to_owned(),
            };
            return is_alive(loser).then_some(Some(*loser)).ok_or_else(down);
        }
        let mut others = self
            .holders
            .iter()
            .filter(|holder| Some(**holder) != replaced)
            .peekable();
        if others.peek().is_none() {
            return Ok(None);
        }
        let nearest = others
            .filter(|holder| is_alive(holder))
            .min_by_key(|holder| distance(self.before, self.joining, holder));
        let nobody = || PlanError::NoSource {
            range: self.range,
            keyspace: self.keyspace.to_owned(),
        };
        nearest.map(|holder| Some(*holder)).ok_or_else(nobody)
    }
}

/// 0 for the same rack, 1 for the same data center, 2 for elsewhere.
fn distance(ring: &RingSnapshot, joining: &RingNode, endpoint: &Endpoint) -> u8 {
    match ring.node(endpoint) {
        Some(node) if node.dc == joining.dc && node.rack == joining.rack => 0,
        Some(node) if node.dc == joining.dc => 1,
        _ => 2,
    }
}
