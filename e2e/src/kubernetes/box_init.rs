//! Process 1 of a box.
use anyhow::{Result, bail};
/// Runs it.
pub fn run(_spec: &std::path::Path) -> Result<()> {
    bail!("not there yet")
}
