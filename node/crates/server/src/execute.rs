//! Running requests: prepare, bind, read or write through the backend, answer.

use crate::errors;
use crate::prepared::Statement;
use crate::{Backend, RequestError, Server};
use bytes::Bytes;
use futures::future::try_join_all;
use helenus_coordinator::WriteKind;
use helenus_cql::{
    BindContext, BoundValue, BoundValues, ClusterFacts, CqlError, Existing, Plan, Prepared,
    StatementKind,
};
use helenus_native::{
    Batch, BatchKind, BatchQuery, ColumnSpec, ErrorResponse, PreparedMetadata, QueryParameters,
    Request, RequestMessage, Response, ResponseMessage, ResultBody, RowsMetadata, RowsWriter,
};
use helenus_rows::{Mutation, ReadCommand};
use helenus_schema::Schema;
use helenus_types::ConsistencyLevel;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Single-partition reads of one IN that run at once.
const PARALLEL_READS: usize = 32;

/// A client's session.
pub(crate) struct Session<B> {
    server: Rc<Server<B>>,
    keyspace: RefCell<Option<String>>,
}

/// An answer, or the error to answer.
type Outcome = Result<Answered, Refused>;

struct Answered {
    response: Response,
    warnings: Vec<String>,
}

enum Refused {
    Request(RequestError),
    Response(ErrorResponse),
}

impl<E: Into<RequestError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

impl From<ResultBody> for Answered {
    fn from(body: ResultBody) -> Self {
        Self {
            response: Response::Result(body),
            warnings: Vec::new(),
        }
    }
}

fn invalid(message: impl Into<String>) -> Refused {
    Refused::Request(CqlError::Invalid(message.into()).into())
}

impl<B: Backend> Session<B> {
    pub(crate) fn new(server: Rc<Server<B>>) -> Self {
        Self {
            server,
            keyspace: RefCell::new(None),
        }
    }

    /// Runs a request to its answer.
    pub(crate) async fn handle(&self, message: RequestMessage) -> ResponseMessage {
        let (version, stream) = (message.version, message.stream);
        let tracing = message.tracing;
        let outcome = match message.request {
            Request::Query { query, parameters } => self.query(&query, parameters, version).await,
            Request::Prepare { query, keyspace } => self.prepare(&query, keyspace),
            Request::Execute {
                id,
                result_metadata_id,
                parameters,
            } => {
                self.execute(&id, result_metadata_id, parameters, version)
                    .await
            }
            Request::Batch(batch) => self.batch(batch).await,
            other => Err(Refused::Response(ErrorResponse::Protocol {
                message: format!("Unexpected message {}", other.opcode().name()),
            })),
        };
        let (response, mut warnings) = match outcome {
            Ok(answered) => (answered.response, answered.warnings),
            Err(Refused::Request(error)) => (Response::Error(errors::response(&error)), Vec::new()),
            Err(Refused::Response(response)) => (Response::Error(response), Vec::new()),
        };
        if tracing {
            warnings.push("this version of Helenus does not trace requests yet".to_owned());
        }
        ResponseMessage {
            warnings,
            ..ResponseMessage::new(version, stream, response)
        }
    }

    /// What a plan takes from outside; facts of the cluster only for the statements that look at them.
    fn context(&self, parameters: &QueryParameters, kind: StatementKind) -> BindContext {
        let backend = &self.server.backend;
        let now_micros = backend.now_micros();
        BindContext {
            timestamp_micros: parameters.timestamp_micros.unwrap_or(now_micros),
            now_micros,
            now_in_seconds: parameters
                .now_in_seconds
                .unwrap_or_else(|| now_micros.div_euclid(1_000_000)),
            page_size: parameters
                .page_size
                .and_then(|size| u32::try_from(size).ok())
                .filter(|size| *size > 0),
            paging_state: parameters.paging_state.clone(),
            entropy: backend.entropy(),
            datacenters: if kind == StatementKind::Schema {
                backend.datacenters()
            } else {
                Vec::new()
            },
            cluster: if kind == StatementKind::Describe {
                backend.cluster_facts()
            } else {
                ClusterFacts::default()
            },
            existing: None,
        }
    }

