//! `system.local` and `system.peers(_v2)`: what the node keeps of itself and its peers, and what
//! drivers read.

use super::Control;
use crate::queries::{Queries, quoted};
use anyhow::{Context, Result};
use bytes::Bytes;
use helenus_ring::SavedPeer;
use helenus_types::{CqlType, Endpoint, HostId, Token};
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// The version of Cassandra that this node stands for: tools, drivers and peers go by it.
pub(crate) const RELEASE_VERSION: &str = "5.0.5";
const CQL_VERSION: &str = "3.4.7";

/// What the node's tables say of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct SavedLocal {
    pub(crate) host_id: Option<Uuid>,
    pub(crate) generation: i32,
    pub(crate) bootstrapped: bool,
    pub(crate) tokens: Vec<Token>,
    pub(crate) cluster_name: Option<String>,
}

fn text(value: Option<&Bytes>) -> Option<String> {
    value.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
}

fn uuid(value: Option<&Bytes>) -> Option<Uuid> {
    value.and_then(|bytes| Uuid::from_slice(bytes).ok())
}

fn int(value: Option<&Bytes>) -> Option<i32> {
    value
        .and_then(|bytes| bytes[..].try_into().ok())
        .map(i32::from_be_bytes)
}

fn address(value: Option<&Bytes>) -> Option<IpAddr> {
    let bytes = value?;
    <[u8; 4]>::try_from(&bytes[..])
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(&bytes[..]).map(IpAddr::from))
        .ok()
}

fn tokens(value: Option<&Bytes>) -> Vec<Token> {
    let set = CqlType::Set {
        element: Arc::new(CqlType::Text),
        frozen: false,
    };
    let decoded = value.and_then(|bytes| set.decode(bytes).ok());
    let Some(helenus_types::value::Value::Set(elements)) = decoded else {
        return Vec::new();
    };
    elements
        .iter()
        .filter_map(|element| match element {
            helenus_types::value::Value::Text(token) => token.parse().ok().map(Token),
            _ => None,
        })
        .collect()
}

/// Reads what an earlier life of this node stored.
pub(crate) async fn read_local(queries: &Queries) -> Result<SavedLocal> {
    let rows = queries
        .run("SELECT host_id, gossip_generation, bootstrapped, tokens, cluster_name FROM system.local WHERE key = 'local'")
        .await
        .context("read system.local")?;
    let Some(row) = rows.first() else {
        return Ok(SavedLocal::default());
    };
    let value = |at: usize| row.get(at).and_then(Option::as_ref);
    Ok(SavedLocal {
        host_id: uuid(value(0)),
        generation: int(value(1)).unwrap_or(0),
        bootstrapped: text(value(2)).as_deref() == Some("COMPLETED"),
        tokens: tokens(value(3)),
        cluster_name: text(value(4)),
    })
}

/// Reads the peers of an earlier life.
pub(crate) async fn read_peers(queries: &Queries) -> Result<Vec<SavedPeer>> {
    let rows = queries
        .run("SELECT peer, peer_port, host_id, tokens, data_center, rack FROM system.peers_v2")
        .await
        .context("read system.peers_v2")?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let value = |at: usize| row.get(at).and_then(Option::as_ref);
            let port = u16::try_from(int(value(1))?).ok()?;
            Some(SavedPeer {
                endpoint: Endpoint::new(address(value(0))?, port),
                host_id: HostId(uuid(value(2))?),
                tokens: tokens(value(3)),
                dc: text(value(4))?,
                rack: text(value(5))?,
            })
        })
        .collect())
}

impl Control {
    /// Updates columns of this node's row.
    pub(super) async fn store_local(&self, assignments: &str) -> Result<()> {
        let query = format!("UPDATE system.local SET {assignments} WHERE key = 'local'");
        self.queries
            .run(&query)
            .await
            .with_context(|| format!("store in system.local: {assignments}"))?;
        Ok(())
    }

