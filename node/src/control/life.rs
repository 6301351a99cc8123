//! The node's way into the ring: what [`helenus_ring::Life`] asks for, done.

use super::{Control, ControlMessage};
use anyhow::{Context, Result};
use helenus_admin::NodeState;
use helenus_internode::gossip::ApplicationState;
use helenus_ring::LifeAction;
use helenus_types::Token;
use std::path::PathBuf;

impl Control {
    /// Does what the node's life asks for, in order.
    pub(super) async fn live(&mut self, actions: Vec<LifeAction>) -> Result<()> {
        for action in actions {
            match action {
                LifeAction::AskSeeds => self.ask_seeds(),
                LifeAction::Waiting(reason) => {
                    tracing::info!(%reason, "waiting");
                    let state = if self.life.tokens().is_empty() {
                        NodeState::WaitingForSeeds
                    } else {
                        NodeState::Joining
                    };
                    self.set_state(state, &reason);
                }
                LifeAction::StoreGeneration(generation) => {
                    self.store_local(&format!("gossip_generation = {generation}"))
                        .await?;
                }
                LifeAction::StoreTokens(tokens) => {
                    self.set_state(NodeState::Joining, "taking a place in the ring");
                    self.store_tokens(&tokens).await?;
                }
                LifeAction::FetchSchema(peers) => {
                    self.joining_with_schema = true;
                    self.came_later = true;
                    for peer in peers {
                        self.pull_schema(peer);
                    }
                }
                LifeAction::Stream(fetches) => {
                    let ranges: usize = fetches.iter().map(|fetch| fetch.ranges.len()).sum();
                    tracing::info!(
                        sources = fetches.len(),
                        ranges,
                        "streaming this node's share of the data"
                    );
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
        self.store_local(&format!("tokens = {{{}}}", list.join(", ")))
            .await
    }

    fn founding_mark(&self) -> PathBuf {
        let data = &self.shared.settings.data_directories[0];
        data.parent().unwrap_or(data).join("founded")
    }

    /// Whether an earlier life of this node founded the ring.
    pub(crate) fn recall_founding(&self) {
        self.set_founded(self.shared.disk.exists(&self.founding_mark()));
    }

    /// Serves clients: this node is NORMAL.
    async fn serve(&mut self) -> Result<()> {
        if !self.came_later {
            let mark = self.founding_mark();
            self.shared
                .disk
                .write_atomically(&mark, b"this node founded its ring\n")
                .context("remember the founding")?;
            self.set_founded(true);
            tracing::info!("founded the ring");
        }
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
