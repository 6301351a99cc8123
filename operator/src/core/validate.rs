//! From a `CassandraCluster`'s spec to a [`ValidatedCluster`] that the planner can trust.
//!
//! What CEL can say stands in the CRD; here is the rest. Builders and planner never see the raw spec.

use std::collections::{BTreeMap, BTreeSet};

use helenus_crds::{
    CassandraCluster, CassandraClusterSpec, DataVolume, Datacenter, DeletionPolicy, HostSpread,
    Rack, ReplacementMode, SeedProvider, names,
};
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::{Value, json};

/// Folder of the data volume in a node's container.
pub const DATA_DIR: &str = "/var/lib/helenus";

/// Settings that follow from the cluster, the Pod or the volume, and may not be given in `config`.
const OWN_SETTINGS: &[&str] = &[
    "auto_bootstrap",
    "broadcast_address",
    "broadcast_rpc_address",
    "cdc_raw_directory",
    "cluster_name",
    "commitlog_directory",
    "data_file_directories",
    "endpoint_snitch",
    "hints_directory",
    "initial_token",
    "listen_address",
    "listen_interface",
    "local_system_data_file_directory",
    "native_transport_port",
    "rpc_address",
    "rpc_interface",
    "saved_caches_directory",
    "seed_provider",
    "ssl_storage_port",
    "storage_port",
];

/// Why a spec cannot be used; every reason at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct Invalid(pub Vec<String>);

/// What the operator adds to every cluster.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Image of nodes whose cluster names none.
    pub image: String,
    /// Base URL of the seed service, as nodes reach it: `http://helenus-operator-seeds.NAMESPACE.svc:8080`.
    pub seed_url: String,
}

/// A spec that can be acted on.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedCluster {
    /// Name of the cluster as Cassandra knows it.
    pub cluster_name: String,
    /// Data center.
    pub datacenter: String,
    /// Racks in the order of the spec; never empty.
    pub racks: Vec<Rack>,
    /// Nodes asked for.
    pub nodes: usize,
    /// Image.
    pub image: String,
    /// Text of `cassandra.yaml`.
    pub cassandra_yaml: String,
    /// Name of the ConfigMap that holds it; another text has another name.
    pub config_map: String,
    /// CPU and memory.
    pub resources: Option<ResourceRequirements>,
    /// Data volume.
    pub volume: DataVolume,
    /// Spread over Kubernetes nodes.
    pub hosts: HostSpread,
    /// Base URL of the seed service; `None` when seeds are a list.
    pub seed_url: Option<String>,
    /// Lost volumes are replaced.
    pub replace: bool,
    /// After how many seconds.
    pub replace_after_secs: i64,
    /// Volumes are kept when the cluster is deleted.
    pub retain_volumes: bool,
}

/// Checks a cluster's spec.
pub fn validate(
    cluster: &CassandraCluster,
    defaults: &Defaults,
) -> Result<ValidatedCluster, Invalid> {
    let spec = &cluster.spec;
    let mut wrong = Vec::new();
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let datacenter = match spec.datacenters.as_slice() {
        [one] => one.clone(),
        _ => {
            return Err(Invalid(vec![
                "spec.datacenters: exactly one data center for now".to_owned(),
            ]));
        }
    };
    let nodes = check_racks(spec, &datacenter, &mut wrong);
    let empty = BTreeMap::new();
    let config = spec
        .node_template
        .config
        .as_ref()
        .map_or(&empty, |config| &config.0);
    for key in config
        .keys()
        .filter(|key| OWN_SETTINGS.contains(&key.as_str()))
    {
        wrong.push(format!(
            "spec.nodeTemplate.config.{key}: the operator sets this; remove it"
        ));
    }
    let replace_after_secs =
        duration_secs(&spec.replacement.after_unavailable).unwrap_or_else(|| {
            wrong.push(format!(
                "spec.replacement.afterUnavailable: {:?} is not a duration such as 90s, 15m or 2h",
                spec.replacement.after_unavailable
            ));
            0
        });
    if !wrong.is_empty() {
        return Err(Invalid(wrong));
    }
    let cassandra_yaml = cassandra_yaml(&spec.cluster_name, config, &spec.seeds.addresses)
        .map_err(|error| Invalid(vec![format!("spec.nodeTemplate.config: {error}")]))?;
    Ok(ValidatedCluster {
        cluster_name: spec.cluster_name.clone(),
        config_map: format!(
            "{name}-config-{:08x}",
            fnv1a(cassandra_yaml.as_bytes()) >> 32
        ),
        cassandra_yaml,
        datacenter: datacenter.name,
        racks: datacenter.racks,
        nodes,
        image: spec.image.clone().unwrap_or_else(|| defaults.image.clone()),
        resources: spec.node_template.resources.clone(),
        volume: spec.node_template.storage.data.clone(),
        hosts: spec.node_template.placement.hosts,
        seed_url: (spec.seeds.provider == SeedProvider::Managed).then(|| defaults.seed_url.clone()),
        replace: spec.replacement.mode == ReplacementMode::Automatic,
        replace_after_secs,
        retain_volumes: spec.deletion_policy == DeletionPolicy::Retain,
    })
}

