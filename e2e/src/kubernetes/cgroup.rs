//! Cgroups of version 1: every box gets its own in each controller, so that its kubelet and containers stay inside.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Where the controllers are mounted.
pub const ROOT: &str = "/sys/fs/cgroup";
/// Our folder in each controller.
pub const OURS: &str = "helenus";
/// The controllers that boxes get.
const CONTROLLERS: &[&str] = &[
    "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd",
];

/// The controllers that this machine has of those that boxes get.
pub fn controllers() -> Vec<&'static str> {
    CONTROLLERS
        .iter()
        .copied()
        .filter(|name| Path::new(ROOT).join(name).is_dir())
        .collect()
}

/// A box's cgroup in one controller.
pub fn path(controller: &str, name: &str) -> PathBuf {
    Path::new(ROOT).join(controller).join(OURS).join(name)
}

/// Makes a box's cgroups anew.
pub fn make(name: &str) -> Result<()> {
    for controller in controllers() {
        let leaf = path(controller, name);
        remove(&leaf)?;
        for folder in [leaf.parent().unwrap_or(&leaf), &leaf] {
            // boxes start side by side: that another made the parent is fine
            fs::create_dir_all(folder)
                .with_context(|| format!("make cgroup {}", folder.display()))?;
            if controller == "cpuset" {
                inherit_cpuset(folder)?;
            }
        }
    }
    Ok(())
}

/// A new cpuset is empty and admits nobody; it gets what its parent has.
fn inherit_cpuset(folder: &Path) -> Result<()> {
    let parent = folder.parent().unwrap_or(folder);
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let value =
            fs::read_to_string(parent.join(file)).with_context(|| format!("read {file}"))?;
        fs::write(folder.join(file), value)
            .with_context(|| format!("write {}/{file}", folder.display()))?;
    }
    Ok(())
}

/// Every process in a box's cgroups.
pub fn processes(name: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for folder in deepest_first(&path("pids", name)) {
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    found
}

/// Ends what is still in a box's cgroups (normally nothing: the end of its process 1 took the rest) and removes them.
pub fn end(name: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        let left = processes(name);
        if left.is_empty() {
            break;
        }
        if start.elapsed() > Duration::from_secs(30) {
            bail!("processes {left:?} of box {name} do not end");
        }
        if start.elapsed() > Duration::from_secs(2) {
            for pid in left {
                // it may have ended by itself in between
                kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    for controller in controllers() {
        remove(&path(controller, name))?;
    }
    Ok(())
}

/// Removes our folder itself from every controller, with everything in it.
pub fn remove_all() -> Result<()> {
    for controller in controllers() {
        remove(&Path::new(ROOT).join(controller).join(OURS))?;
    }
    Ok(())
}

/// Names of the boxes that have cgroups.
pub fn names() -> Vec<String> {
    let Ok(entries) = fs::read_dir(Path::new(ROOT).join("pids").join(OURS)) else {
        return Vec::new();
    };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Removes a cgroup with those below it. The kernel needs a moment after the last process ended.
fn remove(top: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        let mut problem = None;
        for folder in deepest_first(top) {
            match fs::remove_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    problem = Some((folder, error));
                }
                _ => {}
            }
        }
        let Some((folder, error)) = problem else {
            return Ok(());
        };
        if start.elapsed() > Duration::from_secs(10) {
            return Err(error).with_context(|| format!("remove cgroup {}", folder.display()));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn deepest_first(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if !top.is_dir() {
        return found;
    }
    let mut open = vec![top.to_path_buf()];
    while let Some(folder) = open.pop() {
        if let Ok(entries) = fs::read_dir(&folder) {
            open.extend(
                entries
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|path| path.is_dir()),
            );
        }
        found.push(folder);
    }
    found.reverse();
    found
}
