//! One real Apache Cassandra node on a loopback address.

use super::child::{Guarded, Home, Recipe};
use super::{java, logs};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How far a 5.0 node keeps to what older versions understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// What a default 5.0 does: messaging version 12, SSTables `nb`.
    Cassandra4,
    /// On the way to `None`.
    Upgrading,
    /// Messaging version 13, SSTables `oa` (or `da` with `bti`).
    None,
}

/// How to run a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The ring's name.
    pub cluster_name: String,
    /// Data center and rack.
    pub datacenter: String,
    /// Rack.
    pub rack: String,
    /// Seeds; the node's own address when empty.
    pub seeds: Vec<String>,
    /// JVM heap, as `-Xmx` takes it.
    pub heap: String,
    /// Number of tokens.
    pub num_tokens: u32,
    /// Cores it may use, in `taskset` form.
    pub cores: Option<String>,
    /// Storage compatibility mode.
    pub compatibility: Compatibility,
    /// Write trie-indexed SSTables (`da`); needs `Compatibility::None`.
    pub bti: bool,
    /// `PasswordAuthenticator` and `CassandraAuthorizer` instead of their allow-all kin.
    pub authentication: bool,
    /// Further lines of cassandra.yaml; they win over the generated ones.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cluster_name: "helenus e2e".into(),
            datacenter: "DC1".into(),
            rack: "RACK1".into(),
            seeds: Vec::new(),
            heap: "1G".into(),
            num_tokens: 16,
            cores: None,
            compatibility: Compatibility::None,
            bti: true,
            authentication: false,
            settings: Vec::new(),
        }
    }
}

/// A Cassandra node: running, or stopped and ready to run again on the same data. Its data go when this is dropped.
pub struct Cassandra {
    ip: String,
    options: Options,
    jmx_port: u16,
    child: Option<Guarded>,
    home: Home,
}

impl Cassandra {
    /// Start a node with an empty data folder and wait until it answers CQL.
    pub fn start(ip: &str, options: &Options) -> Result<Self> {
        let jmx_port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let home = Home::new("cassandra", ip)?;
        let mut node = Self {
            ip: ip.into(),
            options: options.clone(),
            jmx_port,
            child: None,
            home,
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
        let recipe = Recipe {
            command_line: self.command_line()?.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            directory: self.home.path().into(),
            log: self.log_path(),
            cores: self.options.cores.clone(),
        };
        self.child = Some(Guarded::start(&recipe)?);
        let result = self.wait_for_cql(Duration::from_mins(4));
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

    /// End it (SIGTERM), data kept.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.terminate(Duration::from_mins(1))?;
        }
        Ok(())
    }

    /// End it with SIGKILL, data kept.
    pub fn kill9(&mut self) {
        self.child = None;
    }

    /// Run the real nodetool against it.
    pub fn nodetool(&self, arguments: &[&str]) -> Result<String> {
        let port = self.jmx_port.to_string();
        let mut all = vec!["-p", port.as_str()];
        all.extend(arguments);
        java::run(
            "org.apache.cassandra.tools.NodeTool",
            &self.configuration(),
            &all,
        )
    }

    /// Run an offline tool on the data folder of this node, which must be stopped.
    pub fn offline_tool(&self, name: &str, arguments: &[&str]) -> Result<String> {
        if self.child.is_some() {
            bail!("stop {} before running {name} on its data", self.ip);
        }
        java::run(&java::tool_class(name)?, &self.configuration(), arguments)
    }

