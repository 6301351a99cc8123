//! One node of ours on a loopback address, run as a user runs it: the binary with a `cassandra.yaml`.

use super::cassandra::seed_provider;
use super::child::{Guarded, Home, Recipe};
use super::logs;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A graceful stop may take this long (drain, then exit).
pub const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// How to run a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The ring's name.
    pub cluster_name: String,
    /// Data center, for `GossipingPropertyFileSnitch`.
    pub datacenter: String,
    /// Rack.
    pub rack: String,
    /// Seeds; the node's own address when empty.
    pub seeds: Vec<String>,
    /// Number of tokens.
    pub num_tokens: u32,
    /// Cores it may use, in `taskset` form.
    pub cores: Option<String>,
    /// Further lines of cassandra.yaml; they win over the generated ones.
    pub settings: Vec<(String, String)>,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
    /// How long to wait for `/health/ready`.
    pub ready_deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cluster_name: "helenus e2e".into(),
            datacenter: "DC1".into(),
            rack: "RACK1".into(),
            seeds: Vec::new(),
            num_tokens: 16,
            cores: None,
            settings: Vec::new(),
            environment: Vec::new(),
            ready_deadline: Duration::from_secs(30),
        }
    }
}

/// A Helenus node: running, or stopped and ready to run again on the same data. Its data go when this is dropped.
pub struct Helenus {
    ip: String,
    options: Options,
    child: Option<Guarded>,
    home: Home,
}

impl Helenus {
    /// Start a node with an empty data folder and wait until it is ready.
    pub fn start(ip: &str, options: &Options) -> Result<Self> {
        let mut node = Self {
            ip: ip.into(),
            options: options.clone(),
            child: None,
            home: Home::new("helenus", ip)?,
        };
        node.write_configuration()?;
        node.run()?;
        Ok(node)
    }

    /// Run it again on the data it has.
    pub fn run(&mut self) -> Result<()> {
        if self.child.is_some() {
            bail!("{} is already running", self.ip);
        }
        let config = self.home.path().join("conf/cassandra.yaml");
        let mut environment = vec![
            (
                "HELENUS_HTTP_ADDRESS".to_owned(),
                format!("{}:9180", self.ip),
            ),
            ("NO_COLOR".into(), "1".into()),
        ];
        environment.extend(self.options.environment.iter().cloned());
        let recipe = Recipe {
            command_line: vec![
                binary()?.into(),
                "node".into(),
                "--config".into(),
                config.into(),
            ],
            environment,
            directory: self.home.path().into(),
            log: self.log_path(),
            cores: self.options.cores.clone(),
        };
        self.child = Some(Guarded::start(&recipe)?);
        let result = self.wait_until_ready();
        if result.is_err() {
            eprintln!(
                "--- the last lines of {}\n{}",
                self.log_path().display(),
                logs::tail(&self.log_path(), 40)
            );
            self.child = None;
        }
        result
    }

