//! What the control thread says of the node: the report, the ring, metrics.

use super::{Control, ControlMessage};
use crate::cluster::{Cluster, SharedCluster};
use crate::settings::Settings;
use crate::shards::Shards;
use arc_swap::ArcSwap;
use futures::future::BoxFuture;
use helenus_admin::{AdminNode, NodeReport, NodeState, NodeView, PeerReport, PeerState, RingView};
use helenus_ring::{Member, Status as RingStatus};
use helenus_schema::Schema;
use helenus_seams::Clock;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// Where the node is in its life.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    pub(crate) state: NodeState,
    pub(crate) message: String,
    pub(crate) host_id: Option<Uuid>,
    pub(crate) founded: bool,
    pub(crate) generation: i32,
    pub(crate) gossip: Vec<(String, Vec<String>)>,
}

/// A node that has just been started.
pub(crate) fn initial_status() -> Status {
    Status {
        state: NodeState::Starting,
        message: "reading the data".to_owned(),
        host_id: None,
        founded: false,
        generation: 0,
        gossip: Vec::new(),
    }
}

impl Control {
    pub(crate) fn set_host_id(&self, host_id: Uuid) {
        let mut status = (**self.status.load()).clone();
        status.host_id = Some(host_id);
        self.status.store(Arc::new(status));
    }

    pub(super) fn set_founded(&self, founded: bool) {
        let mut status = (**self.status.load()).clone();
        status.founded = founded;
        self.status.store(Arc::new(status));
    }

    pub(super) fn set_state(&self, state: NodeState, message: &str) {
        let mut status = (**self.status.load()).clone();
        status.state = state;
        message.clone_into(&mut status.message);
        self.status.store(Arc::new(status));
    }

    pub(super) fn refresh_status(&self) {
        let mut status = (**self.status.load()).clone();
        status.generation = self.gossiper.generation();
        status.gossip = self
            .gossiper
            .states()
            .iter()
            .map(|(endpoint, state)| {
                let mut lines = vec![
                    format!("generation:{}", state.heartbeat.generation),
                    format!("heartbeat:{}", state.heartbeat.version),
                ];
                lines.extend(state.states.iter().map(|(name, value)| {
                    let shown = if name.name() == "TOKENS" {
                        "<hidden>"
                    } else {
                        value.value.as_str()
                    };
                    format!("{}:{}:{shown}", name.name(), value.version)
                }));
                (endpoint.address().to_string(), lines)
            })
            .collect();
        self.status.store(Arc::new(status));
    }
}

/// The node behind the admin API.
pub(crate) struct Admin {
    pub(crate) settings: Arc<Settings>,
    pub(crate) status: Arc<ArcSwap<Status>>,
    pub(crate) cluster: SharedCluster,
    pub(crate) schema: Arc<ArcSwap<Schema>>,
    pub(crate) shards: Shards,
    pub(crate) control: mpsc::Sender<ControlMessage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Duration,
    /// False once a thread has ended that should not have.
    pub(crate) alive: Arc<AtomicBool>,
}

fn peer_state(status: &RingStatus) -> Option<PeerState> {
    match status {
        RingStatus::Normal { .. } | RingStatus::Shutdown | RingStatus::Hibernate => {
            Some(PeerState::Normal)
        }
        RingStatus::Bootstrapping { .. } | RingStatus::Replacing { .. } => Some(PeerState::Joining),
        RingStatus::Leaving { .. } | RingStatus::Removing { .. } => Some(PeerState::Leaving),
        RingStatus::Left { .. } | RingStatus::Removed { .. } => Some(PeerState::Left),
        RingStatus::None | RingStatus::Unknown => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of bytes in a gossip text"
)]
fn bytes_of(load: f64) -> u64 {
    load as u64
}

fn peer(member: &Member) -> Option<PeerReport> {
    Some(PeerReport {
        host_id: member.host_id?.to_string(),
        address: member.endpoint.address().to_string(),
        datacenter: member.dc.to_string(),
        rack: member.rack.to_string(),
        up: member.alive,
        state: peer_state(&member.status)?,
        tokens: member.tokens.len(),
        schema_version: member
            .schema
            .map_or_else(String::new, |version| version.to_string()),
    })
}

