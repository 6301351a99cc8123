//! One measured load: closed loop (so many requests always in flight) or open loop (requests at a fixed rate).
//!
//! L1: in an open loop the latency of a request counts from the moment it was meant to be sent, whether or not the client or
//! the server was late (no coordinated omission).
//! L2: only requests that ended within the measured time count, and any error is reported.

use crate::process::{Usage, usage};
use crate::wire::{MAX_IN_FLIGHT, Wire, error_text};
use anyhow::{Result, bail};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 150;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Operation {
    /// Prepared inserts of 150-byte values.
    Insert,
    /// Prepared reads of one row by key.
    Read,
}

/// The shape of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) operation: Operation,
    pub(crate) keys: u64,
    pub(crate) connections: usize,
    /// Closed loop: requests in flight on each connection.
    pub(crate) in_flight: usize,
    /// Open loop: requests a second over all connections; it replaces the closed loop.
    pub(crate) rate: Option<u32>,
    pub(crate) version: u8,
    pub(crate) consistency: u16,
    pub(crate) warm_up_seconds: f64,
    pub(crate) seconds: f64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) missing_rows: u64,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// Server CPU a request, in microseconds.
    pub(crate) server_cpu_us: Option<f64>,
    pub(crate) server_rss_mib: Option<f64>,
    /// Our own CPU a request, in microseconds: a load generator that is busy itself measures itself.
    pub(crate) client_cpu_us: f64,
}

/// Make the keyspace and the table when they are not there.
pub(crate) fn create_schema(ip: &str, version: u8, replication_factor: u8) -> Result<()> {
    let mut wire = Wire::open(ip, version)?;
    wire.query(&format!(
        "CREATE KEYSPACE IF NOT EXISTS bench WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replication_factor}}}"
    ))?;
    wire.query("CREATE TABLE IF NOT EXISTS bench.kv (k bigint PRIMARY KEY, v blob)")
}

/// Run a load against a server; its CPU time is measured when its process id is given.
pub(crate) fn run(ip: &str, pid: Option<u32>, shape: &Shape) -> Result<Figures> {
    let mut load = Load::new(ip, shape)?;
    load.run(Duration::from_secs_f64(shape.warm_up_seconds))?;
    load.forget();
    let before = Moment::now(pid)?;
    load.run(Duration::from_secs_f64(shape.seconds))?;
    let after = Moment::now(pid)?;
    load.drain(Duration::from_secs(10))?;
    Ok(load.figures(&before, &after))
}

/// Insert every key once and wait for all answers; an error ends it.
pub(crate) fn fill(ip: &str, shape: &Shape) -> Result<()> {
    let shape = Shape {
        operation: Operation::Insert,
        rate: None,
        ..shape.clone()
    };
    let mut load = Load::new(ip, &shape)?;
    let mut sent = 0;
    while load.tally.requests < shape.keys {
        for lane in 0..load.lanes.len() {
            while sent < shape.keys && load.send(lane, Instant::now())? {
                sent += 1;
            }
        }
        load.flush()?;
        load.wait(Duration::from_secs(1))?;
        if let Some(error) = &load.tally.first_error {
            bail!("filling the table: {error}");
        }
    }
    Ok(())
}

/// Process times at one moment.
struct Moment {
    at: Instant,
    server: Option<Usage>,
    client: Usage,
}

impl Moment {
    fn now(pid: Option<u32>) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            server: pid.map(usage).transpose()?,
            client: usage(std::process::id())?,
        })
    }
}

struct Lane {
    wire: Wire,
    /// When each request in flight began, by stream id.
    began: Vec<Instant>,
    free: Vec<u16>,
    in_flight: usize,
    prefix: Vec<u8>,
}

struct Load {
    shape: Shape,
    lanes: Vec<Lane>,
    next_key: u64,
    random: u64,
    histogram: Histogram<u64>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    requests: u64,
    errors: u64,
    first_error: Option<String>,
    missing_rows: u64,
}

