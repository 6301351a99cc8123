//! Preparing statements and binding values to them.

use crate::analysis::Analysis;
use crate::ast::{Attributes, Batch, BatchKind, Parsed, QualifiedName, Statement};
use crate::binding::{BindContext, BoundValue, BoundValues, ColumnSpec, Evaluation, arrange};
use crate::ddl::{self, DdlContext};
use crate::error::{CqlError, invalid};
use crate::execution::SelectPlan;
use crate::expr::Expr;
use crate::modification::{self, PreparedModification};
use crate::plan::{Plan, WriteKind};
use crate::select::{self, PreparedSelect};
use crate::{describe, parser};
use helenus_rows::{Mutation, PartitionUpdate, ReadCommand, merge};
use helenus_schema::{Schema, TableMetadata};
use helenus_types::CqlType;
use md5::{Digest, Md5};
use std::sync::Arc;

/// What a prepared statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// SELECT.
    Select,
    /// INSERT, UPDATE, DELETE.
    Modification,
    /// BATCH.
    Batch,
    /// CREATE, ALTER, DROP.
    Schema,
    /// USE.
    Use,
    /// TRUNCATE.
    Truncate,
    /// DESCRIBE.
    Describe,
}

#[derive(Debug)]
enum Body {
    Select(Arc<PreparedSelect>),
    Modification(Box<PreparedModification>),
    Batch {
        kind: BatchKind,
        timestamp: Option<Expr>,
        statements: Vec<PreparedModification>,
    },
    Other(Box<Statement>),
    Truncate(Arc<TableMetadata>),
}

#[derive(Debug)]
struct Inner {
    body: Body,
    keyspace: Option<String>,
    variables: Vec<ColumnSpec>,
    partition_key_indexes: Vec<u16>,
    result: Option<Arc<[ColumnSpec]>>,
}

/// A statement with names and types resolved; cheap to clone.
#[derive(Debug, Clone)]
pub struct Prepared(Arc<Inner>);

/// Parses and resolves a statement.
pub fn prepare(text: &str, schema: &Schema, keyspace: Option<&str>) -> Result<Prepared, CqlError> {
    prepare_parsed(parser::parse(text)?, schema, keyspace)
}

/// The table of a name, or Cassandra's error.
pub(crate) fn table_of(
    schema: &Schema,
    name: &QualifiedName,
    keyspace: Option<&str>,
) -> Result<Arc<TableMetadata>, CqlError> {
    let keyspace = name
        .keyspace
        .as_deref()
        .or(keyspace)
        .ok_or_else(no_keyspace)?;
    if schema.keyspace(keyspace).is_none() {
        return Err(invalid!("keyspace {keyspace} does not exist"));
    }
    schema
        .table(keyspace, &name.name)
        .cloned()
        .ok_or_else(|| invalid!("table {} does not exist", name.name))
}

pub(crate) fn no_keyspace() -> CqlError {
    invalid!(
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
    )
}

fn modification(
    analysis: &mut Analysis<'_>,
    statement: &Statement,
    keyspace: Option<&str>,
) -> Result<PreparedModification, CqlError> {
    let schema = analysis.schema;
    match statement {
        Statement::Insert(insert) => modification::insert(
            analysis,
            insert,
            &table_of(schema, &insert.table, keyspace)?,
        ),
        Statement::Update(update) => modification::update(
            analysis,
            update,
            &table_of(schema, &update.table, keyspace)?,
        ),
        Statement::Delete(delete) => modification::delete(
            analysis,
            delete,
            &table_of(schema, &delete.table, keyspace)?,
        ),
        _ => Err(invalid!(
            "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
        )),
    }
}

fn batch(
    analysis: &mut Analysis<'_>,
    batch: &Batch,
    keyspace: Option<&str>,
) -> Result<Body, CqlError> {
    if batch.attributes.ttl.is_some() {
        return Err(invalid!(
            "Global TTL on the BATCH statement is not supported."
        ));
    }
    let own = |attributes: &Attributes| attributes.timestamp.is_some();
    let has_own = batch.statements.iter().any(|statement| match statement {
        Statement::Insert(insert) => own(&insert.attributes),
        Statement::Update(update) => own(&update.attributes),
        Statement::Delete(delete) => own(&delete.attributes),
        _ => false,
    });
    if batch.attributes.timestamp.is_some() && has_own {
        return Err(invalid!(
            "Timestamp must be set either on BATCH or individual statements"
        ));
    }
    check_counters(analysis.schema, batch, keyspace)?;
    let timestamp = match &batch.attributes.timestamp {
        None => None,
        Some(term) => Some(analysis.term(
            term,
            &crate::analysis::Receiver::new("[timestamp]", CqlType::BigInt),
        )?),
    };
    let statements = batch
        .statements
        .iter()
        .map(|statement| modification(analysis, statement, keyspace))
        .collect::<Result<_, _>>()?;
    Ok(Body::Batch {
        kind: batch.kind,
        timestamp,
        statements,
    })
}

