//! Starting and stopping a node: what exists, in which order, on which thread.
//!
//! Start: settings; data directory locked; engines opened with the system tables, then with the
//! whole schema; shard threads (peers are heard); control thread (gossip, the way into the ring);
//! clients when the node is NORMAL. Stop: clients, gossip, data, threads.

use crate::cluster::Cluster;
use crate::control::{self, Admin, Control, ControlMessage, Parts};
use crate::messaging::{Messaging, MessagingSettings};
use crate::queries::Queries;
use crate::settings::{CommitLogMode, Settings};
use crate::shard_thread::{self, Shared};
use crate::shards::{self, LocalData, Shards};
use anyhow::{Context, Result, anyhow, bail};
use arc_swap::ArcSwap;
use helenus_admin::{AdminNode, serve_admin, serve_public};
use helenus_coordinator::hints::HintStore;
use helenus_internode::frame::Framing;
use helenus_internode::verb::Timeouts;
use helenus_internode::version::MessagingVersion;
use helenus_ring::{GossipSettings, Gossiper, Life, LifeSettings, LocalNode, Replaced};
use helenus_schema::Schema;
use helenus_seams::{Clock, Disk, RealClock, RealDisk, RealEntropy};
use helenus_server::SharedStatements;
use helenus_storage::commitlog::{CommitLogSettings, CommitLogSync};
use helenus_storage::{Engine, EngineSettings};
use helenus_types::{Endpoint, HostId, Token};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

/// How long a drain may take before the process ends all the same; the commit log keeps the rest.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

/// Runs a node until it is told to stop.
pub(crate) fn run(settings: Settings) -> Result<()> {
    let settings = Arc::new(settings);
    log_settings(&settings);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    create_directories(&settings, &*disk)?;
    let _lock = lock(&settings)?;
    let (engines, schema) = open_engines(&settings, &disk, &clock)?;
    let (senders, queues): (Vec<_>, Vec<_>) = engines
        .iter()
        .map(|_| mpsc::channel(shards::QUEUE_LENGTH))
        .unzip();
    let (control_sender, control_queue) = mpsc::channel(control::QUEUE_LENGTH);
    let (serve_clients, serving) = watch::channel(false);
    let me = Endpoint::new(settings.broadcast_address, settings.storage_port);
    let shared = Shared {
        messaging: messaging_settings(&settings, me),
        clock: Arc::clone(&clock),
        entropy: Arc::new(RealEntropy),
        disk: Arc::clone(&disk),
        schema: Arc::new(ArcSwap::new(schema)),
        cluster: Arc::new(ArcSwap::from_pointee(Cluster::of(
            me,
            &settings.data_center,
            Vec::new(),
        ))),
        shards: Shards::new(senders),
        control: control_sender,
        statements: Arc::new(SharedStatements::default()),
        serve_clients: serving,
        settings: Arc::clone(&settings),
    };
    let alive = Arc::new(AtomicBool::new(true));
    let failed = Arc::new(tokio::sync::Notify::new());
    for (index, (engine, queue)) in engines.into_iter().zip(queues).enumerate() {
        let watchdog = Watchdog {
            alive: Arc::clone(&alive),
            failed: Arc::clone(&failed),
        };
        spawn_shard(index, engine, queue, shared.clone(), watchdog)?;
    }
    on_local_runtime(run_control(
        shared,
        control_queue,
        serve_clients,
        alive,
        failed,
    ))
}

fn create_directories(settings: &Settings, disk: &dyn Disk) -> Result<()> {
    let others = [&settings.commitlog_directory, &settings.hints_directory];
    for directory in settings.data_directories.iter().chain(others) {
        disk.create_dir_all(directory)
            .with_context(|| format!("create {}", directory.display()))?;
    }
    Ok(())
}

fn messaging_settings(settings: &Settings, me: Endpoint) -> MessagingSettings {
    MessagingSettings {
        me,
        local_address: settings.listen_address,
        timeouts: Timeouts {
            write: settings.write_request_timeout,
            read: settings.read_request_timeout,
            range: settings.range_request_timeout,
            rpc: settings.request_timeout,
            ..Timeouts::default()
        },
        framing: Framing::Crc,
    }
}

