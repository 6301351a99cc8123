//! What the API server has, kept up to date by one watch for each kind, and word to the controller
//! about which cluster was touched.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use helenus_crds::{CassandraCluster, CassandraNode, names};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::Api;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;

/// A cluster that may have failed to decode: one malformed object must not stop the watch of the others.
pub type GuardedCluster = DeserializeGuard<CassandraCluster>;
/// A node that may have failed to decode.
pub type GuardedNode = DeserializeGuard<CassandraNode>;

/// So many touched clusters are remembered for a slow controller; if it is slower, it looks at all.
const TOUCHED_LIMIT: usize = 4096;

/// A touched cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// One cluster: namespace and name.
    One(String, String),
    /// Possibly every one (a Kubernetes node or a volume changed).
    All,
}

/// Caches of one scope: a namespace, or all of them.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Namespace, or all.
    pub namespace: Option<String>,
    /// Clusters.
    pub clusters: Store<GuardedCluster>,
    /// Nodes of clusters.
    pub nodes: Store<GuardedNode>,
    /// Our Pods.
    pub pods: Store<Pod>,
    /// Our claims.
    pub claims: Store<PersistentVolumeClaim>,
    /// Volumes.
    pub volumes: Store<PersistentVolume>,
    /// Kubernetes nodes.
    pub hosts: Store<Node>,
    touched: broadcast::Sender<Touched>,
}

/// An API of a namespaced kind in a scope.
pub fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

impl Cache {
    /// Starts the watches of a scope; they run until the returned futures are dropped.
    pub fn start(
        client: &Client,
        namespace: Option<String>,
    ) -> (Self, Vec<futures::future::BoxFuture<'static, ()>>) {
        let (touched, _) = broadcast::channel(TOUCHED_LIMIT);
        let ours = watcher::Config::default().labels(&format!(
            "{}={}",
            names::MANAGED_BY,
            names::OPERATOR
        ));
        let any = watcher::Config::default();
        let mut watches = Vec::new();
        let scope = namespace.as_deref();
        let clusters = watch(
            api(client, scope),
            any.clone(),
            &touched,
            by_name,
            &mut watches,
        );
        let nodes = watch(
            api(client, scope),
            any.clone(),
            &touched,
            by_label,
            &mut watches,
        );
        let pods = watch(
            api(client, scope),
            ours.clone(),
            &touched,
            by_label,
            &mut watches,
        );
        let claims = watch(api(client, scope), ours, &touched, by_label, &mut watches);
        let volumes = watch(
            Api::all(client.clone()),
            any.clone(),
            &touched,
            |_: &PersistentVolume| None,
            &mut watches,
        );
        let hosts = watch(
            Api::all(client.clone()),
            any,
            &touched,
            |_: &Node| None,
            &mut watches,
        );
        (
            Self {
                namespace,
                clusters,
                nodes,
                pods,
                claims,
                volumes,
                hosts,
                touched,
            },
            watches,
        )
    }

    /// Waits until every kind was listed once.
    pub async fn ready(&self) -> Result<(), reflector::store::WriterDropped> {
        self.clusters.wait_until_ready().await?;
        self.nodes.wait_until_ready().await?;
        self.pods.wait_until_ready().await?;
        self.claims.wait_until_ready().await?;
        self.volumes.wait_until_ready().await?;
        self.hosts.wait_until_ready().await
    }

    /// Clusters as they are touched.
    pub fn triggers(&self) -> impl Stream<Item = ObjectRef<GuardedCluster>> + Send + use<> {
        let clusters = self.clusters.clone();
        stream::unfold(self.touched.subscribe(), |mut touched| async move {
            match touched.recv().await {
                Ok(one) => Some((one, touched)),
                Err(broadcast::error::RecvError::Lagged(_)) => Some((Touched::All, touched)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
        .flat_map(move |touched| {
            stream::iter(match touched {
                Touched::One(namespace, name) => vec![ObjectRef::new(&name).within(&namespace)],
                Touched::All => clusters
                    .state()
                    .iter()
                    .map(|cluster| ObjectRef::from_obj(&**cluster))
                    .collect(),
            })
        })
    }

    /// Decodable nodes of a cluster.
    pub fn nodes_of(&self, namespace: &str, cluster: &str) -> Vec<Arc<GuardedNode>> {
        self.nodes
            .state_filter(|node| belongs(node, namespace, cluster))
    }
}

/// An object carries the label of a cluster.
pub fn belongs<K: ResourceExt>(object: &K, namespace: &str, cluster: &str) -> bool {
    object.namespace().as_deref() == Some(namespace)
        && object
            .labels()
            .get(names::CLUSTER)
            .is_some_and(|label| label == cluster)
}

fn by_name<K: ResourceExt>(object: &K) -> Option<Touched> {
    Some(Touched::One(object.namespace()?, object.name_any()))
}

fn by_label<K: ResourceExt>(object: &K) -> Option<Touched> {
    Some(Touched::One(
        object.namespace()?,
        object.labels().get(names::CLUSTER)?.clone(),
    ))
}

/// Watches one kind into a store. `whose` says which cluster an object touches; heartbeats of
/// Kubernetes nodes touch none, and the controller's own period sees to them.
fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    touched: &broadcast::Sender<Touched>,
    whose: fn(&K) -> Option<Touched>,
    watches: &mut Vec<futures::future::BoxFuture<'static, ()>>,
) -> Store<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    let (reader, writer) = reflector::store();
    let touched = touched.clone();
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let stream = watcher(api, config)
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    watches.push(Box::pin(stream.for_each(move |object| {
        match object {
            Ok(object) => {
                if let Some(cluster) = whose(&object) {
                    // Nobody listens while another replica leads.
                    drop(touched.send(cluster));
                }
            }
            Err(error) => tracing::warn!(kind, %error, "watch failed; trying again"),
        }
        std::future::ready(())
    })));
    reader
}
