//! The node's settings: a `cassandra.yaml` with the names and units of Cassandra 5.0, then
//! `HELENUS_*` environment variables, then `--set key=value`; the later wins.
//!
//! Names that Cassandra knows and this node has no use for are accepted and listed in the log;
//! names that nobody knows are refused, since they are typing errors.

mod names;
mod units;

pub(crate) use units::{parse_bytes, parse_duration};

use anyhow::{Context, Result, anyhow, bail};
use serde_yaml_ng::{Mapping, Value};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// Names of ours that Cassandra does not have.
const OWN_NAMES: &[&str] = &[
    "admin_socket",
    "data_center",
    "http_address",
    "http_port",
    "memory_budget",
    "node_name",
    "rack",
    "replace_host_id",
    "ring_delay",
    "seed_url",
    "shards",
];

/// Names with an effect in this node; the rest of Cassandra's names are accepted without one.
const USED_NAMES: &[&str] = &[
    "auto_bootstrap",
    "broadcast_address",
    "broadcast_rpc_address",
    "cluster_name",
    "commitlog_directory",
    "commitlog_segment_size",
    "commitlog_sync",
    "commitlog_sync_group_window",
    "commitlog_sync_period",
    "commitlog_total_space",
    "data_file_directories",
    "endpoint_snitch",
    "hinted_handoff_enabled",
    "hints_directory",
    "initial_token",
    "listen_address",
    "max_hint_window",
    "native_transport_port",
    "num_tokens",
    "partitioner",
    "phi_convict_threshold",
    "range_request_timeout",
    "read_request_timeout",
    "request_timeout",
    "rpc_address",
    "saved_caches_directory",
    "seed_provider",
    "storage_port",
    "tombstone_failure_threshold",
    "tombstone_warn_threshold",
    "write_request_timeout",
];

/// How the commit log is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitLogMode {
    /// Acknowledge once written; sync every period.
    Periodic(Duration),
    /// Sync before each acknowledgement.
    Batch,
    /// Sync at most every window, acknowledge then.
    Group(Duration),
}

/// Where a node learns its seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeedSource {
    /// Addresses in the settings; the node whose own address is among them may found the ring.
    Static(Vec<SocketAddr>),
    /// An HTTP service that answers `{"isSeed": bool, "seeds": [...]}`.
    Http(String),
}

/// Everything that the node is told.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) cluster_name: String,
    pub(crate) node_name: String,
    pub(crate) num_tokens: usize,
    pub(crate) initial_tokens: Vec<i64>,
    pub(crate) data_center: String,
    pub(crate) rack: String,
    pub(crate) data_directories: Vec<PathBuf>,
    pub(crate) commitlog_directory: PathBuf,
    pub(crate) hints_directory: PathBuf,
    pub(crate) listen_address: IpAddr,
    pub(crate) broadcast_address: IpAddr,
    pub(crate) rpc_address: IpAddr,
    pub(crate) broadcast_rpc_address: IpAddr,
    pub(crate) storage_port: u16,
    pub(crate) native_transport_port: u16,
    pub(crate) http_address: SocketAddr,
    pub(crate) admin_socket: PathBuf,
    pub(crate) seeds: SeedSource,
    pub(crate) auto_bootstrap: bool,
    pub(crate) replace_host_id: Option<Uuid>,
    pub(crate) ring_delay: Duration,
    pub(crate) shards: usize,
    pub(crate) memory_budget_bytes: u64,
    pub(crate) commitlog_mode: CommitLogMode,
    pub(crate) commitlog_segment_bytes: u64,
    pub(crate) commitlog_total_bytes: u64,
    pub(crate) read_request_timeout: Duration,
    pub(crate) range_request_timeout: Duration,
    pub(crate) write_request_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) hinted_handoff: bool,
    pub(crate) max_hint_window: Duration,
    pub(crate) phi_convict_threshold: f64,
    pub(crate) tombstone_warn_threshold: u32,
    pub(crate) tombstone_failure_threshold: u32,
    /// Cassandra's names that were given and have no effect here.
    pub(crate) without_effect: Vec<String>,
}

