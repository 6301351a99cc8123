//! The operator's edge: everything with a client, a socket, a clock or a signal.

pub mod apply;
pub mod cache;
pub mod controller;
pub mod election;
pub mod http;
pub mod node_client;
pub mod run;
pub mod settings;
pub mod telemetry;

use k8s_openapi::jiff::Timestamp;

/// The wall clock of the edge.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Milliseconds of a monotonic clock that began when the process did.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic(std::time::Instant);

impl Monotonic {
    /// Starts the clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator's edge owns its clock"
    )]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Milliseconds since the start.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
