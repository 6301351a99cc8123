//! `helenus`: the database node and its tools in one program. This crate only wires: settings, real
//! clock, disk and network, start and stop in a declared order.

mod backend;
mod cluster;
mod control;
mod handlers;
mod machine;
mod messaging;
mod node;
mod queries;
mod replicas;
mod schema_store;
mod settings;
mod shard;
mod shard_thread;
mod shards;
mod virtual_tables;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use helenus_admin::nodetool;
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Cassandra for Kubernetes.
#[derive(Parser)]
#[command(name = "helenus", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a database node.
    Node(NodeArguments),
    /// Ask a running node, or tell it what to do.
    Nodetool(NodetoolArguments),
}

#[derive(Args)]
struct NodeArguments {
    /// Settings file: a cassandra.yaml of Cassandra 5.0. Without one, a node of its own under ./helenus-data.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Overrides a setting, as key=value; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Write logs as JSON, one object a line.
    #[arg(long, env = "HELENUS_LOG_JSON")]
    log_json: bool,
}

#[derive(Args)]
struct NodetoolArguments {
    /// The node's admin socket (setting admin_socket).
    #[arg(long, env = "HELENUS_ADMIN_SOCKET")]
    socket: Option<PathBuf>,
    #[command(subcommand)]
    command: NodetoolCommand,
}

#[derive(Subcommand)]
enum NodetoolCommand {
    /// Nodes of the ring by data center.
    Status,
    /// This node.
    Info,
    /// Every token of the ring.
    Ring,
    /// Name, schema versions and keyspaces of the cluster.
    Describecluster,
    /// What gossip knows of every node.
    Gossipinfo,
    /// The version of Cassandra that this node stands for.
    Version,
    /// Write memtables to SSTables.
    Flush {
        /// Only this keyspace.
        keyspace: Option<String>,
        /// Only these tables of it.
        tables: Vec<String>,
    },
    /// Stop serving, flush everything and leave the node ready to be ended.
    Drain,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Node(arguments) => run_node(arguments),
        Command::Nodetool(arguments) => run_nodetool(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // the log may go nowhere yet: people read this
            eprintln!("helenus: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_node(arguments: NodeArguments) -> Result<()> {
    start_logging(arguments.log_json);
    let mut overrides = arguments.overrides;
    if arguments.config.is_none() && std::env::var_os("HELENUS_DATA_FILE_DIRECTORIES").is_none() {
        let base = std::env::current_dir()
            .context("find the current folder")?
            .join("helenus-data");
        overrides.insert(
            0,
            format!("data_file_directories={}", base.join("data").display()),
        );
    }
    let settings =
        settings::Settings::load(arguments.config.as_deref(), std::env::vars(), &overrides)?;
    let outcome = node::run(settings);
    if let Err(error) = &outcome {
        tracing::error!(error = format!("{error:#}"), "the node ends");
    }
    outcome
}

fn start_logging(json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("HELENUS_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(std::io::stderr);
    if json {
        builder.json().init();
    } else {
        builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init();
    }
}

/// Where a node in a container, or one started without settings in this folder, has its socket.
fn default_socket() -> PathBuf {
    let beside = PathBuf::from("helenus-data/admin.sock");
    if beside.exists() {
        beside
    } else {
        PathBuf::from("/var/lib/helenus/admin.sock")
    }
}

fn run_nodetool(arguments: NodetoolArguments) -> Result<()> {
    let command = match arguments.command {
        NodetoolCommand::Status => nodetool::Command::Status,
        NodetoolCommand::Info => nodetool::Command::Info,
        NodetoolCommand::Ring => nodetool::Command::Ring,
        NodetoolCommand::Describecluster => nodetool::Command::DescribeCluster,
        NodetoolCommand::Gossipinfo => nodetool::Command::GossipInfo,
        NodetoolCommand::Version => nodetool::Command::Version,
        NodetoolCommand::Flush { keyspace, tables } => {
            nodetool::Command::Flush { keyspace, tables }
        }
        NodetoolCommand::Drain => nodetool::Command::Drain,
    };
    let socket = arguments.socket.unwrap_or_else(default_socket);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start an event loop")?;
    print!("{}", runtime.block_on(nodetool::run(&socket, &command))?);
    Ok(())
}
