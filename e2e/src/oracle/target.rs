//! Which database a test runs against: ours, or Apache Cassandra to check the test itself.

use super::{Cassandra, CassandraOptions, Helenus, HelenusOptions};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The database under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Apache Cassandra 5.0.
    Oracle,
    /// Our node.
    Helenus,
}

impl Target {
    /// From `HELENUS_E2E_TARGET`: `helenus` (what it is when unset) or `oracle`.
    pub fn from_environment() -> Result<Self> {
        match std::env::var("HELENUS_E2E_TARGET").as_deref() {
            Err(_) | Ok("" | "helenus") => Ok(Self::Helenus),
            Ok("oracle") => Ok(Self::Oracle),
            Ok(other) => bail!("HELENUS_E2E_TARGET is {other}; it may be helenus or oracle"),
        }
    }

    /// Start one node of it.
    pub fn start(self, ip: &str) -> Result<Node> {
        match self {
            Self::Oracle => Ok(Node::Cassandra(Cassandra::start(
                ip,
                &CassandraOptions::default(),
            )?)),
            Self::Helenus => Ok(Node::Helenus(Helenus::start(
                ip,
                &HelenusOptions::default(),
            )?)),
        }
    }
}

/// A running node of either kind.
pub enum Node {
    /// Apache Cassandra.
    Cassandra(Cassandra),
    /// Ours.
    Helenus(Helenus),
}

impl Node {
    /// Its address.
    pub fn ip(&self) -> &str {
        match self {
            Self::Cassandra(node) => node.ip(),
            Self::Helenus(node) => node.ip(),
        }
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Cassandra(node) => node.pid(),
            Self::Helenus(node) => node.pid(),
        }
    }

    /// Its log.
    pub fn log_path(&self) -> PathBuf {
        match self {
            Self::Cassandra(node) => node.log_path(),
            Self::Helenus(node) => node.log_path(),
        }
    }

    /// End the test: stop the node, and for ours fail on log lines that nobody expects.
    pub fn finish(mut self, allowed_log_lines: &[&str]) -> Result<()> {
        match &mut self {
            Self::Cassandra(node) => node.stop(),
            Self::Helenus(node) => {
                node.stop()?;
                node.check_log(allowed_log_lines)
            }
        }
    }
}
