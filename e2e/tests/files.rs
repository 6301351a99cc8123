//! SSTables between Apache Cassandra and us, both ways. The same statements with the same timestamps run on both; then
//!
//! - Cassandra's `sstabledump` prints the same rows from our files as from its own, and `sstablemetadata` the same figures;
//! - `sstableverify` finds nothing wrong with our files, and a Cassandra started on them reads the same rows;
//! - our node started on Cassandra's files, `da`, `nb` and `oa`, reads the same rows, and with more shards writes them anew.
//!
//! Seconds taken from a node's clock (deletion times, expiry) may differ by a few minutes, and so may the time UUIDs that name
//! the cells of a list; everything else is equal.

use anyhow::{Context, Result, bail, ensure};
use helenus_e2e::oracle::wire::{Connection, Outcome, Parameters};
use helenus_e2e::oracle::{
    Cassandra, CassandraOptions, Compatibility, Helenus, HelenusOptions, tool,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const KEYSPACE: &str = "files";

/// Statements and the rows that they returned, as bytes.
type Answers = Vec<(String, Vec<Vec<Option<Vec<u8>>>>)>;

/// How far apart the clocks of two runs may be read.
const SECONDS: i64 = 600;

const TABLES: &[(&str, &str)] = &[
    (
        "scalars",
        "p int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e date, f decimal, g double, h duration, i float, \
         j inet, k int, l smallint, m text, n time, o timestamp, q timeuuid, r tinyint, s uuid, t varchar, u varint",
    ),
    (
        "shapes",
        "p text, c int, s text static, l list<int>, e set<text>, m map<text, int>, f frozen<list<text>>, \
         u frozen<pair>, n pair, t tuple<int, text>, v vector<float, 3>, PRIMARY KEY (p, c)",
    ),
    (
        "orders",
        "p int, q text, a timestamp, b int, c text, v text, s int static, PRIMARY KEY ((p, q), a, b, c)) \
         WITH CLUSTERING ORDER BY (a DESC, b ASC, c DESC",
    ),
    ("wide", "p int, c int, v text, PRIMARY KEY (p, c)"),
];

fn statements() -> Vec<String> {
    let mut all: Vec<String> = vec![
        "INSERT INTO scalars (p,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,q,r,s,t,u) VALUES (1,'ascii',-9000000000,0x00ff,true,\
         '2024-02-29',-12.3450,1.5e300,1mo2d3h,-0.25,'10.1.2.3',2147483647,-32768,'grüße','23:59:59.123456789',\
         '2024-01-02T03:04:05.678Z',50554d6e-29bb-11e5-b345-feff819cdc9f,-128,11111111-2222-3333-4444-555555555555,\
         '',123456789012345678901234567890) USING TIMESTAMP 1000001"
            .into(),
        "INSERT INTO scalars (p, j, u, f) VALUES (-2, '2001:db8::1', -1, 0E-10) USING TIMESTAMP 1000002".into(),
        "INSERT INTO scalars (p) VALUES (3) USING TIMESTAMP 1000003 AND TTL 864000".into(),
        "UPDATE scalars USING TIMESTAMP 1000004 AND TTL 86400 SET m = 'expiring' WHERE p = 4".into(),
        "UPDATE scalars USING TIMESTAMP 1000005 SET m = 'x', k = 1 WHERE p = 5".into(),
        "DELETE m FROM scalars USING TIMESTAMP 1000006 WHERE p = 5".into(),
        "DELETE FROM scalars USING TIMESTAMP 1000007 WHERE p = 6".into(),
        "INSERT INTO shapes (p,c,s,l,e,m,f,u,n,t,v) VALUES ('a',1,'static',[1,2],{'y','x'},{'k':1,'j':2},['f',''],\
         {a:1,b:'b'},{a:2,b:'c'},(7,'t'),[1.0,-2.5,0.0]) USING TIMESTAMP 2000001"
            .into(),
        "UPDATE shapes USING TIMESTAMP 2000002 SET e = e + {'z'}, m['k'] = 5, n.a = 9 WHERE p = 'a' AND c = 1".into(),
        "DELETE m['j'] FROM shapes USING TIMESTAMP 2000003 WHERE p = 'a' AND c = 1".into(),
        "UPDATE shapes USING TIMESTAMP 2000004 AND TTL 86400 SET e = {'t'}, t = (null, 'u') WHERE p = 'a' AND c = 2".into(),
        "UPDATE shapes USING TIMESTAMP 2000005 SET s = 'only static' WHERE p = 'b'".into(),
        "INSERT INTO shapes (p, c, f) VALUES ('c', 1, []) USING TIMESTAMP 2000006".into(),
        "DELETE FROM shapes USING TIMESTAMP 2000007 WHERE p = 'c' AND c = 2".into(),
        "DELETE s FROM shapes USING TIMESTAMP 2000008 WHERE p = 'd'".into(),
        "UPDATE orders USING TIMESTAMP 3000000 SET s = 7 WHERE p = 1 AND q = 'q'".into(),
    ];
    for n in 0..12 {
        let (b, c) = (n % 4, ["", "c", "dd"][n % 3]);
        all.push(format!(
            "INSERT INTO orders (p, q, a, b, c, v) VALUES (1, 'q', {}, {b}, '{c}', 'value {n}') USING TIMESTAMP 30001{n:02}",
            1_600_000_000_000_u64 + (n as u64 / 3) * 1000
        ));
    }
    all.extend([
        "DELETE FROM orders USING TIMESTAMP 3000200 WHERE p = 1 AND q = 'q' AND a = 1600000001000".into(),
        "DELETE FROM orders USING TIMESTAMP 3000201 WHERE p = 1 AND q = 'q' AND a = 1600000002000 AND b > 1".into(),
        "DELETE FROM orders USING TIMESTAMP 3000202 WHERE p = 1 AND q = 'q' AND a < 1600000000000".into(),
        "DELETE FROM orders USING TIMESTAMP 3000203 WHERE p = 2 AND q = 'gone'".into(),
        "INSERT INTO orders (p, q, a, b, c, v) VALUES (2, 'gone', 1, 1, 'later', 'v') USING TIMESTAMP 3000204".into(),
    ]);
    for n in 0..700 {
        all.push(format!(
            "INSERT INTO wide (p, c, v) VALUES ({}, {n}, '{}') USING TIMESTAMP {}",
            n % 3,
            "w".repeat(n),
            4_000_000 + n
        ));
    }
    all.push(
        "DELETE FROM wide USING TIMESTAMP 5000000 WHERE p = 1 AND c > 100 AND c <= 400".into(),
    );
    all
}

const READS: &[&str] = &[
    "SELECT * FROM scalars",
    "SELECT p, writetime(m), writetime(k) FROM scalars",
    "SELECT * FROM shapes",
    "SELECT p, c, writetime(f), writetime(t) FROM shapes",
    "SELECT * FROM orders",
    "SELECT * FROM orders WHERE p = 1 AND q = 'q' ORDER BY a ASC",
    "SELECT * FROM orders WHERE p = 1 AND q = 'q' AND a >= 1600000001000 AND a <= 1600000002000",
    "SELECT p, c, v, writetime(v) FROM wide",
    "SELECT c FROM wide WHERE p = 1 AND c > 90 AND c < 500 ORDER BY c DESC",
    "SELECT v FROM wide WHERE p = 2 AND c = 401",
];

fn fill(ip: &str) -> Result<()> {
    let mut connection = make_schema(ip)?;
    for statement in statements() {
        connection.run(&statement)?;
    }
    Ok(())
}

fn make_schema(ip: &str) -> Result<Connection> {
    let mut connection = Connection::open(ip, 4)?;
    connection.run(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ))?;
    connection.run(&format!("USE {KEYSPACE}"))?;
    connection.run("CREATE TYPE pair (a int, b text)")?;
    for (name, columns) in TABLES {
        connection.run(&format!("CREATE TABLE {name} ({columns})"))?;
    }
    Ok(connection)
}

