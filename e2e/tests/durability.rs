//! What was acknowledged stays: kill -9 under load, another count of shards, a full disk, damaged files.
//!
//! A model knows for each row its acknowledged state and what was sent later without an answer; a read must find one of
//! them. Seeds are printed; `HELENUS_E2E_SEED` takes one again (the times at which the node is killed are not the same).

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use helenus_e2e::oracle::{Helenus, HelenusOptions};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WORKERS: i32 = 16;
const SESSIONS: usize = 4;
const ROUNDS: usize = 12;
const TABLE: &str = "CREATE TABLE durability.rows (p int, c int, seq bigint, v blob, PRIMARY KEY (p, c)) \
    WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2'}";

const INSERT: &str = "INSERT INTO durability.rows (p, c, seq, v) VALUES (?, ?, ?, ?)";

/// Log lines that these faults are meant to cause.
const TORN: &str = "the end of a commit log segment was cut off by a crash";

/// A row's state: number of the write and size of its value; `None` is deleted.
type State = Option<(i64, usize)>;

/// What is known of one row.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: State,
    /// Sent after that, not answered.
    maybe: Vec<State>,
}

type Model = BTreeMap<(i32, i32), Known>;

/// xorshift: a test needs no better numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn seed() -> u64 {
    let given = std::env::var("HELENUS_E2E_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 + 1);
    println!("HELENUS_E2E_SEED={seed}");
    seed
}

fn value(seq: i64, size: usize) -> Vec<u8> {
    let mut random = Random(seq.unsigned_abs() * 2 + 1);
    std::iter::repeat_with(|| random.below(1 << 62).to_le_bytes())
        .flatten()
        .take(size)
        .collect()
}

async fn connect(ip: &str) -> Result<Session> {
    let builder = SessionBuilder::new()
        .known_node(ip)
        .connection_timeout(Duration::from_secs(5));
    Ok(builder.build().await?)
}

