//! The planner: observed world in; at most one topology step and any number of independent steps out.
//!
//! It is asked again after every change and remembers nothing: what must outlive a crash is in the
//! status of the objects. A topology step (found, add, replace) is an [`Operation`] written to the
//! cluster's status, with the version that was read, before anything else is done about it; so two
//! operators, or one with an old cache, cannot begin two.

mod deletion;
mod node;
#[cfg(test)]
pub(crate) mod tests;
mod topology;

pub(crate) use node::may_take;

use std::collections::BTreeMap;

use helenus_crds::{CassandraNodeSpec, CassandraNodeStatus, Founding, Operation};

use super::world::World;

/// A `CassandraNode` to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDraft {
    /// Name.
    pub name: String,
    /// Spec, frozen from now on.
    pub spec: CassandraNodeSpec,
}

/// A change of the cluster's status that decides something. It is written only if the object is
/// still at the version that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A topology step begins.
    Begin(Operation),
    /// The founding node may found.
    Grant(Founding),
    /// The step under way is done; the first one also names the ring.
    Finish {
        /// Identity of the ring, when it was founded just now.
        cluster_id: Option<String>,
    },
    /// Volumes of an earlier cluster of this name say which ring this is.
    Recognize {
        /// Identity of the ring.
        cluster_id: String,
    },
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Put our finalizer on the cluster, before anything is made for it.
    HoldCluster,
    /// Take our finalizer off the cluster: everything is stopped.
    ReleaseCluster,
    /// Make a `CassandraNode`.
    CreateNode(Box<NodeDraft>),
    /// Delete a `CassandraNode`.
    DeleteNode {
        /// Name.
        name: String,
        /// UID it must have.
        uid: String,
    },
    /// Take our finalizer off a `CassandraNode`.
    ReleaseNode {
        /// Name.
        name: String,
        /// UID it must have.
        uid: String,
    },
    /// Write the status of a `CassandraNode`.
    SetNodeStatus {
        /// Name.
        name: String,
        /// UID it must have.
        uid: String,
        /// Status.
        status: Box<CassandraNodeStatus>,
    },
    /// Make the claim of a node's data volume.
    CreateClaim {
        /// Node.
        node: String,
    },
    /// Write onto a claim whose data it holds.
    AnnotateClaim {
        /// Name.
        claim: String,
        /// UID it must have.
        uid: String,
        /// Annotations.
        annotations: BTreeMap<String, String>,
    },
    /// Delete a claim and with it its data.
    DeleteClaim {
        /// Name.
        claim: String,
        /// UID it must have.
        uid: String,
        /// Why, for people.
        why: String,
    },
    /// Make the Pod of a node.
    CreatePod {
        /// Node.
        node: String,
    },
    /// Delete a Pod.
    DeletePod {
        /// Name.
        pod: String,
        /// UID it must have.
        uid: String,
        /// Without waiting for its kubelet.
        force: bool,
        /// Why, for people.
        why: String,
    },
}

impl Step {
    /// The step may wait for a second look at the API server itself, because it makes or destroys something.
    pub fn is_weighty(&self) -> bool {
        !matches!(
            self,
            Self::SetNodeStatus { .. } | Self::AnnotateClaim { .. } | Self::HoldCluster
        )
    }

    /// A short name, for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::HoldCluster => "hold_cluster",
            Self::ReleaseCluster => "release_cluster",
            Self::CreateNode(_) => "create_node",
            Self::DeleteNode { .. } => "delete_node",
            Self::ReleaseNode { .. } => "release_node",
            Self::SetNodeStatus { .. } => "set_node_status",
            Self::CreateClaim { .. } => "create_claim",
            Self::AnnotateClaim { .. } => "annotate_claim",
            Self::DeleteClaim { .. } => "delete_claim",
            Self::CreatePod { .. } => "create_pod",
            Self::DeletePod { .. } => "delete_pod",
        }
    }
}

/// Something a person should know: it becomes a condition, and an event when it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Reason in CamelCase.
    pub reason: &'static str,
    /// What and what to do, for people.
    pub message: String,
    /// The cluster is worse off than asked (condition `Degraded`), as opposed to merely waiting.
    pub degraded: bool,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The decision about topology, if there is one.
    pub change: Option<Change>,
    /// Writes in order of urgency; each may fail without the others.
    pub steps: Vec<Step>,
    /// What keeps the next topology step waiting.
    pub waiting: Option<String>,
    /// What a person should know.
    pub notices: Vec<Notice>,
}

impl Plan {
    /// Something is made, destroyed or decided.
    pub fn is_weighty(&self) -> bool {
        self.change.is_some() || self.steps.iter().any(Step::is_weighty)
    }

    fn notice(&mut self, degraded: bool, reason: &'static str, message: impl Into<String>) {
        self.notices.push(Notice {
            reason,
            message: message.into(),
            degraded,
        });
    }
}

/// Plans the next steps.
pub fn plan(world: &World) -> Plan {
    let mut plan = Plan::default();
    if world.cluster.terminating {
        deletion::plan(world, &mut plan);
        return plan;
    }
    if !world.cluster.finalizer {
        plan.steps.push(Step::HoldCluster);
        return plan;
    }
    for node in world.nodes.values() {
        node::plan(world, node, &mut plan);
    }
    match &world.cluster.spec {
        Ok(spec) => topology::plan(world, spec, &mut plan),
        Err(invalid) => plan.notice(true, "InvalidSpec", invalid.to_string()),
    }
    plan
}
