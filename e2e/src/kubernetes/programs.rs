//! The programs of the local Kubernetes: built once from Go modules into the cache folder, and found there.

use super::machine;
use crate::progress::say;
use crate::{paths, process};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Version of Kubernetes, as go.mod has it. Later ones refuse cgroups of version 1.
const VERSION: &str = "v1.34.4";
/// Names under which the one executable `box` is started.
const NAMES: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
    "csi",
];
/// The oldest Go that can read our go.mod files; a newer toolchain is fetched by Go itself.
const GO_MISSING: &str = "Go is needed once, to build Kubernetes: install Go 1.24 or later from https://go.dev/dl \
    (or `apt-get install golang-go` where it is new enough) and run this again, or use --context NAME";

/// Folder of everything about the local Kubernetes.
pub fn home() -> Result<PathBuf> {
    Ok(paths::cache()?.join("kubernetes"))
}

/// Path of one program.
pub fn program(name: &str) -> Result<PathBuf> {
    Ok(home()?.join("bin").join(name))
}

/// Builds all programs unless they are there and made from the same sources.
pub fn ensure_built() -> Result<()> {
    let folder = home()?.join("bin");
    let sources = paths::workspace().join("e2e/kubernetes");
    let fingerprint = fingerprint(&sources)?;
    let mark = folder.join("built-from");
    if fs::read_to_string(&mark).is_ok_and(|old| old == fingerprint) {
        return Ok(());
    }
    let go = find_go()?;
    fs::create_dir_all(&folder).with_context(|| format!("make folder {}", folder.display()))?;
    say(&format!(
        "building Kubernetes {VERSION}, Helm and CoreDNS once into {}",
        folder.display()
    ));
    say("with empty Go caches that takes 7 to 11 minutes on 2 cores and 7 GB of disk");
    let stamp = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {stamp}.gitVersion={VERSION} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor=34"
    );
    let packages = [".", "./pause", "helm.sh/helm/v3/cmd/helm"];
    go_build(&go, &sources.join("box"), &flags, &folder, &packages)?;
    go_build(&go, &sources.join("dns"), "-s -w", &folder, &["."])?;
    for name in NAMES {
        let link = folder.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("replace {}", link.display()));
            }
            _ => symlink("box", &link).with_context(|| format!("link {}", link.display()))?,
        }
    }
    fs::write(&mark, fingerprint).with_context(|| format!("write {}", mark.display()))
}

/// A digest of all Go sources, so that a change of them builds anew.
fn fingerprint(folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(fs::read(&file).with_context(|| format!("read {}", file.display()))?);
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

fn find_go() -> Result<PathBuf> {
    for candidate in ["go", "/usr/local/go/bin/go"] {
        if process::succeeds(candidate, ["version"]) {
            return Ok(PathBuf::from(candidate));
        }
    }
    if machine::install(&["golang-go"]).is_ok() && process::succeeds("go", ["version"]) {
        return Ok(PathBuf::from("go"));
    }
    bail!(GO_MISSING)
}

fn go_build(
    go: &Path,
    sources: &Path,
    flags: &str,
    output: &Path,
    packages: &[&str],
) -> Result<()> {
    let log = output.with_file_name("go-build.log");
    let file = fs::File::create(&log).with_context(|| format!("write {}", log.display()))?;
    let mut command = Command::new(go);
    // always the same flags, else everything compiles again
    command
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-trimpath -buildvcs=false");
    command
        .arg("build")
        .arg("-v")
        .arg("-ldflags")
        .arg(flags)
        .arg("-o")
        .arg(format!("{}/", output.display()));
    command
        .args(packages)
        .current_dir(sources)
        .stdin(Stdio::null());
    command
        .stdout(file.try_clone().context("share the log")?)
        .stderr(file);
    let child = command
        .spawn()
        .with_context(|| format!("start {}", process::line_of(&command)))?;
    let status = watch(child, &log)?;
    if !status {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        bail!(
            "go build in {} failed:\n{}\nwhole log: {}",
            sources.display(),
            lines[lines.len().saturating_sub(20)..].join("\n"),
            log.display()
        );
    }
    Ok(())
}

/// Waits for a Go build; every 15 seconds says how far it is.
fn watch(mut child: Child, log: &Path) -> Result<bool> {
    let start = Instant::now();
    let mut told = start;
    loop {
        if let Some(status) = child.try_wait().context("wait for go build")? {
            say(&format!(
                "go build: ended after {:.0} s",
                start.elapsed().as_secs_f64()
            ));
            return Ok(status.success());
        }
        if told.elapsed() > Duration::from_secs(15) {
            told = Instant::now();
            let text = fs::read_to_string(log).unwrap_or_default();
            let fetched = text
                .lines()
                .filter(|line| line.starts_with("go: downloading"))
                .count();
            let compiled = text.lines().count() - fetched;
            say(&format!(
                "go build: {:.0} s, {fetched} modules fetched, {compiled} packages compiled (about 1,900 in all), now {}",
                start.elapsed().as_secs_f64(),
                text.lines().last().unwrap_or("starting")
            ));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
