//! Messages between threads: to shards, and the router that finds the shard of a token.

use crate::messaging::Received;
use helenus_coordinator::FailureReason;
use helenus_native::Event;
use helenus_rows::{Mutation, Partition, ReadCommand, ReadKind};
use helenus_schema::{Schema, TableId};
use helenus_storage::metrics::EngineMetrics;
use helenus_storage::{ApplyError, ReadError};
use helenus_types::Token;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Messages that may wait for one shard; senders wait when there are more.
pub(crate) const QUEUE_LENGTH: usize = 8192;

/// Why a shard did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LocalError {
    #[error("{0}")]
    Overloaded(String),
    #[error("{0}")]
    Refused(String, FailureReason),
}

impl LocalError {
    pub(crate) fn reason(&self) -> FailureReason {
        match self {
            Self::Overloaded(_) => FailureReason::Unknown,
            Self::Refused(_, reason) => *reason,
        }
    }

    fn ended() -> Self {
        Self::Refused(
            "the shard's thread has ended: see the log".into(),
            FailureReason::Unknown,
        )
    }
}

impl From<ApplyError> for LocalError {
    fn from(error: ApplyError) -> Self {
        let text = error.to_string();
        match error {
            ApplyError::Overloaded { .. } => Self::Overloaded(text),
            ApplyError::UnknownTable(_) | ApplyError::SchemaBehind { .. } => {
                Self::Refused(text, FailureReason::IncompatibleSchema)
            }
            ApplyError::Unsupported { .. } | ApplyError::CommitLog(_) => {
                Self::Refused(text, FailureReason::Unknown)
            }
        }
    }
}

impl From<ReadError> for LocalError {
    fn from(error: ReadError) -> Self {
        let reason = match error {
            ReadError::TooManyTombstones { .. } => FailureReason::ReadTooManyTombstones,
            ReadError::UnknownTable(_) => FailureReason::IncompatibleSchema,
            ReadError::TooLarge { .. } => FailureReason::ReadSize,
            _ => FailureReason::Unknown,
        };
        Self::Refused(error.to_string(), reason)
    }
}

type Reply<T> = oneshot::Sender<Result<T, LocalError>>;

/// What a shard may be asked.
pub(crate) enum ShardMessage {
    Apply(Mutation, Reply<()>),
    Read(ReadCommand, Reply<Vec<Partition>>),
    /// An answer that arrived at another thread.
    Answer(Received),
    Schema(Arc<Schema>, Reply<()>),
    /// Flush these tables, or all.
    Flush(Option<Vec<TableId>>, Reply<()>),
    Truncate(TableId, Reply<()>),
    /// Flush everything and make the log durable; nothing is applied afterwards.
    Drain(Reply<()>),
    Metrics(oneshot::Sender<EngineMetrics>),
    /// For the sessions that subscribed.
    Event(Event),
}

/// Sends to shards.
#[derive(Clone)]
pub(crate) struct Shards(Arc<[mpsc::Sender<ShardMessage>]>);

