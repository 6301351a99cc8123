//! `helenus-operator`: runs the operator, or prints its custom resource definitions.

use clap::{Parser, Subcommand};
use helenus_operator::edge::settings::Settings;
use helenus_operator::edge::{run, telemetry};

#[derive(Parser)]
#[command(
    name = "helenus-operator",
    version,
    about = "Runs Cassandra clusters of Helenus on Kubernetes"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Looks after clusters until it is told to stop.
    Run(Box<Settings>),
    /// Writes the custom resource definitions as YAML: to standard output, or one file for each into a folder.
    Crd {
        /// Folder to write into.
        #[arg(long)]
        out: Option<std::path::PathBuf>,
    },
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Crd { out } => helenus_operator::crd::write(out.as_deref()),
        Command::Run(settings) => {
            telemetry::start_logs(settings.log_text);
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            let result = runtime.block_on(run::run(*settings));
            runtime.shutdown_timeout(std::time::Duration::from_secs(1));
            result
        }
    }
}