async fn prepare_schema(session: &Session) -> Result<()> {
    for statement in [
        "CREATE KEYSPACE durability WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        TABLE,
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    Ok(())
}

/// One client's statements.
struct Writer {
    session: Arc<Session>,
    insert: PreparedStatement,
    update: PreparedStatement,
    delete: PreparedStatement,
    clear: PreparedStatement,
}

impl Writer {
    async fn new(session: Arc<Session>) -> Result<Self> {
        Ok(Self {
            insert: session.prepare(INSERT).await?,
            update: session
                .prepare("UPDATE durability.rows SET seq = ?, v = ? WHERE p = ? AND c = ?")
                .await?,
            delete: session
                .prepare("DELETE FROM durability.rows WHERE p = ? AND c = ?")
                .await?,
            clear: session
                .prepare("DELETE FROM durability.rows WHERE p = ?")
                .await?,
            session,
        })
    }

    /// Sends one write at random; the row's state after it, and whether a whole partition was meant.
    async fn write(
        &self,
        (p, c): (i32, i32),
        seq: i64,
        random: &mut Random,
    ) -> Result<(State, bool, bool)> {
        let large = random.below(20) == 0;
        let size = usize::try_from(random.below(if large { 100_000 } else { 2_000 }))?;
        let session = &self.session;
        let state = Some((seq, size));
        Ok(match random.below(40) {
            0 => (
                None,
                true,
                session.execute_unpaged(&self.clear, (p,)).await.is_ok(),
            ),
            1..=4 => (
                None,
                false,
                session.execute_unpaged(&self.delete, (p, c)).await.is_ok(),
            ),
            5..=15 => {
                let values = (seq, value(seq, size), p, c);
                (
                    state,
                    false,
                    session.execute_unpaged(&self.update, values).await.is_ok(),
                )
            }
            _ => {
                let values = (p, c, seq, value(seq, size));
                (
                    state,
                    false,
                    session.execute_unpaged(&self.insert, values).await.is_ok(),
                )
            }
        })
    }
}

/// One client: writes until told to stop, or until the node is gone.
async fn work(
    session: Arc<Session>,
    worker: i32,
    mut model: Model,
    mut seq: i64,
    seed: u64,
    stop: Arc<AtomicBool>,
) -> Result<(Model, i64, usize)> {
    let mut random = Random(seed ^ (u64::from(worker.unsigned_abs()) + 1) << 20 | 1);
    let writer = Writer::new(session).await?;
    let (mut done, mut failures) = (0, 0);
    while !stop.load(Ordering::Relaxed) && failures < 3 {
        seq += 1;
        let p = worker * 10 + i32::try_from(random.below(6))?;
        let key = (p, i32::try_from(random.below(40))?);
        let (state, whole, acknowledged) = writer.write(key, seq, &mut random).await?;
        let keys: Vec<(i32, i32)> = if whole {
            let known = model.range((p, i32::MIN)..=(p, i32::MAX));
            known.map(|(key, _)| *key).collect()
        } else {
            vec![key]
        };
        for key in keys {
            let known = model.entry(key).or_default();
            if acknowledged {
                *known = Known {
                    acknowledged: state,
                    maybe: Vec::new(),
                };
            } else {
                known.maybe.push(state);
            }
        }
        if acknowledged {
            (done, failures) = (done + 1, 0);
        } else {
            failures += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok((model, seq, done))
}

/// Everything that is in the table must be what the model knows. After a restart the model then knows exactly; before
/// one, a write that was refused may be seen and still be lost, since the log does not have it.
async fn verify(session: &Session, models: &mut [Model], restarted: bool) -> Result<usize> {
    let mut found: BTreeMap<(i32, i32), (i64, Vec<u8>)> = BTreeMap::new();
    let mut read = session
        .prepare("SELECT p, c, seq, v FROM durability.rows")
        .await?;
    read.set_page_size(100);
    let mut rows = session
        .execute_iter(read, ())
        .await?
        .rows_stream::<(i32, i32, i64, Vec<u8>)>()?;
    while let Some((p, c, seq, v)) = rows.try_next().await? {
        ensure!(
            found.insert((p, c), (seq, v)).is_none(),
            "row {p}, {c} twice"
        );
    }
    let count = found.len();
    for (key, known) in models.iter_mut().flatten() {
        let state = found.remove(key).map(|(seq, v)| {
            ensure!(
                v == value(seq, v.len()),
                "row {key:?}: a value that nobody wrote"
            );
            Ok((seq, v.len()))
        });
        let state = state.transpose()?;
        ensure!(
            state == known.acknowledged || known.maybe.contains(&state),
            "row {key:?} is {state:?}; acknowledged {:?}, unanswered {:?}",
            known.acknowledged,
            known.maybe
        );
        if restarted {
            *known = Known {
                acknowledged: state,
                maybe: Vec::new(),
            };
        }
    }
    ensure!(
        found.is_empty(),
        "rows that nobody wrote: {:?}",
        found.keys()
    );
    Ok(count)
}

/// Files of work that was not finished: temporary files, records of transactions, SSTables without a table of contents.
fn unfinished(data: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let text = path.to_string_lossy().into_owned();
            let no_contents = text
                .strip_suffix("Data.db")
                .is_some_and(|front| !Path::new(&format!("{front}TOC.txt")).exists());
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "tmp")
                || text.contains("helenus-transaction-")
                || no_contents
            {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Waits until a flush (an SSTable without contents) or a compaction (a record) is seen, at most a few seconds.
fn wait_for_work(data: &Path, compaction: bool) -> Result<bool> {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let seen = unfinished(data)?
            .iter()
            .any(|path| path.to_string_lossy().contains("helenus-transaction-") == compaction);
        if seen {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(false)
}

fn set(node: &Helenus, key: &str, value: &str) -> Result<()> {
    let home = node
        .data_directory()
        .parent()
        .context("the node's folder")?
        .to_owned();
    let path = home.join("conf/cassandra.yaml");
    let text = fs::read_to_string(&path)?;
    let kept = text
        .lines()
        .filter(|line| !line.starts_with(&format!("{key}:")));
    let lines: Vec<&str> = kept.collect();
    Ok(fs::write(
        &path,
        format!("{}\n{key}: {value}\n", lines.join("\n")),
    )?)
}

fn options(settings: &[(&str, &str)]) -> HelenusOptions {
    let small = [
        ("memory_budget", "64MiB"),
        ("commitlog_segment_size", "4MiB"),
        ("shards", "2"),
    ];
    HelenusOptions {
        settings: small
            .iter()
            .chain(settings)
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect(),
        ..HelenusOptions::default()
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

/// Starts all clients, kills the node at some moment, and returns how many writes were acknowledged.
async fn write_and_kill(
    node: &mut Helenus,
    models: &mut [Model],
    seqs: &mut [i64],
    round: usize,
    random: &mut Random,
) -> Result<usize> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Arc::new(connect(node.ip()).await?));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for worker in 0..WORKERS {
        let at = usize::try_from(worker)?;
        let model = std::mem::take(&mut models[at]);
        let session = Arc::clone(&sessions[at % SESSIONS]);
        clients.push(tokio::spawn(work(
            session,
            worker,
            model,
            seqs[at],
            random.below(1 << 60),
            Arc::clone(&stop),
        )));
    }
    tokio::time::sleep(Duration::from_millis(200 + random.below(1200))).await;
    let data = node.data_directory();
    let moment = match round % 3 {
        0 => "at random",
        1 if tokio::task::block_in_place(|| wait_for_work(&data, false))? => "in a flush",
        2 if tokio::task::block_in_place(|| wait_for_work(&data, true))? => "in a compaction",
        _ => "at random (no background work was seen)",
    };
    node.kill9();
    stop.store(true, Ordering::Relaxed);
    let mut total = 0;
    for (at, client) in clients.into_iter().enumerate() {
        let (model, seq, done) = client.await??;
        (models[at], seqs[at]) = (model, seq);
        total += done;
    }
    println!("round {round}: killed {moment} after {total} acknowledged writes");
    Ok(total)
}

#[test]
fn acknowledged_writes_survive_kill_9_and_other_counts_of_shards() -> Result<()> {
    let mut random = Random(seed());
    let mut node = Helenus::start("127.0.70.21", &options(&[]))?;
    let mut models = vec![Model::new(); usize::try_from(WORKERS)?];
    let mut seqs = vec![0; models.len()];
    let mut total = 0;
    for round in 0..ROUNDS {
        let runtime = runtime()?;
        if round == 0 {
            runtime.block_on(async { prepare_schema(&connect(node.ip()).await?).await })?;
        }
        total += runtime.block_on(write_and_kill(
            &mut node,
            &mut models,
            &mut seqs,
            round,
            &mut random,
        ))?;
        let before = unfinished(&node.data_directory())?;
        if round + 2 >= ROUNDS {
            // the last two restarts come with another count of shards
            set(&node, "shards", if round + 2 == ROUNDS { "3" } else { "1" })?;
        }
        node.run()
            .with_context(|| format!("restart after round {round}"))?;
        let left: Vec<&PathBuf> = before.iter().filter(|path| path.exists()).collect();
        ensure!(
            left.is_empty(),
            "the restart left unfinished files of round {round}: {left:?}"
        );
        let rows =
            runtime.block_on(async { verify(&connect(node.ip()).await?, &mut models, true).await });
        let rows = rows.with_context(|| format!("after round {round}"))?;
        println!(
            "round {round}: {rows} rows verified, {} unfinished files gone",
            before.len()
        );
    }
    println!("{total} writes acknowledged");
    node.stop()?;
    node.check_log(&[TORN])
}

/// A small file system that goes with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(size: &str) -> Result<Option<Self>> {
        let path = std::env::temp_dir().join(format!("helenus-e2e-disk-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&path)
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Ok(Some(Self(path)));
        }
        fs::remove_dir(&path)?;
        Ok(None)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // what cannot be unmounted stays visible in `mount`
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
        fs::remove_dir(&self.0).ok();
    }
}

async fn insert_until(
    session: &Session,
    from: i64,
    deadline: Duration,
    done: impl Fn(&Result<(), String>, i64) -> bool,
) -> Result<Vec<(i64, Result<(), String>)>> {
    let insert = session.prepare(INSERT).await?;
    let (begin, mut all, mut seq) = (Instant::now(), Vec::new(), from);
    while begin.elapsed() < deadline {
        let key = (i32::try_from(seq % 7)?, i32::try_from(seq)?);
        let sent = session
            .execute_unpaged(&insert, (key.0, key.1, seq, value(seq, 20_000)))
            .await;
        let sent = sent.map(|_| ()).map_err(|error| error.to_string());
        let enough = done(&sent, seq - from + 1);
        all.push((seq, sent));
        if enough {
            return Ok(all);
        }
        seq += 1;
    }
    bail!(
        "not after {deadline:?}; the last answers: {:?}",
        &all[all.len().saturating_sub(3)..]
    )
}

fn note(model: &mut Model, sent: &[(i64, Result<(), String>)]) -> Result<()> {
    for (seq, result) in sent {
        let known = model
            .entry((i32::try_from(seq % 7)?, i32::try_from(*seq)?))
            .or_default();
        match result {
            Ok(()) => known.acknowledged = Some((*seq, 20_000)),
            Err(_) => known.maybe.push(Some((*seq, 20_000))),
        }
    }
    Ok(())
}

async fn fill_and_free(node: &Helenus, disk: &Path, model: &mut Model) -> Result<()> {
    let session = connect(node.ip()).await?;
    prepare_schema(&session).await?;
    note(
        model,
        &insert_until(&session, 0, Duration::from_secs(20), |_, count| {
            count == 200
        })
        .await?,
    )?;
    let filler = disk.join("filler");
    let mut file = fs::File::create(&filler)?;
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    let refused = insert_until(&session, 1000, Duration::from_secs(20), |sent, _| {
        sent.is_err()
    })
    .await?;
    note(model, &refused)?;
    let text = format!("{:?}", refused.last());
    println!("refused: {text}");
    // reads go on, and more writes are refused without harm
    verify(&session, std::slice::from_mut(model), false)
        .await
        .context("read while the disk is full")?;
    let more = insert_until(&session, 2000, Duration::from_secs(20), |_, count| {
        count == 20
    })
    .await?;
    note(model, &more)?;
    verify(&session, std::slice::from_mut(model), false)
        .await
        .context("read while the disk is full")?;
    let flushed = tokio::task::block_in_place(|| node.nodetool(&["flush", "durability"]));
    ensure!(flushed.is_err(), "a flush succeeded on a full disk");
    drop(file);
    fs::remove_file(&filler)?;
    let taken = insert_until(&session, 3000, Duration::from_secs(20), |sent, _| {
        sent.is_ok()
    })
    .await
    .context("write after space is free")?;
    note(model, &taken)?;
    let mut after = insert_until(&session, 4000, Duration::from_secs(20), |_, count| {
        count == 100
    })
    .await?;
    ensure!(
        after.iter().all(|(_, sent)| sent.is_ok()),
        "writes fail though there is space: {:?}",
        after.pop()
    );
    note(model, &after)?;
    verify(&session, std::slice::from_mut(model), false)
        .await
        .map(|_| ())
}

#[test]
fn a_full_disk_refuses_writes_and_recovers() -> Result<()> {
    let Some(disk) = SmallDisk::mount("64m")? else {
        println!("SKIPPED: a tmpfs cannot be mounted here (not root)");
        return Ok(());
    };
    let root = disk.0.display();
    let (data, log) = (format!("[{root}/data]"), format!("{root}/commitlog"));
    let settings = [
        ("data_file_directories", data.as_str()),
        ("commitlog_directory", log.as_str()),
        ("commitlog_total_space", "16MiB"),
    ];
    let mut node = Helenus::start("127.0.70.22", &options(&settings))?;
    let mut model = Model::new();
    let runtime = runtime()?;
    runtime.block_on(fill_and_free(&node, &disk.0, &mut model))?;
    node.kill9();
    node.run().context("restart after the disk was full")?;
    let rows = runtime.block_on(async {
        verify(
            &connect(node.ip()).await?,
            std::slice::from_mut(&mut model),
            true,
        )
        .await
    })?;
    println!("{rows} rows verified after the restart");
    node.stop()?;
    node.check_log(&[
        TORN,
        "the commit log cannot be written: writes fail",
        "flush failed; it will be tried again",
        "compaction failed; its inputs stay",
        "positions of the commit log were not stored",
        "leftovers of a failed",
    ])
}

fn files_of(node: &Helenus, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in fs::read_dir(node.data_directory().join("durability"))? {
        for entry in fs::read_dir(folder?.path())? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn flip(path: &Path, at: usize) -> Result<()> {
    let mut bytes = fs::read(path)?;
    let byte = bytes
        .get_mut(at)
        .with_context(|| format!("{} is short", path.display()))?;
    *byte ^= 1;
    Ok(fs::write(path, bytes)?)
}

#[test]
fn damaged_files_are_named_and_set_aside() -> Result<()> {
    let mut node = Helenus::start("127.0.70.23", &options(&[("shards", "1")]))?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let session = connect(node.ip()).await?;
        prepare_schema(&session).await?;
        insert_until(&session, 0, Duration::from_secs(20), |_, count| count == 50).await
    })?;
    node.nodetool(&["flush", "durability"])?;
    node.stop()?;
    let data = files_of(&node, "-Data.db")?;
    ensure!(data.len() == 1, "one SSTable is expected: {data:?}");
    flip(&data[0], 1000)?;
    node.run()?;
    let error = runtime.block_on(async {
        let session = connect(node.ip()).await?;
        let answer = session
            .query_unpaged("SELECT p, c FROM durability.rows", ())
            .await;
        let single = session
            .query_unpaged("SELECT cluster_name FROM system.local", ())
            .await;
        single.context("the node serves other tables")?;
        anyhow::Ok(answer.err().map(|error| error.to_string()))
    })?;
    let error = error.context("a read of a damaged file succeeded")?;
    println!("the client is told: {error}");
    node.stop()?;
    let log = fs::read_to_string(node.log_path())?;
    let file = data[0].to_string_lossy().into_owned();
    ensure!(
        log.lines()
            .any(|line| line.contains("ERROR") && line.contains(&file)),
        "the log does not name {file}"
    );
    damaged_at_the_start(&mut node, &data[0])?;
    runtime.block_on(async {
        let session = connect(node.ip()).await?;
        insert_until(&session, 100, Duration::from_secs(20), |_, count| {
            count == 10
        })
        .await
    })?;
    node.restart()?;
    node.stop()?;
    node.check_log(&[
        "a damaged SSTable was set aside",
        "a read met a damaged SSTable",
        "damaged at byte",
    ])
}

/// The node starts, with the SSTable out of the way and counted.
fn damaged_at_the_start(node: &mut Helenus, data: &Path) -> Result<()> {
    let statistics = files_of(node, "-Statistics.db")?;
    flip(&statistics[0], 40)?;
    node.run().context("start with a damaged SSTable")?;
    ensure!(
        files_of(node, "-Data.db")?.is_empty(),
        "the damaged SSTable is still in its place"
    );
    let aside = statistics[0]
        .parent()
        .context("a folder")?
        .join("quarantine");
    ensure!(
        aside.join(data.file_name().context("a name")?).exists(),
        "it is not in {}",
        aside.display()
    );
    let (status, metrics) =
        helenus_e2e::oracle::helenus::http_get(&format!("{}:9180", node.ip()), "/metrics")?;
    let counted = metrics.lines().any(|line| {
        line.starts_with("helenus_storage_sstables_quarantined") && line.ends_with(" 1")
    });
    ensure!(status == 200 && counted, "the metric does not count it");
    Ok(())
}