/// Every answer as rows of bytes.
fn rows(ip: &str) -> Result<Answers> {
    let mut connection = Connection::open(ip, 4)?;
    connection.run(&format!("USE {KEYSPACE}"))?;
    let mut all = Vec::new();
    for read in READS {
        match connection.query(read, &Parameters::default())?.outcome()? {
            Outcome::Rows(rows) => all.push(((*read).to_owned(), rows.rows)),
            other => bail!("{read}: {other:?}"),
        }
    }
    Ok(all)
}

fn check_rows(ip: &str, expected: &Answers, what: &str) -> Result<()> {
    for ((read, expected), (_, found)) in expected.iter().zip(rows(ip)?) {
        ensure!(
            *expected == found,
            "{what}: {read}\n expected {expected:?}\n found {found:?}"
        );
    }
    Ok(())
}

fn table_folder(data: &Path, table: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(data.join(KEYSPACE))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name
            .rsplit_once('-')
            .is_some_and(|(front, _)| front == table)
        {
            return Ok(path);
        }
    }
    bail!("{} has no folder of {table}", data.display())
}

fn sstable_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn data_file(folder: &Path) -> Result<PathBuf> {
    let files = sstable_files(folder)?;
    let mut data = files
        .iter()
        .filter(|path| path.to_string_lossy().ends_with("-Data.db"));
    let one = data
        .next()
        .with_context(|| format!("no Data.db in {}", folder.display()))?;
    ensure!(
        data.next().is_none(),
        "more than one SSTable in {}",
        folder.display()
    );
    Ok(one.clone())
}

