//! Names and addresses of a region, derived from its name and number only.
//!
//! L1: two regions with different numbers share no address. Region `i` owns 10.(100+i).0.0/16: 10.x.0.0/24 are the boxes
//! themselves, 10.x.N.0/24 the pods of node N, 10.x.128.0/20 the services, 10.x.254.0/30 the link to the machine.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// What a region was made with; kept in its folder as `region.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Name of the region, also the prefix of its nodes' names.
    pub name: String,
    /// Number of the region on this machine, 1 to 99.
    pub index: u8,
    /// Zones, by their last part: `a` is the zone `us-east-a`.
    pub zones: Vec<String>,
    /// Kubernetes nodes in each zone.
    pub nodes_per_zone: u8,
    /// The cluster's DNS domain.
    pub domain: String,
}

/// One Kubernetes node of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of its box within the region: `a`, or `a2` for the second node of zone a.
    pub short: String,
    /// Name in Kubernetes.
    pub name: String,
    /// Zone label.
    pub zone: String,
    /// 1, 2, 3, … within the region.
    pub number: u8,
}

/// Largest number of nodes: their pod networks must stay below 10.x.128.0.
const MAX_NODES: usize = 100;

impl Layout {
    /// Refuses names that would not fit into interface names, and too many nodes.
    pub fn check(&self) -> Result<()> {
        let plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        ensure!(
            plain(&self.name)
                && self.name.len() <= 11
                && self.name.starts_with(|c: char| c.is_ascii_lowercase()),
            "region {:?}: a name has 1 to 11 lower-case letters, digits and hyphens, because interface names are short",
            self.name
        );
        ensure!(!self.zones.is_empty(), "a region needs a zone");
        for zone in &self.zones {
            ensure!(
                zone.len() <= 4 && zone.bytes().all(|b| b.is_ascii_lowercase()) && !zone.is_empty(),
                "zone {zone:?}: one to four lower-case letters, please"
            );
        }
        ensure!(
            (1..=99).contains(&self.index),
            "region number {} is not between 1 and 99",
            self.index
        );
        let nodes = self.zones.len() * usize::from(self.nodes_per_zone);
        ensure!(
            (1..=MAX_NODES).contains(&nodes),
            "{nodes} nodes: between 1 and {MAX_NODES}, please"
        );
        Ok(())
    }

    /// The nodes, the first one of every zone first.
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut number = 0;
        for copy in 1..=self.nodes_per_zone {
            for zone in &self.zones {
                number += 1;
                let short = if copy == 1 {
                    zone.clone()
                } else {
                    format!("{zone}{copy}")
                };
                let name = format!("{}-{short}", self.name);
                nodes.push(Node {
                    short,
                    name,
                    zone: format!("{}-{zone}", self.name),
                    number,
                });
            }
        }
        nodes
    }

    fn net(&self) -> String {
        format!("10.{}", 100 + u16::from(self.index))
    }
    /// Every address of the region.
    pub fn cidr(&self) -> String {
        format!("{}.0.0/16", self.net())
    }
    /// Router, apiserver and DNS server.
    pub fn control_plane_ip(&self) -> String {
        format!("{}.0.1", self.net())
    }
    /// The machine, as seen from inside.
    pub fn host_ip(&self) -> String {
        format!("{}.254.1", self.net())
    }
    /// The region's end of the link to the machine.
    pub fn uplink_ip(&self) -> String {
        format!("{}.254.2", self.net())
    }
    /// All pods and boxes.
    pub fn pods(&self) -> String {
        format!("{}.0.0/17", self.net())
    }
    /// Service addresses.
    pub fn services(&self) -> String {
        format!("{}.128.0/20", self.net())
    }
    /// Address of the service `kubernetes`.
    pub fn first_service_ip(&self) -> String {
        format!("{}.128.1", self.net())
    }
    /// URL of the apiserver.
    pub fn api(&self) -> String {
        format!("https://{}:6443", self.control_plane_ip())
    }
    /// Network namespace of the control plane.
    pub fn namespace(&self) -> String {
        format!("hel-{}", self.name)
    }
    /// Network namespace of a node. The dot keeps node `a` of a region `us` apart from a region `us-a`.
    pub fn node_namespace(&self, node: &Node) -> String {
        format!("hel-{}.{}", self.name, node.short)
    }
    /// Address of a node.
    pub fn node_ip(&self, node: &Node) -> String {
        format!("{}.0.{}", self.net(), 10 + node.number)
    }
    /// Pod network of a node.
    pub fn node_pods(&self, node: &Node) -> String {
        format!("{}.{}.0/24", self.net(), node.number)
    }
    /// Interface on the machine that leads into the region.
    pub fn uplink(&self) -> String {
        format!("hel-{}", self.name)
    }
    /// Interface in this region that leads to another.
    pub fn link_to(&self, other: &Layout) -> String {
        format!("wan-{}", other.name)
    }
    /// The addresses of this region's and the other's end of their link.
    pub fn link_ips(&self, other: &Layout) -> (String, String) {
        let (low, high) = (self.index.min(other.index), self.index.max(other.index));
        // 99 regions make 4,851 pairs, and a /30 needs 4 addresses: they fit into 10.96.0.0/14
        let pair = u32::from(high) * u32::from(high - 1) / 2 + u32::from(low);
        let address = |last: u32| {
            let offset = pair * 4 + last;
            format!(
                "10.{}.{}.{}",
                96 + (offset >> 16),
                (offset >> 8) & 255,
                offset & 255
            )
        };
        if self.index < other.index {
            (address(1), address(2))
        } else {
            (address(2), address(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn layout(index: u8, nodes_per_zone: u8) -> Layout {
        Layout {
            name: "us-east".into(),
            index,
            zones: ["a", "b", "c"].map(String::from).to_vec(),
            nodes_per_zone,
            domain: "cluster.local".into(),
        }
    }

    #[test]
    fn nodes_are_numbered_zone_by_zone() {
        let nodes: Vec<_> = layout(1, 2)
            .nodes()
            .into_iter()
            .map(|n| (n.name, n.zone, n.number))
            .collect();
        let expected = |name: &str, zone: &str, number| {
            (format!("us-east-{name}"), format!("us-east-{zone}"), number)
        };
        assert_eq!(nodes[0], expected("a", "a", 1));
        assert_eq!(nodes[3], expected("a2", "a", 4));
        assert_eq!(nodes.len(), 6);
    }

    #[test]
    fn l1_links_share_no_address() {
        let mut seen = BTreeSet::new();
        for low in 1..=99 {
            for high in low + 1..=99 {
                let (a, b) = layout(low, 1).link_ips(&layout(high, 1));
                assert_eq!(
                    (b.clone(), a.clone()),
                    layout(high, 1).link_ips(&layout(low, 1))
                );
                assert!(a.starts_with("10.96."), "{a}");
                assert!(seen.insert(a) && seen.insert(b));
            }
        }
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        assert!(layout(1, 1).check().is_ok());
        assert!(
            Layout {
                name: "much-too-long".into(),
                ..layout(1, 1)
            }
            .check()
            .is_err()
        );
        assert!(
            Layout {
                name: "Big".into(),
                ..layout(1, 1)
            }
            .check()
            .is_err()
        );
        assert!(
            Layout {
                zones: vec![],
                ..layout(1, 1)
            }
            .check()
            .is_err()
        );
        assert!(layout(1, 60).check().is_err());
    }
}