fn check_counters(schema: &Schema, batch: &Batch, keyspace: Option<&str>) -> Result<(), CqlError> {
    for statement in &batch.statements {
        let name = match statement {
            Statement::Insert(insert) => &insert.table,
            Statement::Update(update) => &update.table,
            Statement::Delete(delete) => &delete.table,
            _ => continue,
        };
        let counter = table_of(schema, name, keyspace)?.is_counter();
        match batch.kind {
            BatchKind::Logged if counter => {
                return Err(invalid!(
                    "Cannot include a counter statement in a logged batch"
                ));
            }
            BatchKind::Unlogged if counter => {
                return Err(CqlError::unsupported("updating counters"));
            }
            BatchKind::Counter if !counter => {
                return Err(invalid!(
                    "Cannot include non-counter statement in a counter batch"
                ));
            }
            _ => {}
        }
    }
    if batch.kind == BatchKind::Counter {
        Err(CqlError::unsupported("updating counters"))
    } else {
        Ok(())
    }
}

/// Resolves a parsed statement.
pub fn prepare_parsed(
    parsed: Parsed,
    schema: &Schema,
    keyspace: Option<&str>,
) -> Result<Prepared, CqlError> {
    let mut analysis = Analysis::new(schema, &parsed.markers);
    let (mut partition_key_indexes, mut result) = (Vec::new(), None);
    let body = match parsed.statement {
        Statement::Select(select) => {
            let table = table_of(schema, &select.table, keyspace)?;
            let prepared = select::prepare(&mut analysis, &select, &table)?;
            partition_key_indexes = prepared.restrictions.partition_markers();
            result = Some(Arc::clone(&prepared.result));
            Body::Select(Arc::new(prepared))
        }
        statement @ (Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) => {
            let prepared = modification(&mut analysis, &statement, keyspace)?;
            if let modification::Body::Columns { restrictions, .. } = &prepared.body {
                partition_key_indexes = restrictions.partition_markers();
            }
            Body::Modification(Box::new(prepared))
        }
        Statement::Batch(statements) => batch(&mut analysis, &statements, keyspace)?,
        Statement::Truncate(name) => Body::Truncate(table_of(schema, &name, keyspace)?),
        Statement::Use(name) => {
            if schema.keyspace(&name).is_none() {
                return Err(invalid!("Keyspace '{name}' does not exist"));
            }
            Body::Other(Box::new(Statement::Use(name)))
        }
        Statement::Unsupported(feature) => return Err(CqlError::unsupported(feature)),
        Statement::Describe { target, internals } => {
            result = Some(describe::columns(&target));
            Body::Other(Box::new(Statement::Describe { target, internals }))
        }
        other => Body::Other(Box::new(other)),
    };
    let untyped = |marker: Option<ColumnSpec>| {
        marker.ok_or_else(|| invalid!("A bind variable stands where none can"))
    };
    let variables = analysis
        .markers
        .into_iter()
        .map(untyped)
        .collect::<Result<Vec<_>, _>>()?;
    let keyspace = keyspace.map(str::to_owned);
    Ok(Prepared(Arc::new(Inner {
        body,
        keyspace,
        variables,
        partition_key_indexes,
        result,
    })))
}

impl Prepared {
    /// What it is.
    pub fn kind(&self) -> StatementKind {
        match &self.0.body {
            Body::Select(_) => StatementKind::Select,
            Body::Modification(_) => StatementKind::Modification,
            Body::Batch { .. } => StatementKind::Batch,
            Body::Truncate(_) => StatementKind::Truncate,
            Body::Other(statement) => match **statement {
                Statement::Use(_) => StatementKind::Use,
                Statement::Describe { .. } => StatementKind::Describe,
                _ => StatementKind::Schema,
            },
        }
    }

    /// Bind variables in order.
    pub fn variables(&self) -> &[ColumnSpec] {
        &self.0.variables
    }

    /// For each column of the partition key the variable that it is bound to; empty unless all are.
    pub fn partition_key_indexes(&self) -> &[u16] {
        &self.0.partition_key_indexes
    }

