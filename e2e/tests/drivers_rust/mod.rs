//! The smoke test of the Rust driver, `scylla`: the same checks as the programs in `e2e/drivers`.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlDate, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue};
use std::collections::BTreeMap;
use std::time::Duration;

const KEYSPACE: &str = "smoke_rust";
const ROWS: i32 = 10_000;

/// Run all checks; returns how many passed and the lines of those that failed.
pub(crate) fn run(ip: &str, datacenter: &str) -> (usize, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut checks = Checks::default();
        let session = match connect(ip, datacenter).await {
            Ok(session) => session,
            Err(error) => return (0, vec![format!("connect: {error:#}")]),
        };
        checks.note("connect", Ok(()));
        checks.note("create keyspace and tables", schema(&session).await);
        values(&session, &mut checks).await;
        checks.note("update and delete", changes(&session).await);
        checks.note("TTL and USING TIMESTAMP", expiry(&session).await);
        checks.note(
            "unlogged batches and 10,000 inserts in flight",
            fill(&session).await,
        );
        checks.note("paging", paging(&session).await);
        checks.note("schema metadata", metadata(&session).await);
        checks.note("system tables", system_tables(&session, datacenter).await);
        checks.note("errors", errors(&session).await);
        drop(session);
        checks.note("reconnect", reconnect(ip, datacenter).await);
        (checks.passed, checks.failed)
    })
}

#[derive(Default)]
struct Checks {
    passed: usize,
    failed: Vec<String>,
}

impl Checks {
    fn note(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(error) => self.failed.push(format!("{name}: {error:#}")),
        }
    }
}

async fn connect(ip: &str, datacenter: &str) -> Result<Session> {
    let policy = DefaultPolicy::builder()
        .prefer_datacenter(datacenter.to_owned())
        .token_aware(true)
        .build();
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(policy)
        .request_timeout(Some(Duration::from_secs(30)))
        .build();
    let builder = SessionBuilder::new()
        .known_node(format!("{ip}:9042"))
        .default_execution_profile_handle(profile.into_handle());
    Ok(builder
        .connection_timeout(Duration::from_secs(10))
        .build()
        .await?)
}

type Column = (&'static str, &'static str, CqlValue);

fn columns() -> Vec<Column> {
    let mut all = scalars();
    all.extend(collections());
    all
}

fn scalars() -> Vec<Column> {
    use CqlValue as V;
    let uuid = "550e8400-e29b-41d4-a716-446655440000"
        .parse()
        .expect("a UUID");
    let timeuuid: CqlTimeuuid = "50554d6e-29bb-11e5-b345-feff819cdc9f"
        .parse()
        .expect("a UUID");
    vec![
        ("c_ascii", "ascii", V::Ascii("ascii".into())),
        ("c_bigint", "bigint", V::BigInt(i64::MIN)),
        ("c_blob", "blob", V::Blob(vec![0, 255, 16])),
        ("c_boolean", "boolean", V::Boolean(true)),
        ("c_date", "date", V::Date(CqlDate((1 << 31) + 19_782))),
        (
            "c_decimal",
            "decimal",
            V::Decimal(
                scylla::value::CqlDecimal::from_signed_be_bytes_slice_and_exponent(
                    &[0xFE, 0x1D],
                    3,
                ),
            ),
        ),
        ("c_double", "double", V::Double(1.5e-10)),
        (
            "c_duration",
            "duration",
            V::Duration(CqlDuration {
                months: 14,
                days: 3,
                nanoseconds: 4_000_000_005,
            }),
        ),
        ("c_float", "float", V::Float(-2.25)),
        (
            "c_inet",
            "inet",
            V::Inet("2001:db8::1".parse().expect("an address")),
        ),
        ("c_int", "int", V::Int(i32::MIN)),
        ("c_smallint", "smallint", V::SmallInt(i16::MAX)),
        ("c_text", "text", V::Text("tëxt ☃".into())),
        ("c_time", "time", V::Time(CqlTime(47_655_123_456_789))),
        (
            "c_timestamp",
            "timestamp",
            V::Timestamp(CqlTimestamp(1_709_210_096_789)),
        ),
        ("c_timeuuid", "timeuuid", V::Timeuuid(timeuuid)),
        ("c_tinyint", "tinyint", V::TinyInt(-128)),
        ("c_uuid", "uuid", V::Uuid(uuid)),
        ("c_varchar", "varchar", V::Text(String::new())),
        (
            "c_varint",
            "varint",
            V::Varint(scylla::value::CqlVarint::from_signed_bytes_be_slice(&[
                0xFF, 0x00, 0x01,
            ])),
        ),
    ]
}