fn spawn_shard(
    index: usize,
    engine: Engine,
    queue: mpsc::Receiver<shards::ShardMessage>,
    shared: Shared,
    watchdog: Watchdog,
) -> Result<()> {
    std::thread::Builder::new()
        .name(format!("shard-{index}"))
        .spawn(move || {
            let outcome = on_local_runtime(shard_thread::run(index, engine, queue, shared));
            if let Err(error) = outcome {
                tracing::error!(
                    shard = index,
                    error = format!("{error:#}"),
                    "a shard has ended"
                );
            }
            drop(watchdog);
        })
        .context("start a shard's thread")?;
    Ok(())
}

/// Tells the control thread when a shard's thread ends, for whatever reason.
struct Watchdog {
    alive: Arc<AtomicBool>,
    failed: Arc<tokio::sync::Notify>,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::SeqCst);
        self.failed.notify_one();
    }
}

fn on_local_runtime<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .context("start an event loop")?;
    let tasks = tokio::task::LocalSet::new();
    let outcome = tasks.block_on(&runtime, work);
    // tasks and blocking work that still run are dropped with the thread: nothing of them was acknowledged
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

fn log_settings(settings: &Settings) {
    tracing::info!(
        cluster = %settings.cluster_name, data_center = %settings.data_center, rack = %settings.rack,
        broadcast = %settings.broadcast_address, shards = settings.shards, memory_budget_bytes = settings.memory_budget_bytes,
        "starting"
    );
    if !settings.without_effect.is_empty() {
        tracing::info!(
            settings = settings.without_effect.join(", "),
            "settings of Cassandra that have no effect in this version"
        );
    }
}

/// One process per data directory: two would destroy each other's data.
fn lock(settings: &Settings) -> Result<OwnedFd> {
    let path = settings.data_directories[0].join(".lock");
    let file = rustix::fs::open(
        &path,
        rustix::fs::OFlags::CREATE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::from_raw_mode(0o644),
    )
    .with_context(|| format!("open {}", path.display()))?;
    if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!(
            "{} is in use by another process: stop it first, or give this node its own data_file_directories",
            path.display()
        );
    }
    Ok(file)
}

fn engine_settings(settings: &Settings, shard: usize) -> EngineSettings {
    let shards = settings.shards.max(1);
    let per_shard = usize::try_from(settings.memory_budget_bytes).unwrap_or(usize::MAX) / shards;
    let first = settings.data_directories[0].clone();
    let mut engine = EngineSettings::new(first, settings.commitlog_directory.clone());
    engine
        .data_directories
        .clone_from(&settings.data_directories);
    engine.shard = shard;
    engine.shards = shards;
    // a quarter of the budget for memtables, the rest for requests, files and caches
    engine.memtable_budget_bytes = (per_shard / 4).max(16 << 20);
    engine.tombstone_warn_threshold = u64::from(settings.tombstone_warn_threshold);
    engine.tombstone_failure_threshold = u64::from(settings.tombstone_failure_threshold);
    engine.commitlog = CommitLogSettings {
        sync: match settings.commitlog_mode {
            CommitLogMode::Periodic(period) => CommitLogSync::Periodic(period),
            CommitLogMode::Batch => CommitLogSync::Batch,
            CommitLogMode::Group(window) => CommitLogSync::Group(window),
        },
        segment_size_bytes: u32::try_from(settings.commitlog_segment_bytes).unwrap_or(u32::MAX),
        total_space_bytes: settings.commitlog_total_bytes / shards as u64,
        ..CommitLogSettings::in_directory(settings.commitlog_directory.clone())
    };
    engine
}