/// Racks and the number of nodes, which is returned.
fn check_racks(
    spec: &CassandraClusterSpec,
    datacenter: &Datacenter,
    wrong: &mut Vec<String>,
) -> usize {
    if datacenter.racks.is_empty() {
        wrong.push("spec.datacenters[0].racks: at least one rack".to_owned());
    }
    let mut parts = BTreeSet::new();
    for rack in &datacenter.racks {
        if !parts.insert(names::name_part(&rack.name)) {
            wrong.push(format!(
                "spec.datacenters[0].racks: {:?} is the same as another rack's name once written in lower case with '-'",
                rack.name
            ));
        }
    }
    let nodes = usize::try_from(spec.nodes).unwrap_or(0);
    if nodes < datacenter.racks.len() {
        wrong.push(format!(
            "spec.nodes: {} nodes for {} racks; at least one node for each rack",
            spec.nodes,
            datacenter.racks.len()
        ));
    }
    nodes
}

/// `90s`, `15m`, `2h` in seconds.
fn duration_secs(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number
        .parse::<u32>()
        .ok()
        .map(|number| i64::from(number) * factor)
}

/// The text of `cassandra.yaml`: what the user gave, then what is ours.
fn cassandra_yaml(
    cluster_name: &str,
    config: &BTreeMap<String, Value>,
    seeds: &[String],
) -> Result<String, serde_yaml_ng::Error> {
    let mut all = config.clone();
    all.entry("num_tokens".to_owned())
        .or_insert_with(|| json!(16));
    all.insert("cluster_name".to_owned(), json!(cluster_name));
    all.insert(
        "data_file_directories".to_owned(),
        json!([format!("{DATA_DIR}/data")]),
    );
    for (key, folder) in [
        ("commitlog_directory", "commitlog"),
        ("hints_directory", "hints"),
        ("saved_caches_directory", "saved_caches"),
    ] {
        all.insert(key.to_owned(), json!(format!("{DATA_DIR}/{folder}")));
    }
    if !seeds.is_empty() {
        all.insert(
            "seed_provider".to_owned(),
            json!([{
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{ "seeds": seeds.join(",") }]
            }]),
        );
    }
    serde_yaml_ng::to_string(&all)
}

/// FNV-1a, 64 bits: names of ConfigMaps must not change with the compiler.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "the callers write json! in place"
    )]
    fn cluster(spec: Value) -> CassandraCluster {
        serde_json::from_value(json!({
            "apiVersion": "helenus.dev/v1alpha1", "kind": "CassandraCluster",
            "metadata": {"name": "orders", "namespace": "db"}, "spec": spec
        }))
        .unwrap()
    }

    fn check(spec: Value) -> Result<ValidatedCluster, String> {
        let defaults = Defaults {
            image: "helenus:1".to_owned(),
            seed_url: "http://seeds:8080".to_owned(),
        };
        validate(&cluster(spec), &defaults).map_err(|wrong| wrong.to_string())
    }

    fn racks() -> Value {
        json!([{"name": "us-east", "racks": [{"name": "a", "zone": "z1"}, {"name": "b"}]}])
    }

    #[test]
    fn smallest_spec_gets_its_defaults() {
        let valid = check(json!({"clusterName": "Orders", "datacenters": racks()})).unwrap();
        assert_eq!((valid.nodes, valid.image.as_str()), (3, "helenus:1"));
        assert_eq!(
            (
                valid.replace,
                valid.replace_after_secs,
                valid.retain_volumes
            ),
            (true, 300, true)
        );
        assert!(
            valid.cassandra_yaml.contains("num_tokens: 16"),
            "{}",
            valid.cassandra_yaml
        );
        assert!(valid.cassandra_yaml.contains("cluster_name: Orders"));
        assert_eq!(valid.seed_url.as_deref(), Some("http://seeds:8080"));
    }

    #[test]
    fn another_config_has_another_config_map() {
        let one = check(json!({"clusterName": "o", "datacenters": racks()})).unwrap();
        let same = check(json!({"clusterName": "o", "datacenters": racks(), "nodes": 4})).unwrap();
        let other = check(json!({"clusterName": "o", "datacenters": racks(),
            "nodeTemplate": {"config": {"concurrent_reads": 64}}}))
        .unwrap();
        assert_eq!(one.config_map, same.config_map);
        assert_ne!(one.config_map, other.config_map);
        assert!(other.cassandra_yaml.contains("concurrent_reads: 64"));
    }

    #[test]
    fn every_reason_is_named_at_once() {
        let wrong = check(json!({"clusterName": "o", "nodes": 1, "datacenters": racks(),
            "nodeTemplate": {"config": {"listen_address": "1.2.3.4"}}, "replacement": {"afterUnavailable": "soon"}}))
        .unwrap_err();
        for word in ["spec.nodes", "config.listen_address", "afterUnavailable"] {
            assert!(wrong.contains(word), "{word} is not in {wrong}");
        }
    }

    #[test]
    fn racks_must_differ_as_object_names() {
        let wrong = check(json!({"clusterName": "o",
            "datacenters": [{"name": "d", "racks": [{"name": "A_1"}, {"name": "a-1"}]}]}))
        .unwrap_err();
        assert!(wrong.contains("a-1"), "{wrong}");
    }

    #[test]
    fn static_seeds_are_written_into_the_settings() {
        let valid = check(json!({"clusterName": "o", "datacenters": racks(),
            "seeds": {"provider": "Static", "addresses": ["10.0.0.1", "10.0.0.2"]}}))
        .unwrap();
        assert_eq!(valid.seed_url, None);
        assert!(valid.cassandra_yaml.contains("10.0.0.1,10.0.0.2"));
    }

    #[test]
    fn durations() {
        for (text, secs) in [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("2h", Some(7200)),
            ("h", None),
            ("", None),
            ("5", None),
            ("é", None),
        ] {
            assert_eq!(duration_secs(text), secs, "{text}");
        }
    }
}
