//! `cargo xtask`: the developer commands. Each does its work in the library; this file only reads the command line.

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use helenus_e2e::{ci, image, kubernetes, up};
use std::process::ExitCode;

/// The project's developer commands.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bring up a Kubernetes with a sample cluster in it and run a first CQL session.
    Up(up::Options),
    /// End every local Kubernetes and leave nothing behind.
    Down(DownOptions),
    /// Run kubectl against the local Kubernetes.
    Kubectl(KubectlOptions),
    /// Build the container images into target/images.
    Image(image::Options),
    /// Run everything that CI runs.
    Test(ci::Options),
    /// Manage the local Kubernetes itself.
    #[command(subcommand)]
    Kubernetes(kubernetes::command::Command),
    /// Process 1 of a box of the local Kubernetes.
    #[command(hide = true)]
    BoxInit { spec: std::path::PathBuf },
}

#[derive(Args)]
struct DownOptions {
    /// Only these regions; all when none is named.
    regions: Vec<String>,
}

#[derive(Args)]
#[command(disable_help_flag = true)]
struct KubectlOptions {
    /// Which local Kubernetes.
    #[arg(long, env = "HELENUS_REGION", default_value = "us-east")]
    region: String,
    /// Handed to kubectl as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn run() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Up(options) => up::up(&options),
        Command::Down(options) => kubernetes::down(&options.regions),
        Command::Kubectl(options) => {
            return kubernetes::Region::open(&options.region)?
                .access()?
                .kubectl_interactive(&options.arguments);
        }
        Command::Image(options) => image::build(&options).map(|_archives| ()),
        Command::Test(options) => ci::run(&options),
        Command::Kubernetes(command) => kubernetes::command::run(&command),
        Command::BoxInit { spec } => kubernetes::box_init::run(&spec),
    }
    .map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
