//! `nodetool`: questions and orders to a node, with the output of Cassandra's own.

use crate::client::{ClientError, call};
use crate::report::{NodeView, PeerState, RingView};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What to ask or order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The nodes by data center.
    Status,
    /// This node.
    Info,
    /// Every token.
    Ring,
    /// Name, snitch, schema versions, keyspaces.
    DescribeCluster,
    /// Gossip's states.
    GossipInfo,
    /// Release version.
    Version,
    /// Write memtables to SSTables.
    Flush {
        /// Only this keyspace.
        keyspace: Option<String>,
        /// Only these tables of it.
        tables: Vec<String>,
    },
    /// Stop serving and flush everything.
    Drain,
}

/// Runs a command against the node behind `socket`; returns what to print.
pub async fn run(socket: &Path, command: &Command) -> Result<String, ClientError> {
    match command {
        Command::Flush { keyspace, tables } => {
            let mut target = "/v1/flush?".to_owned();
            if let Some(keyspace) = keyspace {
                target.push_str("keyspace=");
                target.push_str(&percent(keyspace));
                target.push('&');
            }
            target.push_str("tables=");
            target.push_str(
                &tables
                    .iter()
                    .map(|table| percent(table))
                    .collect::<Vec<_>>()
                    .join(","),
            );
            call(socket, "POST", &target).await.map(|_| String::new())
        }
        Command::Drain => call(socket, "POST", "/v1/drain")
            .await
            .map(|_| String::new()),
        _ => {
            let body = call(socket, "GET", "/v1/ring").await?;
            let view: RingView = serde_json::from_slice(&body)
                .map_err(|error| ClientError::Broken(format!("not a ring report: {error}")))?;
            Ok(show(command, &view))
        }
    }
}

/// Appends text; writing to a String cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).unwrap_or_default();
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            out.push(char::from(byte));
        } else {
            put(&mut out, format_args!("%{byte:02X}"));
        }
        out
    })
}

fn show(command: &Command, view: &RingView) -> String {
    match command {
        Command::Status => status(view),
        Command::Info => info(view),
        Command::Ring => ring(view),
        Command::DescribeCluster => describe(view),
        Command::GossipInfo => view
            .gossip
            .iter()
            .fold(String::new(), |out, (endpoint, lines)| {
                lines
                    .iter()
                    .fold(out + &format!("/{endpoint}\n"), |out, line| {
                        out + "  " + line + "\n"
                    })
            }),
        Command::Version => format!("ReleaseVersion: {}\n", view.me.release_version),
        Command::Flush { .. } | Command::Drain => String::new(),
    }
}

fn size(bytes: Option<u64>) -> String {
    let Some(bytes) = bytes else {
        return "?".into();
    };
    let mut unit = 0;
    let mut rest = bytes;
    while rest >= 1024 * 1024 {
        rest /= 1024;
        unit += 1;
    }
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if rest < 1024 {
        return format!("{rest} {}", units[unit]);
    }
    format!(
        "{}.{:02} {}",
        rest / 1024,
        (rest % 1024) * 100 / 1024,
        units[unit + 1]
    )
}

fn by_datacenter(view: &RingView) -> BTreeMap<&str, Vec<&NodeView>> {
    let mut groups: BTreeMap<&str, Vec<&NodeView>> = BTreeMap::new();
    for node in &view.nodes {
        groups.entry(&node.datacenter).or_default().push(node);
    }
    groups
}

fn mark(node: &NodeView) -> String {
    let state = match node.state {
        PeerState::Normal | PeerState::Left => 'N',
        PeerState::Joining => 'J',
        PeerState::Leaving => 'L',
        PeerState::Moving => 'M',
    };
    format!("{}{state}", if node.up { 'U' } else { 'D' })
}

/// Columns as wide as their widest cell, two spaces apart.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(String::len)
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter().fold(String::new(), |mut out, row| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        out.push_str(&cells.join("  "));
        out.push('\n');
        out
    })
}