    fn keyspace_for(&self, parameters: &QueryParameters) -> Option<String> {
        parameters
            .keyspace
            .clone()
            .or_else(|| self.keyspace.borrow().clone())
    }

    async fn query(
        &self,
        query: &str,
        parameters: QueryParameters,
        version: helenus_native::ProtocolVersion,
    ) -> Outcome {
        let schema = self.server.backend.schema();
        let keyspace = self.keyspace_for(&parameters);
        let prepared = helenus_cql::prepare(query, &schema, keyspace.as_deref())?;
        check_page_size(&parameters)?;
        let context = self.context(&parameters, prepared.kind());
        let values = values(parameters.values);
        let given = match &values {
            BoundValues::Positional(values) => values.len(),
            BoundValues::Named(values) => values.len(),
        };
        if given != prepared.variables().len() {
            return Err(invalid("Invalid amount of bind variables"));
        }
        let context = self
            .read_first(&prepared, &values, context, parameters.consistency)
            .await?;
        let plan = prepared.bind(&values, &context, &schema)?;
        self.run(
            plan,
            query,
            keyspace,
            parameters.consistency,
            |metadata| metadata,
            version,
        )
        .await
    }

    fn prepare(&self, query: &str, keyspace: Option<String>) -> Outcome {
        let schema = self.server.backend.schema();
        let keyspace = keyspace.or_else(|| self.keyspace.borrow().clone());
        let (id, statement) =
            self.server
                .statements
                .prepare(query, keyspace.as_deref(), &schema)?;
        let prepared = &statement.prepared;
        let columns = match prepared.result_columns() {
            Some(columns) => RowsMetadata::new(columns.iter().map(spec).collect()),
            None => RowsMetadata {
                no_metadata: true,
                ..RowsMetadata::default()
            },
        };
        let body = helenus_native::Prepared {
            id,
            result_metadata_id: Some(metadata_id(prepared)),
            markers: PreparedMetadata {
                columns: prepared.variables().iter().map(spec).collect(),
                partition_key_indexes: prepared.partition_key_indexes().to_vec(),
            },
            columns,
        };
        Ok(ResultBody::Prepared(Box::new(body)).into())
    }

    fn known(&self, id: &Bytes, schema: &Arc<Schema>) -> Result<Arc<Statement>, Refused> {
        self.server.statements.get(id, schema).ok_or_else(|| {
            let hex = id.iter().fold(String::new(), |mut hex, byte| {
                for half in [byte >> 4, byte & 15] {
                    hex.extend(char::from_digit(u32::from(half), 16));
                }
                hex
            });
            let message = format!(
                "Prepared query with ID {hex} not found (either the query was not prepared on this host \
                 (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)"
            );
            Refused::Response(ErrorResponse::Unprepared { message, id: id.clone() })
        })
    }

    async fn execute(
        &self,
        id: &Bytes,
        known_metadata: Option<Bytes>,
        parameters: QueryParameters,
        version: helenus_native::ProtocolVersion,
    ) -> Outcome {
        let schema = self.server.backend.schema();
        let statement = self.known(id, &schema)?;
        let prepared = &statement.prepared;
        check_page_size(&parameters)?;
        let context = self.context(&parameters, prepared.kind());
        let skip_metadata = parameters.skip_metadata;
        let values = values(parameters.values);
        let context = self
            .read_first(prepared, &values, context, parameters.consistency)
            .await?;
        let plan = prepared.bind(&values, &context, &schema)?;
        let current = metadata_id(prepared);
        let shape = move |mut metadata: RowsMetadata| {
            if let Some(known) = known_metadata
                && known != current
            {
                metadata.new_metadata_id = Some(current);
            } else {
                metadata.no_metadata = skip_metadata;
            }
            metadata
        };
        let keyspace = statement.keyspace.clone();
        self.run(
            plan,
            &statement.query,
            keyspace,
            parameters.consistency,
            shape,
            version,
        )
        .await
    }

    /// Reads what a write depends on, at the write's own level as Cassandra does.
    async fn read_first(
        &self,
        prepared: &Prepared,
        values: &BoundValues,
        mut context: BindContext,
        level: ConsistencyLevel,
    ) -> Result<BindContext, Refused> {
        let commands = prepared.required_reads(values, &context)?;
        if !commands.is_empty() {
            context.existing = Some(Arc::new(self.existing(commands, level).await?));
        }
        Ok(context)
    }

