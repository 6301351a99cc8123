//! The drivers that applications use, run against one node: `cargo test -p helenus-e2e --test drivers`.
//!
//! `HELENUS_E2E_TARGET=oracle` runs them against Apache Cassandra and so checks the programs themselves;
//! `HELENUS_E2E_DRIVERS=python,rust` runs some.

mod drivers_rust;

use anyhow::{Context, Result};
use helenus_e2e::drivers::Driver;
use helenus_e2e::oracle::Target;
use helenus_e2e::oracle::wire::{Connection, Outcome};
use std::time::Instant;

/// Log lines of ours that the programs' wrong statements are meant to cause.
const ALLOWED_LOG_LINES: &[&str] = &[];

fn wanted(name: &str) -> bool {
    std::env::var("HELENUS_E2E_DRIVERS")
        .map_or(true, |list| list.split(',').any(|part| part == name))
}

fn datacenter(ip: &str) -> Result<String> {
    match Connection::open(ip, 4)?.run("SELECT data_center FROM system.local")? {
        Outcome::Rows(rows) => {
            let cell = rows
                .rows
                .first()
                .and_then(|row| row.first())
                .and_then(Option::as_ref)
                .context("no data center")?;
            Ok(String::from_utf8(cell.clone())?)
        }
        other => anyhow::bail!("system.local was answered with {other:?}"),
    }
}

#[test]
fn drivers_work() -> Result<()> {
    let node = Target::from_environment()?
        .start("127.0.20.21")
        .context("start the target")?;
    let mut failures = Vec::new();
    let datacenter = datacenter(node.ip()).unwrap_or_else(|error| {
        failures.push(format!("reading system.local: {error:#}"));
        "DC1".into()
    });
    for driver in Driver::ALL
        .into_iter()
        .filter(|driver| wanted(driver.name()))
    {
        let begin = Instant::now();
        let report = driver.run(&[node.ip()], &datacenter)?;
        println!(
            "{}: {} passed, {} failed in {:?}",
            driver.name(),
            report.passed,
            report.failed.len(),
            begin.elapsed()
        );
        if let Err(error) = report.verdict() {
            failures.push(format!("{}: {error:#}", driver.name()));
        }
    }
    if wanted("rust") {
        let (passed, failed) = drivers_rust::run(node.ip(), &datacenter);
        println!("rust: {passed} passed, {} failed", failed.len());
        failures.extend(failed.into_iter().map(|line| format!("rust: {line}")));
    }
    let finish = node.finish(ALLOWED_LOG_LINES);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    finish
}
