//! Cassandra and Helenus in turn, on one core each with the load generator on another, and the table of medians.
//!
//! Both nodes run from the beginning, so that Cassandra is warmed up once; the one whose turn it is not is stopped
//! (SIGSTOP) and costs nothing.

use crate::load::{self, Figures, Operation, Shape};
use crate::report::{self, Results};
use crate::{ShapeOptions, process};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use helenus_e2e::oracle::{Cassandra, CassandraOptions, Helenus, HelenusOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How to compare.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds; each runs every load on every database.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Run only this one and record nothing.
    #[arg(long)]
    only: Option<Database>,
    /// Requests a second of the open loops.
    #[arg(long, default_value_t = 8000)]
    open_rate: u32,
    /// Seconds of load on Cassandra before the first round: its first minute costs three times as much.
    #[arg(long, default_value_t = 60.0)]
    cassandra_warm_up: f64,
    /// Cassandra's heap.
    #[arg(long, default_value = "2G")]
    heap: String,
    /// The servers' core.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// The load generator's core.
    #[arg(long, default_value_t = 1)]
    client_core: usize,
    /// Where the table goes.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md"))]
    results: PathBuf,
    /// A remark for the table, such as the commit and the build profile.
    #[arg(long, default_value = "")]
    remark: String,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// The two databases.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Database {
    Cassandra,
    Helenus,
}

enum Server {
    Cassandra(Cassandra),
    Helenus(Helenus),
}

impl Server {
    fn start(database: Database, options: &Options) -> Result<Self> {
        let cores = Some(options.server_core.to_string());
        Ok(match database {
            Database::Cassandra => {
                let settings = CassandraOptions {
                    cores,
                    heap: options.heap.clone(),
                    ..CassandraOptions::default()
                };
                Self::Cassandra(Cassandra::start("127.0.20.31", &settings)?)
            }
            Database::Helenus => {
                let settings = HelenusOptions {
                    cores,
                    ..HelenusOptions::default()
                };
                Self::Helenus(Helenus::start("127.0.20.32", &settings)?)
            }
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Cassandra(_) => "Cassandra 5.0.5",
            Self::Helenus(_) => "Helenus",
        }
    }

    fn ip(&self) -> &str {
        match self {
            Self::Cassandra(node) => node.ip(),
            Self::Helenus(node) => node.ip(),
        }
    }

    fn pid(&self) -> Result<u32> {
        let pid = match self {
            Self::Cassandra(node) => node.pid(),
            Self::Helenus(node) => node.pid(),
        };
        pid.context("the server is not running")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.pid()?)?), signal)?)
    }
}

/// Run the comparison.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.shape.rate.is_some() {
        bail!(
            "the comparison runs closed and open loops; give the rate of the open ones as --open-rate"
        );
    }
    process::pin(&[options.client_core])?;
    let databases = match options.only {
        Some(database) => vec![database],
        None => vec![Database::Helenus, Database::Cassandra],
    };
    let mut servers = Vec::new();
    for database in databases {
        let server = Server::start(database, options)?;
        prepare(&server, options).with_context(|| format!("prepare {}", server.name()))?;
        server.signal(Signal::SIGSTOP)?;
        servers.push(server);
    }
    let mut results: Vec<Results> = shapes(options)
        .into_iter()
        .map(|shape| Results {
            shape,
            by_database: servers
                .iter()
                .map(|server| (server.name(), Vec::new()))
                .collect(),
        })
        .collect();
    for round in 1..=options.rounds {
        for (index, server) in servers.iter().enumerate() {
            server.signal(Signal::SIGCONT)?;
            for result in &mut results {
                let figures = load::run(server.ip(), Some(server.pid()?), &result.shape)?;
                eprintln!(
                    "round {round}/{}, {}: {}",
                    options.rounds,
                    server.name(),
                    line(&result.shape, &figures)
                );
                report::check(&figures)?;
                result.by_database[index].1.push(figures);
            }
            server.signal(Signal::SIGSTOP)?;
        }
    }
    for server in &servers {
        server.signal(Signal::SIGCONT)?;
    }
    let section = section(options, &results)?;
    println!("{section}");
    if options.only.is_none() {
        record(&options.results, &section)?;
        println!("written into {}", options.results.display());
    }
    Ok(())
}

/// Make the table, fill it, and warm the server up.
fn prepare(server: &Server, options: &Options) -> Result<()> {
    let shape = options.shape.shape(Operation::Insert);
    load::create_schema(server.ip(), shape.version, 1)?;
    load::fill(server.ip(), &shape)?;
    let seconds = if matches!(server, Server::Cassandra(_)) {
        options.cassandra_warm_up
    } else {
        2.0
    };
    eprintln!("warming up {} for {seconds} s", server.name());
    for operation in [Operation::Insert, Operation::Read] {
        let shape = Shape {
            operation,
            warm_up_seconds: 0.0,
            seconds: seconds / 2.0,
            ..shape.clone()
        };
        report::check(&load::run(server.ip(), None, &shape)?)?;
    }
    Ok(())
}

fn shapes(options: &Options) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for operation in [Operation::Insert, Operation::Read] {
        let closed = options.shape.shape(operation);
        shapes.push(closed.clone());
        shapes.push(Shape {
            rate: Some(options.open_rate),
            ..closed
        });
    }
    shapes
}

fn line(shape: &Shape, figures: &Figures) -> String {
    let cpu = figures.server_cpu_us.unwrap_or(f64::NAN);
    let name = report::name(shape);
    format!(
        "{name}: {:.0}/s, {cpu:.1} µs CPU, p50 {:.2} ms, p99 {:.2} ms",
        figures.per_second, figures.p50_ms, figures.p99_ms
    )
}

fn section(options: &Options, results: &[Results]) -> Result<String> {
    let shape = &options.shape;
    let date = helenus_e2e::oracle::child::output(
        std::process::Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]),
    )?;
    let mut out = format!("## {}\n\n", date.trim());
    writeln!(
        out,
        "{}; server on one core, load generator on another; {} keys, values of {} bytes,",
        process::machine()?,
        shape.keys,
        load::VALUE_BYTES
    )?;
    writeln!(
        out,
        "native protocol v{}, {} connections; medians of {} rounds of {} s in turn; Cassandra with G1 {} and `da` files, warmed up for {} s.",
        shape.protocol,
        shape.connections,
        options.rounds,
        shape.seconds,
        options.heap,
        options.cassandra_warm_up
    )?;
    if !options.remark.is_empty() {
        writeln!(out, "{}", options.remark)?;
    }
    let client = report::median(
        results
            .iter()
            .flat_map(|r| {
                r.by_database
                    .iter()
                    .flat_map(|(_, f)| f.iter().map(|f| f.client_cpu_us))
            })
            .collect(),
    );
    writeln!(
        out,
        "Load generator: {client:.1} µs of its own CPU a request (median).\n"
    )?;
    out += &report::table(results);
    Ok(out)
}

/// The newest section comes first, below the page's head.
fn record(path: &Path, section: &str) -> Result<()> {
    const HEAD: &str = "# Helenus beside Apache Cassandra\n\nWritten by `helenus-bench compare`, newest first. Latencies of open loops count from the intended \
                        start of each request.\nThe machines are small and shared: read the ratios.\n\n";
    let old = std::fs::read_to_string(path).unwrap_or_default();
    let rest = old.find("## ").map_or("", |at| &old[at..]);
    std::fs::write(path, format!("{HEAD}{section}\n{rest}"))
        .with_context(|| format!("write {}", path.display()))
}