fn view(member: &Member, cluster: &Cluster) -> Option<NodeView> {
    let state = peer_state(&member.status).filter(|state| *state != PeerState::Left)?;
    Some(NodeView {
        address: member.endpoint.address().to_string(),
        port: member.endpoint.port(),
        host_id: member.host_id?.to_string(),
        datacenter: member.dc.to_string(),
        rack: member.rack.to_string(),
        up: member.alive || member.endpoint == cluster.me,
        state,
        load_bytes: member.load_bytes.map(bytes_of),
        tokens: member.tokens.iter().map(|token| token.0).collect(),
        // a node without tokens owns 0, which a sum of nothing makes -0
        owns: cluster.ring.ownership(&member.endpoint).abs(),
        schema_version: member
            .schema
            .map_or_else(String::new, |version| version.to_string()),
        release_version: member.release_version.clone().unwrap_or_default(),
    })
}

fn resident_bytes() -> u64 {
    crate::machine::resident_bytes().unwrap_or(0)
}

impl AdminNode for Admin {
    fn is_live(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    fn report(&self) -> NodeReport {
        let (status, cluster, schema) =
            (self.status.load(), self.cluster.load(), self.schema.load());
        let settings = &self.settings;
        let own = cluster
            .members
            .iter()
            .find(|member| member.endpoint == cluster.me);
        NodeReport {
            node_name: settings.node_name.clone(),
            host_id: status.host_id.map(|id| id.to_string()),
            cluster_name: settings.cluster_name.clone(),
            state: status.state,
            message: status.message.clone(),
            datacenter: settings.data_center.clone(),
            rack: settings.rack.clone(),
            broadcast_address: settings.broadcast_address.to_string(),
            tokens: own.map_or(0, |member| member.tokens.len()),
            release_version: super::tables::RELEASE_VERSION.to_owned(),
            schema_version: schema.version.to_string(),
            cql_ready: status.state == NodeState::Normal,
            founded: status.founded,
            peers: cluster
                .members
                .iter()
                .filter(|member| member.endpoint != cluster.me)
                .filter_map(peer)
                .collect(),
        }
    }

    fn ring(&self) -> RingView {
        let (status, cluster, schema) =
            (self.status.load(), self.cluster.load(), self.schema.load());
        let mut nodes: Vec<NodeView> = cluster
            .members
            .iter()
            .filter_map(|member| view(member, &cluster))
            .collect();
        nodes.sort_by(|a, b| {
            (&a.datacenter, &a.rack, &a.address).cmp(&(&b.datacenter, &b.rack, &b.address))
        });
        let keyspaces = schema
            .keyspaces()
            .map(|keyspace| {
                let options: Vec<String> = keyspace
                    .replication
                    .options
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                (
                    keyspace.name.clone(),
                    keyspace.replication.short_class().to_owned(),
                    options.join(", "),
                )
            })
            .collect();
        RingView {
            cluster_name: self.settings.cluster_name.clone(),
            nodes,
            keyspaces,
            gossip: status.gossip.clone(),
            uptime_seconds: self
                .clock
                .monotonic()
                .saturating_sub(self.started)
                .as_secs(),
            generation: status.generation,
            memory_used_bytes: resident_bytes(),
            memory_budget_bytes: self.settings.memory_budget_bytes,
            me: self.report(),
        }
    }

    fn metrics(&self) -> BoxFuture<'static, String> {
        let (shards, cluster, status) = (
            self.shards.clone(),
            self.cluster.load_full(),
            self.status.load_full(),
        );
        Box::pin(async move { metrics_text(&shards.metrics().await, &cluster, &status) })
    }

    fn flush(
        &self,
        keyspace: Option<String>,
        tables: Vec<String>,
    ) -> BoxFuture<'static, Result<(), String>> {
        let control = self.control.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let message = ControlMessage::Flush {
                keyspace,
                tables,
                reply,
            };
            control.send(message).await.map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?
        })
    }

    fn drain(&self) -> BoxFuture<'static, Result<(), String>> {
        let control = self.control.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            control
                .send(ControlMessage::Drain(reply))
                .await
                .map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?
        })
    }
}