impl Settings {
    /// Reads the file (if any), then the environment, then `overrides` (`key=value`).
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        overrides: &[String],
    ) -> Result<Self> {
        let mut values = match file {
            Some(path) => read_file(path)?,
            None => Mapping::new(),
        };
        for (name, value) in environment {
            if let Some(key) = environment_key(&name) {
                values.insert(Value::String(key), parse_scalar(&value));
            }
        }
        for entry in overrides {
            let (key, value) = entry
                .split_once('=')
                .ok_or_else(|| anyhow!("--set takes key=value, not '{entry}'"))?;
            values.insert(
                Value::String(key.trim().to_owned()),
                parse_scalar(value.trim()),
            );
        }
        Self::of(&Values(values), file)
    }

    fn of(values: &Values, file: Option<&Path>) -> Result<Self> {
        let without_effect = values.check_names()?;
        values.refuse_unserved_security()?;
        let place = values.place(file)?;
        if let Some(partitioner) = values.text("partitioner")?
            && !partitioner.ends_with("Murmur3Partitioner")
        {
            bail!("partitioner: only Murmur3Partitioner is supported, not '{partitioner}'");
        }
        let addresses = values.addresses()?;
        let storage_port = values.number("storage_port", 7000)?;
        let data_directories = values.data_directories()?;
        let path = |key, name| values.path_beside(key, &data_directories[0], name);
        Ok(Self {
            cluster_name: values
                .text("cluster_name")?
                .unwrap_or_else(|| "Test Cluster".into()),
            node_name: values
                .text("node_name")?
                .unwrap_or_else(|| addresses.broadcast.to_string()),
            num_tokens: values.number("num_tokens", 16)?,
            initial_tokens: values.tokens()?,
            data_center: place.data_center,
            rack: place.rack,
            commitlog_directory: path("commitlog_directory", "commitlog")?,
            hints_directory: path("hints_directory", "hints")?,
            admin_socket: path("admin_socket", "admin.sock")?,
            listen_address: addresses.listen,
            broadcast_address: addresses.broadcast,
            rpc_address: addresses.rpc,
            broadcast_rpc_address: addresses.broadcast_rpc,
            storage_port,
            native_transport_port: values.number("native_transport_port", 9042)?,
            http_address: values.http_address(addresses.listen)?,
            seeds: values.seeds(addresses.listen, storage_port)?,
            auto_bootstrap: values.boolean("auto_bootstrap", true)?,
            replace_host_id: values.uuid("replace_host_id")?,
            ring_delay: values.duration("ring_delay", Duration::from_secs(10))?,
            shards: values.number("shards", default_shards())?,
            memory_budget_bytes: values.bytes("memory_budget", default_memory())?,
            commitlog_mode: values.commitlog_mode()?,
            commitlog_segment_bytes: values.bytes("commitlog_segment_size", 32 << 20)?,
            commitlog_total_bytes: values.bytes("commitlog_total_space", 1 << 30)?,
            read_request_timeout: values
                .duration("read_request_timeout", Duration::from_secs(5))?,
            range_request_timeout: values
                .duration("range_request_timeout", Duration::from_secs(10))?,
            write_request_timeout: values
                .duration("write_request_timeout", Duration::from_secs(2))?,
            request_timeout: values.duration("request_timeout", Duration::from_secs(10))?,
            hinted_handoff: values.boolean("hinted_handoff_enabled", true)?,
            max_hint_window: values.duration("max_hint_window", Duration::from_hours(3))?,
            phi_convict_threshold: values.number("phi_convict_threshold", 8.0)?,
            tombstone_warn_threshold: values.number("tombstone_warn_threshold", 1000)?,
            tombstone_failure_threshold: values.number("tombstone_failure_threshold", 100_000)?,
            data_directories,
            without_effect,
        })
    }
}

/// Addresses of a node.
struct Addresses {
    listen: IpAddr,
    broadcast: IpAddr,
    rpc: IpAddr,
    broadcast_rpc: IpAddr,
}

