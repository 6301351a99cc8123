//! When a slow read is asked of one more replica: the table option `speculative_retry` against the
//! latencies seen of late, within a budget, so that a cluster at its limit is not pushed over it.

use std::time::Duration;

/// What `speculative_retry` says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SpeculativeRetry {
    /// Never ask one more.
    Never,
    /// Ask one more at once.
    Always,
    /// After a fixed time.
    After(Duration),
    /// After this percentile of the latencies seen (0 to 100).
    Percentile(f64),
    /// The shorter of two.
    Min(f64, Duration),
    /// The longer of two.
    Max(f64, Duration),
}

fn percentile(text: &str) -> Option<f64> {
    let number = text
        .strip_suffix("PERCENTILE")
        .or_else(|| text.strip_suffix('P'))?;
    number
        .trim()
        .parse()
        .ok()
        .filter(|value| (0.0..=100.0).contains(value))
}

fn fixed(text: &str) -> Option<Duration> {
    let millis: f64 = text.strip_suffix("MS")?.trim().parse().ok()?;
    Duration::try_from_secs_f64(millis / 1000.0).ok()
}

impl SpeculativeRetry {
    /// Reads the option as Cassandra writes it; what it does not know counts as the default, 99p.
    pub fn parse(text: &str) -> Self {
        let text = text.trim().to_ascii_uppercase();
        match text.as_str() {
            "NONE" | "NEVER" => return Self::Never,
            "ALWAYS" => return Self::Always,
            _ => {}
        }
        let pair = |name: &str| {
            let inner = text
                .strip_prefix(name)?
                .trim()
                .strip_prefix('(')?
                .strip_suffix(')')?;
            let (a, b) = inner.split_once(',')?;
            let (a, b) = (a.trim(), b.trim());
            percentile(a)
                .zip(fixed(b))
                .or_else(|| percentile(b).zip(fixed(a)))
        };
        if let Some((share, time)) = pair("MIN") {
            return Self::Min(share, time);
        }
        if let Some((share, time)) = pair("MAX") {
            return Self::Max(share, time);
        }
        fixed(&text)
            .map(Self::After)
            .or_else(|| percentile(&text).map(Self::Percentile))
            .unwrap_or(Self::Percentile(99.0))
    }
}

/// Buckets of latencies, each half as long again as the one before, from 50 µs on.
const BUCKETS: usize = 40;
const FIRST_BUCKET: Duration = Duration::from_micros(50);
/// When this many are counted all counts are halved: old latencies fade.
const WINDOW: u64 = 4096;
/// Before this many are known, percentiles mean this delay.
const FEW: u64 = 64;
const DELAY_WHEN_FEW_KNOWN: Duration = Duration::from_millis(50);
/// One speculation per this many reads, beyond an allowance for bursts.
const READS_PER_SPECULATION: u64 = 20;
const BURST: u64 = 16;

/// Latencies seen by one coordinator, and how much it has speculated.
#[derive(Debug)]
pub struct Speculation {
    counts: [u64; BUCKETS],
    known: u64,
    reads: u64,
    speculated: u64,
}

impl Default for Speculation {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            known: 0,
            reads: 0,
            speculated: 0,
        }
    }
}

impl Speculation {
    /// A replica answered after this time.
    pub fn record(&mut self, latency: Duration) {
        let mut limit = FIRST_BUCKET;
        let mut bucket = 0;
        while latency > limit && bucket + 1 < BUCKETS {
            limit = limit * 3 / 2;
            bucket += 1;
        }
        self.counts[bucket] += 1;
        self.known += 1;
        if self.known >= WINDOW {
            self.known = 0;
            for count in &mut self.counts {
                *count /= 2;
                self.known += *count;
            }
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count below 4096"
    )]
    fn percentile(&self, share: f64) -> Duration {
        if self.known < FEW {
            return DELAY_WHEN_FEW_KNOWN;
        }
        let wanted = (self.known as f64 * share / 100.0).ceil() as u64;
        let mut limit = FIRST_BUCKET;
        let mut seen = 0;
        for count in self.counts {
            seen += count;
            if seen >= wanted {
                return limit;
            }
            limit = limit * 3 / 2;
        }
        limit
    }

    /// How long a read waits before one more replica is asked; `None`: never.
    pub fn delay(&self, retry: SpeculativeRetry) -> Option<Duration> {
        Some(match retry {
            SpeculativeRetry::Never => return None,
            SpeculativeRetry::Always => Duration::ZERO,
            SpeculativeRetry::After(time) => time,
            SpeculativeRetry::Percentile(share) => self.percentile(share),
            SpeculativeRetry::Min(share, time) => self.percentile(share).min(time),
            SpeculativeRetry::Max(share, time) => self.percentile(share).max(time),
        })
    }

    /// A read begins.
    pub fn begin(&mut self) {
        self.reads += 1;
    }

    /// Whether one more replica may be asked now; counts it if so.
    pub fn spend(&mut self, retry: SpeculativeRetry) -> bool {
        let allowed = retry == SpeculativeRetry::Always
            || self.speculated * READS_PER_SPECULATION < self.reads + BURST * READS_PER_SPECULATION;
        if allowed {
            self.speculated += 1;
        }
        if self.reads > 1 << 20 {
            self.reads /= 2;
            self.speculated /= 2;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_cassandra() {
        let millis = Duration::from_millis;
        for (text, expected) in [
            ("99p", SpeculativeRetry::Percentile(99.0)),
            ("99.9PERCENTILE", SpeculativeRetry::Percentile(99.9)),
            ("50ms", SpeculativeRetry::After(millis(50))),
            ("NONE", SpeculativeRetry::Never),
            ("always", SpeculativeRetry::Always),
            ("MIN(99p,50ms)", SpeculativeRetry::Min(99.0, millis(50))),
            ("max(10ms, 90p)", SpeculativeRetry::Max(90.0, millis(10))),
        ] {
            assert_eq!(SpeculativeRetry::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn percentiles_follow_what_was_seen() {
        let mut speculation = Speculation::default();
        (0..990).for_each(|_| speculation.record(Duration::from_millis(1)));
        (0..10).for_each(|_| speculation.record(Duration::from_millis(100)));
        let p90 = speculation
            .delay(SpeculativeRetry::Percentile(90.0))
            .unwrap();
        let p999 = speculation
            .delay(SpeculativeRetry::Percentile(99.9))
            .unwrap();
        assert!(p90 < Duration::from_millis(2), "{p90:?}");
        assert!(p999 > Duration::from_millis(60), "{p999:?}");
    }

    #[test]
    fn a_full_cluster_is_spared() {
        let mut speculation = Speculation::default();
        let mut sent = 0;
        for _ in 0..10_000 {
            speculation.begin();
            sent += u64::from(speculation.spend(SpeculativeRetry::Percentile(99.0)));
        }
        assert!(sent <= 10_000 / READS_PER_SPECULATION + BURST, "{sent}");
    }
}