impl Load {
    fn new(ip: &str, shape: &Shape) -> Result<Self> {
        if shape.connections == 0 || shape.keys == 0 || shape.in_flight > MAX_IN_FLIGHT {
            bail!(
                "a load needs connections and keys, and at most {MAX_IN_FLIGHT} requests in flight on a connection"
            );
        }
        let statement = match shape.operation {
            Operation::Insert => "INSERT INTO bench.kv (k, v) VALUES (?, ?)",
            Operation::Read => "SELECT v FROM bench.kv WHERE k = ?",
        };
        let limit = if shape.rate.is_some() {
            MAX_IN_FLIGHT
        } else {
            shape.in_flight
        };
        let now = Instant::now();
        let mut lanes = Vec::new();
        for _ in 0..shape.connections {
            let mut wire = Wire::open(ip, shape.version)?;
            let mut prefix = wire.prepare(statement)?;
            // consistency, then flags: values, and rows without metadata
            prefix.extend(shape.consistency.to_be_bytes());
            let flags: u8 = if shape.operation == Operation::Read {
                0x03
            } else {
                0x01
            };
            if shape.version >= 5 {
                prefix.extend(u32::from(flags).to_be_bytes());
            } else {
                prefix.push(flags);
            }
            wire.set_nonblocking()?;
            let free = (0..u16::try_from(limit)?).rev().collect();
            lanes.push(Lane {
                wire,
                began: vec![now; limit],
                free,
                in_flight: 0,
                prefix,
            });
        }
        let histogram = Histogram::new_with_bounds(1, 600_000_000, 3)?;
        Ok(Self {
            shape: shape.clone(),
            lanes,
            next_key: 0,
            random: 0x9E37_79B9_7F4A_7C15,
            histogram,
            tally: Tally::default(),
        })
    }

    fn forget(&mut self) {
        self.histogram.reset();
        self.tally = Tally::default();
    }

    fn run(&mut self, duration: Duration) -> Result<()> {
        let begin = Instant::now();
        let end = begin + duration;
        let gap = self
            .shape
            .rate
            .map(|rate| Duration::from_secs_f64(1.0 / f64::from(rate.max(1))));
        let mut due = begin;
        let mut turn = 0;
        loop {
            let now = Instant::now();
            if now >= end {
                return Ok(());
            }
            match gap {
                Some(gap) => {
                    while due <= now {
                        let lane = turn % self.lanes.len();
                        if !self.send(lane, due)? {
                            break;
                        }
                        turn += 1;
                        due += gap;
                    }
                }
                None => {
                    for lane in 0..self.lanes.len() {
                        while self.send(lane, now)? {}
                    }
                }
            }
            self.flush()?;
            let until = if gap.is_some() { due.min(end) } else { end };
            self.wait(until.saturating_duration_since(Instant::now()))?;
        }
    }

    /// Wait for the answers that are still out, uncounted.
    fn drain(&mut self, deadline: Duration) -> Result<()> {
        let counted = (self.histogram.clone(), std::mem::take(&mut self.tally));
        let begin = Instant::now();
        while self.lanes.iter().any(|lane| lane.in_flight > 0) && begin.elapsed() < deadline {
            self.wait(Duration::from_millis(100))?;
        }
        let late = self.lanes.iter().map(|lane| lane.in_flight).sum::<usize>();
        let errors = std::mem::take(&mut self.tally);
        (self.histogram, self.tally) = counted;
        self.tally.errors += errors.errors;
        self.tally.first_error = self.tally.first_error.take().or(errors.first_error);
        if late > 0 {
            bail!("{late} requests had no answer after {deadline:?}");
        }
        Ok(())
    }

