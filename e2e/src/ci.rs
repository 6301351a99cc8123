//! `cargo xtask test`: everything CI runs, as named steps with times; each step's whole output goes to a log file.

use crate::{paths, process, progress};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How many lines of a failed step's log are shown.
const TAIL_LINES: usize = 60;
/// How often a step that runs says so.
const REMIND_EVERY: Duration = Duration::from_secs(30);

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only the part under five minutes: format, lints, unit tests, sizes.
    #[arg(long)]
    pub quick: bool,
    /// Only the steps of these names.
    #[arg(long = "step", value_name = "NAME")]
    pub steps: Vec<String>,
    /// Only list the steps.
    #[arg(long)]
    pub list: bool,
}

/// One step: a cargo command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    name: String,
    arguments: Vec<String>,
    quick: bool,
}

impl Step {
    fn new(name: &str, quick: bool, arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(String::from).collect();
        Self {
            name: name.to_owned(),
            arguments,
            quick,
        }
    }
}

/// How a step ended.
struct Ended {
    name: String,
    outcome: &'static str,
    time: Duration,
    log: PathBuf,
}

/// Runs the steps; fails when one of them did.
pub fn run(options: &Options) -> Result<()> {
    let all = steps(&end_to_end_tests()?);
    let chosen: Vec<&Step> = all
        .iter()
        .filter(|step| !options.quick || step.quick)
        .filter(|step| options.steps.is_empty() || options.steps.contains(&step.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|step| step.name.as_str()).collect();
        bail!("no step is chosen; there are {}", names.join(", "));
    }
    if options.list {
        for step in chosen {
            println!("{:<16} cargo {}", step.name, step.arguments.join(" "));
        }
        return Ok(());
    }
    let target = paths::cargo_target("target-test")?;
    let logs = target.join("xtask-test");
    fs::create_dir_all(&logs).with_context(|| format!("make folder {}", logs.display()))?;
    progress::say(&format!(
        "{} steps, logs in {}",
        chosen.len(),
        logs.display()
    ));
    let mut ended = Vec::new();
    for (index, step) in chosen.iter().enumerate() {
        progress::say(&format!(
            "[{}/{}] {}: cargo {}",
            index + 1,
            chosen.len(),
            step.name,
            step.arguments.join(" ")
        ));
        ended.push(run_step(step, &target, &logs)?);
    }
    print!("\n{}", table(&ended));
    let failed: Vec<&str> = ended
        .iter()
        .filter(|step| step.outcome == "FAILED")
        .map(|step| step.name.as_str())
        .collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// The files in `e2e/tests`, by name.
fn end_to_end_tests() -> Result<Vec<String>> {
    let folder = paths::workspace().join("e2e/tests");
    let entries = fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(
                path.file_stem()
                    .map(|stem| stem.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

/// All steps, the quick ones first. Every end-to-end test file is a step of its own.
fn steps(end_to_end: &[String]) -> Vec<Step> {
    let mut steps = vec![
        Step::new("fmt", true, "fmt --all --check"),
        Step::new(
            "clippy",
            true,
            "clippy --workspace --all-targets --locked -- -D warnings",
        ),
        Step::new(
            "unit",
            true,
            "test --workspace --exclude helenus-e2e --locked --no-fail-fast",
        ),
        Step::new(
            "e2e-unit",
            true,
            "test -p helenus-e2e --lib --bins --locked",
        ),
        Step::new("size", true, "test -p helenus-e2e --test size --locked"),
    ];
    for name in end_to_end.iter().filter(|name| *name != "size") {
        // not captured, so that a log tells why a test was skipped and what it waited for
        let arguments =
            format!("test -p helenus-e2e --test {name} --locked -- --nocapture --test-threads=1");
        steps.push(Step::new(name, false, &arguments));
    }
    steps
}

fn run_step(step: &Step, target: &Path, logs: &Path) -> Result<Ended> {
    let log = logs.join(format!("{}.log", step.name));
    let file = File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(&step.arguments)
        .current_dir(paths::workspace())
        .env("CARGO_TARGET_DIR", target);
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("share the log")?)
        .stderr(file);
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("start {}", process::line_of(&command)))?;
    let mut reminded = start;
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for cargo")? {
            break status;
        }
        if reminded.elapsed() > REMIND_EVERY {
            reminded = Instant::now();
            let last = last_lines(&log, 1)?;
            progress::say(&format!(
                "{}: {} s, now: {}",
                step.name,
                start.elapsed().as_secs(),
                last.trim()
            ));
        }
        thread::sleep(Duration::from_millis(100));
    };
    let skipped = show_results(&log)?;
    if !status.success() {
        println!("---- end of {}", log.display());
        println!("{}", last_lines(&log, TAIL_LINES)?);
        println!(
            "---- {} failed; once more: cargo xtask test --step {}",
            step.name, step.name
        );
        println!(
            "     or: CARGO_TARGET_DIR={} cargo {}",
            target.display(),
            step.arguments.join(" ")
        );
    }
    let outcome = match (status.success(), skipped) {
        (false, _) => "FAILED",
        (true, true) => "skipped",
        (true, false) => "ok",
    };
    progress::say(&format!(
        "{}: {outcome} after {:.1} s",
        step.name,
        start.elapsed().as_secs_f64()
    ));
    Ok(Ended {
        name: step.name.clone(),
        outcome,
        time: start.elapsed(),
        log,
    })
}

