//! A real Kubernetes on this machine.
pub mod box_init;
pub mod command;
use anyhow::{Result, bail};
use std::process::ExitCode;
/// One Kubernetes.
pub struct Region;
impl Region {
    /// A region that was brought up before.
    pub fn open(_name: &str) -> Result<Self> {
        bail!("not there yet")
    }
    /// Runs kubectl with this process's terminal.
    pub fn kubectl_interactive(&self, _arguments: &[String]) -> Result<ExitCode> {
        bail!("not there yet")
    }
}
/// Ends the named regions, or all.
pub fn down(_regions: &[String]) -> Result<()> {
    bail!("not there yet")
}
