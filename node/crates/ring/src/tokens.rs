//! Tokens for a new node.
//!
//! The first node spaces its tokens evenly. Later ones take their share from those who have most:
//! exactly, where each rack (or, with one copy, the data center) holds every token once, so that
//! only its own nodes matter; by trying positions and keeping the best, where copies of a rack's
//! nodes overlap. The aim, tested: with 16 tokens no node's share is further than a tenth from
//! another's.

use crate::replication::RingSnapshot;
use helenus_seams::Entropy;
use helenus_types::{Endpoint, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const RING: u128 = 1 << 64;
/// How many of the largest ranges are tried for each token.
const TRIED_RANGES: usize = 48;
/// Where in a range, in eighths from its start.
const TRIED_EIGHTHS: [u128; 5] = [2, 3, 4, 5, 6];

/// How often all tokens of a node are moved to better places, where there are such.
const REFINEMENTS: usize = 2;

/// In larger rings one node's tokens matter too little for it to be worth the time.
const REFINED_TOKENS: usize = 1024;

/// What is to be allocated.
#[derive(Debug, Clone, Copy)]
pub struct Allocation<'a> {
    /// The new node's data center: only its nodes matter.
    pub dc: &'a str,
    /// The new node's rack.
    pub rack: &'a str,
    /// How many tokens (`num_tokens`).
    pub count: usize,
    /// Copies in the data center (`allocate_tokens_for_local_replication_factor`).
    pub factor: usize,
}

/// Tokens for a node that is not in `ring` yet, ascending, none of them taken by any other node,
/// joining ones and those of other data centers included.
pub fn allocate(ring: &RingSnapshot, wanted: &Allocation, entropy: &dyn Entropy) -> Vec<Token> {
    let taken: BTreeSet<Token> = ring
        .nodes()
        .flat_map(|node| node.tokens.iter().copied())
        .collect();
    let mut group = Group::default();
    let mut racks: BTreeSet<&str> = BTreeSet::from([wanted.rack]);
    for node in ring.nodes().filter(|node| &*node.dc == wanted.dc) {
        racks.insert(&node.rack);
        group.add(node.endpoint, &node.rack, &node.tokens);
    }
    let per_rack = wanted.factor > 1 && racks.len() == wanted.factor;
    // the first node of a rack holds all of the rack's copy: it only has to lie well among the others
    let has_neighbours = ring
        .nodes()
        .any(|node| &*node.dc == wanted.dc && &*node.rack == wanted.rack);
    if per_rack && has_neighbours {
        group = Group::default();
        for node in ring
            .nodes()
            .filter(|node| &*node.dc == wanted.dc && &*node.rack == wanted.rack)
        {
            group.add(node.endpoint, &node.rack, &node.tokens);
        }
    }
    let positions = if group.ring.is_empty() {
        even(wanted.count, entropy.next_u64())
    } else if per_rack || wanted.factor <= 1 || group.endpoints.len() < wanted.factor {
        // with no more nodes than copies every choice is equal: balance the primary ranges
        group.split_exactly(wanted.count)
    } else {
        group.try_positions(wanted.count, wanted.factor, wanted.rack)
    };
    free_tokens(positions, &taken)
}

/// `count` positions at equal distances from `offset`.
fn even(count: usize, offset: u64) -> Vec<u64> {
    let count = count.max(1) as u128;
    (0..count)
        .map(|n| offset.wrapping_add(position(RING * n / count)))
        .collect()
}

fn position(distance: u128) -> u64 {
    u64::try_from(distance % RING).unwrap_or_default()
}

fn token_at(position: u64) -> Token {
    Token((position ^ (1 << 63)).cast_signed())
}

fn position_of(token: Token) -> u64 {
    token.0.cast_unsigned() ^ (1 << 63)
}

fn free_tokens(positions: Vec<u64>, taken: &BTreeSet<Token>) -> Vec<Token> {
    let mut tokens = BTreeSet::new();
    for mut position in positions {
        // the lowest token marks the start of the ring and belongs to nobody
        while position == 0
            || taken.contains(&token_at(position))
            || tokens.contains(&token_at(position))
        {
            position = position.wrapping_add(1);
        }
        tokens.insert(token_at(position));
    }
    tokens.into_iter().collect()
}

/// The nodes whose ranges the new node shares, by index.
#[derive(Debug, Default)]
struct Group {
    ring: BTreeMap<u64, usize>,
    endpoints: Vec<Endpoint>,
    racks: Vec<Arc<str>>,
}

impl Group {
    fn add(&mut self, endpoint: Endpoint, rack: &Arc<str>, tokens: &[Token]) {
        let index = self.endpoints.len();
        self.endpoints.push(endpoint);
        self.racks.push(Arc::clone(rack));
        self.ring
            .extend(tokens.iter().map(|token| (position_of(*token), index)));
    }