/// Puts the files of one folder in the place of another's.
fn exchange(from: &Path, to: &Path) -> Result<()> {
    for old in sstable_files(to)? {
        fs::remove_file(old)?;
    }
    for file in sstable_files(from)? {
        let name = file.file_name().context("a file name")?;
        fs::copy(&file, to.join(name))?;
    }
    Ok(())
}

fn dump(folder: &Path) -> Result<Value> {
    let data = data_file(folder)?;
    let text = tool("sstabledump", &[&data.to_string_lossy(), "-t"])?;
    serde_json::from_str(&text)
        .with_context(|| format!("what sstabledump printed of {}: {text}", data.display()))
}

/// Where two dumps differ; offsets in the file and a node's own seconds are let off.
fn difference(place: &str, ours: &Value, theirs: &Value) -> Option<String> {
    let clock = ["local_delete_time", "expires_at"]
        .iter()
        .any(|name| place.ends_with(name));
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            names
                .into_iter()
                .filter(|name| *name != "position")
                .find_map(|name| {
                    difference(
                        &format!("{place}.{name}"),
                        &a[name.as_str()],
                        b.get(name).unwrap_or(&Value::Null),
                    )
                })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            (0..a.len()).find_map(|at| difference(&format!("{place}[{at}]"), &a[at], &b[at]))
        }
        (a, b) if a == b => None,
        // a list's cells are named by the time of the write
        (Value::String(a), Value::String(b))
            if place.contains(".path[") && is_uuid(a) && is_uuid(b) =>
        {
            None
        }
        (a, b)
            if clock
                && seconds(a)
                    .zip(seconds(b))
                    .is_some_and(|(a, b)| (a - b).abs() < SECONDS) =>
        {
            None
        }
        (a, b) => Some(format!("{place}: ours {a}, Cassandra's {b}")),
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
}

fn seconds(value: &Value) -> Option<i64> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let number: i64 = text.parse().ok()?;
    // sstabledump -t prints microseconds for times of deletion
    Some(if number > 100_000_000_000 {
        number / 1_000_000
    } else {
        number
    })
}

/// The lines of sstablemetadata that must be the same.
fn figures(folder: &Path) -> Result<Vec<String>> {
    let text = tool("sstablemetadata", &[&data_file(folder)?.to_string_lossy()])?;
    let names = [
        "Partitioner",
        "Bloom Filter FP",
        "Minimum timestamp",
        "Maximum timestamp",
        "TTL min",
        "TTL max",
        "SSTable Level",
        "Repaired at",
        "totalColumnsSet",
        "totalRows",
        "KeyType",
        "ClusteringTypes",
        "StaticColumns",
        "RegularColumns",
        "IsTransient",
        "Covered clusterings",
    ];
    let lines: Vec<String> = text
        .lines()
        .filter(|line| names.iter().any(|name| line.starts_with(name)))
        .map(|line| line.trim_end().to_owned())
        .collect();
    ensure!(lines.len() > 8, "sstablemetadata printed little:\n{text}");
    Ok(lines)
}

fn ours() -> HelenusOptions {
    HelenusOptions {
        settings: vec![("shards".into(), "1".into())],
        ..HelenusOptions::default()
    }
}

fn theirs(compatibility: Compatibility, bti: bool) -> CassandraOptions {
    CassandraOptions {
        heap: "512M".into(),
        num_tokens: 1,
        compatibility,
        bti,
        ..CassandraOptions::default()
    }
}

/// Fills a Cassandra and stops it with everything flushed.
fn filled(ip: &str, options: &CassandraOptions) -> Result<(Cassandra, Answers)> {
    let mut cassandra = Cassandra::start(ip, options)?;
    fill(cassandra.ip()).with_context(|| format!("fill Cassandra on {ip}"))?;
    let expected = rows(cassandra.ip())?;
    cassandra.nodetool(&["flush", KEYSPACE])?;
    cassandra.stop()?;
    Ok((cassandra, expected))
}

