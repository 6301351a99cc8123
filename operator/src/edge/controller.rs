//! The reconcile: dereference → validate → plan → apply → status.
//!
//! A plan made from the caches that makes, destroys or decides something is made again from the API
//! server itself before it is carried out. The cluster is read first, so that its version, which
//! guards every decision, is older than everything else that the decision rests on.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use helenus_crds::{CassandraCluster, CassandraNode, NodeReport, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Api, ListParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::apply::{ApplyError, Outcome, Writer};
use super::cache::{Cache, GuardedCluster, api, belongs};
use super::election::Leadership;
use super::telemetry::Metrics;
use super::{Monotonic, node_client};
use crate::core::build::{self, Shared};
use crate::core::dereference::{Objects, world};
use crate::core::event::{self, Event};
use crate::core::plan::{self, Notice, Plan};
use crate::core::status;
use crate::core::validate::Defaults;
use crate::core::world::World;

/// While something is under way, nodes are asked this often.
const BUSY: Duration = Duration::from_secs(1);
/// Otherwise this often.
const QUIET: Duration = Duration::from_secs(5);
/// Shared objects are applied again after this time even if nothing changed, in milliseconds.
const REAPPLY_MS: u64 = 300_000;

fn clone_all<K: Clone>(all: &[Arc<K>]) -> Vec<K> {
    all.iter().map(|one| (**one).clone()).collect()
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A read failed.
    #[error("read {what}: {source}")]
    Read {
        /// What was read.
        what: &'static str,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// A write failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The object does not decode.
    #[error("the object cannot be read: {0}")]
    Malformed(String),
}

/// What a reconcile needs.
pub struct Context {
    /// Client.
    pub client: Client,
    /// Caches of this scope.
    pub cache: Cache,
    /// Writes.
    pub writer: Writer,
    /// What the operator adds to every cluster.
    pub defaults: Defaults,
    /// How long a Kubernetes node may be lost.
    pub lost_node_secs: i64,
    /// Whether we may act.
    pub leadership: Leadership,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Clock.
    pub clock: Monotonic,
    /// What was said and applied last, by cluster UID: only to avoid repetition.
    pub memory: Mutex<BTreeMap<String, Memory>>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("namespace", &self.cache.namespace)
            .finish_non_exhaustive()
    }
}

/// What was said and applied last about one cluster.
#[derive(Debug, Default)]
pub struct Memory {
    shared: Option<(Shared, u64)>,
    notices: Vec<Notice>,
}

/// Runs the controller of a scope until `stop` resolves and running reconciles are done.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let clusters: Api<GuardedCluster> = api(&context.client, context.cache.namespace.as_deref());
    let triggers = context.cache.triggers();
    Controller::new(clusters, watcher::Config::default())
        .with_config(kube::runtime::Config::default().concurrency(16))
        .reconcile_on(triggers)
        .graceful_shutdown_on(stop)
        .run(reconcile, on_error, context)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(%error, "reconcile");
            }
            std::future::ready(())
        })
        .await;
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that the controller calls"
)]
fn on_error(cluster: Arc<GuardedCluster>, error: &ReconcileError, context: Arc<Context>) -> Action {
    context.metrics.reconcile_errors.inc();
    tracing::warn!(cluster = cluster.name_any(), namespace = cluster.namespace(), %error, "reconcile failed; trying again");
    Action::requeue(BUSY * 3)
}

async fn reconcile(
    cluster: Arc<GuardedCluster>,
    context: Arc<Context>,
) -> Result<Action, ReconcileError> {
    if !context.leadership.leads() {
        return Ok(Action::requeue(BUSY));
    }
    let cluster = cluster
        .0
        .as_ref()
        .map_err(|error| ReconcileError::Malformed(error.to_string()))?;
    let began = context.clock.now_ms();
    let result = context.reconcile(cluster).await;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of one reconcile")]
    context
        .metrics
        .reconcile_seconds
        .observe((context.clock.now_ms() - began) as f64 / 1000.0);
    result
}

