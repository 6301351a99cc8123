//! Replication strategies.

use super::RingNode;
use helenus_schema::Replication;
use helenus_types::{Endpoint, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A replication that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicationError {
    /// A class that this version does not know.
    #[error(
        "replication strategy {0} is not supported: use NetworkTopologyStrategy, SimpleStrategy, EverywhereStrategy or LocalStrategy"
    )]
    UnknownStrategy(String),
    /// An option that is not a number.
    #[error("replication factor {value:?} of {option} is not a number of nodes")]
    BadFactor {
        /// The option.
        option: String,
        /// Its value.
        value: String,
    },
    /// Transient replication.
    #[error("transient replication ({0}) is not supported")]
    Transient(String),
    /// No factor given.
    #[error("SimpleStrategy needs the option replication_factor")]
    MissingFactor,
}

/// A parsed strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// This node only.
    Local,
    /// Every member.
    Everywhere,
    /// The next so many nodes around the ring, wherever they are.
    Simple(usize),
    /// So many nodes in each data center, in different racks where possible.
    NetworkTopology(BTreeMap<String, usize>),
}

impl Strategy {
    /// Reads class and options. NetworkTopologyStrategy's `replication_factor` is expanded to data
    /// centers when a keyspace is created; found here, it is refused as Cassandra refuses it.
    pub fn parse(replication: &Replication) -> Result<Self, ReplicationError> {
        match replication.short_class() {
            "LocalStrategy" => Ok(Self::Local),
            "EverywhereStrategy" => Ok(Self::Everywhere),
            "SimpleStrategy" | "OldNetworkTopologyStrategy" => {
                let text = replication
                    .options
                    .get("replication_factor")
                    .ok_or(ReplicationError::MissingFactor)?;
                Ok(Self::Simple(factor("replication_factor", text)?))
            }
            "NetworkTopologyStrategy" => {
                let factors = replication
                    .options
                    .iter()
                    .filter(|(option, _)| *option != "class");
                Ok(Self::NetworkTopology(
                    factors
                        .map(|(dc, text)| Ok((dc.clone(), factor(dc, text)?)))
                        .collect::<Result<_, ReplicationError>>()?,
                ))
            }
            other => Err(ReplicationError::UnknownStrategy(other.to_owned())),
        }
    }

    /// Replication factor by data center; for strategies that know no data centers, all under the
    /// empty name.
    pub(super) fn factors(&self, placer: &Placer) -> BTreeMap<Arc<str>, usize> {
        match self {
            Self::Local => BTreeMap::from([(Arc::from(""), 1)]),
            Self::Everywhere => BTreeMap::from([(Arc::from(""), placer.members().len())]),
            Self::Simple(factor) => BTreeMap::from([(Arc::from(""), *factor)]),
            Self::NetworkTopology(factors) => factors
                .iter()
                .map(|(dc, factor)| (Arc::from(dc.as_str()), *factor))
                .collect(),
        }
    }
}

fn factor(option: &str, text: &str) -> Result<usize, ReplicationError> {
    if text.contains('/') {
        return Err(ReplicationError::Transient(text.to_owned()));
    }
    text.trim()
        .parse()
        .map_err(|_| ReplicationError::BadFactor {
            option: option.to_owned(),
            value: text.to_owned(),
        })
}

/// Counts what a data center has, to know when it is exhausted.
#[derive(Debug, Default)]
struct Datacenter {
    nodes: usize,
    racks: BTreeSet<Arc<str>>,
}

/// Places tokens on a ring of owners.
#[derive(Debug)]
pub struct Placer<'a> {
    nodes: &'a BTreeMap<Endpoint, RingNode>,
    ring: Vec<(Token, Endpoint)>,
    members: BTreeSet<Endpoint>,
    datacenters: BTreeMap<Arc<str>, Datacenter>,
}

/// What a data center still needs for one token.
struct Quota {
    left: usize,
    rack_repeats: usize,
    racks: BTreeSet<Arc<str>>,
}

impl<'a> Placer<'a> {
    /// For these owners of tokens; all of them are in `nodes`.
    pub fn new(
        nodes: &'a BTreeMap<Endpoint, RingNode>,
        owners: &BTreeMap<Token, Endpoint>,
    ) -> Self {
        let ring: Vec<(Token, Endpoint)> = owners
            .iter()
            .map(|(token, endpoint)| (*token, *endpoint))
            .collect();
        let members: BTreeSet<Endpoint> = owners.values().copied().collect();
        let mut datacenters: BTreeMap<Arc<str>, Datacenter> = BTreeMap::new();
        for node in members.iter().filter_map(|endpoint| nodes.get(endpoint)) {
            let datacenter = datacenters.entry(Arc::clone(&node.dc)).or_default();
            datacenter.nodes += 1;
            datacenter.racks.insert(Arc::clone(&node.rack));
        }
        Self {
            nodes,
            ring,
            members,
            datacenters,
        }
    }

    fn members(&self) -> &BTreeSet<Endpoint> {
        &self.members
    }

    /// Owners around the ring from the first token not below `token`, as often as they have tokens.
    fn around(&self, token: Token) -> impl Iterator<Item = Endpoint> {
        let start = self.ring.partition_point(|(end, _)| *end < token);
        self.ring[start..]
            .iter()
            .chain(&self.ring[..start])
            .map(|(_, endpoint)| *endpoint)
    }

    /// The replicas of `token` in Cassandra's order.
    pub fn place(&self, strategy: &Strategy, token: Token, me: Endpoint) -> Vec<Endpoint> {
        match strategy {
            Strategy::Local => vec![me],
            Strategy::Everywhere => self.members.iter().copied().collect(),
            Strategy::Simple(factor) => {
                let mut replicas = Vec::with_capacity(*factor);
                for endpoint in self.around(token) {
                    if replicas.len() >= *factor {
                        break;
                    }
                    if !replicas.contains(&endpoint) {
                        replicas.push(endpoint);
                    }
                }
                replicas
            }
            Strategy::NetworkTopology(factors) => self.place_by_topology(factors, token),
        }
    }

    fn place_by_topology(&self, factors: &BTreeMap<String, usize>, token: Token) -> Vec<Endpoint> {
        let mut quotas: BTreeMap<&str, Quota> = BTreeMap::new();
        for (dc, factor) in factors {
            let Some(datacenter) = self.datacenters.get(dc.as_str()).filter(|_| *factor > 0) else {
                continue;
            };
            // a node of every rack, and when there are fewer racks than copies, the first met fill up
            let rack_repeats = factor.saturating_sub(datacenter.racks.len());
            quotas.insert(
                dc,
                Quota {
                    left: (*factor).min(datacenter.nodes),
                    rack_repeats,
                    racks: BTreeSet::new(),
                },
            );
        }
        let mut open = quotas.len();
        let mut replicas = Vec::new();
        for endpoint in self.around(token) {
            if open == 0 {
                break;
            }
            let Some(node) = self.nodes.get(&endpoint) else {
                continue;
            };
            let Some(quota) = quotas.get_mut(&*node.dc).filter(|quota| quota.left > 0) else {
                continue;
            };
            if replicas.contains(&endpoint) {
                continue;
            }
            if !quota.racks.insert(Arc::clone(&node.rack)) {
                if quota.rack_repeats == 0 {
                    continue;
                }
                quota.rack_repeats -= 1;
            }
            quota.left -= 1;
            open -= usize::from(quota.left == 0);
            replicas.push(endpoint);
        }
        replicas
    }
}