    /// End it with SIGTERM; it has [`STOP_DEADLINE`] and must end well. Data kept.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            let status = child.terminate(STOP_DEADLINE)?;
            if !status.success() {
                bail!(
                    "helenus on {} ended with {status} after SIGTERM\n{}",
                    self.ip,
                    logs::tail(&self.log_path(), 20)
                );
            }
        }
        Ok(())
    }

    /// End it with SIGKILL. Data kept.
    pub fn kill9(&mut self) {
        self.child = None;
    }

    /// Stop it well and run it again.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.run()
    }

    /// Give it another address and other options for its next run. Data kept.
    pub fn reconfigure(&mut self, ip: &str, options: &Options) -> Result<()> {
        if self.child.is_some() {
            bail!("{} is running", self.ip);
        }
        ip.clone_into(&mut self.ip);
        self.options = options.clone();
        self.write_configuration()
    }

    /// Fail when its log holds a WARN or ERROR line in which none of these texts occurs. Call it at the end of a test.
    pub fn check_log(&self, allowed: &[&str]) -> Result<()> {
        logs::check(&self.log_path(), allowed)
    }

    /// Run `helenus nodetool …` against it.
    pub fn nodetool(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(binary()?);
        command
            .arg("nodetool")
            .arg("--socket")
            .arg(self.admin_socket())
            .args(arguments);
        super::child::output(&mut command)
    }

    /// Its address.
    pub fn ip(&self) -> &str {
        &self.ip
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Guarded::pid)
    }

    /// The folder of its SSTables.
    pub fn data_directory(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The local socket of its admin API.
    pub fn admin_socket(&self) -> PathBuf {
        self.home.path().join("admin.sock")
    }

    /// Its log.
    pub fn log_path(&self) -> PathBuf {
        self.home.path().join("out.log")
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let (begin, deadline) = (Instant::now(), self.options.ready_deadline);
        let mut last = String::from("no answer yet");
        while begin.elapsed() < deadline {
            let Some(child) = &mut self.child else {
                bail!("{} is not running", self.ip)
            };
            if let Some(status) = child.ended()? {
                bail!(
                    "helenus on {} ended with {status} before it was ready; see {}",
                    self.ip,
                    self.log_path().display()
                );
            }
            match http_get(&format!("{}:9180", self.ip), "/health/ready") {
                Ok((200, _)) => return Ok(()),
                Ok((code, text)) => last = format!("{code} {text}"),
                Err(error) => last = format!("{error:#}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!(
            "helenus on {} is not ready after {deadline:?}: {last}; see {}",
            self.ip,
            self.log_path().display()
        )
    }

    fn write_configuration(&self) -> Result<()> {
        let (home, ip, options) = (self.home.path(), &self.ip, &self.options);
        std::fs::create_dir_all(home.join("conf"))?;
        let seeds = if options.seeds.is_empty() {
            ip.clone()
        } else {
            options.seeds.join(",")
        };
        let root = home.display();
        let mut lines = vec![
            (
                "cluster_name".to_owned(),
                format!("'{}'", options.cluster_name),
            ),
            ("listen_address".into(), ip.clone()),
            ("rpc_address".into(), ip.clone()),
            ("storage_port".into(), "7000".into()),
            ("native_transport_port".into(), "9042".into()),
            ("data_file_directories".into(), format!("[{root}/data]")),
            ("commitlog_directory".into(), format!("{root}/commitlog")),
            ("hints_directory".into(), format!("{root}/hints")),
            (
                "saved_caches_directory".into(),
                format!("{root}/saved_caches"),
            ),
            ("seed_provider".into(), seed_provider(&seeds)),
            ("num_tokens".into(), options.num_tokens.to_string()),
            (
                "endpoint_snitch".into(),
                "GossipingPropertyFileSnitch".into(),
            ),
        ];
        for (key, value) in &options.settings {
            lines.retain(|(name, _)| name != key);
            lines.push((key.clone(), value.clone()));
        }
        let mut yaml = String::new();
        for (key, value) in lines {
            writeln!(yaml, "{key}: {value}")?;
        }
        std::fs::write(home.join("conf/cassandra.yaml"), yaml)?;
        let rackdc = format!("dc={}\nrack={}\n", options.datacenter, options.rack);
        std::fs::write(home.join("conf/cassandra-rackdc.properties"), rackdc)?;
        Ok(())
    }
}

/// The node's binary: `HELENUS_BIN`, or what `cargo build -p helenus` makes.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = std::env::var_os("HELENUS_BIN") {
        return Ok(path.into());
    }
    BUILT
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "-p",
            "helenus",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo build -p helenus")?;
    if !done.status.success() {
        bail!("cargo build -p helenus ended with {}", done.status);
    }
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).context("read cargo's messages")?;
        if let (Some("helenus"), Some(path)) = (
            message["target"]["name"].as_str(),
            message["executable"].as_str(),
        ) {
            return Ok(path.into());
        }
    }
    bail!("cargo build -p helenus made no binary called helenus")
}

/// One HTTP GET without keep-alive: status and body.
pub fn http_get(address: &str, path: &str) -> Result<(u16, String)> {
    let address: SocketAddr = address.parse().context("an address of the form ip:port")?;
    let mut stream =
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).context("connect")?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("read the answer")?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .context("no end of the HTTP header")?;
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .context("no HTTP status")?;
    Ok((status, body.to_owned()))
}
