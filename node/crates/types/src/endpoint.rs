//! Who a node is (host id) and where it is (endpoint).

use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// A node's identity, kept with its data for life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub Uuid);

impl std::fmt::Display for HostId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The broadcast address and storage port by which the ring knows a node (Cassandra's
/// `InetAddressAndPort`). Ordered as Cassandra orders them: address bytes, then port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint(pub SocketAddr);

impl Endpoint {
    /// An endpoint of an address and a storage port.
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self(SocketAddr::new(address, port))
    }

    /// The address without the port.
    pub fn address(&self) -> IpAddr {
        self.0.ip()
    }

    /// The storage port.
    pub fn port(&self) -> u16 {
        self.0.port()
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
