//! The CQL corpus, run on Apache Cassandra and on the target, over native protocol v4 and v5; answers are compared as bytes.
//!
//! `HELENUS_E2E_TARGET=oracle` compares Cassandra with Cassandra and so checks the corpus itself. `HELENUS_E2E_CORPUS=name`
//! runs one file. Statements listed in `corpus/known-differences.txt` may differ for now; a listed statement that no longer
//! differs fails the test, so that the list only shrinks.

use anyhow::{Context, Result};
use helenus_e2e::oracle::corpus::Corpus;
use helenus_e2e::oracle::wire::Connection;
use helenus_e2e::oracle::{Cassandra, CassandraOptions, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Log lines of ours that statements of the corpus are meant to cause.
const ALLOWED_LOG_LINES: &[&str] = &[
    // a table with another strategy than size-tiered
    "compaction strategy is not there yet",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn known_differences() -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(folder().join("known-differences.txt"))?;
    let ids = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| !word.starts_with('#'));
    Ok(ids.map(str::to_owned).collect())
}

fn files() -> Result<Vec<PathBuf>> {
    let wanted = std::env::var("HELENUS_E2E_CORPUS").ok();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder())? {
        let path = entry?.path();
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        if path.extension().is_some_and(|ending| ending == "cql")
            && (wanted.is_none() || wanted == stem)
        {
            files.push(path);
        }
    }
    files.sort();
    anyhow::ensure!(!files.is_empty(), "no corpus file matches {wanted:?}");
    Ok(files)
}

#[test]
fn answers_equal_those_of_cassandra() -> Result<()> {
    let target = Target::from_environment()?;
    let subject = target.start("127.0.20.12").context("start the target")?;
    let oracle = Cassandra::start("127.0.20.11", &CassandraOptions::default())?;
    let known = known_differences()?;
    let (mut count, mut differing, mut surprises, mut ran) =
        (0, BTreeSet::new(), Vec::new(), BTreeSet::new());
    for path in files()? {
        let corpus = Corpus::read(&path)?;
        ran.extend(
            corpus
                .statements
                .iter()
                .map(|statement| statement.id.clone()),
        );
        let before = differing.len();
        for version in [4, 5] {
            let mut left = Connection::open(oracle.ip(), version)?;
            let differences = Connection::open(subject.ip(), version)
                .and_then(|mut right| corpus.compare(&mut left, &mut right));
            let differences =
                differences.with_context(|| format!("{} in v{version}", corpus.name))?;
            count += corpus.statements.len();
            for difference in differences {
                if !known.contains(&difference.id) {
                    surprises.push(difference.report);
                }
                differing.insert(difference.id);
            }
        }
        eprintln!(
            "{}: {} statements, {} differ",
            corpus.name,
            corpus.statements.len(),
            differing.len() - before
        );
    }
    let healed: Vec<&String> = known
        .iter()
        .filter(|id| ran.contains(*id) && !differing.contains(*id))
        .collect();
    println!(
        "{count} answers compared, {} statements differ, {} of them known",
        differing.len(),
        differing.len() - surprises_of(&surprises)
    );
    for report in &surprises {
        println!("{report}\n");
    }
    subject.finish(ALLOWED_LOG_LINES)?;
    assert!(
        surprises.is_empty(),
        "{} answers differ from Cassandra's",
        surprises.len()
    );
    if target == Target::Helenus {
        assert!(
            healed.is_empty(),
            "these no longer differ; take them off corpus/known-differences.txt: {healed:#?}"
        );
    }
    Ok(())
}

/// How many statements the reports speak of; one may differ in both versions.
fn surprises_of(reports: &[String]) -> usize {
    reports
        .iter()
        .filter_map(|report| report.split_whitespace().next())
        .collect::<BTreeSet<_>>()
        .len()
}
