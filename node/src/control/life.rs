//! The node's way into the ring: what [`helenus_ring::Life`] asks for, done.

use super::{Control, ControlMessage};
use anyhow::Result;
use helenus_admin::NodeState;
use helenus_internode::gossip::ApplicationState;
use helenus_ring::LifeAction;
use helenus_types::Token;

impl Control {
    /// Does what the node's life asks for, in order.
    pub(super) async fn live(&mut self, actions: Vec<LifeAction>) -> Result<()> {
        for action in actions {
            match action {
                LifeAction::AskSeeds => self.ask_seeds(),
                LifeAction::Waiting(reason) => {
                    tracing::info!(%reason, "waiting");
                    let state = if self.life.tokens().is_empty() { NodeState::WaitingForSeeds } else { NodeState::Joining };
                    self.set_state(state, &reason);
                }
                LifeAction::StoreGeneration(generation) => {
                    self.store_local(&format!("gossip_generation = {generation}")).await?;
                }
                LifeAction::StoreTokens(tokens) => {
                    self.set_state(NodeState::Joining, "taking a place in the ring");
                    self.store_tokens(&tokens).await?;
                }
                LifeAction::FetchSchema(peers) => {
                    self.joining_with_schema = true;
                    for peer in peers {
                        self.pull_schema(peer);
                    }
                }
                LifeAction::Stream(fetches) => {
                    let ranges: usize = fetches.iter().map(|fetch| fetch.ranges.len()).sum();
                    tracing::info!(sources = fetches.len(), ranges, "streaming this node's share of the data");
                    self.set_state(NodeState::Joining, "streaming data");
                    self.publish_cluster();
                    self.start_streams(fetches);
                }
                LifeAction::Lost { keyspace, ranges } => {
                    tracing::error!(%keyspace, ?ranges, "no other node has these ranges of the node that is replaced: their data is lost");
                }
                LifeAction::StoreMember => self.store_local("bootstrapped = 'COMPLETED'").await?,
                LifeAction::Serve => self.serve().await?,
                LifeAction::Stop(reason) => {
                    tracing::error!(%reason, "this node must stop");
                    self.set_state(NodeState::Failed, &reason);
                    self.stopped = Some(reason);
                }
            }
        }
        Ok(())
    }

    async fn store_tokens(&self, tokens: &[Token]) -> Result<()> {
        let list: Vec<String> = tokens.iter().map(|token| format!("'{token}'")).collect();
        self.store_local(&format!("tokens = {{{}}}", list.join(", "))).await
    }

    /// Serves clients: this node is NORMAL.
    async fn serve(&mut self) -> Result<()> {
        self.publish_cluster();
        self.make_distributed_keyspaces().await?;
        self.gossiper.set_local(ApplicationState::RpcReady, "true");
        self.serve_clients.send_replace(true);
        self.set_state(NodeState::Normal, "");
        let settings = &self.shared.settings;
        tracing::info!(
            address = %settings.rpc_address, port = settings.native_transport_port,
            tokens = self.life.tokens().len(), "serving clients"
        );
        Ok(())
    }

    pub(super) async fn stream_ended(&mut self, outcome: Result<u64, String>) -> Result<()> {
        let actions = match outcome {
            Ok(partitions) => {
                tracing::info!(partitions, "streamed this node's share of the data");
                self.life.streams_done(&mut self.gossiper)
            }
            Err(reason) => {
                let now = self.now();
                self.life.streams_failed(&reason, now)
            }
        };
        self.live(actions).await
    }

    /// For tasks that report back.
    pub(super) fn reporter(&self) -> tokio::sync::mpsc::Sender<ControlMessage> {
        self.shared.control.clone()
    }
}
