//! Words for people: the event of every decision.

use super::plan::{Change, Step};

/// An event to be published about the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Reason in CamelCase.
    pub reason: &'static str,
    /// What and why.
    pub note: String,
    /// Not as expected.
    pub warning: bool,
}

fn event(reason: &'static str, note: String) -> Event {
    Event {
        reason,
        note,
        warning: false,
    }
}

/// The event of a decision.
pub fn of_change(change: &Change) -> Event {
    match change {
        Change::Begin(operation) => {
            let reason = match operation.kind {
                helenus_crds::OperationKind::Found => "FoundingStarted",
                helenus_crds::OperationKind::ScaleUp => "ScaleUpStarted",
                helenus_crds::OperationKind::Replace => "ReplacementStarted",
            };
            let old = operation
                .replaces
                .as_ref()
                .map(|old| format!(", in place of {old}"))
                .unwrap_or_default();
            event(
                reason,
                format!("{} in rack {}{old}", operation.node, operation.rack),
            )
        }
        Change::Grant(founding) => event(
            "FoundingGranted",
            format!(
                "{} may found the ring; no other node ever may",
                founding.node
            ),
        ),
        Change::Finish {
            cluster_id: Some(id),
        } => event(
            "RingFounded",
            format!("the ring is founded; cluster id {id}"),
        ),
        Change::Finish { cluster_id: None } => event(
            "TopologyStepFinished",
            "every ready node sees the new member".to_owned(),
        ),
        Change::Recognize { cluster_id } => event(
            "RingRecognized",
            format!("volumes of ring {cluster_id} exist; its nodes come back with them"),
        ),
    }
}

/// The event of a step, if people care.
pub fn of_step(step: &Step) -> Option<Event> {
    Some(match step {
        Step::HoldCluster
        | Step::SetNodeStatus { .. }
        | Step::AnnotateClaim { .. }
        | Step::ReleaseNode { .. } => return None,
        Step::ReleaseCluster => event("ClusterDeleted", "every node is stopped".to_owned()),
        Step::CreateNode(draft) => event(
            "NodeCreated",
            format!("{} in rack {}", draft.name, draft.spec.rack),
        ),
        Step::DeleteNode { name, .. } => event("NodeDeleted", name.clone()),
        Step::CreateClaim { node } => event("VolumeClaimed", format!("for {node}")),
        Step::DeleteClaim { claim, why, .. } => event("VolumeDeleted", format!("{claim}: {why}")),
        Step::CreatePod { node } => event("PodCreated", node.clone()),
        Step::DeletePod {
            pod, force, why, ..
        } => {
            let reason = if *force {
                "PodForceDeleted"
            } else {
                "PodDeleted"
            };
            Event {
                reason,
                note: format!("{pod}: {why}"),
                warning: *force,
            }
        }
    })
}