    /// Queue one request; false when the connection has no stream id left.
    fn send(&mut self, lane: usize, began: Instant) -> Result<bool> {
        let Some(stream) = self.lanes[lane].free.pop() else {
            return Ok(false);
        };
        let key = self.key();
        let Lane {
            wire,
            began: begins,
            in_flight,
            prefix,
            ..
        } = &mut self.lanes[lane];
        begins[usize::from(stream)] = began;
        *in_flight += 1;
        let insert = self.shape.operation == Operation::Insert;
        wire.put(stream, 0x0A, |out| {
            out.extend(&*prefix);
            out.extend([0, if insert { 2 } else { 1 }]);
            out.extend([0, 0, 0, 8]);
            out.extend(key.to_be_bytes());
            if insert {
                out.extend([0, 0, 0, 150]);
                // the value is not the same for every key, and does not compress away
                let mut state = key | 1;
                for _ in 0..VALUE_BYTES.div_ceil(8) {
                    state = state
                        .wrapping_mul(0x5851_F42D_4C95_7F2D)
                        .wrapping_add(0x1405_7B7E_F767_814F);
                    out.extend(state.to_be_bytes());
                }
                out.truncate(out.len() - (VALUE_BYTES.div_ceil(8) * 8 - VALUE_BYTES));
            }
        })?;
        Ok(true)
    }

    /// Inserts go through the keys in order, so that all are there after one round; reads pick at random.
    fn key(&mut self) -> u64 {
        if self.shape.operation == Operation::Insert {
            self.next_key = (self.next_key + 1) % self.shape.keys;
            return self.next_key;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % self.shape.keys
    }

    fn flush(&mut self) -> Result<()> {
        for lane in &mut self.lanes {
            lane.wire.flush()?;
        }
        Ok(())
    }

    /// Sleep until something can be read (or written, when the socket was full) and take it.
    fn wait(&mut self, timeout: Duration) -> Result<()> {
        let ready: Vec<bool> = {
            let mut polled: Vec<PollFd<'_>> = self
                .lanes
                .iter()
                .map(|lane| {
                    let write = if lane.wire.is_blocked() {
                        PollFlags::POLLOUT
                    } else {
                        PollFlags::empty()
                    };
                    PollFd::new(lane.wire.socket().as_fd(), PollFlags::POLLIN | write)
                })
                .collect();
            ppoll(&mut polled, Some(TimeSpec::from_duration(timeout)), None)?;
            polled.iter().map(|fd| fd.any().unwrap_or(true)).collect()
        };
        let now = Instant::now();
        for (lane, _) in self.lanes.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            let Lane {
                wire,
                began,
                free,
                in_flight,
                ..
            } = lane;
            let (histogram, tally, read) = (
                &mut self.histogram,
                &mut self.tally,
                self.shape.operation == Operation::Read,
            );
            if wire.is_blocked() {
                wire.flush()?;
            }
            wire.receive(|answer| {
                let Some(begin) = began.get(usize::from(answer.stream)) else {
                    bail!("an answer on stream {}", answer.stream)
                };
                let micros = now.saturating_duration_since(*begin).as_micros();
                histogram.saturating_record(u64::try_from(micros).unwrap_or(u64::MAX));
                tally.requests += 1;
                if answer.opcode != 0x08 {
                    tally.errors += 1;
                    tally
                        .first_error
                        .get_or_insert_with(|| error_text(answer.body));
                } else if read && answer.body.len() < VALUE_BYTES {
                    tally.missing_rows += 1;
                }
                free.push(answer.stream);
                *in_flight -= 1;
                Ok(())
            })?;
        }
        Ok(())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "figures for people have three digits"
    )]
    fn figures(self, before: &Moment, after: &Moment) -> Figures {
        let (histogram, tally) = (self.histogram, self.tally);
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let requests = tally.requests.max(1) as f64;
        let server = before.server.zip(after.server);
        Figures {
            requests: tally.requests,
            errors: tally.errors,
            first_error: tally.first_error,
            missing_rows: tally.missing_rows,
            per_second: tally.requests as f64 / seconds,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: histogram.max() as f64 / 1000.0,
            server_cpu_us: server
                .map(|(before, after)| (after.cpu_seconds - before.cpu_seconds) * 1e6 / requests),
            server_rss_mib: server.map(|(_, after)| after.rss_mib),
            client_cpu_us: (after.client.cpu_seconds - before.client.cpu_seconds) * 1e6 / requests,
        }
    }
}
