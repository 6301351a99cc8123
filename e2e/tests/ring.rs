//! Rings of our own nodes on loopback addresses: growth, killed and stopped nodes, hints, read repair, schema changes,
//! moved and replaced nodes. Rows are written by a real driver and read back one by one.

use anyhow::{Context, Result, bail, ensure};
use helenus_e2e::oracle::helenus::http_get;
use helenus_e2e::oracle::wire::{Connection, Outcome, Parameters};
use helenus_e2e::oracle::{Helenus, HelenusOptions};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::{DefaultRetryPolicy, FallthroughRetryPolicy, RetryPolicy};
use scylla::statement::Consistency;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const ONE: u16 = 1;
const QUORUM: u16 = 4;
const ALL: u16 = 5;
const LEVELS: [(&str, u16); 5] = [
    ("ONE", ONE),
    ("QUORUM", QUORUM),
    ("ALL", ALL),
    ("LOCAL_QUORUM", 6),
    ("LOCAL_ONE", 10),
];
/// For what gossip tells everybody.
const SOON: Duration = Duration::from_secs(30);
/// One ring at a time: the nodes of two would starve each other.
static MACHINE: Mutex<()> = Mutex::new(());

/// A ring whose nodes are `127.0.60.N`.
struct Ring {
    nodes: Vec<Helenus>,
    settings: Vec<(String, String)>,
    seed: String,
}

impl Ring {
    fn start(numbers: &[u8], settings: &[(&str, &str)]) -> Result<Self> {
        let mut ring = Self {
            nodes: Vec::new(),
            settings: settings
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            seed: address(numbers[0]),
        };
        for (at, number) in numbers.iter().enumerate() {
            ring.join(*number, &rack(at), &[])?;
        }
        ring.settled()?;
        Ok(ring)
    }

    fn options(&self, rack: &str, environment: &[(&str, &str)]) -> HelenusOptions {
        let mut options = HelenusOptions {
            rack: rack.to_owned(),
            seeds: vec![self.seed.clone()],
            settings: self.settings.clone(),
            ready_deadline: Duration::from_mins(1),
            ..HelenusOptions::default()
        };
        options.environment = [("HELENUS_RING_DELAY", "2s"), ("HELENUS_SHARDS", "2")]
            .iter()
            .chain(environment)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        options
    }

    fn join(&mut self, number: u8, rack: &str, environment: &[(&str, &str)]) -> Result<()> {
        let options = self.options(rack, environment);
        self.nodes.push(Helenus::start(&address(number), &options)?);
        Ok(())
    }

    /// Wait until all nodes that run see all of them up and one schema.
    fn settled(&self) -> Result<()> {
        let running: BTreeSet<&str> = self
            .nodes
            .iter()
            .filter(|node| node.pid().is_some())
            .map(Helenus::ip)
            .collect();
        wait_until("all nodes see each other up with one schema", SOON, || {
            let mut versions = BTreeSet::new();
            for ip in &running {
                let report = report(ip)?;
                versions.insert(text(&report["schemaVersion"]));
                let peers = report["peers"].as_array().context("peers")?;
                let mut seen: BTreeSet<String> =
                    peers.iter().map(|peer| text(&peer["address"])).collect();
                let good = peers
                    .iter()
                    .all(|peer| peer["up"] == true && text(&peer["state"]) == "NORMAL");
                versions.extend(peers.iter().map(|peer| text(&peer["schemaVersion"])));
                seen.insert((*ip).to_owned());
                if !good || !seen.iter().map(String::as_str).eq(running.iter().copied()) {
                    return Ok(false);
                }
            }
            Ok(versions.len() == 1)
        })
    }

    /// Stop all nodes well and read their logs.
    fn finish(mut self, allowed: &[&str]) -> Result<()> {
        for node in &mut self.nodes {
            node.stop()?;
        }
        self.nodes
            .iter()
            .try_for_each(|node| node.check_log(allowed))
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes
            .iter()
            .filter_map(|node| format!("{}:9042", node.ip()).parse().ok())
            .collect()
    }

    fn prepare(&self) -> Result<()> {
        let mut first = Connection::open(self.nodes[0].ip(), 4)?;
        first.run(
            "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'DC1': 3}",
        )?;
        first.run("CREATE TABLE k.t (p int PRIMARY KEY, v text)")?;
        Ok(())
    }
}

fn address(number: u8) -> String {
    format!("127.0.60.{number}")
}

