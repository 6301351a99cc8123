//! What sessions ask of the node: reads and writes through the coordinator, schema changes through
//! the control thread.

use crate::cluster::SharedCluster;
use crate::control::ControlMessage;
use crate::replicas::NodeReplicas;
use crate::shard::Stamps;
use crate::shards::{LocalData, LocalError};
use arc_swap::ArcSwap;
use futures::future::LocalBoxFuture;
use helenus_coordinator::{Coordinator, CoordinatorError, FailureReason, WriteKind};
use helenus_cql::ClusterFacts;
use helenus_native::SchemaChange;
use helenus_rows::{Mutation, Partition, ReadCommand};
use helenus_schema::{Schema, TableMetadata};
use helenus_seams::Entropy;
use helenus_server::{Backend, RequestError};
use helenus_types::{ConsistencyLevel, Endpoint};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The backend of one shard's sessions.
pub(crate) struct NodeBackend {
    pub(crate) coordinator: Coordinator<NodeReplicas>,
    pub(crate) local: LocalData,
    pub(crate) schema: Arc<ArcSwap<Schema>>,
    pub(crate) cluster: SharedCluster,
    pub(crate) control: mpsc::Sender<ControlMessage>,
    pub(crate) stamps: Stamps,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) cluster_name: String,
}

fn control_gone<T>(_: T) -> CoordinatorError {
    CoordinatorError::Server("the control thread has ended: see the node's log".into())
}

/// A local failure as the answer of a read at ONE by this node alone.
fn local_read_failure(error: LocalError, me: Endpoint) -> CoordinatorError {
    match error {
        LocalError::Overloaded(text) => CoordinatorError::Overloaded(text),
        LocalError::Refused(text, FailureReason::Unknown) => CoordinatorError::Server(text),
        LocalError::Refused(_, reason) => CoordinatorError::ReadFailure {
            level: ConsistencyLevel::One,
            received: 0,
            required: 1,
            data_present: false,
            failures: vec![(me, reason)],
        },
    }
}

impl Backend for NodeBackend {
    fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    fn now_micros(&self) -> i64 {
        self.stamps.next()
    }

    fn entropy(&self) -> [u8; 16] {
        let (a, b) = (self.entropy.next_u64(), self.entropy.next_u64());
        ((u128::from(a) << 64) | u128::from(b)).to_be_bytes()
    }

    fn datacenters(&self) -> Vec<String> {
        self.cluster.load().datacenters()
    }

    fn cluster_facts(&self) -> ClusterFacts {
        ClusterFacts {
            name: self.cluster_name.clone(),
            snitch: "org.apache.cassandra.locator.GossipingPropertyFileSnitch".to_owned(),
        }
    }

    fn read(
        &self,
        command: ReadCommand,
        level: ConsistencyLevel,
    ) -> LocalBoxFuture<'static, Result<Vec<Partition>, CoordinatorError>> {
        let schema = self.schema.load_full();
        if let Some(partitions) = crate::virtual_tables::read(&command, &schema) {
            return Box::pin(async move { Ok(partitions) });
        }
        let Some(keyspace) = schema.keyspace(&command.table.keyspace).cloned() else {
            let text = format!("Keyspace '{}' does not exist", command.table.keyspace);
            return Box::pin(async move { Err(CoordinatorError::Invalid(text)) });
        };
        if keyspace.replication.is_local() {
            let (local, me) = (self.local.clone(), self.cluster.load().me);
            return Box::pin(async move {
                local
                    .read(command)
                    .await
                    .map_err(|error| local_read_failure(error, me))
            });
        }
        let coordinator = self.coordinator.clone();
        Box::pin(async move { coordinator.read(&keyspace, command, level).await })
    }

    fn write(
        &self,
        mutations: Vec<Mutation>,
        level: ConsistencyLevel,
        kind: WriteKind,
    ) -> LocalBoxFuture<'static, Result<(), CoordinatorError>> {
        let schema = self.schema.load_full();
        let coordinator = self.coordinator.clone();
        Box::pin(async move {
            let keyspace_of = |name: &str| schema.keyspace(name).cloned();
            coordinator
                .write_all(keyspace_of, mutations, level, kind)
                .await
        })
    }

    fn change_schema(
        &self,
        query: String,
        keyspace: Option<String>,
    ) -> LocalBoxFuture<'static, Result<Option<SchemaChange>, RequestError>> {
        let control = self.control.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            control
                .send(ControlMessage::ChangeSchema {
                    query,
                    keyspace,
                    reply,
                })
                .await
                .map_err(control_gone)?;
            answer.await.map_err(control_gone)?
        })
    }

    fn truncate(
        &self,
        table: Arc<TableMetadata>,
    ) -> LocalBoxFuture<'static, Result<(), CoordinatorError>> {
        let control = self.control.clone();
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            control
                .send(ControlMessage::Truncate { table, reply })
                .await
                .map_err(control_gone)?;
            answer.await.map_err(control_gone)?
        })
    }
}
