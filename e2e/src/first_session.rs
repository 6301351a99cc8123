//! A first CQL session with a real driver: create a keyspace and a table, insert, read back.

use anyhow::{Context, Result, ensure};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Rows that are written and read.
const ROWS: &[(&str, &str)] = &[
    ("Priam", "king"),
    ("Hecuba", "queen"),
    ("Helenus", "seer"),
    ("Cassandra", "seer"),
];

/// What was done, statement by statement, for people.
pub type Transcript = Vec<String>;

/// Where the nodes are.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Addresses to connect to.
    pub addresses: Vec<SocketAddr>,
    /// Addresses as nodes tell them, and where these are found from here; empty when they are the same.
    pub translation: BTreeMap<SocketAddr, SocketAddr>,
}

/// Runs the session, with `replicas` copies in a data center.
pub fn run(nodes: &Nodes, datacenter: &str, replicas: usize) -> Result<Transcript> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the driver's event loop")?;
    let session = session(nodes, datacenter, replicas);
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_mins(2), session)
            .await
            .context("the first session took over 120 s")?
    })
}

async fn session(nodes: &Nodes, datacenter: &str, replicas: usize) -> Result<Transcript> {
    let mut builder = SessionBuilder::new()
        .known_nodes_addr(&nodes.addresses)
        .connection_timeout(Duration::from_secs(10));
    if !nodes.translation.is_empty() {
        let rules: HashMap<SocketAddr, SocketAddr> =
            nodes.translation.clone().into_iter().collect();
        builder = builder.address_translator(Arc::new(rules));
    }
    let session = builder
        .build()
        .await
        .with_context(|| format!("connect to {:?}", nodes.addresses))?;
    let mut transcript = Transcript::new();
    let keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS troy WITH replication = \
         {{'class': 'NetworkTopologyStrategy', '{datacenter}': {replicas}}}"
    );
    let table = "CREATE TABLE IF NOT EXISTS troy.people (name text PRIMARY KEY, role text)";
    for statement in [keyspace.as_str(), table] {
        execute(&session, statement).await?;
        transcript.push(format!("{statement};"));
    }
    let insert = "INSERT INTO troy.people (name, role) VALUES (?, ?)";
    let mut prepared = session
        .prepare(insert)
        .await
        .with_context(|| format!("prepare {insert}"))?;
    prepared.set_consistency(Consistency::Quorum);
    for row in ROWS {
        session
            .execute_unpaged(&prepared, row)
            .await
            .with_context(|| format!("insert {row:?}"))?;
    }
    transcript.push(format!(
        "{insert};  -- prepared, {} rows at QUORUM",
        ROWS.len()
    ));
    transcript.extend(read_back(&session).await?);
    Ok(transcript)
}

async fn execute(session: &Session, text: &str) -> Result<()> {
    session
        .query_unpaged(text, ())
        .await
        .map(|_| ())
        .with_context(|| format!("run {text}"))
}

async fn read_back(session: &Session) -> Result<Transcript> {
    let text = "SELECT name, role FROM troy.people";
    let mut statement = Statement::new(text);
    statement.set_consistency(Consistency::Quorum);
    let answer = session
        .query_unpaged(statement, ())
        .await
        .with_context(|| format!("run {text}"))?;
    let rows = answer
        .into_rows_result()
        .context("the answer holds no rows")?;
    let mut found: Vec<(String, String)> = Vec::new();
    for row in rows
        .rows::<(String, String)>()
        .context("the rows have other types")?
    {
        found.push(row.context("read a row")?);
    }
    for (name, role) in ROWS {
        ensure!(
            found.iter().any(|(n, r)| n == name && r == role),
            "row ({name}, {role}) was acknowledged at QUORUM but is not read back; read were {found:?}"
        );
    }
    let mut transcript = vec![format!("{text};  -- at QUORUM")];
    transcript.extend(
        found
            .iter()
            .map(|(name, role)| format!("    {name:<12} {role}")),
    );
    Ok(transcript)
}