    /// Columns of the result of SELECT and DESCRIBE.
    pub fn result_columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        self.0.result.as_ref()
    }

    /// The table that a SELECT, modification or TRUNCATE is about.
    pub fn table(&self) -> Option<&Arc<TableMetadata>> {
        match &self.0.body {
            Body::Select(select) => Some(&select.table),
            Body::Modification(modification) => Some(&modification.table),
            Body::Truncate(table) => Some(table),
            Body::Batch { statements, .. } => statements.first().map(|statement| &statement.table),
            Body::Other(_) => None,
        }
    }

    /// Whether running it twice is as good as once (for retries): not so when lists grow or values
    /// are made anew by functions.
    pub fn is_idempotent(&self) -> bool {
        match &self.0.body {
            Body::Select(_) | Body::Truncate(_) => true,
            Body::Modification(modification) => is_idempotent(modification),
            Body::Batch { statements, .. } => statements.iter().all(is_idempotent),
            Body::Other(statement) => {
                matches!(**statement, Statement::Use(_) | Statement::Describe { .. })
            }
        }
    }

    /// What must be read, at the write's consistency level, before [`Self::bind`] can be called: its
    /// answers go into `BindContext::existing`. Mostly nothing.
    pub fn required_reads(
        &self,
        values: &BoundValues,
        context: &BindContext,
    ) -> Result<Vec<ReadCommand>, CqlError> {
        let statements = match &self.0.body {
            Body::Modification(modification) => std::slice::from_ref(&**modification),
            Body::Batch { statements, .. } => statements,
            Body::Select(_) | Body::Other(_) | Body::Truncate(_) => &[],
        };
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let values = arrange(&self.0.variables, values)?;
        let evaluation = Evaluation::new(context, &values);
        let mut commands = Vec::new();
        for statement in statements {
            commands.extend(modification::required_reads(statement, &evaluation)?);
        }
        Ok(commands)
    }

    /// Binds values. `schema` is the snapshot of now; only DDL and DESCRIBE look at it.
    pub fn bind(
        &self,
        values: &BoundValues,
        context: &BindContext,
        schema: &Schema,
    ) -> Result<Plan, CqlError> {
        let values = arrange(&self.0.variables, values)?;
        let keyspace = self.0.keyspace.as_deref();
        match &self.0.body {
            Body::Select(select) => Ok(Plan::Read(Box::new(SelectPlan::bind(
                select, values, context,
            )?))),
            Body::Modification(modification) => {
                let evaluation = Evaluation::new(context, &values);
                let updates = modification::bind(modification, &evaluation, None)?;
                Ok(Plan::Write {
                    kind: WriteKind::Simple,
                    mutations: mutations_of(updates),
                    warnings: Vec::new(),
                })
            }
            Body::Batch {
                kind,
                timestamp,
                statements,
            } => bind_batch(*kind, timestamp.as_ref(), statements, &values, context),
            Body::Truncate(table) => {
                if ddl::is_system(&table.keyspace)
                    && table.keyspace != "system_traces"
                    && table.keyspace != "system_distributed"
                {
                    return Err(CqlError::Unauthorized(format!(
                        "{} keyspace is not user-modifiable.",
                        table.keyspace
                    )));
                }
                Ok(Plan::Truncate(Arc::clone(table)))
            }
            Body::Other(statement) => {
                match &**statement {
                    Statement::Use(name) => return Ok(Plan::Use(name.clone())),
                    Statement::Describe { target, internals } => {
                        let rows = describe::describe(
                            target,
                            *internals,
                            schema,
                            keyspace,
                            &context.cluster,
                        )?;
                        return Ok(Plan::Rows(rows));
                    }
                    _ => {}
                }
                let ddl_context = DdlContext {
                    keyspace,
                    now_micros: context.now_micros,
                    new_table_id: Evaluation::new(context, &[]).time_uuid(),
                    datacenters: &context.datacenters,
                };
                Ok(Plan::Schema(
                    ddl::apply_ddl(schema, statement, &ddl_context)?.map(Box::new),
                ))
            }
        }
    }
}

fn is_idempotent(modification: &PreparedModification) -> bool {
    use modification::{Body, Change};
    match &modification.body {
        Body::Json { .. } => true,
        Body::Columns { operations, .. } => {
            operations.iter().all(|operation| match &operation.change {
                Change::Append(_) | Change::Prepend(_) => {
                    !matches!(operation.cql_type, CqlType::List { .. })
                }
                Change::Set(Expr::Call(..)) | Change::SetIndex(..) | Change::DeleteIndex(_) => {
                    false
                }
                _ => true,
            })
        }
    }
}

