//! What the gossiper is told at its start.

use crate::failure_detector::DEFAULT_PHI_THRESHOLD;
use helenus_internode::MessagingVersion;
use helenus_internode::gossip::ApplicationState;
use helenus_types::{Endpoint, HostId};
use std::net::SocketAddr;
use std::time::Duration;
use uuid::Uuid;

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time since an arbitrary start; never goes back.
    pub monotonic: Duration,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

impl Moment {
    /// Seconds since 1970.
    pub fn wall_seconds(&self) -> i64 {
        self.wall_ms.div_euclid(1000)
    }
}

/// Settings of the gossiper.
#[derive(Debug, Clone, PartialEq)]
pub struct GossipSettings {
    /// `cluster_name`.
    pub cluster: String,
    /// Class name of the partitioner.
    pub partitioner: String,
    /// Our broadcast address and storage port.
    pub me: Endpoint,
    /// The seeds; we may be among them.
    pub seeds: Vec<Endpoint>,
    /// Time between rounds; Cassandra's is one second.
    pub interval: Duration,
    /// How long changes of the ring are given to reach everybody (`cassandra.ring_delay_ms`).
    pub ring_delay: Duration,
    /// `phi_convict_threshold`.
    pub phi_threshold: f64,
}

impl GossipSettings {
    /// Cassandra's defaults for a node of this cluster.
    pub fn new(cluster: impl Into<String>, me: Endpoint, seeds: Vec<Endpoint>) -> Self {
        Self {
            cluster: cluster.into(),
            partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
            me,
            seeds,
            interval: Duration::from_secs(1),
            ring_delay: Duration::from_secs(30),
            phi_threshold: DEFAULT_PHI_THRESHOLD,
        }
    }

    pub(super) fn quarantine(&self) -> Duration {
        self.ring_delay * 2
    }

    pub(super) fn fat_client_timeout(&self) -> Duration {
        self.ring_delay
    }

    pub(super) fn failed_bootstrap_timeout(&self) -> Duration {
        self.ring_delay * 10
    }
}

/// What a node says of itself, but its status and tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalNode {
    /// Its identity.
    pub host_id: HostId,
    /// Data center.
    pub dc: String,
    /// Rack.
    pub rack: String,
    /// Version as `5.0.5`: tools, drivers and schema agreement read it.
    pub release_version: String,
    /// The newest messaging version it speaks.
    pub messaging: MessagingVersion,
    /// The address by which nodes of its own network may reach it.
    pub internal: Endpoint,
    /// Where CQL is served.
    pub native: SocketAddr,
    /// Version of its schema.
    pub schema: Uuid,
    /// Formats of its SSTables, such as `bti-da`.
    pub sstable_versions: String,
}

impl LocalNode {
    pub(super) fn states(&self) -> Vec<(ApplicationState, String)> {
        vec![
            (
                ApplicationState::NetVersion,
                self.messaging.number().to_string(),
            ),
            (ApplicationState::HostId, self.host_id.to_string()),
            (
                ApplicationState::NativeAddressAndPort,
                self.native.to_string(),
            ),
            (ApplicationState::RpcAddress, self.native.ip().to_string()),
            (
                ApplicationState::ReleaseVersion,
                self.release_version.clone(),
            ),
            (
                ApplicationState::SstableVersions,
                self.sstable_versions.clone(),
            ),
            (
                ApplicationState::InternalAddressAndPort,
                self.internal.to_string(),
            ),
            (
                ApplicationState::InternalIp,
                self.internal.address().to_string(),
            ),
            (ApplicationState::Dc, self.dc.clone()),
            (ApplicationState::Rack, self.rack.clone()),
            (ApplicationState::Schema, self.schema.to_string()),
            (ApplicationState::RpcReady, "false".to_owned()),
        ]
    }
}