fn rack(at: usize) -> String {
    format!("RACK{}", at % 3 + 1)
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn report(ip: &str) -> Result<Value> {
    let (status, body) = http_get(&format!("{ip}:9180"), "/v1/node")?;
    ensure!(status == 200, "GET /v1/node of {ip}: {status} {body}");
    Ok(serde_json::from_str(&body)?)
}

fn wait_until(
    what: &str,
    deadline: Duration,
    mut reached: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begin = Instant::now();
    let mut last = String::new();
    while begin.elapsed() < deadline {
        match reached() {
            Ok(true) => return Ok(()),
            Ok(false) => last = "not yet".into(),
            Err(error) => last = format!("{error:#}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("after {deadline:?} not: {what} ({last})")
}

fn peer_is(ip: &str, peer: &str, up: bool) -> Result<bool> {
    let report = report(ip)?;
    let peers = report["peers"].as_array().context("peers")?;
    Ok(peers
        .iter()
        .any(|one| text(&one["address"]) == peer && one["up"] == up))
}

fn value_of(number: i32) -> String {
    format!("value {number}")
}

fn query(connection: &mut Connection, statement: &str, consistency: u16) -> Result<Outcome> {
    let parameters = Parameters {
        consistency,
        ..Parameters::default()
    };
    connection.query(statement, &parameters)?.outcome()
}

/// Run at a level, an error answer being an error.
fn must(connection: &mut Connection, statement: &str, consistency: u16) -> Result<Outcome> {
    match query(connection, statement, consistency)? {
        Outcome::Error(error) => bail!("{statement} at level {consistency}: {error}"),
        outcome => Ok(outcome),
    }
}

/// The first column of each row, as text.
fn texts(outcome: Outcome) -> Result<Vec<String>> {
    let Outcome::Rows(rows) = outcome else {
        bail!("no rows but {outcome:?}")
    };
    Ok(rows
        .rows
        .into_iter()
        .filter_map(|mut row| row.swap_remove(0))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect())
}

fn read_one(connection: &mut Connection, number: i32, level: u16) -> Result<Option<String>> {
    let select = format!("SELECT v FROM k.t WHERE p = {number}");
    Ok(texts(must(connection, &select, level)?)?.pop())
}

/// Every row of `0..end` is there, asked from this node at this level.
fn read_all(ip: &str, end: i32, level: u16) -> Result<()> {
    let mut connection = Connection::open(ip, 4)?;
    for number in 0..end {
        let found = read_one(&mut connection, number, level)
            .with_context(|| format!("row {number} of {end} from {ip}"))?;
        ensure!(
            found == Some(value_of(number)),
            "row {number} of {end} at level {level} from {ip}: {found:?}"
        );
    }
    Ok(())
}

/// A driver that writes and reads rows at QUORUM, one after another, until it is ended.
struct Load {
    runtime: Runtime,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicI32>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    fn start(
        ring: &Ring,
        first: i32,
        policy: Arc<dyn RetryPolicy>,
        idempotent: bool,
    ) -> Result<Self> {
        let runtime = Runtime::new()?;
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            .retry_policy(policy)
            .build();
        let session = runtime.block_on(
            SessionBuilder::new()
                .known_nodes_addr(ring.addresses())
                .default_execution_profile_handle(profile.into_handle())
                .build(),
        )?;
        let (stop, written) = (Arc::default(), Arc::new(AtomicI32::new(first)));
        let task = runtime.spawn(write_and_read(
            session,
            Arc::clone(&stop),
            Arc::clone(&written),
            idempotent,
        ));
        let load = Self {
            runtime,
            stop,
            written,
            tasks: vec![task],
        };
        load.progress(50)?;
        Ok(load)
    }

    /// Wait for so many further rows.
    fn progress(&self, rows: i32) -> Result<()> {
        let goal = self.written.load(Ordering::SeqCst) + rows;
        wait_until("the load goes on", SOON, || {
            if self.tasks.iter().any(JoinHandle::is_finished) {
                return Ok(true);
            }
            Ok(self.written.load(Ordering::SeqCst) >= goal)
        })
    }

    /// The number of acknowledged rows; an error when any request failed.
    fn end(self) -> Result<i32> {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            self.runtime.block_on(task)??;
        }
        Ok(self.written.load(Ordering::SeqCst))
    }
}

async fn write_and_read(
    session: Session,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicI32>,
    idempotent: bool,
) -> Result<()> {
    let mut insert = session
        .prepare("INSERT INTO k.t (p, v) VALUES (?, ?)")
        .await?;
    let mut select = session.prepare("SELECT v FROM k.t WHERE p = ?").await?;
    insert.set_is_idempotent(idempotent);
    select.set_is_idempotent(idempotent);
    let begin = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let number = written.load(Ordering::SeqCst);
        let at = || format!("row {number} after {:.1} s", begin.elapsed().as_secs_f64());
        session
            .execute_unpaged(&insert, (number, value_of(number)))
            .await
            .with_context(|| format!("write {}", at()))?;
        written.store(number + 1, Ordering::SeqCst);
        let earlier = number / 2;
        let rows = session
            .execute_unpaged(&select, (earlier,))
            .await
            .with_context(|| format!("read {}", at()))?
            .into_rows_result()?;
        let found = rows.maybe_first_row::<(String,)>()?;
        ensure!(
            found == Some((value_of(earlier),)),
            "{}: row {earlier} is {found:?}",
            at()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn retries() -> Arc<dyn RetryPolicy> {
    Arc::new(DefaultRetryPolicy::new())
}

fn step(text: &str, begin: Instant) {
    println!("{:6.1} s  {text}", begin.elapsed().as_secs_f64());
}

#[test]
fn nodes_join_and_take_their_share() -> Result<()> {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    let mut ring = Ring::start(&[11, 12, 13], &[])?;
    step("three nodes", begin);
    ring.prepare()?;
    status_shows_all(&ring)?;
    every_level_from_every_node(&ring)?;
    step("every level from every node", begin);
    strangers(&ring.nodes[1])?;
    step("strangers on port 7000", begin);
    let load = Load::start(&ring, 0, Arc::new(FallthroughRetryPolicy::new()), false)?;
    load.progress(300)?;
    ring.join(14, &rack(0), &[])?;
    load.progress(100)?;
    let rows = load.end()?;
    ring.settled()?;
    step("a fourth joined under load", begin);
    read_all(ring.nodes[3].ip(), rows, ALL)?;
    step("all rows at ALL", begin);
    holds_its_share(&mut ring, rows)?;
    step("the fourth holds its share", begin);
    ring.finish(&[])
}

fn status_shows_all(ring: &Ring) -> Result<()> {
    for node in &ring.nodes {
        let status = node.nodetool(&["status"])?;
        let up = status.lines().filter(|line| line.starts_with("UN")).count();
        ensure!(up == 3, "{}:\n{status}", node.ip());
        let shares: Vec<f64> = status
            .split_whitespace()
            .filter_map(|word| word.strip_suffix('%')?.parse().ok())
            .collect();
        ensure!(
            shares.len() == 3 && shares.iter().all(|share| (20.0..50.0).contains(share)),
            "each owns about a third:\n{status}"
        );
        let described = node.nodetool(&["describecluster"])?;
        ensure!(
            !described.contains("UNREACHABLE"),
            "{}:\n{described}",
            node.ip()
        );
        for command in ["gossipinfo", "info", "ring"] {
            let shown = node.nodetool(&[command])?;
            ensure!(!shown.trim().is_empty(), "nodetool {command} shows nothing");
        }
    }
    Ok(())
}

fn every_level_from_every_node(ring: &Ring) -> Result<()> {
    for (at, node) in ring.nodes.iter().enumerate() {
        let mut writer = Connection::open(node.ip(), 4)?;
        writer.run(&format!(
            "CREATE TABLE k.levels_{at} (p int PRIMARY KEY, v text)"
        ))?;
        for other in &ring.nodes {
            let mut reader = Connection::open(other.ip(), 5)?;
            for (number, (name, level)) in LEVELS.iter().enumerate() {
                let insert =
                    format!("INSERT INTO k.levels_{at} (p, v) VALUES ({number}, '{name}')");
                must(&mut reader, &insert, *level)?;
                let select = format!("SELECT v FROM k.levels_{at} WHERE p = {number}");
                // what was written at W is read at R when W + R > 3
                for answer in [(&mut writer, ALL), (&mut reader, *level)] {
                    let found = texts(must(answer.0, &select, answer.1)?)?;
                    ensure!(found == [*name], "{name} from {}: {found:?}", other.ip());
                }
            }
            let all = format!("SELECT v FROM k.levels_{at}");
            let found = texts(must(&mut reader, &all, QUORUM)?)?;
            ensure!(found.len() == LEVELS.len(), "{all}: {found:?}");
        }
    }
    Ok(())
}

/// Peers that send garbage, or nothing, do no harm.
fn strangers(node: &Helenus) -> Result<()> {
    let ip = node.ip();
    let connect = || TcpStream::connect(format!("{ip}:7000")).context("connect to port 7000");
    let mut silent = connect()?;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[0; 64]] {
        let mut stream = connect()?;
        stream.set_read_timeout(Some(Duration::from_secs(8)))?;
        stream.write_all(garbage)?;
        let ended = stream.read(&mut [0; 64]);
        ensure!(
            matches!(ended, Ok(0))
                || ended.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock),
            "a connection with garbage stays open"
        );
    }
    silent.set_read_timeout(Some(Duration::from_secs(8)))?;
    ensure!(
        matches!(silent.read(&mut [0; 64]), Ok(0)),
        "a connection that says nothing stays open"
    );
    let log = std::fs::read_to_string(node.log_path())?;
    let lines = log
        .lines()
        .filter(|line| {
            line.contains("does not follow the internode protocol")
                || line.contains("inbound handshake failed")
        })
        .count();
    ensure!(
        lines == 4,
        "{lines} lines of the log tell of four strangers"
    );
    Ok(())
}

/// With the others stopped, the fourth answers at ONE what its tokens say, and nothing is missing. Its rack is shared with the
/// first node, so it holds what lies before its own tokens and behind the first node's.
fn holds_its_share(ring: &mut Ring, rows: i32) -> Result<()> {
    let tokens = |node: &Helenus| -> Result<Vec<i64>> {
        let mut connection = Connection::open(node.ip(), 4)?;
        let outcome = connection.run("SELECT JSON tokens FROM system.local")?;
        let json: Value = serde_json::from_str(&texts(outcome)?.join(""))?;
        let all = json["tokens"].as_array().context("tokens")?;
        all.iter().map(|token| Ok(text(token).parse()?)).collect()
    };
    let mut places: Vec<(i64, bool)> = Vec::new();
    places.extend(
        tokens(&ring.nodes[0])?
            .into_iter()
            .map(|token| (token, false)),
    );
    places.extend(
        tokens(&ring.nodes[3])?
            .into_iter()
            .map(|token| (token, true)),
    );
    places.sort_unstable();
    let mut fourth = Connection::open(ring.nodes[3].ip(), 4)?;
    let mut expected = BTreeSet::new();
    for number in 0..rows {
        let select = format!("SELECT token(p) FROM k.t WHERE p = {number}");
        let Outcome::Rows(found) = must(&mut fourth, &select, QUORUM)? else {
            bail!("no rows")
        };
        let bytes = found.rows[0][0].clone().context("a token")?;
        let token = i64::from_be_bytes(bytes.as_slice().try_into()?);
        let owner = places
            .iter()
            .find(|place| place.0 >= token)
            .unwrap_or(&places[0]);
        if owner.1 {
            expected.insert(number);
        }
    }
    ensure!(
        expected.len() > usize::try_from(rows / 6)?,
        "the fourth owns only {} of {rows} rows",
        expected.len()
    );
    for node in &mut ring.nodes[..3] {
        node.stop()?;
    }
    for number in 0..rows {
        let found = query(
            &mut fourth,
            &format!("SELECT v FROM k.t WHERE p = {number}"),
            ONE,
        )?;
        match (expected.contains(&number), found) {
            (true, found @ Outcome::Rows(_)) => {
                ensure!(
                    texts(found)? == [value_of(number)],
                    "row {number} was not streamed"
                );
            }
            (false, Outcome::Error(error)) if error.code == 0x1000 => {}
            (owned, other) => {
                bail!("row {number}, which the fourth should own: {owned}: {other:?}")
            }
        }
    }
    for node in &mut ring.nodes[..3] {
        node.run()?;
    }
    ring.settled()
}

#[test]
fn rows_survive_killed_and_stopped_nodes() -> Result<()> {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    let mut ring = Ring::start(&[21, 22, 23], &[])?;
    ring.prepare()?;
    step("three nodes", begin);

    let load = Load::start(&ring, 0, Arc::new(FallthroughRetryPolicy::new()), false)?;
    let stopping = Instant::now();
    ring.nodes[2].stop()?;
    ensure!(
        stopping.elapsed() < Duration::from_secs(10),
        "a stop takes {:?}",
        stopping.elapsed()
    );
    for other in [21, 22] {
        ensure!(
            peer_is(&address(other), &address(23), false)?,
            "{other} does not see the stopped node as down"
        );
    }
    load.progress(100)?;
    ring.nodes[2].run()?;
    ring.settled()?;
    load.progress(100)?;
    let rows = load.end()?;
    step("a graceful stop and return, no request failed", begin);
    hints_arrive(&ring, begin)?;
    read_all(ring.nodes[2].ip(), rows, ONE)?;

    let load = Load::start(&ring, rows, retries(), true)?;
    ring.nodes[1].kill9();
    load.progress(300)?;
    wait_until("the killed node is seen as down", SOON, || {
        peer_is(&address(21), &address(22), false)
    })?;
    load.progress(100)?;
    step("a killed node is down", begin);
    ring.nodes[1].run()?;
    ring.settled()?;
    let rows = load.end()?;
    hints_arrive(&ring, begin)?;
    read_all(ring.nodes[1].ip(), rows, ONE)?;
    step("the killed node has all rows", begin);

    schema_changes(&mut ring)?;
    step("schema changes at once and while one is away", begin);

    let load = Load::start(&ring, rows, retries(), true)?;
    load.progress(200)?;
    let acknowledged = load.written.load(Ordering::SeqCst);
    for node in &mut ring.nodes {
        node.kill9();
    }
    drop(load);
    for node in &mut ring.nodes {
        node.run()?;
    }
    ring.settled()?;
    for node in &ring.nodes {
        read_all(node.ip(), acknowledged, QUORUM)?;
    }
    read_all(ring.nodes[0].ip(), acknowledged, ALL)?;
    step("all killed at once, nothing lost", begin);
    ring.finish(&[])
}

/// No node keeps hints any more.
fn hints_arrive(ring: &Ring, begin: Instant) -> Result<()> {
    wait_until("all hints are delivered", SOON, || {
        let mut left = 0;
        for node in &ring.nodes {
            let folder = node.data_directory().with_file_name("hints");
            left += std::fs::read_dir(folder)?.count();
        }
        Ok(left == 0)
    })?;
    let delivered = ring
        .nodes
        .iter()
        .filter_map(|node| std::fs::read_to_string(node.log_path()).ok())
        .map(|log| log.matches("delivered hints").count())
        .sum::<usize>();
    ensure!(delivered > 0, "no node says that it delivered hints");
    step("hints delivered", begin);
    Ok(())
}

fn schema_changes(ring: &mut Ring) -> Result<()> {
    let (left, right) = (ring.nodes[0].ip().to_owned(), ring.nodes[1].ip().to_owned());
    let change = |ip: String, side: &'static str| {
        std::thread::spawn(move || -> Result<()> {
            let mut connection = Connection::open(&ip, 4)?;
            for number in 0..10 {
                connection.run(&format!(
                    "CREATE TABLE k.{side}_{number} (p int PRIMARY KEY, v text)"
                ))?;
                connection.run(&format!("ALTER TABLE k.t ADD {side}_{number} int"))?;
            }
            Ok(())
        })
    };
    let threads = [change(left, "left"), change(right, "right")];
    for thread in threads {
        match thread.join() {
            Ok(outcome) => outcome?,
            Err(_) => bail!("a thread that changes the schema panicked"),
        }
    }
    ring.settled()?;
    ring.nodes[2].stop()?;
    let mut first = Connection::open(ring.nodes[0].ip(), 4)?;
    first.run("CREATE TABLE k.meanwhile (p int PRIMARY KEY, v text)")?;
    must(
        &mut first,
        "INSERT INTO k.meanwhile (p, v) VALUES (1, 'meanwhile')",
        QUORUM,
    )?;
    first.run("DROP TABLE k.left_0")?;
    ring.nodes[2].run()?;
    ring.settled()?;
    for node in &ring.nodes {
        let mut connection = Connection::open(node.ip(), 4)?;
        let found = texts(
            connection
                .run("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'k'")?,
        )?;
        ensure!(found.len() == 21, "{}: {found:?}", node.ip());
        let found = texts(connection.run("SELECT column_name FROM system_schema.columns WHERE keyspace_name = 'k' AND table_name = 't'")?)?;
        ensure!(found.len() == 22, "{}: {found:?}", node.ip());
        let found = texts(must(
            &mut connection,
            "SELECT v FROM k.meanwhile WHERE p = 1",
            ALL,
        )?)?;
        ensure!(found == ["meanwhile"], "{}: {found:?}", node.ip());
    }
    Ok(())
}

#[test]
fn nodes_move_and_are_replaced() -> Result<()> {
    let _machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = Instant::now();
    let mut ring = Ring::start(&[31, 32, 33], &[("hinted_handoff_enabled", "false")])?;
    ring.prepare()?;
    step("three nodes", begin);
    read_repair(&mut ring)?;
    step("read repair", begin);

    let mut first = Connection::open(ring.nodes[0].ip(), 4)?;
    for number in 0..200 {
        let insert = format!(
            "INSERT INTO k.t (p, v) VALUES ({number}, '{}')",
            value_of(number)
        );
        must(&mut first, &insert, ALL)?;
    }
    let host = text(&report(ring.nodes[2].ip())?["hostId"]);
    ring.nodes[2].kill9();
    let options = ring.options(&rack(2), &[]);
    ring.nodes[2].reconfigure(&address(34), &options)?;
    ring.nodes[2].run()?;
    ring.settled()?;
    ensure!(
        text(&report(&address(34))?["hostId"]) == host,
        "a moved node is another"
    );
    peers_tables_are(&ring, &[31, 32, 34])?;
    read_all(ring.nodes[2].ip(), 200, ALL)?;
    step("a node moved to another address", begin);

    ring.nodes[2].kill9();
    wait_until("the dead node is seen as down", SOON, || {
        peer_is(&address(31), &address(34), false)
    })?;
    drop(ring.nodes.pop());
    ring.join(35, &rack(2), &[("HELENUS_REPLACE_HOST_ID", &host)])?;
    ring.settled()?;
    ensure!(
        text(&report(&address(35))?["hostId"]) != host,
        "a replacement has an id of its own"
    );
    peers_tables_are(&ring, &[31, 32, 35])?;
    read_all(ring.nodes[2].ip(), 200, ALL)?;
    read_all(ring.nodes[2].ip(), 200, ONE)?;
    step("a node was replaced", begin);
    ring.nodes[0].restart()?;
    ring.settled()?;
    step("and is not remembered after a restart", begin);
    ring.finish(&["their data is lost keyspace=system_auth"])
}

fn peers_tables_are(ring: &Ring, numbers: &[u8]) -> Result<()> {
    let all: BTreeSet<String> = numbers.iter().map(|number| address(*number)).collect();
    for node in &ring.nodes {
        let mut connection = Connection::open(node.ip(), 4)?;
        let expected: BTreeSet<String> =
            all.iter().filter(|ip| *ip != node.ip()).cloned().collect();
        for table in ["peers", "peers_v2"] {
            wait_until("the tables of peers are right", SOON, || {
                let json =
                    texts(connection.run(&format!("SELECT JSON peer FROM system.{table}"))?)?;
                let mut found = BTreeSet::new();
                for row in &json {
                    found.insert(text(&serde_json::from_str::<Value>(row)?["peer"]));
                }
                ensure!(found == expected, "{} has {found:?} in {table}", node.ip());
                Ok(true)
            })?;
        }
    }
    Ok(())
}

/// Without hints a node that was away misses writes; reading at ALL gives them and brings it up to date.
fn read_repair(ring: &mut Ring) -> Result<()> {
    let (mut first, away) = (
        Connection::open(ring.nodes[0].ip(), 4)?,
        ring.nodes[2].ip().to_owned(),
    );
    for number in 1000..1020 {
        must(
            &mut first,
            &format!("INSERT INTO k.t (p, v) VALUES ({number}, 'old')"),
            ALL,
        )?;
    }
    ring.nodes[2].stop()?;
    for number in 1000..1020 {
        let statement = match number % 2 {
            0 => format!("INSERT INTO k.t (p, v) VALUES ({number}, 'new')"),
            _ => format!("DELETE FROM k.t WHERE p = {number}"),
        };
        must(&mut first, &statement, QUORUM)?;
    }
    ring.nodes[2].run()?;
    ring.settled()?;
    let mut behind = Connection::open(&away, 4)?;
    ensure!(
        read_one(&mut behind, 1000, ONE)? == Some("old".into()),
        "the node that was away knows what it cannot know"
    );
    for number in 1000..1020 {
        let expected = (number % 2 == 0).then(|| "new".to_owned());
        for (connection, level) in [(&mut first, ALL), (&mut behind, ONE)] {
            let found = read_one(connection, number, level)?;
            ensure!(
                found == expected,
                "row {number} at level {level}: {found:?}, not {expected:?}"
            );
        }
    }
    Ok(())
}