    async fn existing(
        &self,
        commands: Vec<ReadCommand>,
        level: ConsistencyLevel,
    ) -> Result<Existing, Refused> {
        check_read_level(level).map_err(|_| {
            invalid(format!(
                "Write operation require a read but consistency {level} is not supported on reads"
            ))
        })?;
        let mut answers = Vec::with_capacity(commands.len());
        for some in commands.chunks(PARALLEL_READS) {
            let reads = some
                .iter()
                .map(|command| self.server.backend.read(command.clone(), level));
            answers.extend(try_join_all(reads).await?);
        }
        Ok(Existing::new(&commands, answers))
    }

    async fn run(
        &self,
        plan: Plan,
        query: &str,
        keyspace: Option<String>,
        level: ConsistencyLevel,
        shape: impl FnOnce(RowsMetadata) -> RowsMetadata,
        version: helenus_native::ProtocolVersion,
    ) -> Outcome {
        let backend = &self.server.backend;
        match plan {
            Plan::Read(select) => {
                check_read_level(level)?;
                let mut execution = select.start();
                loop {
                    let commands = execution.next_commands(PARALLEL_READS);
                    if commands.is_empty() {
                        break;
                    }
                    let reads = commands
                        .into_iter()
                        .map(|command| backend.read(command, level));
                    execution.feed(&try_join_all(reads).await?)?;
                }
                let rows = execution.finish()?;
                Ok(Answered {
                    response: rows_response(&rows, shape, version),
                    warnings: rows.warnings,
                })
            }
            Plan::Rows(rows) => Ok(Answered {
                response: rows_response(&rows, shape, version),
                warnings: rows.warnings,
            }),
            Plan::Write {
                kind,
                mutations,
                warnings,
            } => {
                check_write_level(level)?;
                self.write(mutations, level, write_kind(kind)).await?;
                Ok(Answered {
                    warnings,
                    ..ResultBody::Void.into()
                })
            }
            Plan::Schema(_) => Ok(
                match backend.change_schema(query.to_owned(), keyspace).await? {
                    Some(change) => ResultBody::SchemaChange(change).into(),
                    None => ResultBody::Void.into(),
                },
            ),
            Plan::Use(name) => {
                *self.keyspace.borrow_mut() = Some(name.clone());
                Ok(ResultBody::SetKeyspace(name).into())
            }
            Plan::Truncate(table) => {
                backend.truncate(table).await?;
                Ok(ResultBody::Void.into())
            }
        }
    }

    async fn write(
        &self,
        mutations: Vec<Mutation>,
        level: ConsistencyLevel,
        kind: WriteKind,
    ) -> Result<(), Refused> {
        if kind == WriteKind::Batch && mutations.len() > 1 {
            return Err(invalid(
                "Logged batches over several partitions are not supported yet by this version of Helenus: \
                 use BEGIN UNLOGGED BATCH where atomicity is not needed, or one partition",
            ));
        }
        if mutations.is_empty() {
            return Ok(());
        }
        Ok(self.server.backend.write(mutations, level, kind).await?)
    }

    async fn batch(&self, batch: Batch) -> Outcome {
        let level = batch.parameters.consistency;
        check_write_level(level)?;
        let kind = match batch.kind {
            BatchKind::Logged => helenus_cql::ast::BatchKind::Logged,
            BatchKind::Unlogged => helenus_cql::ast::BatchKind::Unlogged,
            BatchKind::Counter => helenus_cql::ast::BatchKind::Counter,
        };
        let schema = self.server.backend.schema();
        let keyspace = self.keyspace_for(&batch.parameters);
        let mut context = self.context(&batch.parameters, StatementKind::Batch);
        let mut statements = Vec::with_capacity(batch.statements.len());
        for (query, bound) in batch.statements {
            let prepared = match query {
                BatchQuery::Text(text) => {
                    helenus_cql::prepare(&text, &schema, keyspace.as_deref())?
                }
                BatchQuery::Prepared(id) => self.known(&id, &schema)?.prepared.clone(),
            };
            statements.push((
                prepared,
                BoundValues::Positional(bound.into_iter().map(value).collect()),
            ));
        }
        let mut reads = Vec::new();
        for (prepared, values) in &statements {
            reads.extend(prepared.required_reads(values, &context)?);
        }
        if !reads.is_empty() {
            context.existing = Some(Arc::new(self.existing(reads, level).await?));
        }
        let Plan::Write {
            kind,
            mutations,
            warnings,
        } = helenus_cql::bind_batch_message(kind, &statements, &context)?
        else {
            return Err(invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
            ));
        };
        self.write(mutations, level, write_kind(kind)).await?;
        Ok(Answered {
            warnings,
            ..ResultBody::Void.into()
        })
    }
}