    /// (start, size, owner) of every range.
    fn ranges(&self) -> Vec<(u64, u128, usize)> {
        let last = self.ring.keys().next_back().copied().unwrap_or(0);
        let mut before = last;
        let mut ranges = Vec::with_capacity(self.ring.len());
        for (end, owner) in &self.ring {
            let size = u128::from(end.wrapping_sub(before));
            ranges.push((before, if size == 0 { RING } else { size }, *owner));
            before = *end;
        }
        ranges
    }

    /// Each node holds only its own ranges: take the new node's share in `count` parts, each from
    /// the largest range of the node that has most by then.
    fn split_exactly(&self, count: usize) -> Vec<u64> {
        let mut ranges = self.ranges();
        let mut owned = vec![0_u128; self.endpoints.len()];
        for (_, size, owner) in &ranges {
            owned[*owner] += size;
        }
        let target = RING / (self.endpoints.len() as u128 + 1);
        let mut mine = 0_u128;
        let mut positions = Vec::with_capacity(count);
        for left in (1..=count).rev() {
            let wanted = target.saturating_sub(mine) / left as u128;
            let richest = (0..owned.len())
                .max_by_key(|owner| owned[*owner])
                .unwrap_or(0);
            let Some(range) = ranges
                .iter_mut()
                .filter(|(_, _, owner)| *owner == richest)
                .max_by_key(|(_, size, _)| *size)
            else {
                break;
            };
            let part = wanted.min(range.1 * 3 / 4).max(1);
            let at = range.0.wrapping_add(position(part));
            *range = (at, range.1.saturating_sub(part), range.2);
            owned[richest] = owned[richest].saturating_sub(part);
            mine += part;
            positions.push(at);
        }
        positions
    }

    /// Copies overlap: for each token try positions in the largest ranges, and keep the one after
    /// which the shares are nearest to equal; then try to move each token to a better place.
    fn try_positions(mut self, count: usize, factor: usize, rack: &str) -> Vec<u64> {
        let me = self.endpoints.len();
        self.endpoints.push(Endpoint::new([0, 0, 0, 0].into(), 0));
        self.racks.push(rack.into());
        let mut positions = Vec::with_capacity(count);
        for taken in 1..=count {
            let Some((_, at)) =
                self.best_position(|group| group.imbalance(factor, me, taken, count))
            else {
                break;
            };
            self.ring.insert(at, me);
            positions.push(at);
        }
        let refinements = if self.ring.len() <= REFINED_TOKENS {
            REFINEMENTS
        } else {
            0
        };
        for _ in 0..refinements {
            for position in &mut positions {
                let before = self.imbalance(factor, me, count, count);
                self.ring.remove(position);
                if let Some((cost, at)) =
                    self.best_position(|group| group.imbalance(factor, me, count, count))
                    && cost < before
                {
                    *position = at;
                }
                self.ring.insert(*position, me);
            }
        }
        positions
    }

