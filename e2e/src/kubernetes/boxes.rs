//! Boxes: private sets of namespaces, each with [`super::box_init`] as its process 1.
//!
//! B1: the end of a box's process 1 ends every process in the box and every mount made in it. Killing it is both the
//! power failure of a node and the whole of taking it down.

use super::box_init::{Answer, Request, Spec};
use super::{cgroup, state};
use crate::{paths, process, progress};
use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// One box of a region, running or not.
pub struct Box {
    /// Folder of the region.
    region: PathBuf,
    /// Name within the region: `cp`, or a node's short name.
    name: String,
    /// Name of its cgroups: `us-east.a`.
    cgroup: String,
}

/// How a box is started.
pub struct Start<'a> {
    /// Network namespace, which exists.
    pub namespace: &'a str,
    /// Host name inside.
    pub hostname: &'a str,
    /// Folders of the machine that the box has to itself.
    pub private: &'a [&'a str],
}

impl Box {
    /// A box of the region in a folder.
    pub fn new(region: &Path, name: &str) -> Self {
        let region_name = region.file_name().unwrap_or_default().to_string_lossy();
        Self {
            region: region.to_path_buf(),
            name: name.to_owned(),
            cgroup: format!("{region_name}.{name}"),
        }
    }

    fn run_file(&self, kind: &str) -> PathBuf {
        self.region
            .join("run")
            .join(format!("{}.{kind}", self.name))
    }

    /// Folder of the box's logs.
    pub fn logs(&self) -> PathBuf {
        self.region.join("logs").join(&self.name)
    }

    /// Where a folder that the box has to itself really lies.
    pub fn private(&self, folder: &str) -> PathBuf {
        self.region
            .join("nodes")
            .join(&self.name)
            .join(folder.trim_start_matches('/'))
    }

    /// The box's process 1 as the machine numbers it; `None` when the box is not running.
    pub fn pid(&self) -> Option<i32> {
        let text = fs::read_to_string(self.run_file("pid")).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        // a number that another process got since has another start time
        (start_time(pid)? == started)
            .then(|| pid.parse().ok())
            .flatten()
    }

    /// Starts the box unless it runs; says whether it did.
    pub fn start(&self, how: &Start) -> Result<bool> {
        if self.pid().is_some() {
            return Ok(false);
        }
        cgroup::make(&self.cgroup)?;
        let mut binds = Vec::new();
        for folder in how.private {
            let real = self.private(folder);
            fs::create_dir_all(&real).with_context(|| format!("make folder {}", real.display()))?;
            binds.push((real, PathBuf::from(folder)));
        }
        let socket = self.run_file("sock");
        if socket.exists() {
            fs::remove_file(&socket).context("remove the socket of the last run")?;
        }
        fs::create_dir_all(self.logs()).context("make the log folder")?;
        let spec = Spec {
            hostname: how.hostname.to_owned(),
            socket,
            logs: self.logs(),
            binds,
        };
        let spec_file = self.run_file("json");
        paths::write_if_changed(&spec_file, &serde_json::to_string(&spec)?)?;
        self.launch(how, &spec, &spec_file)?;
        Ok(true)
    }