/// Prints cargo test's closing lines; says whether anything was skipped, with the reason.
fn show_results(log: &Path) -> Result<bool> {
    let mut skipped = false;
    for line in lines(log)? {
        let text = line.trim_start();
        let told = ["Running ", "Doc-tests ", "test result: "]
            .iter()
            .any(|start| text.starts_with(start));
        let skip = text.starts_with("SKIPPED: ");
        skipped |= skip;
        if told || skip {
            println!("{line}");
        }
    }
    Ok(skipped)
}

fn lines(log: &Path) -> Result<Vec<String>> {
    let file = fs::read(log).with_context(|| format!("read {}", log.display()))?;
    let lines = file
        .split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned());
    Ok(lines.collect())
}

fn last_lines(log: &Path, count: usize) -> Result<String> {
    let lines: Vec<String> = lines(log)?
        .into_iter()
        .filter(|line| !line.trim().is_empty())
        .collect();
    Ok(lines[lines.len().saturating_sub(count)..].join("\n"))
}

fn table(ended: &[Ended]) -> String {
    let mut text = String::new();
    let total: Duration = ended.iter().map(|step| step.time).sum();
    for step in ended {
        let time = step.time.as_secs_f64();
        writeln!(
            text,
            "{:<16} {:<8} {time:>8.1} s  {}",
            step.name,
            step.outcome,
            step.log.display()
        )
        .ok();
    }
    writeln!(
        text,
        "{:<16} {:<8} {:>8.1} s",
        "all",
        "",
        total.as_secs_f64()
    )
    .ok();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_to_end_test_is_a_step() {
        let steps = steps(&["kubernetes".into(), "size".into()]);
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(
            names,
            ["fmt", "clippy", "unit", "e2e-unit", "size", "kubernetes"]
        );
        assert!(
            steps
                .iter()
                .all(|step| step.quick == (step.name != "kubernetes"))
        );
    }

    #[test]
    fn closing_lines_and_skips_are_found() {
        let log = std::env::temp_dir().join(format!("helenus-ci-{}", std::process::id()));
        fs::write(&log, "a\ntest result: ok. 1 passed\n").unwrap();
        assert!(!show_results(&log).unwrap());
        fs::write(&log, b"\xff\nSKIPPED: no root\nlast\n").unwrap();
        assert!(show_results(&log).unwrap());
        fs::remove_file(&log).unwrap();
    }
}