impl Shards {
    pub(crate) fn new(senders: Vec<mpsc::Sender<ShardMessage>>) -> Self {
        Self(senders.into())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn of_token(&self, token: Token) -> usize {
        token.shard(self.0.len())
    }

    async fn ask<T>(
        &self,
        shard: usize,
        message: impl FnOnce(Reply<T>) -> ShardMessage,
    ) -> Result<T, LocalError> {
        let (reply, answer) = oneshot::channel();
        let sender = self.0.get(shard).ok_or_else(LocalError::ended)?;
        sender
            .send(message(reply))
            .await
            .map_err(|_| LocalError::ended())?;
        answer.await.map_err(|_| LocalError::ended())?
    }

    pub(crate) async fn apply(&self, mutation: Mutation) -> Result<(), LocalError> {
        let shard = self.of_token(mutation.key.token);
        self.ask(shard, |reply| ShardMessage::Apply(mutation, reply))
            .await
    }

    async fn read_one(
        &self,
        shard: usize,
        command: ReadCommand,
    ) -> Result<Vec<Partition>, LocalError> {
        self.ask(shard, |reply| ShardMessage::Read(command, reply))
            .await
    }

    /// Every shard does it, one after the other.
    async fn all(&self, message: impl Fn(Reply<()>) -> ShardMessage) -> Result<(), LocalError> {
        for shard in 0..self.count() {
            self.ask(shard, &message).await?;
        }
        Ok(())
    }

    pub(crate) async fn set_schema(&self, schema: &Arc<Schema>) -> Result<(), LocalError> {
        self.all(|reply| ShardMessage::Schema(Arc::clone(schema), reply))
            .await
    }

    pub(crate) async fn flush(&self, tables: Option<Vec<TableId>>) -> Result<(), LocalError> {
        self.all(|reply| ShardMessage::Flush(tables.clone(), reply))
            .await
    }

    pub(crate) async fn truncate(&self, table: TableId) -> Result<(), LocalError> {
        self.all(|reply| ShardMessage::Truncate(table, reply)).await
    }

    pub(crate) async fn drain(&self) -> Result<(), LocalError> {
        self.all(ShardMessage::Drain).await
    }

    /// Counters of each shard that answers.
    pub(crate) async fn metrics(&self) -> Vec<EngineMetrics> {
        let mut all = Vec::with_capacity(self.count());
        for sender in self.0.iter() {
            let (reply, answer) = oneshot::channel();
            if sender.send(ShardMessage::Metrics(reply)).await.is_ok()
                && let Ok(metrics) = answer.await
            {
                all.push(metrics);
            }
        }
        all
    }

    /// Tells every shard's sessions. A shard whose queue is full misses it.
    pub(crate) fn publish(&self, event: &Event) {
        for sender in self.0.iter() {
            if sender.try_send(ShardMessage::Event(event.clone())).is_err() {
                tracing::warn!("a shard's queue is full: its clients miss an event");
            }
        }
    }

    /// Hands an answer to the shard that waits for it.
    pub(crate) fn deliver(&self, shard: usize, received: Received) {
        if let Some(sender) = self.0.get(shard)
            && sender.try_send(ShardMessage::Answer(received)).is_err()
        {
            tracing::warn!(shard, "a shard's queue is full: an answer is dropped");
        }
    }
}

/// Access to the data of this node from one thread: its own shard directly, others by message.
#[derive(Clone)]
pub(crate) struct LocalData {
    pub(crate) shards: Shards,
    pub(crate) own: Option<Rc<crate::shard::Shard>>,
}

impl LocalData {
    fn own(&self, shard: usize) -> Option<&Rc<crate::shard::Shard>> {
        self.own.as_ref().filter(|own| own.index() == shard)
    }

    /// Applies a write; it survives a killed process when this returns.
    pub(crate) async fn apply(&self, mutation: Mutation) -> Result<(), LocalError> {
        match self.own(self.shards.of_token(mutation.key.token)) {
            Some(shard) => shard.apply(&mutation).await,
            None => self.shards.apply(mutation).await,
        }
    }

    async fn read_shard(
        &self,
        shard: usize,
        command: ReadCommand,
    ) -> Result<Vec<Partition>, LocalError> {
        match self.own(shard) {
            Some(own) => own.read(&command),
            None => self.shards.read_one(shard, command).await,
        }
    }

    /// Reads a partition from its shard, or a range from the shards in ring order until its limit.
    pub(crate) async fn read(
        &self,
        mut command: ReadCommand,
    ) -> Result<Vec<Partition>, LocalError> {
        if let ReadKind::Partition { key, .. } = &command.kind {
            let shard = self.shards.of_token(key.token);
            return self.read_shard(shard, command).await;
        }
        let limit = command.limits.rows;
        let mut found: Vec<Partition> = Vec::new();
        for shard in 0..self.shards.count() {
            let part = self.read_shard(shard, command.clone()).await?;
            if let ReadKind::Range(range) = &mut command.kind
                && !part.is_empty()
            {
                // only the first partition of the whole range is one that an earlier page began
                range.resume_after = None;
                command.limits.first_partition_returned = 0;
            }
            found.extend(part);
            if limit != u32::MAX {
                let counted = helenus_coordinator::resolve::live_rows(
                    &found,
                    &command.limits,
                    command.now_in_seconds,
                );
                let left = u64::from(limit).saturating_sub(counted);
                if left == 0 {
                    break;
                }
                command.limits.rows = u32::try_from(left).unwrap_or(u32::MAX);
            }
        }
        Ok(found)
    }
}