    /// Its address.
    pub fn ip(&self) -> &str {
        &self.ip
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Guarded::pid)
    }

    /// The folder of its SSTables: `data/<keyspace>/<table>-<id>/`.
    pub fn data_directory(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Its log.
    pub fn log_path(&self) -> PathBuf {
        self.home.path().join("out.log")
    }

    /// The folders of a table's SSTables (more than one after it was dropped and made again).
    pub fn table_directories(&self, keyspace: &str, table: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.data_directory().join(keyspace))? {
            let path = entry?.path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if name
                .rsplit_once('-')
                .is_some_and(|(front, _)| front == table)
            {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    fn configuration(&self) -> PathBuf {
        self.home.path().join("conf")
    }

    fn wait_for_cql(&mut self, deadline: Duration) -> Result<()> {
        let address: SocketAddr = format!("{}:9042", self.ip)
            .parse()
            .context("the node's address")?;
        let begin = Instant::now();
        while begin.elapsed() < deadline {
            let Some(child) = &mut self.child else {
                bail!("{} is not running", self.ip)
            };
            if let Some(status) = child.ended()? {
                bail!(
                    "Cassandra on {} ended with {status}; see {}",
                    self.ip,
                    self.log_path().display()
                );
            }
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(250));
        }
        bail!(
            "Cassandra on {} has not opened CQL after {deadline:?}; see {}",
            self.ip,
            self.log_path().display()
        )
    }

    fn command_line(&self) -> Result<Vec<String>> {
        let (home, conf, heap) = (
            self.home.path().display(),
            self.configuration(),
            &self.options.heap,
        );
        let conf = conf.display();
        let mut line: Vec<String> = vec![
            "java".into(),
            format!("-Xms{heap}"),
            format!("-Xmx{heap}"),
            "-XX:+UseG1GC".into(),
            "-Xss256k".into(),
        ];
        line.extend(java::options());
        line.extend([
            format!("-Dcassandra.storagedir={home}"),
            format!("-Dcassandra.config=file://{conf}/cassandra.yaml"),
            format!("-Dlogback.configurationFile=file://{conf}/logback.xml"),
            format!("-Dcassandra.jmx.local.port={}", self.jmx_port),
            "-Dcassandra-foreground=yes".into(),
            "-Djdk.attach.allowAttachSelf=true".into(),
            "-Dio.netty.tryReflectionSetAccessible=true".into(),
            "-Dcassandra.ring_delay_ms=5000".into(),
            "-Dcassandra.skip_wait_for_gossip_to_settle=0".into(),
            "-cp".into(),
            format!("{conf}:{}/*", java::jars()?.display()),
            "org.apache.cassandra.service.CassandraDaemon".into(),
        ]);
        Ok(line)
    }

    fn write_configuration(&self) -> Result<()> {
        let home = self.home.path();
        for name in ["conf", "data", "commitlog", "saved_caches", "hints", "cdc"] {
            std::fs::create_dir_all(home.join(name))?;
        }
        let mut yaml = String::new();
        for (key, value) in self.settings() {
            writeln!(yaml, "{key}: {value}")?;
        }
        let conf = self.configuration();
        std::fs::write(conf.join("cassandra.yaml"), yaml)?;
        let Options {
            datacenter, rack, ..
        } = &self.options;
        std::fs::write(
            conf.join("cassandra-rackdc.properties"),
            format!("dc={datacenter}\nrack={rack}\n"),
        )?;
        std::fs::write(
            conf.join("logback.xml"),
            "<configuration><appender name=\"O\" class=\"ch.qos.logback.core.ConsoleAppender\"><encoder><pattern>\
             %-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>\
             <root level=\"INFO\"><appender-ref ref=\"O\"/></root></configuration>",
        )?;
        Ok(())
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let (options, ip, home) = (&self.options, &self.ip, self.home.path().display());
        let seeds = if options.seeds.is_empty() {
            ip.clone()
        } else {
            options.seeds.join(",")
        };
        let (authenticator, authorizer) = if options.authentication {
            ("PasswordAuthenticator", "CassandraAuthorizer")
        } else {
            ("AllowAllAuthenticator", "AllowAllAuthorizer")
        };
        let compatibility = match options.compatibility {
            Compatibility::Cassandra4 => "CASSANDRA_4",
            Compatibility::Upgrading => "UPGRADING",
            Compatibility::None => "NONE",
        };
        let mut settings: BTreeMap<String, String> = [
            ("cluster_name", format!("'{}'", options.cluster_name)),
            ("num_tokens", options.num_tokens.to_string()),
            (
                "partitioner",
                "org.apache.cassandra.dht.Murmur3Partitioner".into(),
            ),
            ("authenticator", authenticator.into()),
            ("authorizer", authorizer.into()),
            ("role_manager", "CassandraRoleManager".into()),
            ("data_file_directories", format!("[{home}/data]")),
            ("commitlog_directory", format!("{home}/commitlog")),
            ("saved_caches_directory", format!("{home}/saved_caches")),
            ("hints_directory", format!("{home}/hints")),
            ("cdc_raw_directory", format!("{home}/cdc")),
            ("commitlog_sync", "periodic".into()),
            ("commitlog_sync_period", "10000ms".into()),
            ("listen_address", ip.clone()),
            ("rpc_address", ip.clone()),
            ("seed_provider", seed_provider(&seeds)),
            ("endpoint_snitch", "GossipingPropertyFileSnitch".into()),
            ("storage_compatibility_mode", compatibility.into()),
            ("user_defined_functions_enabled", "true".into()),
            ("materialized_views_enabled", "true".into()),
            ("sasi_indexes_enabled", "true".into()),
            ("drop_compact_storage_enabled", "true".into()),
            ("dynamic_data_masking_enabled", "true".into()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        if options.bti && options.compatibility == Compatibility::None {
            settings.insert("sstable".into(), "{selected_format: bti}".into());
        }
        settings.extend(options.settings.iter().cloned());
        settings
    }
}

/// The line of cassandra.yaml that names seeds.
pub(super) fn seed_provider(seeds: &str) -> String {
    format!(
        "[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: \"{seeds}\"}}]}}]"
    )
}