/// Opens every shard with the system tables, learns the schema from them, and replays the rest.
fn open_engines(
    settings: &Settings,
    disk: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
) -> Result<(Vec<Engine>, Arc<Schema>)> {
    let system = Arc::new(crate::schema_store::system_schema());
    let mut engines = (0..settings.shards.max(1))
        .map(|shard| {
            let opened = Engine::open(
                engine_settings(settings, shard),
                Arc::clone(&system),
                Arc::clone(disk),
                Arc::clone(clock),
            );
            opened.with_context(|| format!("open the data of shard {shard}"))
        })
        .collect::<Result<Vec<_>>>()?;
    let schema = Arc::new(crate::schema_store::load_from_engines(
        &mut engines,
        &system,
        clock.now_in_seconds(),
    )?);
    for engine in &mut engines {
        engine
            .schema_changed(Arc::clone(&schema))
            .context("open the tables of the schema")?;
        engine.finish_replay().context("replay the commit log")?;
    }
    Ok((engines, schema))
}

async fn run_control(
    shared: Shared,
    queue: mpsc::Receiver<ControlMessage>,
    serve_clients: watch::Sender<bool>,
    alive: Arc<AtomicBool>,
    failed: Arc<tokio::sync::Notify>,
) -> Result<()> {
    let started = shared.clock.monotonic();
    let status = Arc::new(ArcSwap::from_pointee(control::initial_status()));
    let admin = Arc::new(Admin {
        settings: Arc::clone(&shared.settings),
        status: Arc::clone(&status),
        cluster: Arc::clone(&shared.cluster),
        schema: Arc::clone(&shared.schema),
        shards: shared.shards.clone(),
        control: shared.control.clone(),
        clock: Arc::clone(&shared.clock),
        started,
        alive,
    });
    serve_http(&shared, admin)?;
    let control = Control::prepare(shared.clone(), status, serve_clients).await?;
    let stop = shared.control.clone();
    tokio::task::spawn_local(async move {
        stop_signal().await;
        // when the control thread has ended already there is nothing left to stop
        drop(stop.send(ControlMessage::Stop).await);
    });
    tokio::select! {
        outcome = control.run(queue) => outcome,
        () = failed.notified() => Err(anyhow!("a shard's thread has ended: see the log above")),
        () = overdue() => Err(anyhow!("the drain took longer than {DRAIN_TIMEOUT:?}; the commit log keeps what is not flushed")),
    }
}

async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::error!("signals cannot be received: end this node with nodetool drain");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => tracing::info!("received SIGTERM"),
        _ = interrupt.recv() => tracing::info!("received SIGINT"),
    }
}

/// Ends some time after the stop signal.
async fn overdue() {
    stop_signal().await;
    tokio::time::sleep(DRAIN_TIMEOUT).await;
}

fn serve_http(shared: &Shared, admin: Arc<Admin>) -> Result<()> {
    let settings = &shared.settings;
    let public = shard_thread::listen(settings.http_address)?;
    let node: Arc<dyn AdminNode> = admin;
    let for_public = Arc::clone(&node);
    tokio::task::spawn_local(async move {
        if let Err(error) = serve_public(public, for_public).await {
            tracing::error!(%error, "health and metrics are not served any more");
        }
    });
    let socket = &settings.admin_socket;
    if shared.disk.exists(socket) {
        shared
            .disk
            .remove(socket)
            .with_context(|| format!("remove the old socket {}", socket.display()))?;
    }
    let local = tokio::net::UnixListener::bind(socket)
        .with_context(|| format!("listen on {}", socket.display()))?;
    rustix::fs::chmod(socket, rustix::fs::Mode::from_raw_mode(0o600))
        .context("protect the admin socket")?;
    tokio::task::spawn_local(async move {
        if let Err(error) = serve_admin(local, node).await {
            tracing::error!(%error, "the admin API is not served any more");
        }
    });
    Ok(())
}

