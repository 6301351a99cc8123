//! A child process that ends with us.
//!
//! The parent-death signal is set by util-linux's `setpriv`, because setting it from Rust needs unsafe code between fork
//! and exec. That signal follows the *thread* that forked, so all children are started by one thread that never ends.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

type Job = (Command, Sender<std::io::Result<Child>>);

/// What to start.
pub struct Recipe {
    /// The program and its arguments.
    pub command_line: Vec<OsString>,
    /// Variables added to our own environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Both outputs are appended here.
    pub log: PathBuf,
    /// Cores it may use, in `taskset` form.
    pub cores: Option<String>,
}

/// A running process that is killed when this is dropped.
pub struct Guarded {
    child: Child,
}

impl Guarded {
    /// Start it.
    pub fn start(recipe: &Recipe) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(cores) = &recipe.cores {
            command.args(["taskset", "-c", cores]);
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&recipe.log)
            .context("open the log of a child process")?;
        command
            .args(&recipe.command_line)
            .envs(recipe.environment.iter().map(|(key, value)| (key, value)))
            .current_dir(&recipe.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let (answer, answered) = channel();
        spawner()
            .send((command, answer))
            .context("hand a command to the spawning thread")?;
        let child = answered.recv()?.with_context(|| {
            format!(
                "start {:?} (util-linux's setpriv is needed)",
                recipe.command_line.first()
            )
        })?;
        Ok(Self { child })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status when it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ask it to end (SIGTERM) and wait; an error when it is still there at the deadline.
    pub fn terminate(&mut self, deadline: Duration) -> Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        kill(Pid::from_raw(i32::try_from(self.pid())?), Signal::SIGTERM)?;
        let begin = Instant::now();
        while begin.elapsed() < deadline {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!(
            "process {} is still there {deadline:?} after SIGTERM",
            self.pid()
        )
    }

    /// End it with SIGKILL.
    pub fn kill(&mut self) {
        // both fail only when it has ended already
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The thread that forks all children.
fn spawner() -> Sender<Job> {
    static SPAWNER: OnceLock<Sender<Job>> = OnceLock::new();
    SPAWNER
        .get_or_init(|| {
            let (sender, jobs) = channel::<Job>();
            std::thread::spawn(move || {
                for (mut command, answer) in jobs {
                    // nobody waits for the answer only when the test thread has panicked
                    answer.send(command.spawn()).ok();
                }
            });
            sender
        })
        .clone()
}

/// Run a command to its end and return what it printed; an error holds both outputs.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if !done.status.success() {
        bail!(
            "{} ended with {}\n{text}{}",
            command.get_program().display(),
            done.status,
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(text)
}

/// A folder for one node: below the temporary folder, removed when dropped unless `HELENUS_E2E_KEEP` is set.
pub struct Home {
    path: PathBuf,
}

impl Home {
    /// Make it, empty.
    pub fn new(kind: &str, ip: &str) -> Result<Self> {
        let path =
            std::env::temp_dir().join(format!("helenus-e2e-{kind}-{ip}-{}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::env::var_os("HELENUS_E2E_KEEP").is_some() {
            eprintln!("kept {}", self.path.display());
        } else {
            std::fs::remove_dir_all(&self.path).ok();
        }
    }
}

/// The folder for everything downloaded or built once: `~/.cache/helenus`, or `HELENUS_CACHE`.
pub fn cache() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HELENUS_CACHE") {
        return Ok(path.into());
    }
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    Ok(PathBuf::from(home).join(".cache/helenus"))
}
