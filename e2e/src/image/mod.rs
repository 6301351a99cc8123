//! `cargo xtask image`.
use anyhow::{Result, bail};
/// What the command line says.
#[derive(clap::Args)]
pub struct Options {
    /// Only the node's image.
    #[arg(long)]
    pub node: bool,
    /// Only the operator's image.
    #[arg(long)]
    pub operator: bool,
}
/// Builds the images.
pub fn build(_options: &Options) -> Result<()> {
    bail!("cargo xtask image is not there yet")
}