fn status(view: &RingView) -> String {
    let mut out = String::new();
    for (name, nodes) in by_datacenter(view) {
        let title = format!("Datacenter: {name}");
        put(
            &mut out,
            format_args!("{title}\n{}\n", "=".repeat(title.len())),
        );
        out.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
        let mut rows = vec![
            ["--", "Address", "Load", "Tokens", "Owns", "Host ID", "Rack"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for node in nodes {
            rows.push(vec![
                mark(node),
                node.address.clone(),
                size(node.load_bytes),
                node.tokens.len().to_string(),
                format!("{:.1}%", node.owns * 100.0),
                node.host_id.clone(),
                node.rack.clone(),
            ]);
        }
        out.push_str(&table(&rows));
        out.push('\n');
    }
    out
}

fn info(view: &RingView) -> String {
    let me = &view.me;
    let own = view
        .nodes
        .iter()
        .find(|node| node.address == me.broadcast_address);
    let mebibytes =
        |bytes: u64| format!("{}.{:02}", bytes >> 20, ((bytes >> 10) & 1023) * 100 / 1024);
    let rows = [
        ("ID", me.host_id.clone().unwrap_or_default()),
        ("Gossip active", "true".into()),
        ("Native Transport active", me.cql_ready.to_string()),
        ("Load", size(own.and_then(|node| node.load_bytes))),
        ("Generation No", view.generation.to_string()),
        ("Uptime (seconds)", view.uptime_seconds.to_string()),
        (
            "Memory (MB)",
            format!(
                "{} / {}",
                mebibytes(view.memory_used_bytes),
                mebibytes(view.memory_budget_bytes)
            ),
        ),
        ("Data Center", me.datacenter.clone()),
        ("Rack", me.rack.clone()),
        ("Tokens", me.tokens.to_string()),
        ("State", format!("{:?}", me.state).to_uppercase()),
        ("Message", me.message.clone()),
    ];
    rows.iter().fold(String::new(), |out, (name, value)| {
        out + &format!("{name:<23}: {value}\n")
    })
}

fn ring(view: &RingView) -> String {
    let mut out = String::new();
    for (name, nodes) in by_datacenter(view) {
        let title = format!("Datacenter: {name}");
        put(
            &mut out,
            format_args!("\n{title}\n{}\n", "=".repeat(title.len())),
        );
        let mut entries: Vec<(i64, &NodeView)> = nodes
            .iter()
            .flat_map(|node| node.tokens.iter().map(move |token| (*token, *node)))
            .collect();
        entries.sort_by_key(|entry| entry.0);
        let mut rows = vec![
            [
                "Address", "Rack", "Status", "State", "Load", "Owns", "Token",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for (token, node) in entries {
            rows.push(vec![
                node.address.clone(),
                node.rack.clone(),
                if node.up { "Up".into() } else { "Down".into() },
                format!("{:?}", node.state),
                size(node.load_bytes),
                format!("{:.2}%", node.owns * 100.0),
                token.to_string(),
            ]);
        }
        out.push_str(&table(&rows));
    }
    out
}

fn describe(view: &RingView) -> String {
    let mut schemas: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in &view.nodes {
        let schema = if node.up {
            node.schema_version.as_str()
        } else {
            "UNREACHABLE"
        };
        schemas.entry(schema).or_default().push(&node.address);
        versions
            .entry(&node.release_version)
            .or_default()
            .push(format!("{}:{}", node.address, node.port));
    }
    let mut out = format!(
        "Cluster Information:\n\tName: {}\n\tSnitch: org.apache.cassandra.locator.GossipingPropertyFileSnitch\n\
         \tDynamicEndPointSnitch: disabled\n\tPartitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\tSchema versions:\n",
        view.cluster_name
    );
    for (version, nodes) in &schemas {
        put(
            &mut out,
            format_args!("\t\t{version}: [{}]\n", nodes.join(", ")),
        );
    }
    let count = |state| view.nodes.iter().filter(|node| node.state == state).count();
    put(
        &mut out,
        format_args!(
            "\nStats for all nodes:\n\tLive: {}\n\tJoining: {}\n\tMoving: {}\n\tLeaving: {}\n\tUnreachable: {}\n\nData Centers: \n",
            view.nodes.iter().filter(|node| node.up).count(),
            count(PeerState::Joining),
            count(PeerState::Moving),
            count(PeerState::Leaving),
            view.nodes.iter().filter(|node| !node.up).count(),
        ),
    );
    for (name, nodes) in by_datacenter(view) {
        let down = nodes.iter().filter(|node| !node.up).count();
        put(
            &mut out,
            format_args!("\t{name} #Nodes: {} #Down: {down}\n", nodes.len()),
        );
    }
    out.push_str("\nDatabase versions:\n");
    for (version, nodes) in &versions {
        put(
            &mut out,
            format_args!("\t{version}: [{}]\n", nodes.join(", ")),
        );
    }
    out.push_str("\nKeyspaces:\n");
    for (name, class, options) in &view.keyspaces {
        put(
            &mut out,
            format_args!("\t{name} -> Replication class: {class} {{{options}}}\n"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_cassandra_prints_them() {
        assert_eq!(size(Some(118_278)), "115.50 KiB");
        assert_eq!(size(Some(100)), "100 bytes");
        assert_eq!(size(None), "?");
    }
}