fn ended() -> String {
    "the control thread has ended: see the node's log".to_owned()
}

/// Appends text; writing to a String cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).unwrap_or_default();
}

type Field = fn(&helenus_storage::metrics::EngineMetrics) -> u64;

const COUNTERS: [(&str, &str, Field); 11] = [
    ("helenus_storage_writes", "Mutations applied.", |m| m.writes),
    (
        "helenus_storage_writes_refused",
        "Mutations refused: memtables full or schema behind.",
        |m| m.writes_refused,
    ),
    ("helenus_storage_reads", "Reads of this node's data.", |m| {
        m.reads
    }),
    (
        "helenus_storage_tombstones_scanned",
        "Tombstones passed by reads.",
        |m| m.tombstones_scanned,
    ),
    ("helenus_storage_flushes", "Memtables flushed.", |m| {
        m.flushes
    }),
    (
        "helenus_storage_flush_failures",
        "Flushes that failed.",
        |m| m.flush_failures,
    ),
    (
        "helenus_storage_compactions",
        "Compactions finished.",
        |m| m.compactions,
    ),
    (
        "helenus_storage_compaction_failures",
        "Compactions that failed.",
        |m| m.compaction_failures,
    ),
    (
        "helenus_storage_compacted_bytes",
        "Bytes written by compactions.",
        |m| m.compacted_bytes,
    ),
    (
        "helenus_storage_sstables_quarantined",
        "Damaged SSTables that were set aside.",
        |m| m.sstables_quarantined,
    ),
    (
        "helenus_storage_corrupt_reads",
        "Reads that failed because an SSTable is damaged.",
        |m| m.corrupt_reads,
    ),
];

const GAUGES: [(&str, &str, Field); 6] = [
    (
        "helenus_storage_memtable_bytes",
        "Bytes in memtables.",
        |m| m.memtable_bytes + m.flushing_bytes,
    ),
    (
        "helenus_storage_commitlog_bytes",
        "Bytes of commit log segments.",
        |m| m.commitlog_bytes,
    ),
    (
        "helenus_storage_pending_flushes",
        "Memtables to be flushed.",
        |m| m.pending_flushes,
    ),
    (
        "helenus_storage_pending_compactions",
        "Tables with a compaction to be done.",
        |m| m.pending_compactions,
    ),
    ("helenus_storage_sstables", "SSTables.", |m| m.sstables),
    ("helenus_storage_sstable_bytes", "Bytes of SSTables.", |m| {
        m.sstable_bytes
    }),
];

/// OpenMetrics text; one series per shard.
fn metrics_text(
    shards: &[helenus_storage::metrics::EngineMetrics],
    cluster: &Cluster,
    status: &Status,
) -> String {
    let mut out = String::new();
    for (kind, suffix, metrics) in [
        ("counter", "_total", &COUNTERS[..]),
        ("gauge", "", &GAUGES[..]),
    ] {
        for (name, help, field) in metrics {
            put(
                &mut out,
                format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"),
            );
            for (shard, values) in shards.iter().enumerate() {
                put(
                    &mut out,
                    format_args!("{name}{suffix}{{shard=\"{shard}\"}} {}\n", field(values)),
                );
            }
        }
    }
    let peers = |up| {
        let others = cluster
            .members
            .iter()
            .filter(|member| member.endpoint != cluster.me);
        others
            .filter(|member| member.alive == up && member.is_owner())
            .count()
    };
    put(
        &mut out,
        format_args!(
            "# HELP helenus_ring_peers Members of the ring other than this node.\n# TYPE helenus_ring_peers gauge\n\
             helenus_ring_peers{{state=\"up\"}} {}\nhelenus_ring_peers{{state=\"down\"}} {}\n\
             # HELP helenus_node_ready Whether clients are served.\n# TYPE helenus_node_ready gauge\n\
             helenus_node_ready {}\n\
             # HELP helenus_process_resident_bytes Memory in use.\n# TYPE helenus_process_resident_bytes gauge\n\
             helenus_process_resident_bytes {}\n# EOF\n",
            peers(true),
            peers(false),
            u8::from(status.state == NodeState::Normal),
            resident_bytes(),
        ),
    );
    out
}