fn write_kind(kind: helenus_cql::WriteKind) -> WriteKind {
    match kind {
        helenus_cql::WriteKind::Simple => WriteKind::Simple,
        helenus_cql::WriteKind::LoggedBatch => WriteKind::Batch,
        helenus_cql::WriteKind::UnloggedBatch => WriteKind::UnloggedBatch,
    }
}

/// Cassandra's id of a result's columns; statements without a result have that of no columns.
fn metadata_id(prepared: &Prepared) -> Bytes {
    let columns = prepared.result_columns().map_or(&[][..], |columns| columns);
    Bytes::copy_from_slice(&helenus_cql::result_metadata_id(columns))
}

fn check_page_size(parameters: &QueryParameters) -> Result<(), Refused> {
    if parameters.page_size == Some(0) {
        let message = "The page size cannot be 0".to_owned();
        return Err(Refused::Response(ErrorResponse::Protocol { message }));
    }
    Ok(())
}

fn check_read_level(level: ConsistencyLevel) -> Result<(), Refused> {
    match level {
        ConsistencyLevel::Any => Err(invalid("ANY ConsistencyLevel is only supported for writes")),
        ConsistencyLevel::EachQuorum => Err(invalid(
            "EACH_QUORUM ConsistencyLevel is only supported for writes",
        )),
        ConsistencyLevel::Serial | ConsistencyLevel::LocalSerial => Err(invalid(
            "Reads at SERIAL and LOCAL_SERIAL are not supported yet by this version of Helenus",
        )),
        _ => Ok(()),
    }
}

fn check_write_level(level: ConsistencyLevel) -> Result<(), Refused> {
    if level.is_serial() {
        return Err(invalid(
            "You must use conditional updates for serializable writes",
        ));
    }
    Ok(())
}

fn value(value: helenus_native::BoundValue) -> BoundValue {
    match value {
        helenus_native::BoundValue::Value(bytes) => BoundValue::Value(bytes),
        helenus_native::BoundValue::Null => BoundValue::Null,
        helenus_native::BoundValue::Unset => BoundValue::Unset,
    }
}

fn values(values: helenus_native::BoundValues) -> BoundValues {
    match values {
        helenus_native::BoundValues::Positional(values) => {
            BoundValues::Positional(values.into_iter().map(value).collect())
        }
        helenus_native::BoundValues::Named(named) => BoundValues::Named(
            named
                .into_iter()
                .map(|(name, bound)| (name, value(bound)))
                .collect(),
        ),
    }
}

fn spec(column: &helenus_cql::ColumnSpec) -> ColumnSpec {
    ColumnSpec {
        keyspace: column.keyspace.clone(),
        table: column.table.clone(),
        name: column.name.clone(),
        cql_type: column.cql_type.clone(),
    }
}

fn rows_response(
    rows: &helenus_cql::ResultRows,
    shape: impl FnOnce(RowsMetadata) -> RowsMetadata,
    version: helenus_native::ProtocolVersion,
) -> Response {
    let mut metadata = shape(RowsMetadata::new(rows.columns.iter().map(spec).collect()));
    metadata.paging_state.clone_from(&rows.paging_state);
    let mut writer = RowsWriter::new(&metadata, version);
    for row in &rows.rows {
        writer.push(row.iter().map(Option::as_deref));
    }
    Response::Result(ResultBody::RawRows(writer.finish()))
}
