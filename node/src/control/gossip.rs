//! Gossip on the control thread: rounds, messages, and what follows from their news.

use super::Control;
use crate::messaging::Received;
use anyhow::Result;
use bytes::Bytes;
use helenus_internode::gossip::{ApplicationState, GossipMessage};
use helenus_internode::verb::Verb;
use helenus_native::{Event, TopologyChange};
use helenus_ring::GossipAction;
use helenus_types::Endpoint;
use std::net::SocketAddr;

impl Control {
    pub(super) async fn gossip_round(&mut self) -> Result<()> {
        self.rounds += 1;
        let now = self.now();
        if self.rounds.is_multiple_of(30) || self.rounds == 5 {
            self.announce_load().await;
        }
        let entropy = std::sync::Arc::clone(&self.shared.entropy);
        let actions = self.gossiper.tick(now, &*entropy);
        self.act(actions).await?;
        let keyspaces = self.replicated_keyspaces();
        let actions = self
            .life
            .tick(&mut self.gossiper, &keyspaces, now, &*entropy);
        self.live(actions).await?;
        self.check_schemas();
        self.deliver_hints();
        self.publish_cluster();
        self.refresh_status();
        Ok(())
    }

    async fn announce_load(&mut self) {
        let bytes: u64 = self
            .shared
            .shards
            .metrics()
            .await
            .iter()
            .map(|shard| shard.sstable_bytes)
            .sum();
        self.gossiper
            .set_local(ApplicationState::Load, format!("{bytes}.0"));
    }

    pub(super) async fn receive_gossip(&mut self, received: Received) -> Result<()> {
        let header = &received.message.header;
        if header.verb == Verb::EchoReq {
            // the answer repeats the request's id, which the state machine does not know
            if self.gossiper.is_enabled() {
                self.answer(&received, Bytes::new());
            }
            return Ok(());
        }
        let message = match GossipMessage::decode(
            header.verb,
            received.message.payload.clone(),
            received.version,
        ) {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(peer = %received.from, verb = header.verb.name(), %error, "a gossip message cannot be understood");
                return Ok(());
            }
        };
        let now = self.now();
        let entropy = std::sync::Arc::clone(&self.shared.entropy);
        let actions = self
            .gossiper
            .receive(received.from, message, now, &*entropy);
        self.act(actions).await
    }

    /// Does what the gossiper asks for.
    pub(super) async fn act(&mut self, actions: Vec<GossipAction>) -> Result<()> {
        let mut changed = false;
        for action in actions {
            let more = self.life.gossip_reported(&action);
            self.live(more).await?;
            match action {
                GossipAction::Send { to, message } => self.send_gossip(to, message),
                GossipAction::Up(endpoint) => {
                    tracing::info!(peer = %endpoint, "peer is UP");
                    changed = true;
                    self.publish_cluster();
                    self.peer_is_up(endpoint);
                }
                GossipAction::Down(endpoint) => {
                    tracing::info!(peer = %endpoint, "peer is DOWN");
                    changed = true;
                    self.publish_cluster();
                    self.peer_is_down(endpoint);
                }
                GossipAction::Joined(endpoint) | GossipAction::Changed { endpoint, .. } => {
                    changed = true;
                    self.save_peer(endpoint).await;
                }
                GossipAction::Removed(endpoint) => {
                    tracing::info!(peer = %endpoint, "peer left the ring");
                    changed = true;
                    self.forget_peer(endpoint).await;
                    if let Some(node) = self.native_address(endpoint) {
                        self.shared.shards.publish(&Event::Topology {
                            change: TopologyChange::RemovedNode,
                            node,
                        });
                    }
                }
                GossipAction::Foreign { from, cluster } => {
                    tracing::warn!(peer = %from, %cluster, "ignored gossip of another cluster");
                }
                GossipAction::GenerationRaised(_) | GossipAction::HostIdTaken { .. } => {}
            }
        }
        if changed {
            self.publish_cluster();
        }
        Ok(())
    }

    fn send_gossip(&self, to: Endpoint, message: GossipMessage) {
        let verb = message.verb();
        self.messaging
            .send(to, verb, Box::new(move |version| message.encode(version)));
    }

    fn native_address(&self, endpoint: Endpoint) -> Option<SocketAddr> {
        let cluster = self.shared.cluster.load();
        cluster
            .members
            .iter()
            .find(|member| member.endpoint == endpoint)?
            .native
    }

    fn peer_is_up(&mut self, endpoint: Endpoint) {
        let member = self
            .gossiper
            .members()
            .into_iter()
            .find(|member| member.endpoint == endpoint);
        let Some(member) = member else { return };
        if let Some(host) = member.host_id {
            self.down_since.remove(&host);
        }
        if let Some(node) = member.native.filter(|_| member.is_owner()) {
            self.shared.shards.publish(&Event::Topology {
                change: TopologyChange::NewNode,
                node,
            });
            self.shared
                .shards
                .publish(&Event::Status { up: true, node });
        }
    }

    fn peer_is_down(&mut self, endpoint: Endpoint) {
        self.messaging.fail_all(endpoint);
        let member = self
            .gossiper
            .members()
            .into_iter()
            .find(|member| member.endpoint == endpoint);
        let Some(member) = member else { return };
        if let Some(host) = member.host_id {
            let now = self.now().monotonic;
            self.down_since.entry(host).or_insert(now);
        }
        if let Some(node) = member.native {
            self.shared
                .shards
                .publish(&Event::Status { up: false, node });
        }
    }
}