fn collections() -> Vec<Column> {
    use CqlValue as V;
    vec![
        (
            "c_list",
            "list<int>",
            V::List(vec![V::Int(3), V::Int(1), V::Int(1)]),
        ),
        (
            "c_set",
            "set<text>",
            V::Set(vec![V::Text("a".into()), V::Text("b".into())]),
        ),
        (
            "c_map",
            "map<text, int>",
            V::Map(vec![
                (V::Text("x".into()), V::Int(1)),
                (V::Text("y".into()), V::Int(2)),
            ]),
        ),
        (
            "c_flist",
            "frozen<list<int>>",
            V::List(vec![V::Int(9), V::Int(8)]),
        ),
        (
            "c_fset",
            "frozen<set<int>>",
            V::Set(vec![V::Int(5), V::Int(6)]),
        ),
        (
            "c_fmap",
            "frozen<map<int, text>>",
            V::Map(vec![(V::Int(1), V::Text("one".into()))]),
        ),
    ]
}

async fn schema(session: &Session) -> Result<()> {
    let kinds: Vec<String> = columns()
        .iter()
        .map(|(name, kind, _)| format!("{name} {kind}"))
        .collect();
    for statement in [
        format!("DROP KEYSPACE IF EXISTS {KEYSPACE}"),
        format!(
            "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        ),
        format!(
            "CREATE TABLE {KEYSPACE}.types (k int PRIMARY KEY, {})",
            kinds.join(", ")
        ),
        format!(
            "CREATE TABLE {KEYSPACE}.wide (p int, c int, s text static, v text, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)"
        ),
        format!("CREATE TABLE {KEYSPACE}.narrow (k int PRIMARY KEY, v text)"),
    ] {
        session
            .query_unpaged(statement.as_str(), ())
            .await
            .with_context(|| statement.clone())?;
    }
    session.use_keyspace(KEYSPACE, false).await?;
    Ok(())
}

async fn values(session: &Session, checks: &mut Checks) {
    let all = columns();
    let names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
    let row = async {
        let marks = vec!["?"; all.len()].join(", ");
        let insert = session
            .prepare(format!(
                "INSERT INTO types (k, {}) VALUES (1, {marks})",
                names.join(", ")
            ))
            .await?;
        let bound: Vec<CqlValue> = all.iter().map(|(.., value)| value.clone()).collect();
        session.execute_unpaged(&insert, bound).await?;
        let select = session
            .prepare(format!(
                "SELECT {} FROM types WHERE k = ?",
                names.join(", ")
            ))
            .await?;
        let rows = session
            .execute_unpaged(&select, (1,))
            .await?
            .into_rows_result()?;
        Ok::<_, anyhow::Error>(rows.single_row::<scylla::value::Row>()?)
    };
    match row.await {
        Ok(row) => {
            checks.note("prepared insert and select", Ok(()));
            for ((_, kind, expected), actual) in all.iter().zip(row.columns) {
                let same = actual.as_ref() == Some(expected);
                let result = if same {
                    Ok(())
                } else {
                    Err(anyhow::anyhow!("got {actual:?}, expected {expected:?}"))
                };
                checks.note(&format!("value of {kind}"), result);
            }
        }
        Err(error) => checks.note("prepared insert and select", Err(error)),
    }
}

async fn texts(session: &Session, statement: &str) -> Result<Vec<Option<String>>> {
    let rows = session
        .query_unpaged(statement, ())
        .await?
        .into_rows_result()?;
    Ok(rows
        .rows::<(Option<String>,)>()?
        .map(|row| row.map(|(text,)| text))
        .collect::<Result<_, _>>()?)
}

async fn changes(session: &Session) -> Result<()> {
    let update = session.prepare("UPDATE types SET c_int = ?, c_list = c_list + ?, c_set = c_set - ?, c_map[?] = ? WHERE k = ?").await?;
    session
        .execute_unpaged(&update, (7, vec![4], vec!["a"], "z", 26, 1))
        .await?;
    session
        .query_unpaged("DELETE c_text, c_map['x'] FROM types WHERE k = 1", ())
        .await?;
    let rows = session
        .query_unpaged(
            "SELECT c_int, c_list, c_set, c_map, c_text FROM types WHERE k = 1",
            (),
        )
        .await?
        .into_rows_result()?;
    let row = rows.single_row::<(
        i32,
        Vec<i32>,
        Vec<String>,
        BTreeMap<String, i32>,
        Option<String>,
    )>()?;
    let map = BTreeMap::from([("y".to_owned(), 2), ("z".to_owned(), 26)]);
    ensure!(
        row == (7, vec![3, 1, 1, 4], vec!["b".to_owned()], map, None),
        "got {row:?}"
    );
    session
        .query_unpaged("DELETE FROM types WHERE k = 1", ())
        .await?;
    let left = texts(session, "SELECT c_text FROM types WHERE k = 1").await?;
    ensure!(left.is_empty(), "the deleted row is {left:?}");
    Ok(())
}

async fn expiry(session: &Session) -> Result<()> {
    let insert = session
        .prepare("INSERT INTO narrow (k, v) VALUES (?, ?) USING TTL ?")
        .await?;
    session.execute_unpaged(&insert, (1, "short", 2)).await?;
    ensure!(
        texts(session, "SELECT v FROM narrow WHERE k = 1").await? == [Some("short".to_owned())],
        "not there before its TTL ends"
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(
        texts(session, "SELECT v FROM narrow WHERE k = 1")
            .await?
            .is_empty(),
        "still there after its TTL"
    );
    session
        .query_unpaged(
            "INSERT INTO narrow (k, v) VALUES (3, 'new') USING TIMESTAMP 2000",
            (),
        )
        .await?;
    let mut old = Statement::new("INSERT INTO narrow (k, v) VALUES (3, 'old')");
    old.set_timestamp(Some(1000));
    session.query_unpaged(old, ()).await?;
    let rows = session
        .query_unpaged("SELECT v, writetime(v) FROM narrow WHERE k = 3", ())
        .await?
        .into_rows_result()?;
    let row = rows.single_row::<(String, i64)>()?;
    ensure!(row == ("new".to_owned(), 2000), "got {row:?}");
    Ok(())
}

async fn fill(session: &Session) -> Result<()> {
    let wide = session
        .prepare("INSERT INTO wide (p, c, v) VALUES (?, ?, ?)")
        .await?;
    for begin in (0..ROWS).step_by(100) {
        let mut batch = Batch::new(BatchType::Unlogged);
        let values: Vec<(i32, i32, String)> = (begin..begin + 100)
            .map(|c| (1, c, format!("value {c}")))
            .collect();
        for _ in &values {
            batch.append_statement(wide.clone());
        }
        session.batch(&batch, values).await?;
    }
    let narrow = session
        .prepare("INSERT INTO narrow (k, v) VALUES (?, ?)")
        .await?;
    let inserts = futures::stream::iter(0..ROWS)
        .map(|k| session.execute_unpaged(&narrow, (k, format!("value {k}"))));
    inserts
        .buffer_unordered(128)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    Ok(())
}

async fn pages(session: &Session, statement: &str, size: i32) -> Result<Vec<i32>> {
    let statement = Statement::new(statement).with_page_size(size);
    let mut rows = session
        .query_iter(statement, ())
        .await?
        .rows_stream::<(i32, String)>()?;
    let mut keys = Vec::new();
    while let Some((key, text)) = rows.try_next().await? {
        ensure!(
            text == format!("value {key}"),
            "the value of {key} is {text}"
        );
        keys.push(key);
    }
    Ok(keys)
}

async fn paging(session: &Session) -> Result<()> {
    let partition = pages(session, "SELECT c, v FROM wide WHERE p = 1", 97).await?;
    ensure!(
        partition == (0..ROWS).rev().collect::<Vec<_>>(),
        "one partition: {} rows",
        partition.len()
    );
    let slice = pages(
        session,
        "SELECT c, v FROM wide WHERE p = 1 AND c >= 1234 AND c < 5678 ORDER BY c ASC",
        101,
    )
    .await?;
    ensure!(
        slice == (1234..5678).collect::<Vec<_>>(),
        "a slice in reverse: {} rows",
        slice.len()
    );
    let mut table = pages(session, "SELECT k, v FROM narrow", 103).await?;
    table.sort_unstable();
    ensure!(
        table == (0..ROWS).collect::<Vec<_>>(),
        "the whole table: {} rows",
        table.len()
    );
    Ok(())
}

async fn metadata(session: &Session) -> Result<()> {
    session
        .query_unpaged("ALTER TABLE narrow ADD extra int", ())
        .await?;
    session.await_schema_agreement().await?;
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let keyspace = state
        .get_keyspace(KEYSPACE)
        .context("the keyspace is not in the metadata")?;
    let wide = keyspace
        .tables
        .get("wide")
        .context("the table is not in the metadata")?;
    ensure!(
        wide.partition_key == ["p"] && wide.clustering_key == ["c"],
        "keys {:?} {:?}",
        wide.partition_key,
        wide.clustering_key
    );
    ensure!(
        keyspace.tables["types"].columns.len() == columns().len() + 1,
        "columns {:?}",
        keyspace.tables["types"].columns.keys()
    );
    ensure!(
        keyspace.tables["narrow"].columns.contains_key("extra"),
        "the new column is not in the metadata"
    );
    ensure!(
        state.get_endpoints(KEYSPACE, "narrow", &(1_i32,))?.len() == 1,
        "replicas"
    );
    Ok(())
}

async fn system_tables(session: &Session, datacenter: &str) -> Result<()> {
    let found = texts(session, "SELECT data_center FROM system.local").await?;
    ensure!(
        found == [Some(datacenter.to_owned())],
        "the data center is {found:?}"
    );
    let nodes = session.get_cluster_state().get_nodes_info().len();
    let peers = session
        .query_unpaged("SELECT * FROM system.peers", ())
        .await?
        .into_rows_result()?
        .rows_num();
    ensure!(peers + 1 == nodes, "{peers} peers, {nodes} nodes");
    Ok(())
}

async fn errors(session: &Session) -> Result<()> {
    for (statement, part) in [
        ("SELECT * FROM nowhere", "does not exist"),
        ("SELEC", "no viable alternative"),
        (
            "INSERT INTO narrow (k) VALUES ('x')",
            "Invalid STRING constant",
        ),
    ] {
        let error = session
            .query_unpaged(statement, ())
            .await
            .err()
            .with_context(|| format!("{statement} did not fail"))?;
        ensure!(error.to_string().contains(part), "{statement}: {error}");
    }
    Ok(())
}

async fn reconnect(ip: &str, datacenter: &str) -> Result<()> {
    let session = connect(ip, datacenter).await?;
    session.use_keyspace(KEYSPACE, false).await?;
    ensure!(
        texts(&session, "SELECT v FROM narrow WHERE k = 8").await? == [Some("value 8".to_owned())],
        "the row is not there"
    );
    session
        .query_unpaged(format!("DROP KEYSPACE {KEYSPACE}"), ())
        .await?;
    Ok(())
}
