//! The HTTP servers: health, metrics and the report on the network; the admin API on a local socket.

use crate::report::{NodeReport, RingView};
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::future::BoxFuture;
use serde::Deserialize;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};

/// The node behind the API.
pub trait AdminNode: Send + Sync + 'static {
    /// Whether its threads still work; false makes an orchestrator restart it.
    fn is_live(&self) -> bool;
    /// The report of itself and its peers.
    fn report(&self) -> NodeReport;
    /// The ring with tokens.
    fn ring(&self) -> RingView;
    /// Metrics in the text format of Prometheus.
    fn metrics(&self) -> BoxFuture<'static, String>;
    /// Writes memtables to SSTables; empty lists mean all.
    fn flush(
        &self,
        keyspace: Option<String>,
        tables: Vec<String>,
    ) -> BoxFuture<'static, Result<(), String>>;
    /// Stops serving and flushes everything.
    fn drain(&self) -> BoxFuture<'static, Result<(), String>>;
}

type Shared = Arc<dyn AdminNode>;

fn public(node: Shared) -> Router {
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/node", get(report))
        .with_state(node)
}

/// Serves health, metrics and the report until the future is dropped.
pub async fn serve_public(listener: TcpListener, node: Shared) -> std::io::Result<()> {
    axum::serve(listener, public(node)).await
}

/// Serves everything, also what changes the node, until the future is dropped.
pub async fn serve_admin(listener: UnixListener, node: Shared) -> std::io::Result<()> {
    let admin = Router::new()
        .route("/v1/ring", get(ring))
        .route("/v1/flush", post(flush))
        .route("/v1/drain", post(drain))
        .with_state(Arc::clone(&node));
    axum::serve(listener, public(node).merge(admin)).await
}

async fn live(State(node): State<Shared>) -> Response {
    if node.is_live() {
        "live\n".into_response()
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "a thread of the node has ended: see its log\n",
        )
            .into_response()
    }
}

async fn ready(State(node): State<Shared>) -> Response {
    let report = node.report();
    if report.cql_ready {
        "ready\n".into_response()
    } else {
        let state = serde_json::to_string(&report.state).unwrap_or_default();
        (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {state} {}\n", report.message),
        )
            .into_response()
    }
}

async fn metrics(State(node): State<Shared>) -> Response {
    let text = node.metrics().await;
    (
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

async fn report(State(node): State<Shared>) -> axum::Json<NodeReport> {
    axum::Json(node.report())
}

async fn ring(State(node): State<Shared>) -> axum::Json<RingView> {
    axum::Json(node.ring())
}

#[derive(Debug, Default, Deserialize)]
struct FlushQuery {
    keyspace: Option<String>,
    #[serde(default)]
    tables: String,
}

async fn flush(State(node): State<Shared>, Query(query): Query<FlushQuery>) -> Response {
    let tables = query
        .tables
        .split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    answer(node.flush(query.keyspace, tables).await)
}

async fn drain(State(node): State<Shared>) -> Response {
    answer(node.drain().await)
}

fn answer(result: Result<(), String>) -> Response {
    match result {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}