fn bind_batch(
    kind: BatchKind,
    timestamp: Option<&Expr>,
    statements: &[PreparedModification],
    values: &[BoundValue],
    context: &BindContext,
) -> Result<Plan, CqlError> {
    let evaluation = Evaluation::new(context, values);
    let timestamp = match timestamp.map(|expr| expr.value(&evaluation)).transpose()? {
        None | Some(BoundValue::Unset) => None,
        Some(BoundValue::Null) => return Err(invalid!("Invalid null value of timestamp")),
        Some(BoundValue::Value(bytes)) => Some(modification::timestamp_of(&bytes)?),
    };
    let mut updates = Vec::new();
    for statement in statements {
        updates.extend(modification::bind(statement, &evaluation, timestamp)?);
    }
    let kind = if kind == BatchKind::Logged {
        WriteKind::LoggedBatch
    } else {
        WriteKind::UnloggedBatch
    };
    Ok(Plan::Write {
        kind,
        mutations: mutations_of(updates),
        warnings: Vec::new(),
    })
}

/// Mutations of updates: one per keyspace and partition key, each with one update per table.
/// Order of first appearance is kept.
pub fn mutations_of(updates: Vec<PartitionUpdate>) -> Vec<Mutation> {
    let mut mutations: Vec<Mutation> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for update in updates {
        if update.partition.is_empty() {
            continue;
        }
        let place = (update.table.keyspace.clone(), update.partition.key.clone());
        match places
            .get(&place)
            .and_then(|at: &usize| mutations.get_mut(*at))
        {
            None => {
                places.insert(place, mutations.len());
                mutations.push(Mutation::of(update));
            }
            Some(mutation) => merge_into(mutation, update),
        }
    }
    mutations
}

fn merge_into(mutation: &mut Mutation, update: PartitionUpdate) {
    let Some(present) = mutation
        .updates
        .iter_mut()
        .find(|present| present.table.id == update.table.id)
    else {
        mutation.updates.push(update);
        return;
    };
    let both = vec![present.partition.clone(), update.partition];
    if let Some(merged) = merge::merge_partitions(&present.table, both, false) {
        present.partition = merged;
    }
}

/// The mutations of statements that the protocol's BATCH message holds: each prepared with its
/// values.
pub fn bind_batch_message(
    kind: BatchKind,
    statements: &[(Prepared, BoundValues)],
    context: &BindContext,
) -> Result<Plan, CqlError> {
    let mut updates = Vec::new();
    for (at, (prepared, values)) in (0_u8..=u8::MAX).cycle().zip(statements) {
        let Body::Modification(modification) = &prepared.0.body else {
            return Err(invalid!(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
            ));
        };
        if kind == BatchKind::Counter {
            return Err(CqlError::unsupported("updating counters"));
        }
        let values = arrange(&prepared.0.variables, values)?;
        // time UUIDs of different statements must differ
        let mut context = context.clone();
        context.entropy[7] = context.entropy[7].wrapping_add(at);
        updates.extend(modification::bind(
            modification,
            &Evaluation::new(&context, &values),
            None,
        )?);
    }
    let kind = if kind == BatchKind::Logged {
        WriteKind::LoggedBatch
    } else {
        WriteKind::UnloggedBatch
    };
    Ok(Plan::Write {
        kind,
        mutations: mutations_of(updates),
        warnings: Vec::new(),
    })
}

/// Cassandra's id of a prepared statement: MD5 of keyspace and text. Pass the keyspace only where
/// the text does not name it itself (Cassandra 5.0 gives fully qualified statements one id).
pub fn prepared_id(text: &str, keyspace: Option<&str>) -> [u8; 16] {
    let mut digest = Md5::new();
    digest.update(keyspace.unwrap_or_default().as_bytes());
    digest.update(text.as_bytes());
    digest.finalize().into()
}

/// Whether a statement names the keyspaces of all its tables itself.
pub fn is_fully_qualified(statement: &Statement) -> bool {
    match statement {
        Statement::Select(select) => select.table.keyspace.is_some(),
        Statement::Insert(insert) => insert.table.keyspace.is_some(),
        Statement::Update(update) => update.table.keyspace.is_some(),
        Statement::Delete(delete) => delete.table.keyspace.is_some(),
        Statement::Batch(batch) => batch.statements.iter().all(is_fully_qualified),
        Statement::Truncate(name) => name.keyspace.is_some(),
        _ => true,
    }
}

/// Cassandra's id of a result's metadata (`ResultSet.computeResultMetadataId`).
pub fn result_metadata_id(columns: &[ColumnSpec]) -> [u8; 16] {
    let mut digest = Md5::new();
    for column in columns {
        digest.update(column.name.as_bytes());
        digest.update([0]);
        digest.update(column.cql_type.java_name().as_bytes());
        digest.update([0, 0]);
    }
    digest.finalize().into()
}
