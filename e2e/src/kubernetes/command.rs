//! `cargo xtask kubernetes …`: the local Kubernetes by hand.

use super::box_init::Request;
use super::{Region, Settings, control_plane, link, programs, state};
use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use std::path::PathBuf;

/// Whether a link carries packets.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LinkState {
    /// It does.
    Up,
    /// It does not.
    Down,
}

/// What can be done with the local Kubernetes.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Only build the programs.
    Build,
    /// Bring up a region without Helenus in it.
    Up {
        /// Its name.
        #[arg(default_value = "us-east")]
        region: String,
        /// Zones, by their last part.
        #[arg(long, value_delimiter = ',', default_value = "a,b,c")]
        zones: Vec<String>,
        /// Kubernetes nodes in each zone.
        #[arg(long, default_value_t = 1)]
        nodes_per_zone: u8,
        /// DNS domain of the cluster.
        #[arg(long, default_value = "cluster.local")]
        domain: String,
    },
    /// Show every box with its services and how often each was started.
    Status,
    /// Load an image archive into all nodes of a region.
    Load {
        /// The region.
        region: String,
        /// The archive.
        archive: PathBuf,
    },
    /// Power failure of a node.
    KillNode {
        /// The region.
        region: String,
        /// The node, `a` or `us-east-a`.
        node: String,
    },
    /// Start a killed node again.
    StartNode {
        /// The region.
        region: String,
        /// The node.
        node: String,
    },
    /// Cut or mend the link of two regions.
    Link {
        /// One region.
        a: String,
        /// The other.
        b: String,
        /// What it shall be.
        state: LinkState,
    },
    /// Run a program inside a box.
    Exec {
        /// The region.
        region: String,
        /// The box: `cp`, or a node.
        name: String,
        /// Program and arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
}

/// Does it.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Build => programs::ensure_built(),
        Command::Up {
            region,
            zones,
            nodes_per_zone,
            domain,
        } => {
            let settings = Settings {
                zones: zones.clone(),
                nodes_per_zone: *nodes_per_zone,
                domain: domain.clone(),
            };
            let region = Region::up(region, &settings)?;
            println!("export KUBECONFIG={}", region.kubeconfig()?.display());
            Ok(())
        }
        Command::Status => status(),
        Command::Load { region, archive } => Region::open(region)?.load_image(archive),
        Command::KillNode { region, node } => Region::open(region)?.kill_node(node),
        Command::StartNode { region, node } => Region::open(region)?.start_node(node),
        Command::Link { a, b, state } => link(
            &Region::open(a)?,
            &Region::open(b)?,
            matches!(state, LinkState::Up),
        ),
        Command::Exec {
            region,
            name,
            command,
        } => exec(region, name, command),
    }
}

fn exec(region: &str, name: &str, command: &[String]) -> Result<()> {
    let region = Region::open(region)?;
    let the_box = if name == control_plane::BOX {
        region.control_plane()
    } else {
        region.node_box(&region.node(name)?)
    };
    let (program, arguments) = command.split_first().context("say what to run")?;
    let status = the_box
        .command(program, arguments)?
        .status()
        .context("start nsenter")?;
    anyhow::ensure!(status.success(), "{program}: {status}");
    Ok(())
}

fn status() -> Result<()> {
    let names = state::names()?;
    if names.is_empty() {
        println!("no local Kubernetes; bring one up with `cargo xtask up`");
    }
    for name in names {
        let region = Region::open(&name)?;
        println!(
            "{name}: {}, KUBECONFIG={}",
            region.layout().cidr(),
            region.kubeconfig()?.display()
        );
        let nodes = region.layout().nodes();
        let boxes = std::iter::once((control_plane::BOX.to_owned(), region.control_plane())).chain(
            nodes
                .iter()
                .map(|node| (node.name.clone(), region.node_box(node))),
        );
        for (label, the_box) in boxes {
            let Some(pid) = the_box.pid() else {
                println!("  {label}: down");
                continue;
            };
            println!("  {label}: process {pid}");
            for (service, told) in the_box.ask(&Request::Status)? {
                let state = told
                    .pid
                    .map_or("ended".to_owned(), |pid| format!("process {pid} inside"));
                println!("    {service}: {state}, started {} times", told.starts);
            }
        }
    }
    Ok(())
}
