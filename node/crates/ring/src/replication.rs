//! Which nodes hold the data of a token.
//!
//! [`RingSnapshot`] is the ring at one moment; [`ReplicaMap`] is one keyspace's replication on it,
//! computed once: the ring is cut at every token of members and joining nodes, and each part knows
//! its natural replicas (in Cassandra's order) and its pending ones, which get writes too.
//! Source: Cassandra 5.0 `locator/{Simple,NetworkTopology}Strategy.java`, `TokenMetadata.java`.
//!
//! Invariants:
//! R1: a snapshot never changes; the same snapshot and replication give the same map.
//! R2: a node is never both natural and pending for a token, nor twice either.
//! R3: parts cover the whole ring without overlap.

mod range;
mod strategy;

pub use range::TokenRange;
pub use strategy::{Placer, ReplicationError, Strategy};

use crate::membership::Member;
use crate::status::Status;
use helenus_schema::Replication;
use helenus_types::{Endpoint, HostId, Token};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// What a node is to the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Owns its tokens.
    Normal,
    /// Owns its tokens and hands them over.
    Leaving,
    /// Will own its tokens.
    Joining,
    /// Will own the tokens of the dead node at this endpoint.
    Replacing(Endpoint),
}

/// A node of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingNode {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Who it is.
    pub host_id: Option<HostId>,
    /// Data center.
    pub dc: Arc<str>,
    /// Rack.
    pub rack: Arc<str>,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// What it is to the ring.
    pub role: Role,
    /// When it started: of two nodes that claim one token, the younger start has it.
    pub generation: i32,
}

impl RingNode {
    /// The node of a member; `None` when it neither owns tokens nor is about to.
    pub fn of_member(member: &Member) -> Option<Self> {
        let role = match member.status {
            Status::Normal { .. } | Status::Shutdown | Status::Hibernate => Role::Normal,
            Status::Leaving { .. } | Status::Removing { .. } => Role::Leaving,
            Status::Bootstrapping { .. } => Role::Joining,
            Status::Replacing { replaced } => Role::Replacing(replaced),
            Status::None | Status::Left { .. } | Status::Removed { .. } | Status::Unknown => {
                return None;
            }
        };
        let node = Self {
            endpoint: member.endpoint,
            host_id: member.host_id,
            dc: Arc::clone(&member.dc),
            rack: Arc::clone(&member.rack),
            tokens: member.tokens.clone(),
            role,
            generation: member.generation,
        };
        (!node.tokens.is_empty()).then_some(node)
    }

    fn is_owner(&self) -> bool {
        matches!(self.role, Role::Normal | Role::Leaving)
    }
}

#[derive(Debug)]
struct Inner {
    me: Endpoint,
    nodes: BTreeMap<Endpoint, RingNode>,
    owners: BTreeMap<Token, Endpoint>,
    maps: Mutex<HashMap<Replication, Arc<ReplicaMap>>>,
}

/// The ring at one moment. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct RingSnapshot(Arc<Inner>);

impl RingSnapshot {
    /// The ring of these nodes, as `me` sees it.
    pub fn new(me: Endpoint, nodes: impl IntoIterator<Item = RingNode>) -> Self {
        let nodes: BTreeMap<Endpoint, RingNode> = nodes
            .into_iter()
            .map(|node| (node.endpoint, node))
            .collect();
        let mut by_start: Vec<&RingNode> = nodes.values().filter(|node| node.is_owner()).collect();
        by_start.sort_by_key(|node| (node.generation, node.endpoint));
        let owners = by_start
            .iter()
            .flat_map(|node| node.tokens.iter().map(|token| (*token, node.endpoint)))
            .collect();
        Self(Arc::new(Inner {
            me,
            nodes,
            owners,
            maps: Mutex::default(),
        }))
    }

    /// The ring of these members.
    pub fn of_members(me: Endpoint, members: &[Member]) -> Self {
        Self::new(me, members.iter().filter_map(RingNode::of_member))
    }

    /// This node.
    pub fn me(&self) -> Endpoint {
        self.0.me
    }

