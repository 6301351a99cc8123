//! Process 1 of a box: prepares the mounts, then runs services and starts them again whenever they end.
//!
//! Requests are lines of JSON on a Unix socket. Logs go to one file per service.

use super::cgroup;
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, sethostname};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A service that ended starts again after this long.
const PAUSE_BEFORE_RESTART: Duration = Duration::from_secs(1);
/// A service that does not end when asked is killed after this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kernel settings on which the kubelet insists. It is shown files, so that the machine's own settings stay.
const SHOWN_SETTINGS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// What a box is made from.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Host name inside.
    pub hostname: String,
    /// Where requests are taken.
    pub socket: PathBuf,
    /// Folder of the services' logs.
    pub logs: PathBuf,
    /// Folders bound over others: from, to.
    pub binds: Vec<(PathBuf, PathBuf)>,
}

/// What can be asked of a box.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Run a service unless it runs; a new command holds from its next start.
    Start {
        /// Name, also of the log.
        name: String,
        /// Program and arguments.
        command: Vec<String>,
    },
    /// End a service and keep it ended.
    Stop {
        /// Its name.
        name: String,
    },
    /// Only tell.
    Status,
}

/// State of one service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    /// Process number inside the box, while it runs.
    pub pid: Option<i32>,
    /// How often it was started.
    pub starts: u32,
}

/// The state of all services.
pub type Answer = BTreeMap<String, Told>;

/// Runs as process 1 of a box; never returns unless preparing fails.
pub fn run(spec: &Path) -> Result<()> {
    ensure!(
        std::process::id() == 1,
        "box-init is only for process 1 of a box; use `cargo xtask up`"
    );
    let text = fs::read_to_string(spec).with_context(|| format!("read {}", spec.display()))?;
    let spec: Spec = serde_json::from_str(&text).context("understand the box's description")?;
    prepare(&spec)?;
    let listener = UnixListener::bind(&spec.socket).context("open the box's socket")?;
    let supervisor = Supervisor {
        logs: spec.logs,
        services: Mutex::default(),
    };
    thread::scope(|scope| {
        scope.spawn(|| supervisor.bury());
        scope.spawn(|| supervisor.revive());
        for stream in listener.incoming().flatten() {
            if let Err(error) = supervisor.serve(stream) {
                eprintln!("request: {error:#}");
            }
        }
    });
    Ok(())
}

/// Gives the box its own view of processes, devices and cgroups, and its private folders.
fn prepare(spec: &Spec) -> Result<()> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // asked before the mounts below hide them
    let hierarchies = hierarchies()?;
    let controllers = cgroup::controllers();
    attach("proc", "/proc", "proc", safe, None)?;
    attach("sysfs", "/sys", "sysfs", safe, None)?;
    attach("tmpfs", cgroup::ROOT, "tmpfs", safe, Some("mode=755"))?;
    for controller in controllers {
        let folder = Path::new(cgroup::ROOT).join(controller);
        fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        let options = mount_options(&hierarchies, controller);
        attach(
            "cgroup",
            &folder.to_string_lossy(),
            "cgroup",
            safe,
            Some(&options),
        )?;
    }
    attach(
        "tmpfs",
        "/run",
        "tmpfs",
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=755"),
    )?;
    for folder in ["/run/lock", "/run/settings"] {
        fs::create_dir(folder).with_context(|| format!("make {folder}"))?;
    }
    for (from, to) in &spec.binds {
        bind(from, to)?;
    }
    for (name, value) in SHOWN_SETTINGS {
        let (real, shown) = (
            Path::new("/proc/sys").join(name),
            Path::new("/run/settings").join(name.replace('/', ".")),
        );
        fs::write(&shown, format!("{value}\n"))
            .with_context(|| format!("write {}", shown.display()))?;
        if real.exists() {
            bind(&shown, &real)?;
        }
    }
    // volumes that are mounted from within a container must show outside of it
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_SHARED,
        None::<&str>,
    )
    .context("share the mounts of the box with its containers")?;
    sethostname(&spec.hostname).context("set the host name")
}

fn attach(
    source: &str,
    target: &str,
    kind: &str,
    flags: MsFlags,
    options: Option<&str>,
) -> Result<()> {
    mount(Some(source), target, Some(kind), flags, options)
        .with_context(|| format!("mount {source} on {target}"))
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("bind {} over {}", from.display(), to.display()))
}

/// The cgroup hierarchies of this machine, each as its list of controllers: `["cpu,cpuacct", "pids", "name=systemd"]`.
fn hierarchies() -> Result<Vec<String>> {
    let text = fs::read_to_string("/proc/self/cgroup").context("read the own cgroups")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split(':').nth(1))
        .map(String::from)
        .collect())
}

