//! The ring as every thread sees it: an immutable snapshot, swapped whole by the control thread.

use arc_swap::ArcSwap;
use helenus_ring::membership::Member;
use helenus_ring::replication::RingSnapshot;
use helenus_types::{Endpoint, HostId};
use std::collections::HashMap;
use std::sync::Arc;

/// What is known of a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeFacts {
    pub(crate) host_id: Option<HostId>,
    pub(crate) datacenter: Arc<str>,
    pub(crate) up: bool,
}

/// A snapshot of ring and membership.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) me: Endpoint,
    pub(crate) datacenter: Arc<str>,
    pub(crate) ring: RingSnapshot,
    pub(crate) nodes: HashMap<Endpoint, NodeFacts>,
    pub(crate) members: Arc<Vec<Member>>,
}

impl Cluster {
    /// The view of a node that knows these members.
    pub(crate) fn of(me: Endpoint, datacenter: &str, members: Vec<Member>) -> Self {
        let nodes = members
            .iter()
            .map(|member| {
                let facts = NodeFacts {
                    host_id: member.host_id,
                    datacenter: Arc::clone(&member.dc),
                    up: member.alive || member.endpoint == me,
                };
                (member.endpoint, facts)
            })
            .collect();
        Self {
            me,
            datacenter: datacenter.into(),
            ring: RingSnapshot::of_members(me, &members),
            nodes,
            members: Arc::new(members),
        }
    }

    /// Data centers of all known nodes, this one included, in order.
    pub(crate) fn datacenters(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .members
            .iter()
            .map(|member| member.dc.to_string())
            .collect();
        names.push(self.datacenter.to_string());
        names.sort();
        names.dedup();
        names.retain(|name| !name.is_empty());
        names
    }
}

/// Where every thread finds the newest snapshot.
pub(crate) type SharedCluster = Arc<ArcSwap<Cluster>>;
