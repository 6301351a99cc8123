//! The ring, the transport and the local shards, as the coordinator sees them from one thread.

use crate::cluster::SharedCluster;
use crate::control::ControlMessage;
use crate::messaging::{Encode, Messaging, Received};
use crate::shards::LocalData;
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use helenus_coordinator::hints::Hint;
use helenus_coordinator::{
    FailureReason, Replica, ReplicaFailure, ReplicaRequest, ReplicaResponse, ReplicaSet, Replicas,
};
use helenus_internode::error::EncodeError;
use helenus_internode::verb::Verb;
use helenus_internode::version::MessagingVersion;
use helenus_rows::codec::{Version, mutation};
use helenus_rows::wire::{ReadAnswer, decode_answer, encode_command};
use helenus_rows::{Mutation, ReadCommand, ReadKind};
use helenus_schema::Keyspace;
use helenus_types::{Endpoint, HostId, Reader, Token};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The coordinator's view from one thread.
pub(crate) struct NodeReplicas {
    pub(crate) cluster: SharedCluster,
    pub(crate) local: LocalData,
    pub(crate) messaging: Rc<Messaging>,
    pub(crate) control: mpsc::Sender<ControlMessage>,
    pub(crate) hinted_handoff: bool,
    /// Hints that wait for the control thread's queue.
    pub(crate) waiting_hints: Rc<Cell<usize>>,
    /// Hints that were dropped because too many waited.
    pub(crate) lost_hints: Cell<u64>,
}

/// The codec's version of a connection's.
pub(crate) fn codec_version(version: MessagingVersion) -> Version {
    Version::of_messaging(u32::from(version.number())).unwrap_or(Version::MESSAGING_12)
}

fn cannot_encode(error: &dyn std::fmt::Display) -> EncodeError {
    EncodeError::Unwritable(error.to_string())
}

/// MUTATION_REQ and READ_REPAIR_REQ.
pub(crate) fn mutation_payload(written: Rc<Mutation>) -> Encode {
    Box::new(move |version| {
        let mut out = Vec::with_capacity(256);
        mutation::encode(&written, codec_version(version), &mut out)
            .map_err(|error| cannot_encode(&error))?;
        Ok(Bytes::from(out))
    })
}

fn read_payload(command: Rc<ReadCommand>, digest: bool) -> Encode {
    Box::new(move |version| {
        let mut out = Vec::with_capacity(256);
        encode_command(
            &command,
            digest,
            u32::from(version.number()),
            codec_version(version),
            &mut out,
        )
        .map_err(|error| cannot_encode(&error))?;
        Ok(Bytes::from(out))
    })
}

/// HINT_REQ: host id, length, hint.
pub(crate) fn hint_payload(host: uuid::Uuid, hint: Hint) -> Encode {
    Box::new(move |version| {
        let mut body = Vec::with_capacity(256);
        hint.encode(codec_version(version), &mut body)
            .map_err(|error| cannot_encode(&error))?;
        let mut out = Vec::with_capacity(body.len() + 24);
        out.extend_from_slice(host.as_bytes());
        helenus_types::vint::write_unsigned(&mut out, body.len() as u64);
        out.extend_from_slice(&body);
        Ok(Bytes::from(out))
    })
}

/// The coordinator's word for a reason of messaging.
pub(crate) fn reason(reason: helenus_internode::payload::FailureReason) -> FailureReason {
    FailureReason::from_code(u64::from(reason.code()))
}

/// Hints of one thread that may wait for the control thread's queue.
const MAX_WAITING_HINTS: usize = 16_384;

impl NodeReplicas {
    /// The control thread is behind: the hint waits its turn, unless too many do.
    fn hint_later(&self, host: HostId, message: ControlMessage) -> bool {
        let waiting = Rc::clone(&self.waiting_hints);
        if waiting.get() >= MAX_WAITING_HINTS {
            let lost = self.lost_hints.get() + 1;
            self.lost_hints.set(lost);
            // one line for each power of two says enough
            if lost.is_power_of_two() {
                tracing::error!(%host, lost, "hints were dropped, too many wait to be written: run a repair of this node");
            }
            return false;
        }
        waiting.set(waiting.get() + 1);
        let control = self.control.clone();
        tokio::task::spawn_local(async move {
            // the control thread may have ended
            drop(control.send(message).await);
            waiting.set(waiting.get() - 1);
        });
        true
    }

    fn replica(&self, endpoint: Endpoint) -> Replica {
        let cluster = self.cluster.load();
        match cluster.nodes.get(&endpoint) {
            Some(facts) => Replica {
                endpoint,
                host_id: facts.host_id,
                datacenter: Arc::clone(&facts.datacenter),
                up: facts.up || endpoint == cluster.me,
            },
            None => Replica {
                endpoint,
                host_id: None,
                datacenter: Arc::clone(&cluster.datacenter),
                up: endpoint == cluster.me,
            },
        }
    }

    fn ask_self(
        &self,
        request: ReplicaRequest,
    ) -> LocalBoxFuture<'static, Result<ReplicaResponse, ReplicaFailure>> {
        let local = self.local.clone();
        Box::pin(async move {
            let outcome = match request {
                ReplicaRequest::Write(mutation)
                | ReplicaRequest::ReadRepair(mutation)
                | ReplicaRequest::Hint(mutation) => local
                    .apply(Rc::unwrap_or_clone(mutation))
                    .await
                    .map(|()| ReplicaResponse::Done),
                ReplicaRequest::Read(command) => local
                    .read(Rc::unwrap_or_clone(command))
                    .await
                    .map(ReplicaResponse::Data),
                ReplicaRequest::Digest(command) => {
                    local.read((*command).clone()).await.map(|partitions| {
                        ReplicaResponse::Digest(helenus_rows::digest::of_response(
                            &command,
                            &partitions,
                        ))
                    })
                }
            };
            outcome.map_err(|error| {
                tracing::debug!(%error, "a local replica failed");
                ReplicaFailure(error.reason())
            })
        })
    }
}