impl Control {
    /// Reads what an earlier life stored, and prepares gossip and the way into the ring.
    async fn prepare(
        shared: Shared,
        status: Arc<ArcSwap<control::Status>>,
        serve_clients: watch::Sender<bool>,
    ) -> Result<Self> {
        let settings = Arc::clone(&shared.settings);
        let local = LocalData {
            shards: shared.shards.clone(),
            own: None,
        };
        let queries = Queries {
            local: local.clone(),
            schema: Arc::clone(&shared.schema),
            clock: Arc::clone(&shared.clock),
            entropy: Arc::clone(&shared.entropy),
        };
        let saved = control::read_local(&queries).await?;
        check_cluster_name(&saved, &settings)?;
        let peers = control::read_peers(&queries).await?;
        let host_id = saved.host_id.unwrap_or_else(|| shared.entropy.uuid_v4());
        let me = shared.messaging.me;
        let life = Life::new(life_settings(
            &settings,
            &saved,
            host_id,
            me,
            peers.iter().map(|peer| peer.endpoint).collect(),
        ));
        let gossiper = gossiper(&settings, &saved, host_id, me, shared.schema.load().version);
        let messaging = Messaging::new(
            shared.messaging.clone(),
            Arc::clone(&shared.clock),
            control::THREAD,
        );
        let hints = HintStore::open(Arc::clone(&shared.disk), settings.hints_directory.clone())?;
        let mut control = Self::new(Parts {
            shared,
            messaging,
            local,
            queries,
            gossiper,
            life,
            was_member: saved.bootstrapped,
            hints,
            status,
            serve_clients,
        });
        control.remember(peers);
        control.store_settings(host_id).await?;
        control.store_local_schema().await?;
        control.set_host_id(host_id);
        control.recall_founding();
        Ok(control)
    }
}

fn check_cluster_name(saved: &control::SavedLocal, settings: &Settings) -> Result<()> {
    match &saved.cluster_name {
        Some(name) if *name != settings.cluster_name => bail!(
            "saved cluster name '{name}' is not the configured name '{}': correct cluster_name, or use another data directory",
            settings.cluster_name
        ),
        _ => Ok(()),
    }
}

fn gossiper(
    settings: &Settings,
    saved: &control::SavedLocal,
    host_id: Uuid,
    me: Endpoint,
    schema: Uuid,
) -> Gossiper {
    let mut gossip = GossipSettings::new(&settings.cluster_name, me, Vec::new());
    gossip.phi_threshold = settings.phi_convict_threshold;
    gossip.ring_delay = settings.ring_delay;
    let mut gossiper = Gossiper::new(gossip, saved.generation.saturating_add(1));
    gossiper.set_local_node(&local_node(settings, host_id, me, schema));
    gossiper
}

fn life_settings(
    settings: &Settings,
    saved: &control::SavedLocal,
    host_id: Uuid,
    me: Endpoint,
    saved_peers: Vec<Endpoint>,
) -> LifeSettings {
    LifeSettings {
        me,
        host_id: HostId(host_id),
        dc: settings.data_center.clone(),
        rack: settings.rack.clone(),
        tokens: settings.num_tokens,
        factor: 3,
        initial_tokens: settings
            .initial_tokens
            .iter()
            .map(|token| Token(*token))
            .collect(),
        stream: settings.auto_bootstrap,
        replaces: settings
            .replace_host_id
            .filter(|_| !saved.bootstrapped)
            .map(|id| Replaced::Host(HostId(id))),
        ring_delay: settings.ring_delay,
        saved_tokens: if saved.bootstrapped {
            saved.tokens.clone()
        } else {
            Vec::new()
        },
        was_member: saved.bootstrapped,
        saved_peers,
        saved_generation: saved.generation,
    }
}

fn local_node(settings: &Settings, host_id: Uuid, me: Endpoint, schema: Uuid) -> LocalNode {
    LocalNode {
        host_id: HostId(host_id),
        dc: settings.data_center.clone(),
        rack: settings.rack.clone(),
        release_version: control::RELEASE_VERSION.to_owned(),
        messaging: MessagingVersion::V13,
        internal: me,
        native: SocketAddr::new(
            settings.broadcast_rpc_address,
            settings.native_transport_port,
        ),
        schema,
        sstable_versions: "bti-da".to_owned(),
    }
}
