//! What gossip knows, as nodes: identity, place, tokens, status, whether up.

use crate::gossip::{Gossiper, Peer};
use crate::status::Status;
use helenus_internode::gossip::ApplicationState;
use helenus_types::{Endpoint, HostId, Token};
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use uuid::Uuid;

/// A node as its peers know it: the source of `system.peers_v2`, `nodetool status` and the ring.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Who it is; unknown until it has said so.
    pub host_id: Option<HostId>,
    /// Data center; empty when unknown.
    pub dc: Arc<str>,
    /// Rack; empty when unknown.
    pub rack: Arc<str>,
    /// Its tokens, ascending.
    pub tokens: Vec<Token>,
    /// Its status.
    pub status: Status,
    /// Whether it is up.
    pub alive: bool,
    /// When it started, in seconds since 1970; 0 for a peer not heard of since our start.
    pub generation: i32,
    /// Cassandra version that it claims.
    pub release_version: Option<String>,
    /// Version of its schema.
    pub schema: Option<Uuid>,
    /// Where it serves CQL.
    pub native: Option<SocketAddr>,
    /// Address inside its own network.
    pub internal: Option<SocketAddr>,
    /// Whether it serves CQL now.
    pub rpc_ready: bool,
    /// Bytes of data on its disks.
    pub load_bytes: Option<f64>,
    /// Newest messaging version that it speaks.
    pub messaging: Option<u8>,
}

impl Member {
    fn of(endpoint: Endpoint, peer: &Peer) -> Self {
        let text = |state| peer.state.get(state);
        let place = |state, saved: Option<&String>| -> Arc<str> {
            text(state)
                .or(saved.map(String::as_str))
                .unwrap_or_default()
                .into()
        };
        let address = |with_port, without, port| -> Option<SocketAddr> {
            parsed(text(with_port))
                .or_else(|| parsed(text(without)).map(|ip| SocketAddr::new(ip, port)))
        };
        let saved = peer.saved.as_ref();
        let mut tokens = peer.tokens();
        tokens.sort_unstable();
        let status = match peer.status() {
            // known from the saved tables only: a member until it says otherwise
            Status::None if saved.is_some() => tokens
                .first()
                .map_or(Status::None, |token| Status::Normal { token: *token }),
            status => status,
        };
        Self {
            endpoint,
            host_id: peer.host_id(),
            dc: place(ApplicationState::Dc, saved.map(|s| &s.dc)),
            rack: place(ApplicationState::Rack, saved.map(|s| &s.rack)),
            tokens,
            status,
            alive: peer.alive,
            generation: peer.state.heartbeat.generation,
            release_version: text(ApplicationState::ReleaseVersion).map(str::to_owned),
            schema: parsed(text(ApplicationState::Schema)),
            native: address(
                ApplicationState::NativeAddressAndPort,
                ApplicationState::RpcAddress,
                9042,
            ),
            internal: address(
                ApplicationState::InternalAddressAndPort,
                ApplicationState::InternalIp,
                endpoint.port(),
            ),
            rpc_ready: text(ApplicationState::RpcReady) == Some("true"),
            load_bytes: parsed(text(ApplicationState::Load)),
            messaging: parsed(text(ApplicationState::NetVersion)),
        }
    }

    /// Whether it owns its tokens.
    pub fn is_owner(&self) -> bool {
        self.status.owns_tokens() && !self.tokens.is_empty()
    }
}

fn parsed<T: FromStr>(text: Option<&str>) -> Option<T> {
    text.and_then(|text| text.parse().ok())
}

impl Gossiper {
    /// Every node that is known, this one included, in the order of endpoints.
    pub fn members(&self) -> Vec<Member> {
        let own = Member::of(self.me(), &self.own_peer());
        let mut members: Vec<Member> = self
            .peers()
            .iter()
            .map(|(endpoint, peer)| Member::of(*endpoint, peer))
            .collect();
        members.push(own);
        members.sort_by_key(|member| member.endpoint);
        members
    }
}

/// The nodes that a shadow round told of.
pub fn members_of_shadow(states: &helenus_internode::gossip::EndpointStates) -> Vec<Member> {
    let peer = |state: &helenus_internode::gossip::EndpointState| Peer {
        state: state.clone(),
        alive: false,
        updated: std::time::Duration::ZERO,
        echo_sent: None,
        saved: None,
    };
    states
        .iter()
        .map(|(endpoint, state)| {
            let mut member = Member::of(*endpoint, &peer(state));
            // a node that its peers know from their tables only has tokens but no status
            if let (Status::None, Some(token)) = (member.status, member.tokens.first()) {
                member.status = Status::Normal { token: *token };
            }
            member
        })
        .collect()
}
