//! Time: a monotonic clock for timeouts, a wall clock for timestamps.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Where the node gets its time.
pub trait Clock: Send + Sync {
    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Duration;
    /// Microseconds since 1970; may jump when the machine's clock is set.
    fn wall_micros(&self) -> i64;
    /// Seconds since 1970.
    fn now_in_seconds(&self) -> i64 {
        self.wall_micros().div_euclid(1_000_000)
    }
}

/// The operating system's clocks.
#[derive(Debug, Clone)]
pub struct RealClock {
    start: std::time::Instant,
}

impl RealClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "the real edge of time")]
    pub fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the real edge of time")]
    fn wall_micros(&self) -> i64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_micros()).ok())
            .unwrap_or(0)
    }
}

/// A clock that moves only when told.
#[derive(Debug, Clone, Default)]
pub struct SimulatedClock {
    monotonic_micros: Arc<AtomicU64>,
    wall_micros: Arc<AtomicI64>,
}

impl SimulatedClock {
    /// A clock at the given wall time in microseconds since 1970.
    pub fn at(wall_micros: i64) -> Self {
        let clock = Self::default();
        clock.wall_micros.store(wall_micros, Ordering::SeqCst);
        clock
    }

    /// Moves both clocks on.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.monotonic_micros.fetch_add(micros, Ordering::SeqCst);
        self.wall_micros
            .fetch_add(i64::try_from(micros).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic_micros.load(Ordering::SeqCst))
    }

    fn wall_micros(&self) -> i64 {
        self.wall_micros.load(Ordering::SeqCst)
    }
}
