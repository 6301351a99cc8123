//! Sessions of the native protocol: connections, their requests, prepared statements, events.
//!
//! A connection lives on one shard. Its requests run side by side, up to [`MAX_IN_FLIGHT`]; more are
//! not read, so that a client that sends too fast is slowed by its own socket.
//!
//! Invariants:
//! V1: every request gets exactly one answer on its stream, or the connection ends.
//! V2: nothing a client sends ends or blocks another client's session.
//! V3: a prepared statement is looked up again whenever the schema has changed since.

mod budget;
mod connection;
mod errors;
mod execute;
mod prepared;

pub use budget::MAX_IN_FLIGHT;
pub use connection::serve;
pub use prepared::SharedStatements;

use futures::future::LocalBoxFuture;
use helenus_coordinator::{CoordinatorError, WriteKind};
use helenus_cql::{ClusterFacts, CqlError};
use helenus_native::{Event, SchemaChange};
use helenus_rows::{Mutation, Partition, ReadCommand};
use helenus_schema::{Schema, TableMetadata};
use helenus_types::ConsistencyLevel;
use prepared::Statements;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What sessions need of the node.
pub trait Backend: 'static {
    /// The schema now.
    fn schema(&self) -> Arc<Schema>;
    /// Wall clock in microseconds since 1970; never twice the same on one shard.
    fn now_micros(&self) -> i64;
    /// Fresh randomness.
    fn entropy(&self) -> [u8; 16];
    /// Known data centers.
    fn datacenters(&self) -> Vec<String>;
    /// What DESCRIBE CLUSTER says.
    fn cluster_facts(&self) -> ClusterFacts;
    /// Reads through the coordinator.
    fn read(
        &self,
        command: ReadCommand,
        level: ConsistencyLevel,
    ) -> LocalBoxFuture<'static, Result<Vec<Partition>, CoordinatorError>>;
    /// Writes through the coordinator.
    fn write(
        &self,
        mutations: Vec<Mutation>,
        level: ConsistencyLevel,
        kind: WriteKind,
    ) -> LocalBoxFuture<'static, Result<(), CoordinatorError>>;
    /// Runs a statement that changes the schema, given as text with the session's keyspace; `None`
    /// when IF [NOT] EXISTS made it nothing.
    fn change_schema(
        &self,
        query: String,
        keyspace: Option<String>,
    ) -> LocalBoxFuture<'static, Result<Option<SchemaChange>, RequestError>>;
    /// Deletes everything in a table on every node.
    fn truncate(
        &self,
        table: Arc<TableMetadata>,
    ) -> LocalBoxFuture<'static, Result<(), CoordinatorError>>;
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// By CQL.
    #[error(transparent)]
    Cql(#[from] CqlError),
    /// By replicas or their absence.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

/// The sessions of one shard.
pub struct Server<B> {
    backend: Rc<B>,
    statements: Statements,
    subscribers: RefCell<Vec<Subscriber>>,
    closing: tokio::sync::watch::Sender<bool>,
}

struct Subscriber {
    events: Vec<helenus_native::EventType>,
    queue: mpsc::Sender<Event>,
}

impl<B: Backend> Server<B> {
    /// A server over this backend; prepared statements are shared with other shards.
    pub fn new(backend: Rc<B>, shared: Arc<SharedStatements>) -> Rc<Self> {
        Rc::new(Self {
            backend,
            statements: Statements::new(shared),
            subscribers: RefCell::default(),
            closing: tokio::sync::watch::Sender::new(false),
        })
    }

    /// Ends every session at the moment when none of its requests runs: a client loses no answer.
    pub fn close_sessions(&self) {
        self.closing.send_replace(true);
    }

    /// Sends an event to the sessions that subscribed to its kind.
    pub fn publish(&self, event: &Event) {
        let kind = event.event_type();
        self.subscribers.borrow_mut().retain(|subscriber| {
            if !subscriber.events.contains(&kind) {
                return !subscriber.queue.is_closed();
            }
            // a client that reads so slowly that its queue is full misses events and is dropped from the list
            subscriber.queue.try_send(event.clone()).is_ok()
        });
    }
}

impl<B> std::fmt::Debug for Server<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