    /// The nodes, in the order of endpoints: members, joining and replacing ones.
    pub fn nodes(&self) -> impl Iterator<Item = &RingNode> {
        self.0.nodes.values()
    }

    /// One node.
    pub fn node(&self, endpoint: &Endpoint) -> Option<&RingNode> {
        self.0.nodes.get(endpoint)
    }

    /// Every owned token with its owner, ascending.
    pub fn tokens(&self) -> impl Iterator<Item = (Token, Endpoint)> {
        self.0
            .owners
            .iter()
            .map(|(token, endpoint)| (*token, *endpoint))
    }

    /// The ranges that begin behind the token before and end at a token of this node: its primary
    /// ranges, each stored by nobody else as primary.
    pub fn primary_ranges(&self, endpoint: &Endpoint) -> Vec<TokenRange> {
        let tokens: Vec<(Token, Endpoint)> = self.tokens().collect();
        let ranges = TokenRange::between(tokens.iter().map(|(token, _)| *token));
        ranges
            .into_iter()
            .zip(tokens)
            .filter(|(_, (_, owner))| owner == endpoint)
            .map(|(range, _)| range)
            .collect()
    }

    /// The share of the ring that a node's primary ranges cover, 0 to 1.
    pub fn ownership(&self, endpoint: &Endpoint) -> f64 {
        self.primary_ranges(endpoint)
            .iter()
            .map(TokenRange::share)
            .sum()
    }

    /// The replication map of a keyspace, computed at its first use with this snapshot and then kept.
    pub fn replicas(&self, replication: &Replication) -> Result<Arc<ReplicaMap>, ReplicationError> {
        let cached = |maps: &HashMap<Replication, Arc<ReplicaMap>>| maps.get(replication).cloned();
        if let Some(map) = cached(&self.0.maps.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(map);
        }
        let map = Arc::new(self.compute(&Strategy::parse(replication)?));
        self.0
            .maps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(replication.clone(), Arc::clone(&map));
        Ok(map)
    }

    /// The replicas of one token; keep the [`ReplicaMap`] instead where many tokens are asked for.
    pub fn natural_replicas(
        &self,
        replication: &Replication,
        token: Token,
    ) -> Result<Vec<Endpoint>, ReplicationError> {
        Ok(self.replicas(replication)?.at(token).natural.clone())
    }

    fn compute(&self, strategy: &Strategy) -> ReplicaMap {
        let inner = &self.0;
        let now = Placer::new(&inner.nodes, &inner.owners);
        let after_leaving: BTreeMap<Token, Endpoint> = inner
            .owners
            .iter()
            .filter(|(_, owner)| {
                inner
                    .nodes
                    .get(owner)
                    .is_some_and(|n| n.role == Role::Normal)
            })
            .map(|(t, e)| (*t, *e))
            .collect();
        let leaving = after_leaving.len() < inner.owners.len();
        let left = Placer::new(&inner.nodes, &after_leaving);
        let joined: Vec<(Endpoint, BTreeMap<Token, Endpoint>)> = inner
            .nodes
            .values()
            .filter(|node| !node.is_owner())
            .map(|node| (node.endpoint, with_tokens(&after_leaving, node)))
            .collect();
        let joined: Vec<(Endpoint, Placer)> = joined
            .iter()
            .map(|(endpoint, owners)| (*endpoint, Placer::new(&inner.nodes, owners)))
            .collect();

        let joining_tokens = inner
            .nodes
            .values()
            .filter(|node| !node.is_owner())
            .flat_map(|node| node.tokens.iter().copied());
        let ends: BTreeSet<Token> = inner.owners.keys().copied().chain(joining_tokens).collect();
        let place = |end: Token| {
            let natural = now.place(strategy, end, inner.me);
            let mut pending = Vec::new();
            if leaving {
                pending.extend(
                    left.place(strategy, end, inner.me)
                        .into_iter()
                        .filter(|e| !natural.contains(e)),
                );
            }
            for (endpoint, placer) in &joined {
                if !natural.contains(endpoint)
                    && !pending.contains(endpoint)
                    && placer.place(strategy, end, inner.me).contains(endpoint)
                {
                    pending.push(*endpoint);
                }
            }
            Placement { natural, pending }
        };
        if ends.is_empty() || *strategy == Strategy::Local {
            return ReplicaMap {
                factors: strategy.factors(&now),
                ends: vec![Token::MINIMUM],
                placements: vec![place(Token::MINIMUM)],
            };
        }
        let placements = ends.iter().map(|end| place(*end)).collect();
        ReplicaMap {
            factors: strategy.factors(&now),
            ends: ends.into_iter().collect(),
            placements,
        }
    }

