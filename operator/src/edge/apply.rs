//! Writes: one [`Step`] or [`Change`] to the API server, as it was planned or not at all.
//!
//! Every delete carries a UID, every status and every finalizer the version that was read; what is
//! made is made by `create`, which fails if it exists. So a step planned from what is no longer
//! true ends as [`Outcome::Stale`] and is planned again. Only objects shared by the whole cluster
//! are applied (server-side), because they may be edited.

use std::fmt::Debug;

use helenus_crds::{
    CassandraCluster, CassandraClusterStatus, CassandraNode, CassandraNodeStatus, names,
};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::runtime::events::{Event as KubeEvent, EventType, Recorder, Reporter};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::election::Leadership;
use super::telemetry::{self, Metrics};
use crate::core::build::{self, BuildError, Shared};
use crate::core::dereference::Objects;
use crate::core::event::{self, Event};
use crate::core::plan::Step;
use crate::core::world::World;

/// A step went as planned, or the world was not as planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Written.
    Done,
    /// The object is not as it was seen: look again.
    Stale,
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The API server refused or did not answer.
    #[error("{what}: {source}")]
    Write {
        /// What was written.
        what: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// The object could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// This replica does not lead any more.
    #[error("this replica does not lead any more")]
    NotLeader,
    /// An object of the same name belongs to someone else.
    #[error("{kind} {name} exists and is not this cluster's; rename or delete it")]
    Foreign {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
    },
}

/// Writes to the API server.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    metrics: std::sync::Arc<Metrics>,
}