/// One thread per core that we may use.
fn default_shards() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Half of what the cgroup, or the machine, allows.
fn default_memory() -> u64 {
    crate::machine::memory_limit_bytes() / 2
}

/// `HELENUS_LISTEN_ADDRESS` is `listen_address`; a few have shorter names in the operator's Pods.
fn environment_key(name: &str) -> Option<String> {
    let key = name.strip_prefix("HELENUS_")?.to_ascii_lowercase();
    match key.as_str() {
        "dc" => Some("data_center".into()),
        _ if OWN_NAMES.contains(&key.as_str()) || names::NAMES.contains(&key.as_str()) => Some(key),
        _ => None,
    }
}

fn parse_scalar(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the settings are read before any seam exists"
)]
fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(path)
        .with_context(|| format!("open settings file {}", path.display()))?;
    std::io::Read::read_to_string(&mut file, &mut text)
        .with_context(|| format!("read settings file {}", path.display()))?;
    Ok(text)
}

fn read_file(path: &Path) -> Result<Mapping> {
    let text = read_text(path)?;
    match serde_yaml_ng::from_str(&text)
        .with_context(|| format!("parse settings file {}", path.display()))?
    {
        Value::Mapping(mapping) => Ok(mapping),
        Value::Null => Ok(Mapping::new()),
        _ => bail!(
            "settings file {} is not a map of names to values",
            path.display()
        ),
    }
}

/// Where a node is.
struct Place {
    data_center: String,
    rack: String,
}