/// Controllers that share a hierarchy can only be mounted together.
fn mount_options(hierarchies: &[String], controller: &str) -> String {
    if controller == "systemd" {
        return "none,name=systemd".to_owned();
    }
    let shared = hierarchies
        .iter()
        .find(|list| list.split(',').any(|name| name == controller));
    shared.map_or_else(|| controller.to_owned(), Clone::clone)
}

#[derive(Debug, Default)]
struct Service {
    command: Vec<String>,
    pid: Option<i32>,
    wanted: bool,
    starts: u32,
    again: Option<Instant>,
}

struct Supervisor {
    logs: PathBuf,
    services: Mutex<BTreeMap<String, Service>>,
}

impl Supervisor {
    fn services(&self) -> MutexGuard<'_, BTreeMap<String, Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buries every child: services and orphans of the box alike.
    fn bury(&self) {
        loop {
            let (pid, how) = match waitpid(None::<Pid>, None) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, format!("status {code}")),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, signal.to_string()),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => {
                    // no child at all
                    thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            let mut services = self.services();
            let ended = services
                .iter_mut()
                .find(|(_, service)| service.pid == Some(pid.as_raw()));
            if let Some((name, service)) = ended {
                service.pid = None;
                if service.wanted {
                    eprintln!("{name} ended: {how}; starting it again");
                    service.again = Some(Instant::now() + PAUSE_BEFORE_RESTART);
                }
            }
        }
    }

    /// Starts again what ended.
    fn revive(&self) {
        loop {
            thread::sleep(Duration::from_millis(200));
            let mut services = self.services();
            for (name, service) in services.iter_mut() {
                if service.again.is_some_and(|when| when <= Instant::now()) {
                    self.launch(name, service);
                }
            }
        }
    }

    /// Starts a service. The caller holds the lock, so that its end cannot be noticed before its number is known.
    fn launch(&self, name: &str, service: &mut Service) {
        service.again = None;
        let started = || -> Result<i32> {
            let (program, arguments) = service.command.split_first().context("no command")?;
            let log = File::options()
                .create(true)
                .append(true)
                .open(self.logs.join(format!("{name}.log")));
            let log = log.context("open the log")?;
            let mut command = Command::new(program);
            command
                .args(arguments)
                .process_group(0)
                .stdin(Stdio::null());
            command
                .stdout(log.try_clone().context("share the log")?)
                .stderr(log);
            let child = command
                .spawn()
                .with_context(|| format!("start {program}"))?;
            i32::try_from(child.id()).context("process number")
        };
        match started() {
            Ok(pid) => {
                service.pid = Some(pid);
                service.starts += 1;
            }
            Err(error) => {
                eprintln!("{name}: {error:#}");
                service.again = Some(Instant::now() + PAUSE_BEFORE_RESTART);
            }
        }
    }

    fn serve(&self, mut stream: UnixStream) -> Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let answer = serde_json::from_str(&line)
            .context("understand the request")
            .and_then(|ask| self.handle(ask));
        let answer = answer.map_err(|error| format!("{error:#}"));
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        stream.write_all(text.as_bytes()).context("answer")
    }

    fn handle(&self, request: Request) -> Result<Answer> {
        match request {
            Request::Start { name, command } => {
                let mut services = self.services();
                let service = services.entry(name.clone()).or_default();
                service.command = command;
                service.wanted = true;
                if service.pid.is_none() {
                    self.launch(&name, service);
                }
            }
            Request::Stop { name } => self.stop(&name)?,
            Request::Status => {}
        }
        let told = |service: &Service| Told {
            pid: service.pid,
            starts: service.starts,
        };
        Ok(self
            .services()
            .iter()
            .map(|(name, service)| (name.clone(), told(service)))
            .collect())
    }

    fn stop(&self, name: &str) -> Result<()> {
        let asked = Instant::now();
        let mut signal = Signal::SIGTERM;
        loop {
            let pid = {
                let mut services = self.services();
                let service = services
                    .get_mut(name)
                    .with_context(|| format!("no service {name}"))?;
                service.wanted = false;
                service.again = None;
                service.pid
            };
            let Some(pid) = pid else { return Ok(()) };
            if asked.elapsed() > PATIENCE {
                signal = Signal::SIGKILL;
            }
            // it may end by itself in between
            kill(Pid::from_raw(pid), signal).ok();
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_that_share_a_hierarchy_are_mounted_together() {
        let machine = ["name=systemd", "cpu,cpuacct", "pids"].map(String::from);
        assert_eq!(mount_options(&machine, "cpuacct"), "cpu,cpuacct");
        assert_eq!(mount_options(&machine, "pids"), "pids");
        assert_eq!(mount_options(&machine, "systemd"), "none,name=systemd");
    }
}
