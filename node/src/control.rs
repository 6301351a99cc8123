//! The control thread: gossip, the node's life, schema, hints, and what people ask for.
//!
//! One task owns all of it and takes [`ControlMessage`]s in order; what takes long (streams, hints,
//! seed queries) runs beside it and reports back by message.

mod gossip;
mod hints;
mod life;
mod report;
mod schema;
mod seeds;
mod stream;
mod tables;

pub(crate) use report::{Admin, Status, initial_status};
pub(crate) use tables::{RELEASE_VERSION, SavedLocal, read_local, read_peers};

use crate::cluster::Cluster;
use crate::messaging::{Messaging, Received};
use crate::queries::Queries;
use crate::shard_thread::Shared;
use crate::shards::LocalData;
use anyhow::Result;
use helenus_coordinator::CoordinatorError;
use helenus_coordinator::hints::{Hint, HintStore};
use helenus_internode::verb::Verb;
use helenus_ring::{Gossiper, Life, Moment};
use helenus_schema::TableMetadata;
use helenus_server::RequestError;
use helenus_types::{Endpoint, HostId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// The control thread's number in message ids.
pub(crate) const THREAD: u8 = 255;
/// Messages that may wait for the control thread.
pub(crate) const QUEUE_LENGTH: usize = 65_536;

/// What the control thread is told.
pub(crate) enum ControlMessage {
    /// A message of a peer that is not about data, or an answer for this thread.
    Received(Received),
    ChangeSchema {
        query: String,
        keyspace: Option<String>,
        reply: oneshot::Sender<Result<Option<helenus_native::SchemaChange>, RequestError>>,
    },
    Truncate {
        table: Arc<TableMetadata>,
        reply: oneshot::Sender<Result<(), CoordinatorError>>,
    },
    Hint(HostId, Hint),
    /// The hints in a file were taken (true) or not.
    HintsDelivered(HostId, std::path::PathBuf, bool),
    SeedsAnswered(helenus_ring::SeedAnswer),
    SchemaPulled(Endpoint, Result<Vec<helenus_rows::Mutation>, String>),
    StreamEnded(Result<u64, String>),
    Flush {
        keyspace: Option<String>,
        tables: Vec<String>,
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Stop serving, flush, tell the ring; the process goes on, to be ended by a signal.
    Drain(oneshot::Sender<Result<(), String>>),
    /// Drain unless that was done, then end.
    Stop,
}

/// How far the node is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Not,
    Drained,
    Ended,
}

/// Everything that the control thread owns.
pub(crate) struct Control {
    shared: Shared,
    messaging: Rc<Messaging>,
    local: LocalData,
    queries: Queries,
    gossiper: Gossiper,
    life: Life,
    hints: HintStore,
    /// Hosts whose hints are being sent.
    delivering: BTreeSet<HostId>,
    /// Hosts whose hints could not be read, and when, by the monotonic clock.
    unreadable_hints: BTreeMap<HostId, Duration>,
    /// Peers whose schema is being pulled.
    pulling: BTreeSet<Endpoint>,
    /// When a peer was last asked for its schema, by the monotonic clock.
    pulled: BTreeMap<Endpoint, Duration>,
    status: Arc<arc_swap::ArcSwap<Status>>,
    serve_clients: watch::Sender<bool>,
    rounds: u64,
    /// Why the node must stop.
    stopped: Option<String>,
    stop: Stop,
    /// Since when a node is down, by the monotonic clock.
    down_since: BTreeMap<HostId, Duration>,
    /// The way into the ring waits for the ring's schema.
    joining_with_schema: bool,
    /// An earlier life was a member, or this one came in by joining: it did not found the ring.
    came_later: bool,
}

/// What [`Control`] is made of.
pub(crate) struct Parts {
    pub(crate) shared: Shared,
    pub(crate) messaging: Rc<Messaging>,
    pub(crate) local: LocalData,
    pub(crate) queries: Queries,
    pub(crate) gossiper: Gossiper,
    pub(crate) life: Life,
    pub(crate) was_member: bool,
    pub(crate) hints: HintStore,
    pub(crate) status: Arc<arc_swap::ArcSwap<Status>>,
    pub(crate) serve_clients: watch::Sender<bool>,
}

impl Control {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            shared: parts.shared,
            messaging: parts.messaging,
            local: parts.local,
            queries: parts.queries,
            gossiper: parts.gossiper,
            life: parts.life,
            hints: parts.hints,
            delivering: BTreeSet::new(),
            unreadable_hints: BTreeMap::new(),
            pulling: BTreeSet::new(),
            pulled: BTreeMap::new(),
            status: parts.status,
            serve_clients: parts.serve_clients,
            rounds: 0,
            stopped: None,
            stop: Stop::Not,
            down_since: BTreeMap::new(),
            joining_with_schema: false,
            came_later: parts.was_member,
        }
    }

    /// Peers of an earlier life, down until they are heard of.
    pub(crate) fn remember(&mut self, peers: Vec<helenus_ring::SavedPeer>) {
        let now = self.now();
        for peer in peers {
            // its hint window begins now: how long it was away before is not known
            self.down_since.insert(peer.host_id, now.monotonic);
            self.gossiper.add_saved(peer, now);
        }
    }

    fn now(&self) -> Moment {
        Moment {
            monotonic: self.shared.clock.monotonic(),
            wall_ms: self.shared.clock.wall_micros() / 1000,
        }
    }

    fn me(&self) -> Endpoint {
        self.shared.messaging.me
    }

    /// Publishes what gossip knows now to every thread.
    fn publish_cluster(&self) {
        let cluster = Cluster::of(
            self.me(),
            &self.shared.settings.data_center,
            self.gossiper.members(),
        );
        self.shared.cluster.store(Arc::new(cluster));
    }

    /// Runs until a drain has ended or the node must stop; the error says why.
    pub(crate) async fn run(mut self, mut queue: mpsc::Receiver<ControlMessage>) -> Result<()> {
        let now = self.now();
        let actions = self.life.start(&mut self.gossiper, now);
        self.live(actions).await?;
        let mut round = tokio::time::interval(Duration::from_secs(1));
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = round.tick() => self.gossip_round().await?,
                message = queue.recv() => match message {
                    Some(message) => self.take(message).await?,
                    None => return Ok(()),
                },
            }
            if let Some(reason) = &self.stopped {
                anyhow::bail!("{reason}");
            }
            if self.stop == Stop::Ended {
                return Ok(());
            }
        }
    }

    async fn take(&mut self, message: ControlMessage) -> Result<()> {
        match message {
            ControlMessage::Received(received) => self.receive(received).await?,
            ControlMessage::ChangeSchema {
                query,
                keyspace,
                reply,
            } => {
                self.run_schema_change(&query, keyspace.as_deref(), reply)
                    .await;
            }
            ControlMessage::Truncate { table, reply } => self.truncate_everywhere(&table, reply),
            ControlMessage::Hint(host, hint) => self.keep_hint(host, &hint),
            ControlMessage::HintsDelivered(host, path, taken) => {
                self.hints_delivered(host, &path, taken);
            }
            ControlMessage::SeedsAnswered(answer) => {
                self.life.seeds_answered(answer, &mut self.gossiper);
            }
            ControlMessage::SchemaPulled(from, outcome) => self.schema_pulled(from, outcome).await,
            ControlMessage::StreamEnded(outcome) => self.stream_ended(outcome).await?,
            ControlMessage::Flush {
                keyspace,
                tables,
                reply,
            } => self.flush(keyspace, &tables, reply),
            ControlMessage::Drain(reply) => {
                let outcome = self.drain().await;
                drop(reply.send(outcome));
            }
            ControlMessage::Stop => {
                if self.stop == Stop::Not
                    && let Err(error) = self.drain().await
                {
                    tracing::error!(%error, "stopping without a complete drain");
                }
                self.stop = Stop::Ended;
            }
        }
        Ok(())
    }

    async fn receive(&mut self, received: Received) -> Result<()> {
        let header = &received.message.header;
        if header.verb.is_response() && header.verb != Verb::EchoRsp {
            self.messaging.answered(received);
            return Ok(());
        }
        match header.verb {
            Verb::GossipDigestSyn
            | Verb::GossipDigestAck
            | Verb::GossipDigestAck2
            | Verb::GossipShutdown
            | Verb::EchoReq
            | Verb::EchoRsp => self.receive_gossip(received).await?,
            Verb::SchemaVersionReq | Verb::SchemaPullReq | Verb::SchemaPushReq => {
                self.receive_schema(received).await;
            }
            Verb::TruncateReq => self.receive_truncate(received),
            Verb::PingReq => self.answer(&received, bytes::Bytes::new()),
            _ => self.refuse(&received),
        }
        Ok(())
    }

    fn answer(&self, received: &Received, payload: bytes::Bytes) {
        let header = &received.message.header;
        let to = header.respond_to(received.from);
        if let Some(answer) = helenus_internode::message::Message::response_to(
            header,
            payload,
            self.messaging.now_ms(),
        ) {
            self.messaging.answer(to, answer);
        }
    }

    /// Refuses what this version cannot do, so that the peer need not wait for a timeout.
    fn refuse(&self, received: &Received) {
        let header = &received.message.header;
        tracing::info!(peer = %received.from, verb = header.verb.name(), "refused a request that this version does not serve");
        let reason = helenus_internode::payload::FailureReason::Unknown;
        let answer = helenus_internode::message::Message::failure_of(
            header,
            reason,
            self.messaging.now_ms(),
        );
        self.messaging
            .answer(header.respond_to(received.from), answer);
    }

    fn flush(
        &self,
        keyspace: Option<String>,
        names: &[String],
        reply: oneshot::Sender<Result<(), String>>,
    ) {
        let schema = self.shared.schema.load_full();
        let mut chosen = Vec::new();
        if let Some(name) = &keyspace {
            let Some(found) = schema.keyspace(name) else {
                drop(reply.send(Err(format!("Keyspace [{name}] does not exist."))));
                return;
            };
            let unknown = names
                .iter()
                .find(|table| !found.tables.contains_key(*table));
            if let Some(table) = unknown {
                drop(reply.send(Err(format!("Unknown keyspace/cf pair ({name}.{table})"))));
                return;
            }
            let wanted = found
                .tables
                .values()
                .filter(|table| names.is_empty() || names.contains(&table.name));
            chosen.extend(wanted.map(|table| table.id));
        }
        let shards = self.shared.shards.clone();
        tokio::task::spawn_local(async move {
            let outcome = shards
                .flush(keyspace.map(|_| chosen))
                .await
                .map_err(|error| error.to_string());
            drop(reply.send(outcome));
        });
    }

    /// Graceful stop: clients first, then peers, then the data.
    async fn drain(&mut self) -> Result<(), String> {
        tracing::info!("draining");
        self.set_state(
            helenus_admin::NodeState::Draining,
            "finishing requests and flushing",
        );
        // sessions close as soon as they have no request under way, while this node is still whole
        self.serve_clients.send_replace(false);
        tokio::time::sleep(Duration::from_millis(300)).await;
        if self.gossiper.is_enabled() {
            let actions = self.gossiper.shut_down();
            self.act(actions).await.map_err(|error| error.to_string())?;
        }
        // requests of peers end, and the shutdown message leaves
        tokio::time::sleep(Duration::from_millis(500)).await;
        let outcome = self
            .shared
            .shards
            .drain()
            .await
            .map_err(|error| error.to_string());
        match &outcome {
            Ok(()) => tracing::info!("drained: everything is in SSTables"),
            Err(error) => {
                tracing::error!(%error, "the drain failed; the commit log keeps what is not flushed");
            }
        }
        self.stop = Stop::Drained;
        self.set_state(helenus_admin::NodeState::Drained, "");
        outcome
    }
}
