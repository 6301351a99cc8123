//! A cluster on a real Kubernetes keeps what it acknowledged: rows are loaded at QUORUM while a pod is deleted, a node is
//! killed with -9 and the cluster grows from three nodes to four; all of them are read back, and no request failed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at what it did not expect"
)]

mod machine;

use anyhow::{Context, Result, ensure};
use futures::TryStreamExt;
use helenus_e2e::kubernetes::access::Access;
use helenus_e2e::kubernetes::{Region, Settings};
use helenus_e2e::{image, progress, up};
use machine::Traces;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REGION: &str = "test-ring";
/// Rows are written at least for this long after the last disturbance.
const CALM: Duration = Duration::from_secs(10);
/// The columns beside the key: 8 in all, as IP2Location's files have them.
type Row = (
    String,
    String,
    String,
    String,
    String,
    String,
    String,
    String,
);

fn manifest() -> String {
    let racks: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|zone| json!({"name": zone, "zone": format!("{REGION}-{zone}")}))
        .collect();
    json!({
        "apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraCluster", "metadata": {"name": "places"},
        "spec": {
            "clusterName": "places", "nodes": 3,
            "datacenters": [{"name": "dc1", "racks": racks}],
            "nodeTemplate": {
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
                "storage": {"data": {"size": "2Gi"}}},
            "replacement": {"afterUnavailable": "1m"}}
    })
    .to_string()
}

/// The row of a number: few cities, many addresses, as in the real data.
fn row(number: u32) -> Row {
    let text = |prefix: &str, value: u32| format!("{prefix}{value}");
    let ip = format!(
        "10.{}.{}.{}",
        number >> 16,
        (number >> 8) & 255,
        number & 255
    );
    (
        text("country", number % 7),
        text("region", number % 61),
        text("city", number % 499),
        ip,
        text("latitude", number % 90),
        text("longitude", number % 180),
        text("zip", number % 9_973),
        text("+0", number % 24),
    )
}

async fn connect(addresses: &[SocketAddr]) -> Result<Session> {
    let session = SessionBuilder::new()
        .known_nodes_addr(addresses)
        .build()
        .await
        .context("connect")?;
    for statement in [
        "CREATE KEYSPACE places WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
        "CREATE TABLE places.ranges (country varchar, region varchar, city varchar, ip varchar, latitude varchar, \
         longitude varchar, zip varchar, timezone varchar, PRIMARY KEY ((country, region, city), ip))",
    ] {
        let done = session.query_unpaged(statement, ()).await;
        done.with_context(|| format!("run {statement}"))?;
    }
    Ok(session)
}

/// Writes rows one after another until `stop`; returns how many were acknowledged. Any failed request fails the test.
async fn load(session: &Session, stop: &AtomicBool) -> Result<u32> {
    let insert = "INSERT INTO places.ranges (country, region, city, ip, latitude, longitude, zip, timezone) \
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let mut prepared = session.prepare(insert).await.context("prepare")?;
    prepared.set_consistency(Consistency::Quorum);
    // the driver may then send a request once more whose connection broke
    prepared.set_is_idempotent(true);
    let start = Instant::now();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let sent = session.execute_unpaged(&prepared, row(number)).await;
        let passed = start.elapsed().as_secs_f64();
        sent.with_context(|| format!("row {number} after {passed:.1} s"))?;
        number += 1;
    }
    Ok(number)
}

async fn read_back(session: &Session) -> Result<BTreeMap<String, Row>> {
    let mut select = session
        .prepare("SELECT country, region, city, ip, latitude, longitude, zip, timezone FROM places.ranges")
        .await
        .context("prepare the reading")?;
    select.set_consistency(Consistency::Quorum);
    let pages = session.execute_iter(select, ()).await.context("read")?;
    let mut rows = pages.rows_stream::<Row>().context("read rows")?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.try_next().await.context("read a row")? {
        found.insert(row.3.clone(), row);
    }
    Ok(found)
}