    /// The position tried at which one more token of the last node costs least.
    fn best_position(&mut self, cost_of: impl Fn(&Self) -> u128) -> Option<(u128, u64)> {
        let me = self.endpoints.len() - 1;
        let mut ranges = self.ranges();
        ranges.sort_by_key(|(start, size, _)| (std::cmp::Reverse(*size), *start));
        let mut best: Option<(u128, u64)> = None;
        for (start, size, _) in ranges.into_iter().take(TRIED_RANGES) {
            for eighths in TRIED_EIGHTHS {
                let at = start.wrapping_add(position(size * eighths / 8));
                if self.ring.contains_key(&at) {
                    continue;
                }
                self.ring.insert(at, me);
                let cost = cost_of(self);
                self.ring.remove(&at);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, at));
                }
            }
        }
        best
    }

    /// How far shares are from equal; the new node is due only the part of its tokens it has.
    fn imbalance(&self, factor: usize, me: usize, taken: usize, count: usize) -> u128 {
        let shares = self.shares(factor);
        let due = RING * factor.min(shares.len()) as u128 / shares.len() as u128;
        let due_of = |node: usize| {
            if node == me {
                due * taken as u128 / count as u128
            } else {
                due
            }
        };
        // in units of 2^-24 of the ring, that squares can be added
        shares
            .iter()
            .enumerate()
            .map(|(node, share)| (share.abs_diff(due_of(node)) >> 24).pow(2))
            .sum()
    }

    /// How much of the ring each node holds a copy of.
    fn shares(&self, factor: usize) -> Vec<u128> {
        let owners: Vec<usize> = self.ring.values().copied().collect();
        let racks: BTreeSet<&Arc<str>> = owners.iter().map(|owner| &self.racks[*owner]).collect();
        let nodes: BTreeSet<usize> = owners.iter().copied().collect();
        let mut shares = vec![0; self.endpoints.len()];
        let mut chosen: Vec<usize> = Vec::with_capacity(factor);
        for (index, (_, size, _)) in self.ranges().into_iter().enumerate() {
            chosen.clear();
            let mut repeats = factor.saturating_sub(racks.len());
            for owner in owners[index..].iter().chain(&owners[..index]) {
                if chosen.len() == factor.min(nodes.len()) {
                    break;
                }
                if chosen.contains(owner) {
                    continue;
                }
                if chosen
                    .iter()
                    .any(|other| self.racks[*other] == self.racks[*owner])
                {
                    if repeats == 0 {
                        continue;
                    }
                    repeats -= 1;
                }
                chosen.push(*owner);
            }
            for owner in &chosen {
                shares[*owner] += size;
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::{RingNode, Role, TokenRange};
    use helenus_schema::Replication;
    use helenus_seams::SeededEntropy;

    /// Grows a data center node by node; the spread of shares among nodes of a rack, or of the
    /// whole data center when racks do not hold everything.
    fn check(racks: usize, factor: usize, nodes: u8, expected: f64) {
        let entropy = SeededEntropy::new(7);
        let me = Endpoint::new([10, 0, 0, 0].into(), 7000);
        let mut members: Vec<RingNode> = Vec::new();
        let replication = Replication {
            class: "NetworkTopologyStrategy".into(),
            options: BTreeMap::from([("dc".into(), factor.to_string())]),
        };
        for n in 0..nodes {
            let rack = format!("r{}", usize::from(n) % racks);
            let ring = RingSnapshot::new(me, members.clone());
            let tokens = allocate(
                &ring,
                &Allocation {
                    dc: "dc",
                    rack: &rack,
                    count: 16,
                    factor,
                },
                &entropy,
            );
            assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), 16);
            members.push(RingNode {
                endpoint: Endpoint::new([10, 0, 0, n].into(), 7000),
                host_id: None,
                dc: "dc".into(),
                rack: rack.as_str().into(),
                tokens,
                role: Role::Normal,
                generation: 1,
            });
            let ring = RingSnapshot::new(me, members.clone());
            let map = ring.replicas(&replication).unwrap();
            let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            for node in ring.nodes() {
                let share: f64 = map
                    .ranges_of(&node.endpoint)
                    .iter()
                    .map(TokenRange::share)
                    .sum();
                let group = if racks == factor {
                    node.rack.to_string()
                } else {
                    String::new()
                };
                groups.entry(group).or_default().push(share);
            }
            if n < 2 || (racks != factor && racks > 1 && (usize::from(n) + 1) % racks != 0) {
                continue;
            }
            for (rack, shares) in groups {
                let (least, most) = shares
                    .iter()
                    .fold((f64::MAX, 0_f64), |(a, b), s| (a.min(*s), b.max(*s)));
                #[expect(clippy::cast_precision_loss, reason = "a handful of nodes")]
                let mean = shares.iter().sum::<f64>() / shares.len() as f64;
                let spread = (most - least) / mean;
                assert!(
                    spread <= expected,
                    "{racks} racks, factor {factor}, {} nodes, rack {rack:?}: spread {spread:.3} of {shares:?}",
                    n + 1
                );
            }
        }
    }

    #[test]
    fn shares_are_equal_within_a_tenth() {
        check(1, 1, 6, 0.10);
        check(1, 3, 6, 0.10);
        check(3, 3, 12, 0.10);
        check(2, 2, 6, 0.10);
        check(3, 1, 6, 0.10);
        check(2, 3, 6, 0.10);
        check(3, 2, 6, 0.10);
    }

    #[test]
    fn the_first_node_is_even_and_no_token_is_taken_twice() {
        let entropy = SeededEntropy::new(1);
        let me = Endpoint::new([10, 0, 0, 0].into(), 7000);
        let wanted = Allocation {
            dc: "dc",
            rack: "r",
            count: 4,
            factor: 1,
        };
        let first = allocate(&RingSnapshot::new(me, []), &wanted, &entropy);
        let sizes: Vec<u128> = TokenRange::between(first.iter().copied())
            .iter()
            .map(TokenRange::size)
            .collect();
        assert_eq!(sizes, [1 << 62; 4]);
        // another data center whose tokens are exactly those that would be chosen next
        let node = |n: u8, dc: &str, tokens: &[Token]| RingNode {
            endpoint: Endpoint::new([10, 0, 0, n].into(), 7000),
            host_id: None,
            dc: dc.into(),
            rack: "r".into(),
            tokens: tokens.to_vec(),
            role: Role::Normal,
            generation: 1,
        };
        let one = node(1, "dc", &first);
        let next = allocate(&RingSnapshot::new(me, [one.clone()]), &wanted, &entropy);
        let other = allocate(
            &RingSnapshot::new(me, [one, node(2, "other", &next)]),
            &wanted,
            &entropy,
        );
        assert!(other.iter().all(|token| !next.contains(token)));
        assert_eq!(other.len(), 4);
    }
}
