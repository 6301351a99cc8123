//! HTTP of the operator: the seed service (8080) and health and metrics (9180).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use helenus_crds::SeedRefusal;
use kube::runtime::reflector::ObjectRef;
use serde::Deserialize;
use tokio::net::TcpListener;

use super::cache::Cache;
use super::telemetry::{Metrics, Step};
use crate::core::seeds;

/// What the handlers need.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Caches of every scope.
    pub caches: Arc<Vec<Cache>>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Every kind was listed once.
    pub ready: Arc<AtomicBool>,
}

#[derive(Debug, Deserialize)]
struct Asking {
    cluster: String,
    node: String,
}

/// Serves seeds until `stop` resolves.
pub async fn serve_seeds(
    listener: TcpListener,
    shared: Shared,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/v1/seeds", get(seeds))
        .with_state(shared);
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop)
        .await
}

/// Serves health and metrics until `stop` resolves.
pub async fn serve_health(
    listener: TcpListener,
    shared: Shared,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/health/live", get(|| async { "live\n" }))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shared);
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop)
        .await
}

async fn ready(State(shared): State<Shared>) -> Response {
    if shared.ready.load(Ordering::Relaxed) {
        "ready\n".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the API server was not listed yet\n",
        )
            .into_response()
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.metrics.text() {
        Ok(text) => (
            [(
                "content-type",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn seeds(State(shared): State<Shared>, Query(asking): Query<Asking>) -> Response {
    let answer = answer(&shared, &asking);
    let result = if answer.is_ok() { "ok" } else { "unknown" };
    shared
        .metrics
        .seed_answers
        .get_or_create(&Step {
            step: "answer",
            result,
        })
        .inc();
    tracing::debug!(
        cluster = asking.cluster,
        node = asking.node,
        ?answer,
        "asked for seeds"
    );
    match answer {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(SeedRefusal { error })).into_response()
        }
    }
}

fn answer(shared: &Shared, asking: &Asking) -> Result<helenus_crds::SeedAnswer, String> {
    if !shared.ready.load(Ordering::Relaxed) {
        return Err("the operator is starting".to_owned());
    }
    let Some((namespace, name)) = asking.cluster.split_once('/') else {
        return Err("cluster must be NAMESPACE/NAME".to_owned());
    };
    let key = ObjectRef::new(name).within(namespace);
    let known = shared
        .caches
        .iter()
        .find_map(|cache| Some((cache, cache.clusters.get(&key)?)));
    let Some((cache, cluster)) = known else {
        return seeds::answer(None, &[], &asking.node);
    };
    let nodes = cache.nodes_of(namespace, name);
    let nodes: Vec<_> = nodes
        .iter()
        .filter_map(|node| node.0.as_ref().ok())
        .collect();
    seeds::answer(cluster.0.as_ref().ok(), &nodes, &asking.node)
}
