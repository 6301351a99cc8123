//! The schema on the control thread: changed here, stored in `system_schema`, pushed to peers, and
//! pulled from those whose version differs.
//!
//! Concurrent changes on two nodes end alike everywhere, since their rows merge by timestamp as all
//! data does: the later change of one table wins.

use super::{Control, ControlMessage};
use crate::messaging::Received;
use crate::replicas::codec_version;
use anyhow::{Context, Result};
use bytes::Bytes;
use helenus_coordinator::CoordinatorError;
use helenus_cql::ddl::{ChangeKind, DdlContext, SchemaEvent, apply_ddl};
use helenus_internode::gossip::ApplicationState;
use helenus_internode::payload::{TruncateRequest, TruncateResponse};
use helenus_internode::verb::Verb;
use helenus_native::{Event, SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use helenus_rows::codec::{Version, mutation};
use helenus_rows::{ColumnData, Mutation, Partition, Row, Unfiltered};
use helenus_schema::{Replication, Schema, TableMetadata};
use helenus_server::RequestError;
use helenus_types::{Endpoint, Reader, timeuuid};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

const PUSH_TIMEOUT: Duration = Duration::from_secs(5);
const PULL_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer whose version still differs is not asked again before this time has passed.
const PULL_INTERVAL: Duration = Duration::from_secs(1);
/// And after a failure not before this much more has.
const PULL_PAUSE: Duration = Duration::from_secs(2);

fn server_error(error: &anyhow::Error) -> RequestError {
    CoordinatorError::Server(format!("{error:#}")).into()
}

impl Control {
    /// Keyspaces that are replicated, with their replication.
    pub(super) fn replicated_keyspaces(&self) -> Vec<(String, Replication)> {
        let schema = self.shared.schema.load();
        schema
            .keyspaces()
            .filter(|keyspace| !keyspace.replication.is_local())
            .map(|keyspace| (keyspace.name.clone(), keyspace.replication.clone()))
            .collect()
    }

    /// Runs a statement that changes the schema, and answers when the live peers have it. They are
    /// waited for beside this task, which takes their own changes meanwhile.
    pub(super) async fn run_schema_change(
        &mut self,
        query: &str,
        keyspace: Option<&str>,
        reply: oneshot::Sender<Result<Option<SchemaChange>, RequestError>>,
    ) {
        // the client may be gone; the change stands
        match self.change_schema(query, keyspace).await {
            Ok(Some((event, mutations))) => {
                let pushed = self.push_schema(&mutations);
                tokio::task::spawn_local(async move {
                    pushed.await;
                    drop(reply.send(Ok(Some(event))));
                });
            }
            Ok(None) => drop(reply.send(Ok(None))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    async fn change_schema(
        &mut self,
        query: &str,
        keyspace: Option<&str>,
    ) -> Result<Option<(SchemaChange, Vec<Mutation>)>, RequestError> {
        let schema = self.shared.schema.load_full();
        let parsed = helenus_cql::parse(query)?;
        let now_micros = self.shared.clock.wall_micros();
        let random = self.shared.entropy.next_u64().to_be_bytes();
        let datacenters = self.shared.cluster.load().datacenters();
        let context = DdlContext {
            keyspace,
            now_micros,
            new_table_id: timeuuid::from_micros(
                now_micros,
                u16::from_be_bytes([random[0], random[1]]),
                [
                    random[2] | 1,
                    random[3],
                    random[4],
                    random[5],
                    random[6],
                    random[7],
                ],
            ),
            datacenters: &datacenters,
        };
        let Some(change) = apply_ddl(&schema, &parsed.statement, &context)? else {
            return Ok(None);
        };
        let now = now_micros.div_euclid(1_000_000);
        let newest = self
            .newest_schema_timestamp()
            .await
            .map_err(|error| server_error(&error))?;
        // a change wins over all that this node knows, though another node's clock may be ahead
        let timestamp = now_micros.max(newest.saturating_add(1));
        let mutations = vec![helenus_cql::schema_rows::mutation_of(
            &change, &schema, timestamp, now,
        )?];
        self.apply_schema(mutations.clone())
            .await
            .map_err(|error| server_error(&error))?;
        let event = native_change(&change.event);
        tracing::info!(keyspace = %change.event.keyspace, name = %change.event.name, change = change.event.change.word(), "schema changed");
        Ok(Some((event, mutations)))
    }

    async fn newest_schema_timestamp(&self) -> Result<i64> {
        let schema = self.shared.schema.load();
        let now = self.shared.clock.now_in_seconds();
        let stored = crate::schema_store::rows(&self.local, &schema, now).await?;
        let updates = stored.iter().flat_map(|mutation| &mutation.updates);
        Ok(updates
            .map(|update| newest_timestamp(&update.partition))
            .max()
            .unwrap_or(i64::MIN))
    }

    /// Stores rows of `system_schema`, then makes the schema that they say the node's.
    async fn apply_schema(&mut self, mutations: Vec<Mutation>) -> Result<()> {
        for mutation in mutations
            .into_iter()
            .filter(|one| !crate::schema_store::is_local_key(&one.key.key))
        {
            self.local
                .apply(mutation)
                .await
                .context("store a schema change")?;
        }
        let before = self.shared.schema.load_full();
        let after = Arc::new(
            crate::schema_store::load(&self.local, &before, self.shared.clock.now_in_seconds())
                .await?,
        );
        if after.version == before.version {
            return Ok(());
        }
        // shards first, so that no request meets a table that its shard does not know
        self.shared
            .shards
            .set_schema(&after)
            .await
            .context("tell the shards of a schema change")?;
        self.shared.schema.store(Arc::clone(&after));
        self.gossiper
            .set_local(ApplicationState::Schema, after.version.to_string());
        self.store_local(&format!("schema_version = {}", after.version))
            .await?;
        for change in changes(&before, &after) {
            self.shared.shards.publish(&Event::Schema(change));
        }
        Ok(())
    }

    /// Tells every live peer; the future waits for them a little: a client that goes on to another
    /// node should find the change there.
    fn push_schema(&self, mutations: &[Mutation]) -> impl Future<Output = ()> + 'static + use<> {
        let peers: Vec<Endpoint> = self.gossiper.live().collect();
        let pushes = peers.into_iter().map(|peer| {
            let mutations = mutations.to_vec();
            self.messaging.request(
                peer,
                Verb::SchemaPushReq,
                PUSH_TIMEOUT,
                Box::new(move |version| {
                    let mut out = Vec::new();
                    encode_mutations(&mutations, codec_version(version), &mut out).map_err(
                        |error| {
                            helenus_internode::error::EncodeError::Unwritable(error.to_string())
                        },
                    )?;
                    Ok(out.into())
                }),
            )
        });
        let pushed = futures::future::join_all(pushes);
        async move {
            // a peer that does not answer pulls the schema when it sees our version
            drop(pushed.await);
        }
    }

    pub(super) async fn receive_schema(&mut self, received: Received) {
        match received.message.header.verb {
            Verb::SchemaVersionReq => {
                let version = self.shared.schema.load().version;
                self.answer(&received, helenus_internode::payload::encode_uuid(version));
            }
            Verb::SchemaPullReq => {
                match self.all_schema_rows(codec_version(received.version)).await {
                    Ok(payload) => self.answer(&received, payload),
                    Err(error) => {
                        tracing::error!(
                            error = format!("{error:#}"),
                            "the schema cannot be read for a peer"
                        );
                        self.refuse(&received);
                    }
                }
            }
            _ => {
                let schema = crate::schema_store::system_only(&self.shared.schema.load());
                let version = codec_version(received.version);
                match decode_mutations(received.message.payload.clone(), &schema, version) {
                    Ok(mutations) => match self.apply_schema(mutations).await {
                        Ok(()) => self.answer(&received, Bytes::new()),
                        Err(error) => {
                            tracing::error!(peer = %received.from, error = format!("{error:#}"), "a peer's schema change was not applied");
                            self.refuse(&received);
                        }
                    },
                    Err(error) => {
                        tracing::warn!(peer = %received.from, %error, "a peer's schema change cannot be understood");
                        self.refuse(&received);
                    }
                }
            }
        }
    }

    async fn all_schema_rows(&self, version: Version) -> Result<Bytes> {
        let mutations = crate::schema_store::rows(
            &self.local,
            &self.shared.schema.load(),
            self.shared.clock.now_in_seconds(),
        )
        .await?;
        let mut out = Vec::new();
        encode_mutations(&mutations, version, &mut out)?;
        Ok(out.into())
    }

    /// Pulls from live peers whose version differs from ours.
    pub(super) fn check_schemas(&mut self) {
        if !self.gossiper.is_enabled() {
            return;
        }
        let ours = self.shared.schema.load().version;
        let members = self.gossiper.members();
        let me = self.me();
        let live: Vec<_> = members
            .iter()
            .filter(|member| member.alive && member.endpoint != me)
            .collect();
        let differing: Vec<Endpoint> = live
            .iter()
            .filter(|member| member.schema.is_some_and(|theirs| theirs != ours))
            .map(|member| member.endpoint)
            .collect();
        if differing.is_empty()
            && self.joining_with_schema
            && live.iter().any(|member| member.schema == Some(ours))
        {
            self.joining_with_schema = false;
            self.life.schema_agreed();
        }
        for peer in differing {
            self.pull_schema(peer);
        }
    }

    pub(super) fn pull_schema(&mut self, from: Endpoint) {
        let now = self.now().monotonic;
        let recent = self
            .pulled
            .get(&from)
            .is_some_and(|at| now.saturating_sub(*at) < PULL_INTERVAL);
        if recent || !self.pulling.insert(from) {
            return;
        }
        self.pulled.insert(from, now);
        let (messaging, reporter) = (Rc::clone(&self.messaging), self.reporter());
        let schema = crate::schema_store::system_only(&self.shared.schema.load());
        tokio::task::spawn_local(async move {
            let answer = messaging
                .request(
                    from,
                    Verb::SchemaPullReq,
                    PULL_TIMEOUT,
                    Box::new(|_| Ok(Bytes::new())),
                )
                .await;
            let outcome = match answer {
                Ok(answer) if answer.message.header.verb == Verb::SchemaPullRsp => {
                    decode_mutations(
                        answer.message.payload.clone(),
                        &schema,
                        codec_version(answer.version),
                    )
                    .map_err(|error| error.to_string())
                }
                Ok(_) => Err("the peer refused".to_owned()),
                Err(reason) => Err(format!("no answer: {reason:?}")),
            };
            // the control thread may have ended
            drop(
                reporter
                    .send(ControlMessage::SchemaPulled(from, outcome))
                    .await,
            );
        });
    }

    pub(super) async fn schema_pulled(
        &mut self,
        from: Endpoint,
        outcome: Result<Vec<Mutation>, String>,
    ) {
        self.pulling.remove(&from);
        let applied = match outcome {
            Ok(mutations) => self
                .apply_schema(mutations)
                .await
                .map_err(|error| format!("{error:#}")),
            Err(error) => Err(error),
        };
        match applied {
            Ok(()) => tracing::debug!(peer = %from, "took over a peer's schema"),
            Err(error) => {
                tracing::info!(peer = %from, %error, "a peer's schema was not taken over; trying again");
                let later = self.now().monotonic + PULL_PAUSE;
                self.pulled.insert(from, later);
            }
        }
    }

    /// Rows about the node's own keyspaces, for clients that read `system_schema`.
    pub(crate) async fn store_local_schema(&self) -> Result<()> {
        let schema = self.shared.schema.load_full();
        for mutation in crate::schema_store::local_rows(&schema, self.shared.clock.wall_micros())? {
            self.local
                .apply(mutation)
                .await
                .context("store the rows of the system keyspaces")?;
        }
        Ok(())
    }

    /// The keyspaces that every ring has, made by whoever serves first.
    pub(super) async fn make_distributed_keyspaces(&mut self) -> Result<()> {
        let schema = self.shared.schema.load_full();
        let mutations =
            crate::schema_store::missing_distributed(&schema, self.shared.clock.now_in_seconds())?;
        if mutations.is_empty() {
            return Ok(());
        }
        self.apply_schema(mutations.clone()).await?;
        tokio::task::spawn_local(self.push_schema(&mutations));
        Ok(())
    }

    /// Truncates on every node, all of which must be up.
    pub(super) fn truncate_everywhere(
        &self,
        table: &Arc<TableMetadata>,
        reply: oneshot::Sender<Result<(), CoordinatorError>>,
    ) {
        let members = self.gossiper.members();
        let me = self.me();
        let down: Vec<String> = members
            .iter()
            .filter(|member| member.is_owner() && !member.alive && member.endpoint != me)
            .map(|member| member.endpoint.to_string())
            .collect();
        if !down.is_empty() {
            let text = format!(
                "Cannot perform truncate: these nodes are down: {}",
                down.join(", ")
            );
            drop(reply.send(Err(CoordinatorError::Server(text))));
            return;
        }
        let request = TruncateRequest {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
        };
        let peers = members
            .iter()
            .filter(|member| member.alive && member.endpoint != me);
        let asked: Vec<_> = peers
            .map(|member| {
                let request = request.clone();
                let payload: crate::messaging::Encode = Box::new(move |_| request.encode());
                (
                    member.endpoint,
                    self.messaging.request(
                        member.endpoint,
                        Verb::TruncateReq,
                        Duration::from_mins(1),
                        payload,
                    ),
                )
            })
            .collect();
        let (shards, id) = (self.shared.shards.clone(), table.id);
        tokio::task::spawn_local(async move {
            let mut outcome = shards.truncate(id).await.map_err(|error| error.to_string());
            for (endpoint, answer) in asked {
                let taken = match answer.await {
                    Ok(answer) if answer.message.header.verb == Verb::TruncateRsp => Ok(()),
                    Ok(_) => Err(format!("{endpoint} refused to truncate: see its log")),
                    Err(reason) => Err(format!("{endpoint} did not answer: {reason:?}")),
                };
                outcome = outcome.and(taken);
            }
            drop(reply.send(outcome.map_err(CoordinatorError::Server)));
        });
    }

    pub(super) fn receive_truncate(&self, received: Received) {
        let schema = self.shared.schema.load_full();
        let request = TruncateRequest::decode(received.message.payload.clone());
        let table = request.ok().and_then(|request| {
            let table = schema.table(&request.keyspace, &request.table)?.id;
            Some((request, table))
        });
        let Some((request, table)) = table else {
            self.refuse(&received);
            return;
        };
        let (messaging, shards) = (Rc::clone(&self.messaging), self.shared.shards.clone());
        tokio::task::spawn_local(async move {
            let header = &received.message.header;
            let outcome = shards.truncate(table).await;
            if let Err(error) = &outcome {
                tracing::error!(keyspace = %request.keyspace, table = %request.table, %error, "truncate failed");
            }
            let response = TruncateResponse {
                keyspace: request.keyspace,
                table: request.table,
                success: outcome.is_ok(),
            };
            let answer = match response.encode() {
                Ok(payload) if outcome.is_ok() => helenus_internode::message::Message::response_to(
                    header,
                    payload,
                    messaging.now_ms(),
                ),
                _ => Some(helenus_internode::message::Message::failure_of(
                    header,
                    helenus_internode::payload::FailureReason::Unknown,
                    messaging.now_ms(),
                )),
            };
            if let Some(answer) = answer {
                messaging.answer(header.respond_to(received.from), answer);
            }
        });
    }
}

/// The newest timestamp of all that a partition holds.
fn newest_timestamp(partition: &Partition) -> i64 {
    let of_data = |data: &ColumnData| match data {
        ColumnData::Simple(cell) => cell.timestamp,
        ColumnData::Complex(data) => {
            let cells = data.cells.iter().map(|cell| cell.timestamp);
            cells.fold(data.deletion.marked_for_delete_at, i64::max)
        }
    };
    let of_row = |row: &Row| {
        let own = row
            .liveness
            .timestamp
            .max(row.deletion.marked_for_delete_at);
        row.columns
            .iter()
            .map(|(_, data)| of_data(data))
            .fold(own, i64::max)
    };
    let of_unfiltered = |unfiltered: &Unfiltered| match unfiltered {
        Unfiltered::Row(row) => of_row(row),
        Unfiltered::Marker(marker) => [marker.start, marker.end]
            .into_iter()
            .flatten()
            .map(|deletion| deletion.marked_for_delete_at)
            .fold(i64::MIN, i64::max),
    };
    let first = of_row(&partition.static_row).max(partition.deletion.marked_for_delete_at);
    partition
        .unfiltereds
        .iter()
        .map(of_unfiltered)
        .fold(first, i64::max)
}

/// A list of mutations as SCHEMA_PUSH_REQ and SCHEMA_PULL_RSP carry it: count (i32 as vint), each.
fn encode_mutations(
    mutations: &[Mutation],
    version: Version,
    out: &mut Vec<u8>,
) -> Result<(), helenus_rows::codec::CodecError> {
    out.extend_from_slice(
        &i32::try_from(mutations.len())
            .unwrap_or(i32::MAX)
            .to_be_bytes(),
    );
    mutations
        .iter()
        .try_for_each(|one| mutation::encode(one, version, out))
}

fn decode_mutations(
    payload: Bytes,
    schema: &Schema,
    version: Version,
) -> Result<Vec<Mutation>, helenus_rows::codec::CodecError> {
    let mut reader = Reader::new(payload);
    let count = reader.i32()?;
    let mut mutations = Vec::new();
    for _ in 0..count {
        mutations.push(mutation::decode(&mut reader, schema, version)?);
    }
    Ok(mutations)
}

fn native_change(event: &SchemaEvent) -> SchemaChange {
    SchemaChange {
        kind: match event.change {
            ChangeKind::Created => SchemaChangeKind::Created,
            ChangeKind::Updated => SchemaChangeKind::Updated,
            ChangeKind::Dropped => SchemaChangeKind::Dropped,
        },
        keyspace: event.keyspace.clone(),
        target: match event.target {
            "TABLE" => SchemaChangeTarget::Table(event.name.clone()),
            "TYPE" => SchemaChangeTarget::Type(event.name.clone()),
            _ => SchemaChangeTarget::Keyspace,
        },
    }
}

/// Events for what differs between two maps of named things.
fn differing<T: PartialEq>(
    keyspace: &str,
    before: Option<&BTreeMap<String, T>>,
    after: Option<&BTreeMap<String, T>>,
    target: impl Fn(String) -> SchemaChangeTarget,
    found: &mut Vec<SchemaChange>,
) {
    let mut push = |kind, name: &String| {
        found.push(SchemaChange {
            kind,
            keyspace: keyspace.to_owned(),
            target: target(name.clone()),
        });
    };
    for (name, new) in after.into_iter().flatten() {
        match before.and_then(|before| before.get(name)) {
            None => push(SchemaChangeKind::Created, name),
            Some(old) if old != new => push(SchemaChangeKind::Updated, name),
            Some(_) => {}
        }
    }
    for name in before.into_iter().flatten().map(|entry| entry.0) {
        if after.is_none_or(|after| !after.contains_key(name)) {
            push(SchemaChangeKind::Dropped, name);
        }
    }
}

/// What differs between two schemas, as events for clients.
fn changes(before: &Schema, after: &Schema) -> Vec<SchemaChange> {
    let mut found = Vec::new();
    let keyspace_changed = |kind, name: &str| SchemaChange {
        kind,
        keyspace: name.to_owned(),
        target: SchemaChangeTarget::Keyspace,
    };
    for new in after.keyspaces() {
        let old = before.keyspace(&new.name);
        match old {
            None => found.push(keyspace_changed(SchemaChangeKind::Created, &new.name)),
            Some(old)
                if old.replication != new.replication
                    || old.durable_writes != new.durable_writes =>
            {
                found.push(keyspace_changed(SchemaChangeKind::Updated, &new.name));
            }
            Some(_) => {}
        }
        let old_types = old.map(|old| &old.types);
        differing(
            &new.name,
            old_types,
            Some(&new.types),
            SchemaChangeTarget::Type,
            &mut found,
        );
        let old_tables = old.map(|old| &old.tables);
        differing(
            &new.name,
            old_tables,
            Some(&new.tables),
            SchemaChangeTarget::Table,
            &mut found,
        );
    }
    for old in before
        .keyspaces()
        .filter(|old| after.keyspace(&old.name).is_none())
    {
        found.push(keyspace_changed(SchemaChangeKind::Dropped, &old.name));
    }
    found
}