/// Waits until every node sees every node as up: while one still believes another to be down, a second loss leaves it no quorum.
fn wait_for_agreement(access: &Access, cluster: &up::Cluster) -> Result<()> {
    progress::wait_until("agreement of all nodes", Duration::from_mins(2), || {
        for (pod, _) in cluster.pods(access)? {
            let status = access.exec(&pod, &["/helenus", "nodetool", "status"])?;
            let normal = status
                .lines()
                .filter(|line| line.starts_with("UN "))
                .count();
            ensure!(normal == cluster.nodes, "{pod} sees {normal} nodes as UN");
        }
        Ok(true)
    })
}

/// What happens to the cluster while rows are written.
fn disturb(region: &Region, access: &Access, cluster: &mut up::Cluster) -> Result<()> {
    let pods = cluster.pods(access)?;
    progress::say(&format!("deleting pod {}", pods[0].0));
    access.kubectl(["delete", "pod", &pods[0].0])?;
    cluster.wait(access)?;
    wait_for_agreement(access, cluster)?;
    let victim = &pods[1].0;
    let pod = access.get(["pod", victim])?;
    let host = pod["spec"]["nodeName"]
        .as_str()
        .context("the pod runs nowhere")?;
    progress::say(&format!("killing the node of pod {victim} with -9"));
    // inside the box of that Kubernetes node, where only its own pods are seen
    let the_box = region.node_box(&region.node(host)?);
    the_box.run("pkill", ["-KILL", "-x", "helenus"])?;
    progress::wait_until("the restart", Duration::from_mins(2), || {
        let pod = access.get(["pod", victim])?;
        Ok(pod["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(0))
    })?;
    cluster.wait(access)?;
    wait_for_agreement(access, cluster)?;
    progress::say("growing to four nodes");
    access.kubectl(["scale", "cassandracluster", &cluster.name, "--replicas=4"])?;
    cluster.nodes = 4;
    cluster.wait(access)?;
    wait_for_agreement(access, cluster)?;
    std::thread::sleep(CALM);
    Ok(())
}

fn exercise(region: &Region) -> Result<()> {
    // `HELENUS_E2E_IMAGES=keep` takes those in target/images as they are
    if std::env::var("HELENUS_E2E_IMAGES").is_ok_and(|value| value == "keep") {
        progress::say("the images are not built but taken as they are");
    } else {
        image::build(&image::Options::default())?;
    }
    up::provide_images(Some(region))?;
    let access = region.access()?;
    up::install_operator(&access, false)?;
    let mut cluster = up::Cluster::apply(&access, &manifest())?;
    cluster.wait(&access)?;
    let addresses: Vec<SocketAddr> = cluster
        .pods(&access)?
        .iter()
        .map(|(_, ip)| SocketAddr::new(*ip, 9042))
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let session = runtime.block_on(connect(&addresses))?;
    let stop = AtomicBool::new(false);
    let (disturbed, loaded) = std::thread::scope(|scope| {
        let loading = scope.spawn(|| runtime.block_on(load(&session, &stop)));
        let disturbed = disturb(region, &access, &mut cluster);
        stop.store(true, Ordering::Relaxed);
        (disturbed, loading.join().unwrap())
    });
    disturbed?;
    let acknowledged = loaded?;
    let found = runtime.block_on(read_back(&session))?;
    let lost = (0..acknowledged)
        .map(row)
        .filter(|row| found.get(&row.3) != Some(row))
        .count();
    progress::say(&format!(
        "{acknowledged} rows acknowledged, {} read back",
        found.len()
    ));
    ensure!(
        lost == 0,
        "{lost} of {acknowledged} acknowledged rows are missing or differ"
    );
    ensure!(
        acknowledged > 1_000,
        "only {acknowledged} rows: too few to mean anything"
    );
    Ok(())
}

#[test]
fn acknowledged_rows_survive_deletion_kill_and_growth() {
    if !machine::can_hold_kubernetes() {
        return;
    }
    let region = Region::up(REGION, &Settings::default()).unwrap();
    let worked = exercise(&region);
    region.down().unwrap();
    worked.unwrap();
    assert_eq!(Traces::of(REGION), Traces::none());
}