impl Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer that speaks as `identity`.
    pub fn new(
        client: Client,
        identity: &str,
        leadership: Leadership,
        metrics: std::sync::Arc<Metrics>,
    ) -> Self {
        let reporter = Reporter {
            controller: names::OPERATOR.to_owned(),
            instance: Some(identity.to_owned()),
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            leadership,
            metrics,
        }
    }

    fn api<K>(&self, world: &World) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &world.cluster.namespace)
    }

    /// Does one step, counts it and publishes its event.
    pub async fn step(
        &self,
        objects: &Objects,
        world: &World,
        step: &Step,
    ) -> Result<Outcome, ApplyError> {
        if !self.leadership.leads() {
            return Err(ApplyError::NotLeader);
        }
        let outcome = self.write(objects, world, step).await;
        self.count(step.name(), &outcome);
        match &outcome {
            Ok(Outcome::Done) => {
                tracing::info!(
                    cluster = world.cluster.name,
                    namespace = world.cluster.namespace,
                    ?step,
                    "step done"
                );
                if let Some(event) = event::of_step(step) {
                    self.publish(&objects.cluster, &event, about(step)).await;
                }
            }
            Ok(Outcome::Stale) => tracing::info!(
                cluster = world.cluster.name,
                step = step.name(),
                "the world moved on; looking again"
            ),
            Err(error) => {
                tracing::warn!(cluster = world.cluster.name, step = step.name(), %error, "step failed");
            }
        }
        outcome
    }

    fn count(&self, step: &'static str, outcome: &Result<Outcome, ApplyError>) {
        let result = match outcome {
            Ok(Outcome::Done) => "ok",
            Ok(Outcome::Stale) => "stale",
            Err(_) => "error",
        };
        self.metrics
            .steps
            .get_or_create(&telemetry::Step { step, result })
            .inc();
    }

    async fn write(
        &self,
        objects: &Objects,
        world: &World,
        step: &Step,
    ) -> Result<Outcome, ApplyError> {
        let cluster = &world.cluster;
        match step {
            Step::HoldCluster | Step::ReleaseCluster => {
                self.finalize_cluster(&objects.cluster, step).await
            }
            Step::CreateNode(draft) => self.create(world, &build::node(cluster, draft)?).await,
            Step::CreateClaim { node } => match world.nodes.get(node) {
                Some(node) => self.create(world, &build::claim(cluster, node)?).await,
                None => Ok(Outcome::Stale),
            },
            Step::CreatePod { node } => match world.nodes.get(node) {
                Some(node) => {
                    self.create(world, &build::pod(cluster, node, world.lost_node_secs)?)
                        .await
                }
                None => Ok(Outcome::Stale),
            },
            Step::DeleteNode { name, uid } => {
                self.delete::<CassandraNode>(world, name, uid, false).await
            }
            Step::DeletePod {
                pod, uid, force, ..
            } => self.delete::<Pod>(world, pod, uid, *force).await,
            Step::DeleteClaim { claim, uid, .. } => {
                self.delete::<PersistentVolumeClaim>(world, claim, uid, false)
                    .await
            }
            Step::ReleaseNode { name, uid } => match seen(&objects.nodes, name, uid) {
                Some(node) => self.release_node(world, node).await,
                None => Ok(Outcome::Stale),
            },
            Step::SetNodeStatus { name, uid, status } => match seen(&objects.nodes, name, uid) {
                Some(node) => self.node_status(world, node, status).await,
                None => Ok(Outcome::Stale),
            },
            Step::AnnotateClaim {
                claim,
                uid,
                annotations,
            } => {
                self.patch_meta::<PersistentVolumeClaim>(
                    world,
                    claim,
                    json!({ "uid": uid, "annotations": annotations }),
                )
                .await
            }
        }
    }

    async fn release_node(
        &self,
        world: &World,
        node: &CassandraNode,
    ) -> Result<Outcome, ApplyError> {
        let metadata = json!({
            "uid": node.uid(), "resourceVersion": node.resource_version(),
            "finalizers": without(node.finalizers(), names::NODE_FINALIZER)
        });
        self.patch_meta::<CassandraNode>(world, &node.name_any(), metadata)
            .await
    }

    async fn node_status(
        &self,
        world: &World,
        node: &CassandraNode,
        status: &CassandraNodeStatus,
    ) -> Result<Outcome, ApplyError> {
        let (name, mut node) = (node.name_any(), node.clone());
        node.status = Some(status.clone());
        let written = self
            .api::<CassandraNode>(world)
            .replace_status(&name, &PostParams::default(), &node)
            .await;
        settle("write status of CassandraNode", &name, written)
    }

    async fn create<K>(&self, world: &World, object: &K) -> Result<Outcome, ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Serialize + Debug,
        K::DynamicType: Default,
    {
        let what = format!("create {}", K::kind(&K::DynamicType::default()));
        let made = self
            .api::<K>(world)
            .create(&PostParams::default(), object)
            .await;
        settle(&what, &object.name_any(), made)
    }

    async fn delete<K>(
        &self,
        world: &World,
        name: &str,
        uid: &str,
        force: bool,
    ) -> Result<Outcome, ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let params = DeleteParams {
            grace_period_seconds: force.then_some(0),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let what = format!("delete {}", K::kind(&K::DynamicType::default()));
        settle(
            &what,
            name,
            self.api::<K>(world).delete(name, &params).await,
        )
    }

    async fn patch_meta<K>(
        &self,
        world: &World,
        name: &str,
        metadata: serde_json::Value,
    ) -> Result<Outcome, ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K::DynamicType: Default,
    {
        let what = format!("patch {}", K::kind(&K::DynamicType::default()));
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        settle(
            &what,
            name,
            self.api::<K>(world)
                .patch(name, &PatchParams::default(), &patch)
                .await,
        )
    }

    async fn finalize_cluster(
        &self,
        cluster: &CassandraCluster,
        step: &Step,
    ) -> Result<Outcome, ApplyError> {
        let mut finalizers = without(cluster.finalizers(), names::CLUSTER_FINALIZER);
        if *step == Step::HoldCluster {
            finalizers.push(names::CLUSTER_FINALIZER.to_owned());
        }
        let metadata = json!({ "uid": cluster.uid(), "resourceVersion": cluster.resource_version(), "finalizers": finalizers });
        let api: Api<CassandraCluster> = Api::namespaced(
            self.client.clone(),
            &cluster.namespace().unwrap_or_default(),
        );
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let name = cluster.name_any();
        settle(
            "patch CassandraCluster",
            &name,
            api.patch(&name, &PatchParams::default(), &patch).await,
        )
    }

    /// Writes the cluster's status, if the cluster is still at the version that was read.
    pub async fn cluster_status(
        &self,
        cluster: &CassandraCluster,
        status: CassandraClusterStatus,
    ) -> Result<Outcome, ApplyError> {
        if !self.leadership.leads() {
            return Err(ApplyError::NotLeader);
        }
        let api: Api<CassandraCluster> = Api::namespaced(
            self.client.clone(),
            &cluster.namespace().unwrap_or_default(),
        );
        let name = cluster.name_any();
        let mut cluster = cluster.clone();
        cluster.status = Some(status);
        let outcome = settle(
            "write status of CassandraCluster",
            &name,
            api.replace_status(&name, &PostParams::default(), &cluster)
                .await,
        );
        self.count("set_cluster_status", &outcome);
        outcome
    }

    /// Applies the shared objects.
    pub async fn shared(&self, world: &World, shared: &Shared) -> Result<(), ApplyError> {
        if !self.leadership.leads() {
            return Err(ApplyError::NotLeader);
        }
        self.apply(world, &shared.config).await?;
        self.apply(world, &shared.nodes).await?;
        self.apply(world, &shared.cql).await?;
        self.apply(world, &shared.budget).await
    }

    async fn apply<K>(&self, world: &World, object: &K) -> Result<(), ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Serialize + Debug,
        K::DynamicType: Default,
    {
        let (api, name) = (self.api::<K>(world), object.name_any());
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let failed = |source| ApplyError::Write {
            what: format!("apply {kind} {name}"),
            source: Box::new(source),
        };
        if let Some(there) = api.get_metadata_opt(&name).await.map_err(failed)?
            && there.labels().get(names::CLUSTER) != Some(&world.cluster.name)
        {
            return Err(ApplyError::Foreign { kind, name });
        }
        let params = PatchParams::apply(names::OPERATOR).force();
        api.patch(&name, &params, &Patch::Apply(object))
            .await
            .map_err(failed)?;
        Ok(())
    }

    /// Publishes an event about the cluster. An event that is lost is only logged.
    pub async fn publish(&self, cluster: &CassandraCluster, event: &Event, about: Option<&str>) {
        let secondary = about.map(|name| ObjectReference {
            api_version: Some("helenus.dev/v1alpha1".to_owned()),
            kind: Some("CassandraNode".to_owned()),
            name: Some(name.to_owned()),
            namespace: cluster.namespace(),
            ..ObjectReference::default()
        });
        let type_ = if event.warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        let published = KubeEvent {
            type_,
            reason: event.reason.to_owned(),
            note: Some(event.note.chars().take(1000).collect()),
            action: "Reconcile".to_owned(),
            secondary,
        };
        if let Err(error) = self
            .recorder
            .publish(&published, &cluster.object_ref(&()))
            .await
        {
            tracing::warn!(reason = event.reason, %error, "event not published");
        }
    }
}