fn parse_read(answer: &Received, command: &ReadCommand) -> Result<ReplicaResponse, ReplicaFailure> {
    let mut reader = Reader::new(answer.message.payload.clone());
    match decode_answer(&mut reader, command, codec_version(answer.version)) {
        Ok(ReadAnswer::Data(partitions)) => Ok(ReplicaResponse::Data(partitions)),
        Ok(ReadAnswer::Digest(digest)) => Ok(ReplicaResponse::Digest(digest)),
        Err(error) => {
            tracing::warn!(peer = %answer.from, %error, "a peer's answer to a read cannot be understood");
            Err(ReplicaFailure(FailureReason::Unknown))
        }
    }
}

fn failure_of(answer: &Received) -> Option<ReplicaFailure> {
    (answer.message.header.verb == Verb::FailureRsp).then(|| {
        let code =
            helenus_internode::payload::FailureReason::decode(answer.message.payload.clone());
        ReplicaFailure(code.map_or(FailureReason::Unknown, reason))
    })
}

impl Replicas for NodeReplicas {
    fn me(&self) -> Endpoint {
        self.cluster.load().me
    }

    fn datacenter(&self) -> Arc<str> {
        Arc::clone(&self.cluster.load().datacenter)
    }

    fn replicas(&self, keyspace: &Keyspace, token: Token) -> ReplicaSet {
        let cluster = self.cluster.load();
        let Ok(map) = cluster.ring.replicas(&keyspace.replication) else {
            tracing::warn!(keyspace = %keyspace.name, "the replication of a keyspace cannot be understood");
            return ReplicaSet::default();
        };
        let placement = map.at(token);
        let mut natural: Vec<Replica> = placement
            .natural
            .iter()
            .map(|endpoint| self.replica(*endpoint))
            .collect();
        let near = |replica: &Replica| {
            if replica.endpoint == cluster.me {
                0
            } else if replica.datacenter == cluster.datacenter {
                1
            } else {
                2
            }
        };
        natural.sort_by_key(near);
        let pending = placement
            .pending
            .iter()
            .map(|endpoint| self.replica(*endpoint))
            .collect();
        ReplicaSet { natural, pending }
    }

    fn ranges(&self, keyspace: &Keyspace) -> Vec<(Token, Token)> {
        let cluster = self.cluster.load();
        match cluster.ring.replicas(&keyspace.replication) {
            Ok(map) if !keyspace.replication.is_local() => map.scan_ranges(),
            _ => vec![(Token::MINIMUM, Token::MINIMUM)],
        }
    }

    fn replication_factors(&self, keyspace: &Keyspace) -> Vec<(Arc<str>, usize)> {
        let cluster = self.cluster.load();
        match cluster.ring.replicas(&keyspace.replication) {
            Ok(map) => map
                .factors
                .iter()
                .map(|(name, factor)| (Arc::clone(name), *factor))
                .collect(),
            Err(_) => Vec::new(),
        }
    }

    fn request(
        &self,
        to: &Replica,
        request: ReplicaRequest,
        timeout: Duration,
    ) -> LocalBoxFuture<'static, Result<ReplicaResponse, ReplicaFailure>> {
        if to.endpoint == self.me() {
            return self.ask_self(request);
        }
        let (verb, payload, command) = match request {
            ReplicaRequest::Write(mutation) => {
                (Verb::MutationReq, mutation_payload(mutation), None)
            }
            ReplicaRequest::ReadRepair(mutation) => {
                (Verb::ReadRepairReq, mutation_payload(mutation), None)
            }
            ReplicaRequest::Hint(mutation) => (Verb::MutationReq, mutation_payload(mutation), None),
            ReplicaRequest::Read(command) => (
                verb_of(&command),
                read_payload(Rc::clone(&command), false),
                Some(command),
            ),
            ReplicaRequest::Digest(command) => (
                verb_of(&command),
                read_payload(Rc::clone(&command), true),
                Some(command),
            ),
        };
        let answer = self.messaging.request(to.endpoint, verb, timeout, payload);
        Box::pin(async move {
            let answer = answer
                .await
                .map_err(|failed| ReplicaFailure(reason(failed)))?;
            if let Some(failure) = failure_of(&answer) {
                return Err(failure);
            }
            command.map_or(Ok(ReplicaResponse::Done), |command| {
                parse_read(&answer, &command)
            })
        })
    }

    fn hint(&self, to: &Replica, mutation: &Rc<Mutation>) -> bool {
        let Some(host) = to
            .host_id
            .filter(|_| self.hinted_handoff && to.endpoint != self.me())
        else {
            return false;
        };
        let hint = Hint::new((**mutation).clone(), self.messaging.now_ms());
        match self.control.try_send(ControlMessage::Hint(host, hint)) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(message)) => self.hint_later(host, message),
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

fn verb_of(command: &ReadCommand) -> Verb {
    match command.kind {
        ReadKind::Partition { .. } => Verb::ReadReq,
        ReadKind::Range(_) => Verb::RangeReq,
    }
}