fn compare_dumps(helenus: &Helenus, cassandra: &Cassandra) -> Result<()> {
    for (table, _) in TABLES {
        let (ours, theirs) = (
            table_folder(&helenus.data_directory(), table)?,
            table_folder(&cassandra.data_directory(), table)?,
        );
        if let Some(report) = difference(table, &dump(&ours)?, &dump(&theirs)?) {
            bail!("sstabledump: {report}");
        }
        let (ours, theirs) = (figures(&ours)?, figures(&theirs)?);
        ensure!(
            ours == theirs,
            "sstablemetadata of {table}: ours\n{ours:#?}\nCassandra's\n{theirs:#?}"
        );
    }
    Ok(())
}

fn read_by_us(
    helenus: &mut Helenus,
    cassandra: &Cassandra,
    expected: &Answers,
    what: &str,
) -> Result<()> {
    helenus.stop()?;
    for (table, _) in TABLES {
        exchange(
            &table_folder(&cassandra.data_directory(), table)?,
            &table_folder(&helenus.data_directory(), table)?,
        )?;
    }
    helenus.run()?;
    check_rows(helenus.ip(), expected, what)
}

#[test]
fn sstables_are_cassandras_both_ways() -> Result<()> {
    let mut helenus = Helenus::start("127.0.70.1", &ours())?;
    fill(helenus.ip()).context("fill our node")?;
    helenus.nodetool(&["flush", KEYSPACE])?;
    let (mut cassandra, expected) = filled("127.0.70.11", &theirs(Compatibility::None, true))?;
    check_rows(helenus.ip(), &expected, "our own files")?;
    compare_dumps(&helenus, &cassandra)?;

    let kept = helenus.data_directory().join("theirs");
    for (table, _) in TABLES {
        let (ours, theirs) = (
            table_folder(&helenus.data_directory(), table)?,
            table_folder(&cassandra.data_directory(), table)?,
        );
        let aside = kept.join(table);
        fs::create_dir_all(&aside)?;
        exchange(&theirs, &aside)?;
        exchange(&ours, &theirs)?;
        let printed = cassandra.offline_tool("sstableverify", &["-e", "-f", KEYSPACE, table])?;
        ensure!(
            !printed.contains("Corrupt") && !printed.contains("Error"),
            "sstableverify of {table}: {printed}"
        );
    }
    cassandra.run()?;
    check_rows(cassandra.ip(), &expected, "Cassandra on our files")?;
    cassandra.stop()?;
    for (table, _) in TABLES {
        exchange(
            &kept.join(table),
            &table_folder(&cassandra.data_directory(), table)?,
        )?;
    }
    fs::remove_dir_all(&kept)?;
    read_by_us(&mut helenus, &cassandra, &expected, "Cassandra's da files")?;
    drop(cassandra);
    let mut last = expected;
    for (compatibility, name) in [
        (Compatibility::Cassandra4, "nb"),
        (Compatibility::None, "oa"),
    ] {
        let (big, expected) = filled("127.0.70.12", &theirs(compatibility, false))?;
        let data = data_file(&table_folder(&big.data_directory(), "wide")?)?;
        ensure!(
            data.to_string_lossy().contains(&format!("/{name}-")),
            "{} is not {name}",
            data.display()
        );
        read_by_us(&mut helenus, &big, &expected, name)?;
        last = expected;
    }
    split(&mut helenus, &last)?;
    helenus.stop()?;
    helenus.check_log(&[])
}

/// With two shards a file of keys of both is written anew by each, as `da`; the last of them removes it.
fn split(helenus: &mut Helenus, expected: &Answers) -> Result<()> {
    helenus.stop()?;
    let home = helenus
        .data_directory()
        .parent()
        .context("the node's folder")?
        .to_owned();
    let path = home.join("conf/cassandra.yaml");
    let text = fs::read_to_string(&path)?;
    ensure!(text.contains("shards: 1"), "the settings: {text}");
    fs::write(&path, text.replace("shards: 1", "shards: 2"))?;
    helenus.run()?;
    let folder = table_folder(&helenus.data_directory(), "scalars")?;
    let begin = Instant::now();
    loop {
        check_rows(helenus.ip(), expected, "while files are split")?;
        let names: Vec<String> = sstable_files(&folder)?
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let data = names.iter().filter(|name| name.ends_with("-Data.db"));
        let (new, old): (Vec<&String>, Vec<&String>) = data.partition(|name| name.contains("/da-"));
        let left = names
            .iter()
            .find(|name| name.contains("/helenus-left-") || name.contains("/helenus-transaction-"));
        if old.is_empty() && new.len() == 2 && left.is_none() {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < Duration::from_secs(20),
            "{old:?} and {left:?} are still there beside {new:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