    /// The ring as it will be when `node` has joined it and nobody else.
    #[must_use]
    pub fn with(&self, node: RingNode) -> Self {
        let mut nodes = self.0.nodes.clone();
        if let Role::Replacing(replaced) = node.role {
            nodes.remove(&replaced);
        }
        nodes.insert(
            node.endpoint,
            RingNode {
                role: Role::Normal,
                generation: i32::MAX,
                ..node
            },
        );
        Self::new(self.0.me, nodes.into_values())
    }
}

fn with_tokens(owners: &BTreeMap<Token, Endpoint>, node: &RingNode) -> BTreeMap<Token, Endpoint> {
    let mut owners = owners.clone();
    if let Role::Replacing(replaced) = node.role {
        // what it replaces has nothing left, even where the two disagree on the tokens
        owners.retain(|_, owner| *owner != replaced);
    }
    owners.extend(node.tokens.iter().map(|token| (*token, node.endpoint)));
    owners
}

/// The nodes of one part of the ring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Who holds it, in Cassandra's order: the first is the primary replica.
    pub natural: Vec<Endpoint>,
    /// Who is about to: gets writes, answers no reads.
    pub pending: Vec<Endpoint>,
}

/// Where a keyspace's data is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaMap {
    /// Replication factor by data center.
    pub factors: BTreeMap<Arc<str>, usize>,
    /// Last token of each part, ascending; never empty.
    ends: Vec<Token>,
    placements: Vec<Placement>,
}

impl ReplicaMap {
    fn index(&self, token: Token) -> usize {
        let index = self.ends.partition_point(|end| *end < token);
        if index == self.ends.len() { 0 } else { index }
    }

    /// The nodes of a token.
    pub fn at(&self, token: Token) -> &Placement {
        &self.placements[self.index(token)]
    }

    /// The parts in ring order, each with its nodes. The last wraps around to the first token.
    pub fn parts(&self) -> impl Iterator<Item = (TokenRange, &Placement)> {
        TokenRange::between(self.ends.iter().copied())
            .into_iter()
            .zip(&self.placements)
    }

    /// All ranges that a node holds, neighbours joined.
    pub fn ranges_of(&self, endpoint: &Endpoint) -> Vec<TokenRange> {
        TokenRange::joined(
            self.parts()
                .filter(|(_, placement)| placement.natural.contains(endpoint))
                .map(|(range, _)| range),
        )
    }

    /// All ranges that a node is about to hold, neighbours joined.
    pub fn pending_ranges_of(&self, endpoint: &Endpoint) -> Vec<TokenRange> {
        TokenRange::joined(
            self.parts()
                .filter(|(_, placement)| placement.pending.contains(endpoint))
                .map(|(range, _)| range),
        )
    }

    /// The ring cut at every token, as (after, up to and including]; the last ends at
    /// [`Token::MINIMUM`], the end of the ring, so that no range wraps.
    pub fn scan_ranges(&self) -> Vec<(Token, Token)> {
        let mut ranges = Vec::with_capacity(self.ends.len() + 1);
        let mut after = Token::MINIMUM;
        for end in self
            .ends
            .iter()
            .copied()
            .filter(|end| *end != Token::MINIMUM)
        {
            ranges.push((after, end));
            after = end;
        }
        ranges.push((after, Token::MINIMUM));
        ranges
    }
}

#[cfg(test)]
mod tests;