/// `dc` and `rack` of a `cassandra-rackdc.properties`.
fn read_properties(path: &Path) -> Result<(Option<String>, Option<String>)> {
    let text = read_text(path)?;
    let value = |name: &str| {
        text.lines()
            .map(str::trim)
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    Ok((value("dc"), value("rack")))
}

struct Values(Mapping);

impl Values {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Refuses names that nobody knows; returns those without effect.
    fn check_names(&self) -> Result<Vec<String>> {
        let mut without_effect = Vec::new();
        for key in self.0.keys() {
            let name = key
                .as_str()
                .ok_or_else(|| anyhow!("settings have a name that is not text: {key:?}"))?;
            let current = units::current_name(name);
            if OWN_NAMES.contains(&name) || USED_NAMES.contains(&current) {
                continue;
            }
            if !names::NAMES.contains(&current) {
                bail!(
                    "unknown setting '{name}': Cassandra 5.0 has none of this name; correct or remove it"
                );
            }
            without_effect.push(name.to_owned());
        }
        without_effect.sort();
        Ok(without_effect)
    }

    /// What would protect the node in Cassandra and is not there yet must not be taken for granted.
    fn refuse_unserved_security(&self) -> Result<()> {
        for key in [
            "authenticator",
            "authorizer",
            "network_authorizer",
            "cidr_authorizer",
            "internode_authenticator",
        ] {
            let value = self.get(key);
            let class = value
                .and_then(|value| value.as_str().or_else(|| value.get("class_name")?.as_str()));
            let short = class.map(|class| class.rsplit('.').next().unwrap_or(class));
            if let Some(name) = short.filter(|name| !name.starts_with("AllowAll")) {
                bail!(
                    "{key}: '{name}' is not supported yet by this version, and without it everybody would be let in: \
                     remove the setting only if the network protects this node"
                );
            }
        }
        let is_on = |key: &str, switch: &str, off: &[&str]| {
            let value = self.get(key).and_then(|options| options.get(switch));
            let text = value.and_then(|value| {
                value
                    .as_bool()
                    .map(|on| on.to_string())
                    .or_else(|| value.as_str().map(str::to_owned))
            });
            text.is_some_and(|text| !off.contains(&text.as_str()))
        };
        for (key, switch, off) in [
            ("client_encryption_options", "enabled", &["false"][..]),
            (
                "server_encryption_options",
                "internode_encryption",
                &["none"][..],
            ),
            (
                "transparent_data_encryption_options",
                "enabled",
                &["false"][..],
            ),
            ("audit_logging_options", "enabled", &["false"][..]),
        ] {
            if is_on(key, switch, off) {
                bail!(
                    "{key}.{switch}: not supported yet by this version; the node does not start rather than go without it"
                );
            }
        }
        Ok(())
    }

    /// Data center and rack: our own settings, else what the snitch says.
    fn place(&self, file: Option<&Path>) -> Result<Place> {
        let snitch = self
            .text("endpoint_snitch")?
            .unwrap_or_else(|| "SimpleSnitch".into());
        let (data_center, rack) = (self.text("data_center")?, self.text("rack")?);
        let place = |dc: Option<String>, in_rack: Option<String>| Place {
            data_center: data_center
                .clone()
                .or(dc)
                .unwrap_or_else(|| "datacenter1".into()),
            rack: rack.clone().or(in_rack).unwrap_or_else(|| "rack1".into()),
        };
        match snitch.rsplit('.').next().unwrap_or(&snitch) {
            "SimpleSnitch" => Ok(place(None, None)),
            "GossipingPropertyFileSnitch" => {
                let beside = file
                    .and_then(Path::parent)
                    .map(|folder| folder.join("cassandra-rackdc.properties"));
                let found = beside
                    .as_deref()
                    .filter(|path| path.exists())
                    .map(read_properties)
                    .transpose()?;
                let (dc, in_rack) = found.unwrap_or_default();
                Ok(place(dc, in_rack))
            }
            _ if data_center.is_some() && rack.is_some() => Ok(place(None, None)),
            other => bail!(
                "endpoint_snitch: '{other}' is not supported yet: use GossipingPropertyFileSnitch, or set data_center and rack"
            ),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(value)) => Ok(Some(value.to_string())),
            Some(_) => bail!("{key}: a single value is expected"),
        }
    }

    fn number<T>(&self, key: &str, default: T) -> Result<T>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        match self.text(key)? {
            None => Ok(default),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|error| anyhow!("{key}: '{text}' is not valid: {error}")),
        }
    }

    fn boolean(&self, key: &str, default: bool) -> Result<bool> {
        self.number(key, default)
    }

    fn uuid(&self, key: &str) -> Result<Option<Uuid>> {
        match self.text(key)?.filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| anyhow!("{key}: '{text}' is not a UUID")),
        }
    }

    fn duration(&self, key: &str, default: Duration) -> Result<Duration> {
        if let Some(old) = self.get(&units::old_millisecond_name(key)) {
            let text = old
                .as_u64()
                .ok_or_else(|| anyhow!("{key}_in_ms: a count of milliseconds is expected"))?;
            return Ok(Duration::from_millis(text));
        }
        match self.text(key)? {
            None => Ok(default),
            Some(text) => parse_duration(&text).with_context(|| key.to_owned()),
        }
    }

    fn bytes(&self, key: &str, default: u64) -> Result<u64> {
        match self.text(key)? {
            None => Ok(default),
            Some(text) => parse_bytes(&text).with_context(|| key.to_owned()),
        }
    }

    fn address(&self, key: &str) -> Result<Option<IpAddr>> {
        match self.text(key)?.filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) if text == "localhost" => Ok(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| anyhow!("{key}: '{text}' is not an IP address")),
        }
    }

    fn addresses(&self) -> Result<Addresses> {
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let listen = self.address("listen_address")?.unwrap_or(localhost);
        let broadcast = self.address("broadcast_address")?.unwrap_or(listen);
        let rpc = self.address("rpc_address")?.unwrap_or(listen);
        let reachable = if rpc.is_unspecified() { broadcast } else { rpc };
        let broadcast_rpc = self.address("broadcast_rpc_address")?.unwrap_or(reachable);
        Ok(Addresses {
            listen,
            broadcast,
            rpc,
            broadcast_rpc,
        })
    }

    fn data_directories(&self) -> Result<Vec<PathBuf>> {
        let given = self.paths("data_file_directories")?;
        Ok(if given.is_empty() {
            vec![PathBuf::from("/var/lib/helenus/data")]
        } else {
            given
        })
    }

    /// A path that is given, or a name beside the data folder.
    fn path_beside(&self, key: &str, data: &Path, name: &str) -> Result<PathBuf> {
        let beside = || data.parent().unwrap_or(Path::new("/")).join(name);
        Ok(self.text(key)?.map_or_else(beside, PathBuf::from))
    }

    /// `http_address` with or without a port, and `http_port`.
    fn http_address(&self, listen: IpAddr) -> Result<SocketAddr> {
        let port = self.number("http_port", 9180)?;
        if let Some(text) = self.text("http_address")?
            && let Ok(address) = text.parse::<SocketAddr>()
        {
            return Ok(address);
        }
        Ok(SocketAddr::new(
            self.address("http_address")?.unwrap_or(listen),
            port,
        ))
    }

    fn paths(&self, key: &str) -> Result<Vec<PathBuf>> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Sequence(entries)) => entries
                .iter()
                .map(|entry| {
                    entry
                        .as_str()
                        .map(PathBuf::from)
                        .ok_or_else(|| anyhow!("{key}: a list of paths is expected"))
                })
                .collect(),
            Some(Value::String(path)) => Ok(vec![PathBuf::from(path)]),
            Some(_) => bail!("{key}: a list of paths is expected"),
        }
    }

    fn tokens(&self) -> Result<Vec<i64>> {
        let Some(text) = self.text("initial_token")?.filter(|text| !text.is_empty()) else {
            return Ok(Vec::new());
        };
        text.split(',')
            .map(|token| {
                token
                    .trim()
                    .parse()
                    .map_err(|_| anyhow!("initial_token: '{token}' is not a token"))
            })
            .collect()
    }

    fn commitlog_mode(&self) -> Result<CommitLogMode> {
        let period = self.duration("commitlog_sync_period", Duration::from_secs(10))?;
        let window = self.duration("commitlog_sync_group_window", Duration::from_millis(15))?;
        match self.text("commitlog_sync")?.as_deref() {
            None | Some("periodic") => Ok(CommitLogMode::Periodic(period)),
            Some("batch") => Ok(CommitLogMode::Batch),
            Some("group") => Ok(CommitLogMode::Group(window)),
            Some(other) => bail!("commitlog_sync: '{other}' is none of periodic, batch, group"),
        }
    }

    fn seeds(&self, listen: IpAddr, port: u16) -> Result<SeedSource> {
        if let Some(url) = self.text("seed_url")?.filter(|url| !url.is_empty()) {
            return Ok(SeedSource::Http(url));
        }
        let Some(value) = self.get("seed_provider") else {
            return Ok(SeedSource::Static(vec![SocketAddr::new(listen, port)]));
        };
        let entry = value
            .as_sequence()
            .and_then(|list| list.first())
            .unwrap_or(value);
        let parameter = |name: &str| {
            let parameters = entry.get("parameters")?;
            let map = parameters
                .as_sequence()
                .and_then(|list| list.first())
                .unwrap_or(parameters);
            map.get(name)?.as_str().map(str::to_owned)
        };
        let class = entry
            .get("class_name")
            .and_then(Value::as_str)
            .unwrap_or("SimpleSeedProvider");
        match class.rsplit('.').next().unwrap_or(class) {
            "SimpleSeedProvider" => {
                let list = parameter("seeds")
                    .ok_or_else(|| anyhow!("seed_provider: parameter 'seeds' is missing"))?;
                parse_seeds(&list, port).map(SeedSource::Static)
            }
            "HttpSeedProvider" => {
                let url = parameter("url")
                    .ok_or_else(|| anyhow!("seed_provider: parameter 'url' is missing"))?;
                Ok(SeedSource::Http(url))
            }
            other => bail!(
                "seed_provider: '{other}' is not supported: use SimpleSeedProvider or HttpSeedProvider"
            ),
        }
    }
}