    fn launch(&self, how: &Start, spec: &Spec, spec_file: &Path) -> Result<()> {
        let join: Vec<String> = cgroup::controllers()
            .iter()
            .map(|controller| {
                format!(
                    "echo $$ > {}/cgroup.procs",
                    cgroup::path(controller, &self.cgroup).display()
                )
            })
            .collect();
        // `ip netns exec` would remount /sys and hide the cgroups
        let script = format!(
            "{}; exec nsenter --net=/run/netns/{} unshare --mount --pid --uts --ipc --cgroup --fork --kill-child \"$@\"",
            join.join("; "),
            how.namespace
        );
        let log_file = self.logs().join("box.log");
        let log =
            fs::File::create(&log_file).with_context(|| format!("write {}", log_file.display()))?;
        let mut command = Command::new("setsid");
        command
            .args(["sh", "-ec", &script, "sh"])
            .arg(paths::xtask()?)
            .arg("box-init")
            .arg(spec_file);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share the log")?)
            .stderr(log);
        let mut child = command.spawn().context("start a box")?;
        let outer = child.id();
        // buries it when it ends; nobody waits for this thread
        std::thread::spawn(move || child.wait());
        let children = format!("/proc/{outer}/task/{outer}/children");
        progress::wait_until(
            &format!("box {}", self.cgroup),
            Duration::from_secs(30),
            || {
                if !Path::new(&children).exists() {
                    return Ok(false);
                }
                let text = fs::read_to_string(&children).unwrap_or_default();
                let Some(pid) = text.split_whitespace().next() else {
                    return Ok(false);
                };
                if !spec.socket.exists() {
                    return Ok(false);
                }
                let started = start_time(pid).ok_or_else(|| anyhow!("process {pid} ended"))?;
                fs::write(self.run_file("pid"), format!("{pid} {started}\n"))
                    .context("write down the process number")?;
                Ok(true)
            },
        )
        .map_err(|error| {
            anyhow!(
                "{error:#}\n{}",
                fs::read_to_string(&log_file).unwrap_or_default()
            )
        })
    }

    /// Power failure: everything in the box ends at once.
    pub fn kill(&self) -> Result<()> {
        self.signal();
        self.wait_for_end()
    }

    /// The first half of [`Box::kill`], for ending many boxes side by side.
    pub fn signal(&self) {
        if let Some(pid) = self.pid() {
            // it may end by itself in between
            kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
        }
    }

    /// The second half of [`Box::kill`].
    pub fn wait_for_end(&self) -> Result<()> {
        cgroup::end(&self.cgroup)
    }

    /// Runs a service in the box, and again whenever it ends.
    pub fn service<S: Into<String>>(
        &self,
        name: &str,
        command: impl IntoIterator<Item = S>,
    ) -> Result<()> {
        let command: Vec<String> = command.into_iter().map(Into::into).collect();
        self.ask(&Request::Start {
            name: name.to_owned(),
            command,
        })
        .map(|_| ())
    }

    /// Talks to the box's process 1.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        let socket = self.run_file("sock");
        let about = || format!("talk to box {}", self.cgroup);
        let mut stream = UnixStream::connect(&socket).with_context(about)?;
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .with_context(about)?;
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).with_context(about)?;
        let mut answer = String::new();
        BufReader::new(stream)
            .read_line(&mut answer)
            .with_context(about)?;
        let answer: Result<Answer, String> = serde_json::from_str(&answer).with_context(about)?;
        answer.map_err(|error| anyhow!("box {}: {error}", self.cgroup))
    }

    /// A command that will run inside the box.
    pub fn command<I, S>(&self, program: &str, arguments: I) -> Result<Command>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        let Some(pid) = self.pid() else {
            bail!("box {} is not running", self.cgroup)
        };
        let mut command = Command::new("nsenter");
        command
            .args([
                "-t",
                &pid.to_string(),
                "-m",
                "-n",
                "-p",
                "-u",
                "-i",
                "-C",
                program,
            ])
            .args(arguments);
        Ok(command)
    }

    /// Runs a program inside the box.
    pub fn run<I, S>(&self, program: &str, arguments: I) -> Result<String>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<std::ffi::OsStr>,
    {
        process::finish(self.command(program, arguments)?, None)
    }

    /// Makes the mount points that a box needs on the machine. Not for many threads at once.
    pub fn make_mount_points(folders: &[&str]) -> Result<()> {
        folders
            .iter()
            .try_for_each(|folder| state::make_folder(Path::new(folder)))
    }
}

/// When a process started, in clock ticks since boot: with its number it names a process for good.
fn start_time(pid: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19).map(String::from)
}