impl Context {
    async fn reconcile(&self, cluster: &CassandraCluster) -> Result<Action, ReconcileError> {
        let mut objects = self.cached(cluster);
        objects.reports = node_client::ask_all(&objects.pods).await;
        let (mut world, mut plan) = self.plan(&objects);
        if plan.is_weighty() {
            let Some(fresh) = self.live(cluster, objects.reports).await? else {
                return Ok(Action::await_change());
            };
            objects = fresh;
            (world, plan) = self.plan(&objects);
        }
        let mut failure = self.apply_shared(&world).await.err();
        let mut released = false;
        let mut stale = false;
        for step in &plan.steps {
            match self.writer.step(&objects, &world, step).await {
                Ok(Outcome::Done) => released |= *step == plan::Step::ReleaseCluster,
                Ok(Outcome::Stale) => stale = true,
                // One step that fails stops none of the others.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if released {
            self.memory().remove(&world.cluster.uid);
            return Ok(Action::await_change());
        }
        stale |= self.write_status(&objects, &world, &plan).await? == Outcome::Stale;
        self.announce(&objects.cluster, &world, &plan).await;
        match failure {
            Some(error) => Err(error.into()),
            None if stale
                || plan.is_weighty()
                || plan.waiting.is_some()
                || world.operation().is_some() =>
            {
                Ok(Action::requeue(BUSY))
            }
            None => Ok(Action::requeue(QUIET)),
        }
    }

    fn plan(&self, objects: &Objects) -> (World, Plan) {
        let world = world(objects, super::now(), self.lost_node_secs, &self.defaults);
        let plan = plan::plan(&world);
        (world, plan)
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The world as the caches have it.
    fn cached(&self, cluster: &CassandraCluster) -> Objects {
        let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        Objects {
            cluster: cluster.clone(),
            claims: clone_all(
                &self
                    .cache
                    .claims
                    .state_filter(|claim| belongs(claim, &namespace, &name)),
            ),
            pods: clone_all(
                &self
                    .cache
                    .pods
                    .state_filter(|pod| belongs(pod, &namespace, &name)),
            ),
            nodes: self
                .cache
                .nodes_of(&namespace, &name)
                .iter()
                .filter_map(|node| node.0.clone().ok())
                .collect(),
            volumes: clone_all(&self.cache.volumes.state()),
            hosts: clone_all(&self.cache.hosts.state()),
            reports: BTreeMap::new(),
        }
    }

    /// The world as the API server has it: the cluster first, the nodes last, so that no claim and
    /// no Pod seems to be without its node. `None` if the cluster is gone.
    async fn live(
        &self,
        cluster: &CassandraCluster,
        reports: BTreeMap<String, NodeReport>,
    ) -> Result<Option<Objects>, ReconcileError> {
        let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let clusters: Api<CassandraCluster> = Api::namespaced(self.client.clone(), &namespace);
        let fresh = clusters
            .get_opt(&name)
            .await
            .map_err(|source| ReconcileError::Read {
                what: "CassandraCluster",
                source: Box::new(source),
            })?;
        let Some(fresh) = fresh.filter(|fresh| fresh.metadata.uid == cluster.metadata.uid) else {
            return Ok(None);
        };
        let claims = self
            .list::<PersistentVolumeClaim>(&namespace, &name, "claims")
            .await?;
        let pods = self.list::<Pod>(&namespace, &name, "Pods").await?;
        let nodes = self
            .list::<CassandraNode>(&namespace, &name, "CassandraNodes")
            .await?;
        let cached = self.cached(cluster);
        Ok(Some(Objects {
            cluster: fresh,
            claims,
            pods,
            nodes,
            reports,
            ..cached
        }))
    }

    async fn list<K>(
        &self,
        namespace: &str,
        cluster: &str,
        what: &'static str,
    ) -> Result<Vec<K>, ReconcileError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let params = ListParams::default().labels(&format!("{}={cluster}", names::CLUSTER));
        let list = Api::<K>::namespaced(self.client.clone(), namespace)
            .list(&params)
            .await;
        list.map(|list| list.items)
            .map_err(|source| ReconcileError::Read {
                what,
                source: Box::new(source),
            })
    }

    async fn apply_shared(&self, world: &World) -> Result<(), ApplyError> {
        let Ok(spec) = &world.cluster.spec else {
            return Ok(());
        };
        if world.cluster.terminating || !world.cluster.finalizer {
            return Ok(());
        }
        let shared = build::shared(
            &world.cluster,
            spec,
            world
                .nodes
                .values()
                .filter(|node| node.status.joined)
                .count(),
        )?;
        let now = self.clock.now_ms();
        let known = self
            .memory()
            .entry(world.cluster.uid.clone())
            .or_default()
            .shared
            .clone();
        if known.is_some_and(|(before, at)| before == shared && now.saturating_sub(at) < REAPPLY_MS)
        {
            return Ok(());
        }
        self.writer.shared(world, &shared).await?;
        self.memory()
            .entry(world.cluster.uid.clone())
            .or_default()
            .shared = Some((shared, now));
        Ok(())
    }

    async fn write_status(
        &self,
        objects: &Objects,
        world: &World,
        plan: &Plan,
    ) -> Result<Outcome, ReconcileError> {
        let status = status::cluster_status(world, plan);
        if objects.cluster.status.as_ref() == Some(&status) || !world.cluster.finalizer {
            return Ok(Outcome::Done);
        }
        // After a step changed the cluster itself, its version is old: the next look writes the status.
        let outcome = self.writer.cluster_status(&objects.cluster, status).await?;
        if outcome == Outcome::Done
            && let Some(change) = &plan.change
        {
            tracing::info!(
                cluster = world.cluster.name,
                namespace = world.cluster.namespace,
                ?change,
                "decided"
            );
            let about = match change {
                plan::Change::Begin(operation) => Some(operation.node.as_str()),
                plan::Change::Grant(founding) => Some(founding.node.as_str()),
                plan::Change::Finish { .. } => {
                    world.operation().map(|operation| operation.node.as_str())
                }
                plan::Change::Recognize { .. } => None,
            };
            self.writer
                .publish(&objects.cluster, &event::of_change(change), about)
                .await;
        }
        Ok(outcome)
    }

    /// Publishes notices that were not said yet.
    async fn announce(&self, cluster: &CassandraCluster, world: &World, plan: &Plan) {
        let said = std::mem::replace(
            &mut self
                .memory()
                .entry(world.cluster.uid.clone())
                .or_default()
                .notices,
            plan.notices.clone(),
        );
        for notice in plan.notices.iter().filter(|notice| !said.contains(notice)) {
            tracing::warn!(
                cluster = world.cluster.name,
                reason = notice.reason,
                message = notice.message,
                "notice"
            );
            let event = Event {
                reason: notice.reason,
                note: notice.message.clone(),
                warning: notice.degraded,
            };
            self.writer.publish(cluster, &event, None).await;
        }
    }
}
