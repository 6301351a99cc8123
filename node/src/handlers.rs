//! Requests of peers that touch data: decoded on the thread where they arrive, done on the shard of
//! their token, answered from here.

use crate::messaging::{Messaging, Received};
use crate::replicas::{codec_version, mutation_payload};
use crate::shards::{LocalData, LocalError};
use arc_swap::ArcSwap;
use bytes::Bytes;
use helenus_coordinator::FailureReason;
use helenus_coordinator::hints::Hint;
use helenus_internode::message::Message;
use helenus_internode::params::Param;
use helenus_internode::verb::Verb;
use helenus_rows::Mutation;
use helenus_rows::codec::{CodecError, mutation};
use helenus_rows::wire::{ReadAnswer, decode_command, encode_answer};
use helenus_schema::Schema;
use helenus_types::Reader;
use std::rc::Rc;
use std::sync::Arc;

/// Serves data requests of peers on one thread.
pub(crate) struct DataHandler {
    pub(crate) local: LocalData,
    pub(crate) messaging: Rc<Messaging>,
    pub(crate) schema: Arc<ArcSwap<Schema>>,
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Local(#[from] LocalError),
}

impl Failed {
    fn reason(&self) -> FailureReason {
        match self {
            Self::Codec(CodecError::UnknownColumn { .. } | CodecError::UnknownTable(_)) => {
                FailureReason::IncompatibleSchema
            }
            Self::Codec(_) => FailureReason::Unknown,
            Self::Local(error) => error.reason(),
        }
    }
}

/// Whether [`DataHandler`] serves a verb.
pub(crate) fn is_data(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::MutationReq | Verb::ReadRepairReq | Verb::HintReq | Verb::ReadReq | Verb::RangeReq
    )
}

impl DataHandler {
    /// Serves a request and answers it.
    pub(crate) async fn handle(self: Rc<Self>, received: Received) {
        let header = &received.message.header;
        let now_ms = self.messaging.now_ms();
        let age_ms = now_ms.saturating_sub(header.created_at_ms(now_ms));
        if u64::try_from(age_ms).is_ok_and(|age| age > header.expires_after_ms) {
            tracing::debug!(peer = %received.from, verb = header.verb.name(), age_ms, "dropped a request that came too late");
            return;
        }
        let to = header.respond_to(received.from);
        let answer = match self.serve(&received).await {
            Ok(payload) => Message::response_to(header, payload, self.messaging.now_ms()),
            Err(error) => {
                tracing::debug!(peer = %received.from, verb = header.verb.name(), %error, "a peer's request failed");
                let reason = internode_reason(error.reason());
                Some(Message::failure_of(header, reason, self.messaging.now_ms()))
            }
        };
        if let Some(answer) = answer {
            self.messaging.answer(to, answer);
        }
    }

    /// A coordinator in another data center sends a write to one node here, which passes it on to the
    /// others; they answer the coordinator.
    fn forward(&self, received: &Received, written: &Mutation) {
        let header = &received.message.header;
        let targets = header.params.iter().filter_map(|param| match param {
            Param::ForwardTo(targets) => Some(targets),
            _ => None,
        });
        for (endpoint, id) in targets.flatten() {
            let mut passed_on = header.clone();
            passed_on.id = *id;
            passed_on
                .params
                .retain(|param| !matches!(param, Param::ForwardTo(_) | Param::RespondTo(_)));
            passed_on
                .params
                .push(Param::RespondTo(header.respond_to(received.from)));
            let payload = mutation_payload(Rc::new(written.clone()));
            self.messaging.forward(*endpoint, passed_on, payload);
        }
    }

    async fn serve(&self, received: &Received) -> Result<Bytes, Failed> {
        let version = codec_version(received.version);
        let schema = self.schema.load_full();
        let mut reader = Reader::new(received.message.payload.clone());
        match received.message.header.verb {
            Verb::MutationReq | Verb::ReadRepairReq => {
                let mutation = mutation::decode(&mut reader, &schema, version)?;
                self.forward(received, &mutation);
                self.local.apply(mutation).await?;
                Ok(Bytes::new())
            }
            Verb::HintReq => {
                reader.skip(16).map_err(CodecError::from)?;
                let body = reader.vint_bytes().map_err(CodecError::from)?;
                match Hint::decode(&mut Reader::new(body), &schema, version) {
                    Ok(hint) if hint.is_expired(self.messaging.now_ms()) => {}
                    Ok(hint) => self.local.apply(hint.mutation).await?,
                    // its table was dropped since: there is nothing to apply it to
                    Err(CodecError::UnknownTable(table)) => {
                        tracing::info!(%table, "ignored a hint for a table that is gone");
                    }
                    Err(error) => return Err(error.into()),
                }
                Ok(Bytes::new())
            }
            _ => {
                let read = decode_command(&mut reader, &schema, version)?;
                let partitions = self.local.read(read.command.clone()).await?;
                let answer = if read.digest {
                    ReadAnswer::Digest(helenus_rows::digest::of_response(
                        &read.command,
                        &partitions,
                    ))
                } else {
                    ReadAnswer::Data(partitions)
                };
                let mut out = Vec::with_capacity(512);
                encode_answer(&answer, &read.command, version, &mut out)?;
                Ok(Bytes::from(out))
            }
        }
    }
}

fn internode_reason(reason: FailureReason) -> helenus_internode::payload::FailureReason {
    use helenus_internode::payload::FailureReason as Wire;
    match reason {
        FailureReason::Unknown => Wire::Unknown,
        FailureReason::ReadTooManyTombstones => Wire::ReadTooManyTombstones,
        FailureReason::Timeout => Wire::Timeout,
        FailureReason::IncompatibleSchema => Wire::IncompatibleSchema,
        FailureReason::ReadSize => Wire::ReadSize,
        FailureReason::NodeDown => Wire::NodeDown,
        FailureReason::IndexNotAvailable => Wire::IndexNotAvailable,
    }
}
