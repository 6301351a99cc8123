//! The phi accrual failure detector with Cassandra's simplification: a node's phi is the time since
//! its last news over the mean interval of its news, scaled by 1/ln(10).
//! Source: Cassandra 5.0 `gms/FailureDetector.java`.

use helenus_types::Endpoint;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// `phi_convict_threshold` by default.
pub const DEFAULT_PHI_THRESHOLD: f64 = 8.0;
const SAMPLES: usize = 1000;
/// The first interval assumed, and the longest that is learnt: a node that is often silent longer
/// shall be found down rather than be adapted to.
const INITIAL_INTERVAL: Duration = Duration::from_secs(2);
/// When our own process stood still longer than this, silence proves nothing.
const MAX_LOCAL_PAUSE: Duration = Duration::from_secs(5);
const PHI_FACTOR: f64 = std::f64::consts::LOG10_E;

#[derive(Debug, Clone)]
struct ArrivalWindow {
    last: Duration,
    intervals: VecDeque<Duration>,
    sum: Duration,
}

impl ArrivalWindow {
    fn new(now: Duration) -> Self {
        Self {
            last: now,
            intervals: VecDeque::from([INITIAL_INTERVAL]),
            sum: INITIAL_INTERVAL,
        }
    }

    fn add(&mut self, now: Duration) {
        let interval = now.saturating_sub(self.last);
        self.last = now;
        if interval > INITIAL_INTERVAL {
            return;
        }
        if self.intervals.len() == SAMPLES {
            self.sum -= self.intervals.pop_front().unwrap_or_default();
        }
        self.intervals.push_back(interval);
        self.sum += interval;
    }

    fn phi(&self, now: Duration) -> f64 {
        let count = u32::try_from(self.intervals.len()).unwrap_or(u32::MAX);
        let mean = self.sum.as_secs_f64() / f64::from(count);
        if mean > 0.0 {
            now.saturating_sub(self.last).as_secs_f64() / mean * PHI_FACTOR
        } else {
            0.0
        }
    }
}

/// Judges nodes by the times at which there was news of them.
#[derive(Debug, Clone)]
pub struct FailureDetector {
    threshold: f64,
    windows: BTreeMap<Endpoint, ArrivalWindow>,
    last_round: Option<Duration>,
    paused_at: Option<Duration>,
}

impl FailureDetector {
    /// A detector that has heard of nobody.
    pub fn new(threshold: f64) -> Self {
        Self {
            threshold,
            windows: BTreeMap::new(),
            last_round: None,
            paused_at: None,
        }
    }

    /// There is news of `endpoint` at monotonic time `now`.
    pub fn report(&mut self, endpoint: Endpoint, now: Duration) {
        self.windows
            .entry(endpoint)
            .and_modify(|window| window.add(now))
            .or_insert_with(|| ArrivalWindow::new(now));
    }

    /// Forgets what was learnt of `endpoint`.
    pub fn forget(&mut self, endpoint: &Endpoint) {
        self.windows.remove(endpoint);
    }

    /// The suspicion against `endpoint`, `None` when it was never heard of.
    pub fn phi(&self, endpoint: &Endpoint, now: Duration) -> Option<f64> {
        self.windows.get(endpoint).map(|window| window.phi(now))
    }

    /// Opens a round of judgements, to be called once per gossip round: false when this process
    /// itself stood still of late, so that nobody may be convicted.
    pub fn begin_round(&mut self, now: Duration) -> bool {
        let since = self
            .last_round
            .map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last_round = Some(now);
        if since > MAX_LOCAL_PAUSE {
            self.paused_at = Some(now);
        }
        self.paused_at
            .is_none_or(|paused| now.saturating_sub(paused) >= MAX_LOCAL_PAUSE)
    }

    /// Whether `endpoint` is to be taken as down.
    pub fn convicts(&self, endpoint: &Endpoint, now: Duration) -> bool {
        self.phi(endpoint, now)
            .is_some_and(|phi| phi > self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Endpoint {
        Endpoint::new([127, 0, 0, 1].into(), 7000)
    }

    #[test]
    fn regular_news_then_silence() {
        let mut detector = FailureDetector::new(DEFAULT_PHI_THRESHOLD);
        for second in 0..1100 {
            detector.report(node(), Duration::from_secs(second));
        }
        let silent = |seconds: u64| detector.convicts(&node(), Duration::from_secs(1099 + seconds));
        // 8 ln(10) intervals of one second
        assert!(!silent(18));
        assert!(silent(19));
        assert!(!detector.convicts(
            &Endpoint::new([127, 0, 0, 2].into(), 7000),
            Duration::from_secs(5000)
        ));
    }

    #[test]
    fn long_silences_are_not_learnt() {
        let mut detector = FailureDetector::new(DEFAULT_PHI_THRESHOLD);
        for n in 0..10 {
            detector.report(node(), Duration::from_secs(n * 15));
        }
        assert!(detector.convicts(&node(), Duration::from_secs(9 * 15 + 37)));
    }

    #[test]
    fn our_own_pause_convicts_nobody() {
        let mut detector = FailureDetector::new(DEFAULT_PHI_THRESHOLD);
        assert!(detector.begin_round(Duration::from_secs(1)));
        assert!(detector.begin_round(Duration::from_secs(2)));
        assert!(!detector.begin_round(Duration::from_mins(1)));
        assert!(!detector.begin_round(Duration::from_secs(61)));
        assert!(detector.begin_round(Duration::from_secs(65)));
    }
}
