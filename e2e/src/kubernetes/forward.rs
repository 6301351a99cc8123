//! Ports of pods on this machine, by `kubectl port-forward`, for clusters whose pods cannot be reached directly.

use super::access::Access;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};

/// One forwarded port; it ends when this is dropped.
#[derive(Debug)]
pub struct Forward {
    child: Child,
    /// Where the pod's port is found on this machine.
    pub local: SocketAddr,
    /// Address of the pod.
    pub pod: IpAddr,
}

impl Forward {
    /// Forwards a port of a pod to any free local one.
    pub fn start(access: &Access, name: &str, pod: IpAddr, port: u16) -> Result<Self> {
        let target = format!("pod/{name}");
        let mut command = access.kubectl_command(["port-forward", &target, &format!(":{port}")]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().context("start kubectl port-forward")?;
        let mut line = String::new();
        let output = child.stdout.take().context("read kubectl port-forward")?;
        // Forwarding from 127.0.0.1:41231 -> 9042
        BufReader::new(output)
            .read_line(&mut line)
            .context("read kubectl port-forward")?;
        let local = line
            .split_whitespace()
            .nth(2)
            .and_then(|word| word.parse().ok());
        ensure!(
            local.is_some() || child.kill().is_ok(),
            "end kubectl port-forward"
        );
        let local = local
            .with_context(|| format!("forward port {port} of pod {name}: kubectl said {line:?}"))?;
        Ok(Self { child, local, pod })
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        // it may have ended by itself
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Which local address stands for which of a driver's ideas of a node's address.
///
/// A driver expects all nodes at the port at which it found the first one, so every pod is known under every local port.
pub fn translation(forwards: &[Forward]) -> BTreeMap<SocketAddr, SocketAddr> {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut rules = BTreeMap::new();
    for forward in forwards {
        rules.insert(SocketAddr::new(here, forward.local.port()), forward.local);
        for other in forwards {
            rules.insert(
                SocketAddr::new(forward.pod, other.local.port()),
                forward.local,
            );
        }
    }
    rules
}
