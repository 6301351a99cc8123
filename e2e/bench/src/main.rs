//! `helenus-bench`: a load generator for the native protocol, and the comparison with Apache Cassandra.
//!
//! One thread drives all connections, so that its own cost is small and known (it is printed). Figures mean little without the
//! shape of the load, and nothing without the other database on the same machine in the same run: use `compare`.

mod compare;
mod load;
mod process;
mod report;
mod wire;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use load::{Operation, Shape};

#[derive(Parser)]
#[command(
    name = "helenus-bench",
    about = "Load generator for CQL, and the comparison with Apache Cassandra",
    version
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prepared inserts of 150-byte values.
    Insert(One),
    /// Prepared reads of one row by key; insert the keys first, or give --fill.
    Read(One),
    /// Run Cassandra and Helenus in turn on one core and write the table of medians.
    Compare(compare::Options),
}

/// A load against a server that is running.
#[derive(Args)]
struct One {
    /// Address of a node; CQL is on port 9042.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Process id of the server on this machine, to measure its CPU time and memory.
    #[arg(long)]
    pid: Option<u32>,
    /// Pin the load generator to this core.
    #[arg(long)]
    core: Option<usize>,
    /// Insert every key once before the load.
    #[arg(long)]
    fill: bool,
    /// Replication factor of the keyspace when it is made.
    #[arg(long, default_value_t = 1)]
    replication_factor: u8,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeOptions,
}

/// The shape of a load.
#[derive(Args, Clone)]
struct ShapeOptions {
    /// Number of keys.
    #[arg(long, default_value_t = 200_000)]
    keys: u64,
    /// Connections.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Closed loop: requests in flight on each connection.
    #[arg(long, default_value_t = 32)]
    in_flight: usize,
    /// Open loop: this many requests a second over all connections, latency from the intended start.
    #[arg(long)]
    rate: Option<u32>,
    /// Version of the native protocol.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(4..=5))]
    protocol: u8,
    /// Consistency level by number: ONE 1, QUORUM 4, LOCAL_QUORUM 6, LOCAL_ONE 10.
    #[arg(long, default_value_t = 1)]
    consistency: u16,
    /// Unmeasured seconds before.
    #[arg(long, default_value_t = 5.0)]
    warm_up: f64,
    /// Measured seconds.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

impl ShapeOptions {
    fn shape(&self, operation: Operation) -> Shape {
        Shape {
            operation,
            keys: self.keys,
            connections: self.connections,
            in_flight: self.in_flight,
            rate: self.rate,
            version: self.protocol,
            consistency: self.consistency,
            warm_up_seconds: self.warm_up,
            seconds: self.seconds,
        }
    }
}

fn one(options: &One, operation: Operation) -> Result<()> {
    if let Some(core) = options.core {
        process::pin(&[core])?;
    }
    let shape = options.shape.shape(operation);
    load::create_schema(&options.host, shape.version, options.replication_factor)?;
    if options.fill {
        load::fill(&options.host, &shape)?;
    }
    let figures = load::run(&options.host, options.pid, &shape)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&(&shape, &figures))?);
    } else {
        print!("{}", report::text(&shape, &figures));
    }
    report::check(&figures)
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Insert(options) => one(&options, Operation::Insert),
        Command::Read(options) => one(&options, Operation::Read),
        Command::Compare(options) => compare::run(&options),
    }
}
