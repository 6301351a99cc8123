//! Logs and metrics.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;

/// Starts logging to standard output; the level is `RUST_LOG`'s, `info` if absent.
pub fn start_logs(text: bool) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,kube_runtime=warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    let started = if text {
        logs.try_init()
    } else {
        logs.json().flatten_event(true).try_init()
    };
    // Already started (in a test): the first one stays.
    drop(started);
}

/// Label of a step or a result.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Step {
    /// What was done.
    pub step: &'static str,
    /// `ok`, `stale` (the object is not as it was seen) or `error`.
    pub result: &'static str,
}

/// Metrics of the operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Writes to the API server.
    pub steps: Family<Step, Counter>,
    /// Seconds of a reconcile.
    pub reconcile_seconds: Histogram,
    /// Reconciles that failed.
    pub reconcile_errors: Counter,
    /// 1 while this replica leads.
    pub leader: Gauge<i64, AtomicI64>,
    /// Answers of the seed service.
    pub seed_answers: Family<Step, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let steps = Family::default();
        let reconcile_seconds = Histogram::new([0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0]);
        let reconcile_errors = Counter::default();
        let leader = Gauge::default();
        let seed_answers = Family::default();
        registry.register(
            "helenus_operator_steps",
            "Writes to the API server",
            steps.clone(),
        );
        registry.register(
            "helenus_operator_reconcile_seconds",
            "Duration of reconciles",
            reconcile_seconds.clone(),
        );
        registry.register(
            "helenus_operator_reconcile_errors",
            "Reconciles that failed",
            reconcile_errors.clone(),
        );
        registry.register(
            "helenus_operator_leader",
            "1 while this replica leads",
            leader.clone(),
        );
        registry.register(
            "helenus_operator_seed_answers",
            "Answers of the seed service",
            seed_answers.clone(),
        );
        Self {
            registry,
            steps,
            reconcile_seconds,
            reconcile_errors,
            leader,
            seed_answers,
        }
    }
}

impl Metrics {
    /// The text of `/metrics`.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