/// Addresses with or without a port, separated by commas.
pub(crate) fn parse_seeds(list: &str, port: u16) -> Result<Vec<SocketAddr>> {
    list.split(',')
        .map(str::trim)
        .filter(|seed| !seed.is_empty())
        .map(|seed| {
            let seed = if seed == "localhost" {
                "127.0.0.1"
            } else {
                seed
            };
            seed.parse::<SocketAddr>()
                .or_else(|_| {
                    seed.parse::<IpAddr>()
                        .map(|address| SocketAddr::new(address, port))
                })
                .map_err(|_| anyhow!("seeds: '{seed}' is not an address, with or without a port"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, environment: &[(&str, &str)], overrides: &[&str]) -> Result<Settings> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let environment = environment
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let overrides: Vec<String> = overrides.iter().map(|o| (*o).to_owned()).collect();
        Settings::load(Some(file.path()), environment, &overrides)
    }

    #[test]
    fn later_sources_win() {
        let settings = load(
            "cluster_name: a\nnum_tokens: 4\nread_request_timeout: 3s\nlisten_address: 127.0.0.9",
            &[
                ("HELENUS_CLUSTER_NAME", "b"),
                ("HELENUS_DC", "east"),
                ("HELENUS_SEEDS_PORT", "ignored"),
            ],
            &["num_tokens=8"],
        )
        .unwrap();
        assert_eq!(
            (
                settings.cluster_name.as_str(),
                settings.num_tokens,
                settings.data_center.as_str()
            ),
            ("b", 8, "east")
        );
        assert_eq!(settings.read_request_timeout, Duration::from_secs(3));
        assert_eq!(settings.broadcast_rpc_address, settings.listen_address);
    }

    #[test]
    fn names_of_cassandra_are_accepted_and_misspelt_ones_refused() {
        let settings = load(
            "concurrent_writes: 128\nmemtable_allocation_type: heap_buffers",
            &[],
            &[],
        )
        .unwrap();
        assert_eq!(
            settings.without_effect,
            ["concurrent_writes", "memtable_allocation_type"]
        );
        let error = load("cluster_nam: x", &[], &[]).unwrap_err().to_string();
        assert!(error.contains("unknown setting 'cluster_nam'"), "{error}");
    }

    #[test]
    fn protection_that_is_not_there_is_refused() {
        for text in [
            "authenticator: PasswordAuthenticator",
            "authorizer:\n  class_name: org.apache.cassandra.auth.CassandraAuthorizer",
            "client_encryption_options:\n  enabled: true",
            "server_encryption_options:\n  internode_encryption: all",
        ] {
            let error = load(text, &[], &[]).unwrap_err().to_string();
            assert!(error.contains("not supported yet"), "{error}");
        }
        let open = "authenticator: AllowAllAuthenticator\nserver_encryption_options:\n  internode_encryption: none";
        assert!(load(open, &[], &[]).is_ok());
    }

    #[test]
    fn seed_lists_and_services() {
        let list = "seed_provider:\n- class_name: org.apache.cassandra.locator.SimpleSeedProvider\n  parameters:\n  - seeds: \"127.0.0.1, 127.0.0.2:7100\"";
        assert_eq!(
            load(list, &[], &[]).unwrap().seeds,
            SeedSource::Static(vec![
                "127.0.0.1:7000".parse().unwrap(),
                "127.0.0.2:7100".parse().unwrap()
            ])
        );
        let service = load(list, &[("HELENUS_SEED_URL", "http://seeds/v1/seeds")], &[])
            .unwrap()
            .seeds;
        assert_eq!(service, SeedSource::Http("http://seeds/v1/seeds".into()));
    }

    #[test]
    fn old_names_with_units_are_understood() {
        let settings = load(
            "read_request_timeout_in_ms: 7000\ncommitlog_segment_size_in_mb: 16",
            &[],
            &[],
        )
        .unwrap();
        assert_eq!(settings.read_request_timeout, Duration::from_secs(7));
    }
}
