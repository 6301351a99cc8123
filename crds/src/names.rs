//! Names that Helenus writes into Kubernetes: labels, annotations, finalizers, ports.
//!
//! They are a contract with every cluster that runs: changing one orphans objects.

/// API group of the custom resources.
pub const GROUP: &str = "helenus.dev";
/// The only API version so far.
pub const VERSION: &str = "v1alpha1";
/// Value of [`MANAGED_BY`], and field manager of server-side apply.
pub const OPERATOR: &str = "helenus-operator";

/// Label: who made the object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Label: name of the `CassandraCluster`.
pub const CLUSTER: &str = "helenus.dev/cluster";
/// Label: name of the `CassandraNode`.
pub const NODE: &str = "helenus.dev/node";
/// Label: data center, as an object name part.
pub const DATACENTER: &str = "helenus.dev/datacenter";
/// Label: rack, as an object name part.
pub const RACK: &str = "helenus.dev/rack";

/// Annotation of a data volume's claim: host id that its data belongs to.
pub const HOST_ID: &str = "helenus.dev/host-id";
/// Annotation of a data volume's claim: cluster id of the ring it is part of.
pub const CLUSTER_ID: &str = "helenus.dev/cluster-id";
/// Annotation of a data volume's claim: UID of the `CassandraNode` it was made for.
pub const NODE_UID: &str = "helenus.dev/node-uid";
/// Annotation of a data volume's claim: data center name as Cassandra knows it.
pub const DATACENTER_NAME: &str = "helenus.dev/datacenter-name";
/// Annotation of a data volume's claim: rack name as Cassandra knows it.
pub const RACK_NAME: &str = "helenus.dev/rack-name";

/// Finalizer of `CassandraCluster`: nodes stop in order and volumes are kept or deleted.
pub const CLUSTER_FINALIZER: &str = "helenus.dev/cluster";
/// Finalizer of `CassandraNode`: it goes only when its host id is out of the ring.
pub const NODE_FINALIZER: &str = "helenus.dev/node";

/// Label that Kubernetes puts on nodes: the zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Label that Kubernetes puts on nodes: the host name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Port of CQL.
pub const CQL_PORT: u16 = 9042;
/// Port of the internode protocol.
pub const INTERNODE_PORT: u16 = 7000;
/// Port of health, metrics and `/v1/node`.
pub const HTTP_PORT: u16 = 9180;
/// Port of the operator's seed service.
pub const SEEDS_PORT: u16 = 8080;

/// A data center or rack name as a part of an object's name: `US_East` becomes `us-east`.
pub fn name_part(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Name of a `CassandraNode`, of its Pod and (with `data-` before it) of its claim.
pub fn node_name(cluster: &str, datacenter: &str, rack: &str, ordinal: u32) -> String {
    format!(
        "{cluster}-{}-{}-{ordinal}",
        name_part(datacenter),
        name_part(rack)
    )
}

/// Name of the claim of a node's data volume.
pub fn claim_name(node: &str) -> String {
    format!("data-{node}")
}

/// Name of the headless Service that resolves to every node, ready or not.
pub fn nodes_service(cluster: &str) -> String {
    format!("{cluster}-nodes")
}

/// Name of the Service that clients connect to.
pub fn cql_service(cluster: &str) -> String {
    format!("{cluster}-cql")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_are_object_names() {
        assert_eq!(node_name("orders", "US_East", "A", 2), "orders-us-east-a-2");
        assert_eq!(claim_name("orders-us-east-a-2"), "data-orders-us-east-a-2");
    }
}