    /// Writes what the settings say of this node.
    pub(crate) async fn store_settings(&self, host_id: Uuid) -> Result<()> {
        let settings = &self.shared.settings;
        let schema = self.shared.schema.load();
        self.store_local(&format!(
            "broadcast_address = '{}', broadcast_port = {port}, cluster_name = {}, cql_version = '{CQL_VERSION}', \
             data_center = {}, host_id = {host_id}, listen_address = '{}', listen_port = {port}, \
             native_protocol_version = '5', partitioner = 'org.apache.cassandra.dht.Murmur3Partitioner', rack = {}, \
             release_version = '{RELEASE_VERSION}', rpc_address = '{}', rpc_port = {}, schema_version = {}",
            settings.broadcast_address,
            quoted(&settings.cluster_name),
            quoted(&settings.data_center),
            settings.listen_address,
            quoted(&settings.rack),
            settings.broadcast_rpc_address,
            settings.native_transport_port,
            schema.version,
            port = settings.storage_port,
        ))
        .await
    }

    /// Writes what gossip says of a peer to the tables that drivers read.
    pub(super) async fn save_peer(&self, endpoint: Endpoint) {
        let member = self
            .gossiper
            .members()
            .into_iter()
            .find(|member| member.endpoint == endpoint);
        let Some(member) = member.filter(helenus_ring::Member::is_owner) else {
            return;
        };
        let (Some(host), Some(native)) = (member.host_id, member.native) else {
            return;
        };
        let list: Vec<String> = member
            .tokens
            .iter()
            .map(|token| format!("'{token}'"))
            .collect();
        let list = list.join(", ");
        let schema = member
            .schema
            .map_or_else(|| "null".to_owned(), |version| version.to_string());
        let release = quoted(member.release_version.as_deref().unwrap_or_default());
        let (dc, rack) = (quoted(&member.dc), quoted(&member.rack));
        let preferred = endpoint.address();
        let v2 = format!(
            "INSERT INTO system.peers_v2 (peer, peer_port, data_center, host_id, native_address, native_port, \
             preferred_ip, preferred_port, rack, release_version, schema_version, tokens) VALUES \
             ('{}', {}, {dc}, {host}, '{}', {}, '{preferred}', {}, {rack}, {release}, {schema}, {{{list}}})",
            endpoint.address(),
            endpoint.port(),
            native.ip(),
            native.port(),
            endpoint.port(),
        );
        let v1 = format!(
            "INSERT INTO system.peers (peer, data_center, host_id, preferred_ip, rack, release_version, rpc_address, \
             schema_version, tokens) VALUES ('{}', {dc}, {host}, '{preferred}', {rack}, {release}, '{}', {schema}, {{{list}}})",
            endpoint.address(),
            native.ip(),
        );
        for query in [v2, v1] {
            if let Err(error) = self.queries.run(&query).await {
                tracing::error!(peer = %endpoint, error = format!("{error:#}"), "cannot store what is known of a peer");
            }
        }
        // a node that came back with another address is no longer at its old one
        let cluster = self.shared.cluster.load_full();
        let stale: Vec<Endpoint> = cluster
            .members
            .iter()
            .filter(|old| old.host_id == Some(host) && old.endpoint != endpoint)
            .map(|old| old.endpoint)
            .collect();
        for old in stale {
            self.forget_peer(old).await;
        }
    }

    pub(super) async fn forget_peer(&self, endpoint: Endpoint) {
        let queries = [
            format!(
                "DELETE FROM system.peers_v2 WHERE peer = '{}' AND peer_port = {}",
                endpoint.address(),
                endpoint.port()
            ),
            format!(
                "DELETE FROM system.peers WHERE peer = '{}'",
                endpoint.address()
            ),
        ];
        for query in queries {
            if let Err(error) = self.queries.run(&query).await {
                tracing::error!(peer = %endpoint, error = format!("{error:#}"), "cannot forget a peer");
            }
        }
    }
}
