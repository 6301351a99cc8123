//! `cargo xtask up`.
use anyhow::{Result, bail};
/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// A context of your kubeconfig to use instead of a local Kubernetes.
    #[arg(long)]
    pub context: Option<String>,
}
/// Brings everything up.
pub fn up(_options: &Options) -> Result<()> {
    bail!("cargo xtask up is not there yet")
}
