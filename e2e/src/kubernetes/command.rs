//! `cargo xtask kubernetes`.
use anyhow::{Result, bail};
/// Subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List what runs.
    Status,
}
/// Runs one.
pub fn run(_command: &Command) -> Result<()> {
    bail!("not there yet")
}