/// Which node an event is about, so that events of different nodes are not taken for repetitions.
fn about(step: &Step) -> Option<&str> {
    match step {
        Step::CreateNode(draft) => Some(&draft.name),
        Step::DeleteNode { name, .. }
        | Step::ReleaseNode { name, .. }
        | Step::SetNodeStatus { name, .. } => Some(name),
        Step::CreateClaim { node } | Step::CreatePod { node } => Some(node),
        Step::DeletePod { pod, .. } => Some(pod),
        Step::DeleteClaim { claim, .. } | Step::AnnotateClaim { claim, .. } => {
            claim.strip_prefix("data-")
        }
        Step::HoldCluster | Step::ReleaseCluster => None,
    }
}

fn without(finalizers: &[String], ours: &str) -> Vec<String> {
    finalizers
        .iter()
        .filter(|one| *one != ours)
        .cloned()
        .collect()
}

fn seen<'a, K: ResourceExt>(objects: &'a [K], name: &str, uid: &str) -> Option<&'a K> {
    objects
        .iter()
        .find(|object| object.name_any() == name && object.uid().as_deref() == Some(uid))
}

/// Conflicts and objects that are gone, or there already, mean: look again.
fn settle<T>(what: &str, name: &str, result: kube::Result<T>) -> Result<Outcome, ApplyError> {
    match result {
        Ok(_) => Ok(Outcome::Done),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            tracing::debug!(what, name, message = status.message, "stale");
            Ok(Outcome::Stale)
        }
        Err(source) => Err(ApplyError::Write {
            what: format!("{what} {name}"),
            source: Box::new(source),
        }),
    }
}
