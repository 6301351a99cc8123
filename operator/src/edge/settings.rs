//! Command line and environment of `helenus-operator run`.

use std::net::SocketAddr;

/// Settings of `helenus-operator run`.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Namespaces to look after, separated by commas; all if empty.
    #[arg(long, env = "HELENUS_OPERATOR_WATCH_NAMESPACES", value_delimiter = ',', num_args = 0..)]
    pub watch_namespaces: Vec<String>,

    /// Namespace of the operator itself: its Lease is there.
    #[arg(
        long,
        env = "HELENUS_OPERATOR_NAMESPACE",
        default_value = "helenus-system"
    )]
    pub namespace: String,

    /// Name of this replica, unique among replicas.
    #[arg(long, env = "HELENUS_OPERATOR_IDENTITY")]
    pub identity: Option<String>,

    /// Image of nodes whose cluster names none.
    #[arg(
        long,
        env = "HELENUS_OPERATOR_NODE_IMAGE",
        default_value = "helenus.dev/helenus:dev"
    )]
    pub node_image: String,

    /// Base URL of the seed service as nodes reach it.
    /// [default: http://helenus-operator-seeds.NAMESPACE.svc:8080]
    #[arg(long, env = "HELENUS_OPERATOR_SEED_URL")]
    pub seed_url: Option<String>,

    /// Region of this operator, for logs and metrics; several regions come later.
    #[arg(long, env = "HELENUS_OPERATOR_REGION", default_value = "")]
    pub region: String,

    /// How long a Kubernetes node may be silent before its Pods are given up, in seconds.
    #[arg(long, env = "HELENUS_OPERATOR_LOST_NODE_SECONDS", default_value_t = 30)]
    pub lost_node_seconds: u32,

    /// Address of the seed service.
    #[arg(
        long,
        env = "HELENUS_OPERATOR_SEEDS_LISTEN",
        default_value = "0.0.0.0:8080"
    )]
    pub seeds_listen: SocketAddr,

    /// Address of health and metrics.
    #[arg(
        long,
        env = "HELENUS_OPERATOR_HTTP_LISTEN",
        default_value = "0.0.0.0:9180"
    )]
    pub http_listen: SocketAddr,

    /// Duration of the leader's Lease in seconds: a dead leader is replaced after it.
    #[arg(long, env = "HELENUS_OPERATOR_LEASE_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u16).range(3..=300))]
    pub lease_seconds: u16,

    /// Logs as text for people instead of JSON.
    #[arg(long, env = "HELENUS_OPERATOR_LOG_TEXT")]
    pub log_text: bool,
}

impl Settings {
    /// Base URL of the seed service.
    pub fn seed_base_url(&self) -> String {
        self.seed_url
            .clone()
            .unwrap_or_else(|| format!("http://helenus-operator-seeds.{}.svc:8080", self.namespace))
    }

    /// Name of this replica: given, or the host name (a Pod's name).
    pub fn replica(&self) -> String {
        self.identity
            .clone()
            .or_else(|| std::env::var("HOSTNAME").ok())
            .unwrap_or_else(|| "helenus-operator".to_owned())
    }
}
