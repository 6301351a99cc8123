//! Starts and stops the operator, in a declared order: logs, client, caches, servers, leadership,
//! controllers; and back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::Monotonic;
use super::apply::Writer;
use super::cache::Cache;
use super::controller::{self, Context};
use super::election::Elector;
use super::http::{self, Shared};
use super::settings::Settings;
use super::telemetry::Metrics;
use crate::core::validate::Defaults;

/// Runs the operator until it is told to stop, or loses leadership.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let client = Client::try_default()
        .await
        .context("connect to the API server")?;
    let clock = Monotonic::start();
    let metrics = Arc::new(Metrics::default());
    let (stop, stopped) = watch::channel(false);

    let (caches, watches) = start_caches(&settings, &client);
    let caches = Arc::new(caches);
    let shared = Shared {
        caches: caches.clone(),
        metrics: metrics.clone(),
        ready: Arc::new(AtomicBool::new(false)),
    };
    let seeds = TcpListener::bind(settings.seeds_listen)
        .await
        .context("listen for nodes that ask for seeds")?;
    let health = TcpListener::bind(settings.http_listen)
        .await
        .context("listen for health checks")?;
    let replica = settings.replica();
    tracing::info!(identity = replica, region = settings.region, namespaces = ?settings.watch_namespaces,
        seeds = %settings.seeds_listen, http = %settings.http_listen, version = env!("CARGO_PKG_VERSION"), "operator starts");

    let elector = Elector::new(
        &client,
        &settings.namespace,
        &replica,
        settings.lease_seconds,
        clock,
    );
    let work = lead(
        &settings,
        &client,
        caches,
        &metrics,
        clock,
        &elector,
        &shared.ready,
        stopped.clone(),
    );
    let servers = async {
        tokio::try_join!(
            http::serve_seeds(seeds, shared.clone(), until(stopped.clone())),
            http::serve_health(health, shared.clone(), until(stopped.clone()))
        )
    };
    let signals = async {
        wait_for_signal().await?;
        tracing::info!("stopping");
        stop.send_replace(true);
        anyhow::Ok(())
    };
    let watching = futures::future::join_all(watches);
    tokio::select! {
        result = async { tokio::try_join!(async { anyhow::Ok(servers.await?) }, signals, work) } => result.map(|_| ())?,
        _ = watching => anyhow::bail!("the watches ended"),
    }
    elector.release().await.context("release the lease")?;
    tracing::info!("operator stopped");
    Ok(())
}

fn start_caches(
    settings: &Settings,
    client: &Client,
) -> (Vec<Cache>, Vec<futures::future::BoxFuture<'static, ()>>) {
    let named: Vec<_> = settings
        .watch_namespaces
        .iter()
        .filter(|name| !name.is_empty())
        .cloned()
        .map(Some)
        .collect();
    let scopes = if named.is_empty() { vec![None] } else { named };
    let mut caches = Vec::new();
    let mut watches = Vec::new();
    for scope in scopes {
        let (cache, more) = Cache::start(client, scope);
        caches.push(cache);
        watches.extend(more);
    }
    (caches, watches)
}

/// Waits for the caches and for leadership, then works until told to stop.
#[expect(clippy::too_many_arguments, reason = "the wiring of the whole process")]
async fn lead(
    settings: &Settings,
    client: &Client,
    caches: Arc<Vec<Cache>>,
    metrics: &Arc<Metrics>,
    clock: Monotonic,
    elector: &Elector,
    ready: &AtomicBool,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut stop = std::pin::pin!(until(stopped.clone()));
    let listed = async {
        for cache in caches.iter() {
            cache
                .ready()
                .await
                .context("list what the API server has")?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        listed = listed => listed?,
        () = &mut stop => return Ok(()),
    }
    ready.store(true, Ordering::Relaxed);
    tracing::info!("caches are filled");
    tokio::select! {
        () = elector.win() => {}
        () = &mut stop => return Ok(()),
    }
    metrics.leader.set(1);
    let writer = Writer::new(
        client.clone(),
        &settings.replica(),
        elector.leadership(),
        metrics.clone(),
    );
    let controllers = caches.iter().map(|cache| {
        let context = Context {
            client: client.clone(),
            cache: cache.clone(),
            writer: writer.clone(),
            defaults: Defaults {
                image: settings.node_image.clone(),
                seed_url: settings.seed_base_url(),
            },
            lost_node_secs: i64::from(settings.lost_node_seconds),
            leadership: elector.leadership(),
            metrics: metrics.clone(),
            clock,
            memory: Mutex::new(BTreeMap::new()),
        };
        controller::run(Arc::new(context), until(stopped.clone()))
    });
    tokio::select! {
        _ = futures::future::join_all(controllers) => Ok(()),
        () = elector.keep() => {
            metrics.leader.set(0);
            anyhow::bail!("leadership is lost; another replica acts now")
        }
    }
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone: time to stop as well.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
