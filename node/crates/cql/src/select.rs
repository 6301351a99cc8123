//! SELECT analysed: what is read, what is computed of it, in which order, how much.

use crate::analysis::{AggregateCall, Analysis, Receiver, column_of};
use crate::ast::{Select, Term};
use crate::binding::ColumnSpec;
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::restrictions::{NEEDS_FILTERING, Restrictions, Values};
use helenus_schema::{Column, ColumnId, ColumnKind, TableMetadata};
use helenus_types::CqlType;
use std::sync::Arc;

/// A SELECT with names and types resolved.
#[derive(Debug, Clone)]
pub(crate) struct PreparedSelect {
    pub(crate) table: Arc<TableMetadata>,
    pub(crate) restrictions: Restrictions,
    pub(crate) json: bool,
    pub(crate) distinct: bool,
    /// One expression per selected value.
    pub(crate) selection: Vec<Expr>,
    /// Names and types of the selected values.
    pub(crate) selected: Vec<ColumnSpec>,
    /// Columns of the result: `selected`, or one of JSON text.
    pub(crate) result: Arc<[ColumnSpec]>,
    /// Columns that expressions refer to by index.
    pub(crate) fetched: Vec<Column>,
    pub(crate) aggregates: Vec<AggregateCall>,
    /// How many leading columns of the primary key make a group.
    pub(crate) group_by: Option<usize>,
    pub(crate) reversed: bool,
    /// Sort over partitions: columns by index in `fetched`, and whether descending.
    pub(crate) sort: Vec<(usize, bool)>,
    pub(crate) limit: Option<Expr>,
    pub(crate) per_partition_limit: Option<Expr>,
    pub(crate) warnings: Vec<String>,
}

impl PreparedSelect {
    /// Whether rows are folded into fewer.
    pub(crate) fn is_aggregate(&self) -> bool {
        !self.aggregates.is_empty() || self.group_by.is_some()
    }

    /// Whether a partition without rows but with static values gives a row.
    pub(crate) fn returns_static_only(&self) -> bool {
        let rows = self.restrictions.filters.iter().any(|filter| {
            self.table
                .column_by_id(filter.column)
                .is_some_and(|column| {
                    matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular)
                })
        });
        self.restrictions.clustering.is_empty() && !rows
    }
}

/// Resolves a SELECT.
pub(crate) fn prepare(
    analysis: &mut Analysis<'_>,
    select: &Select,
    table: &Arc<TableMetadata>,
) -> Result<PreparedSelect, CqlError> {
    analysis.table = Some(Arc::clone(table));
    let (selection, selected) = selectors(analysis, select, table)?;
    let restrictions = Restrictions::prepare(analysis, table, &select.relations)?;
    check_distinct(select, table, analysis)?;
    let group_by = group_by(select, table, &restrictions)?;
    let (reversed, sort) = order_by(analysis, select, table, &restrictions)?;
    if !select.allow_filtering {
        if let Some(gap) = &restrictions.gap {
            return Err(gap.clone());
        }
        if restrictions.needs_filtering() {
            return Err(CqlError::Invalid(NEEDS_FILTERING.into()));
        }
    }
    let limit_of = |analysis: &mut Analysis<'_>, term: &Option<Term>, name: &str| {
        term.as_ref()
            .map(|term| analysis.term(term, &Receiver::new(name, CqlType::Int)))
            .transpose()
    };
    let per_partition_limit = limit_of(
        analysis,
        &select.per_partition_limit,
        "[per_partition_limit]",
    )?;
    if per_partition_limit.is_some() && select.distinct {
        return Err(invalid!(
            "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"
        ));
    }
    let limit = limit_of(analysis, &select.limit, "[limit]")?;
    let result: Arc<[ColumnSpec]> = if select.json {
        vec![json_column(table)].into()
    } else {
        selected.clone().into()
    };
    let fetched = analysis
        .fetched
        .iter()
        .filter_map(|id| table.column_by_id(*id).cloned())
        .collect();
    let aggregates = std::mem::take(&mut analysis.aggregates);
    let warnings = if aggregates.is_empty() && group_by.is_none() {
        Vec::new()
    } else {
        aggregation_warnings(&restrictions)
    };
    Ok(PreparedSelect {
        table: Arc::clone(table),
        restrictions,
        json: select.json,
        distinct: select.distinct,
        selection,
        selected,
        result,
        fetched,
        aggregates,
        group_by,
        reversed,
        sort,
        limit,
        per_partition_limit,
        warnings,
    })
}

/// What is said of an aggregation that reads more than one partition.
fn aggregation_warnings(restrictions: &Restrictions) -> Vec<String> {
    if !restrictions.has_partition_key() {
        vec!["Aggregation query used without partition key".into()]
    } else if restrictions.is_key_in() {
        vec!["Aggregation query used on multiple partition keys (IN restriction)".into()]
    } else {
        Vec::new()
    }
}

/// The only column of `SELECT JSON`.
fn json_column(table: &TableMetadata) -> ColumnSpec {
    ColumnSpec {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        name: "[json]".into(),
        cql_type: CqlType::Text,
    }
}

/// Columns in the order of `SELECT *`: key, static by name, regular by name.
pub(crate) fn wildcard(table: &TableMetadata) -> Vec<&Column> {
    let by_name = |columns: &'_ [Column]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by(|a, b| columns[*a].name.as_bytes().cmp(columns[*b].name.as_bytes()));
        order
    };
    let mut all: Vec<&Column> = table
        .partition_key()
        .iter()
        .chain(table.clustering())
        .collect();
    all.extend(
        by_name(table.static_columns())
            .into_iter()
            .map(|at| &table.static_columns()[at]),
    );
    all.extend(
        by_name(table.regular_columns())
            .into_iter()
            .map(|at| &table.regular_columns()[at]),
    );
    all
}

fn selectors(
    analysis: &mut Analysis<'_>,
    select: &Select,
    table: &Arc<TableMetadata>,
) -> Result<(Vec<Expr>, Vec<ColumnSpec>), CqlError> {
    let spec = |name: String, cql_type: CqlType| ColumnSpec {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        name,
        cql_type,
    };
    let (mut selection, mut specs) = (Vec::new(), Vec::new());
    analysis.selecting = true;
    if select.selectors.is_empty() {
        for column in wildcard(table) {
            if select.distinct
                && !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static)
            {
                return Err(not_distinct(&column.name));
            }
            selection.push(Expr::Column(analysis.fetch(column.id)));
            specs.push(spec(column.name.clone(), column.cql_type.clone()));
        }
    }
    for (term, alias) in &select.selectors {
        let (expr, cql_type) = analysis.infer(term, None)?;
        selection.push(expr);
        specs.push(spec(
            alias.clone().unwrap_or_else(|| column_name(term)),
            cql_type,
        ));
    }
    analysis.selecting = false;
    Ok((selection, specs))
}

/// The name of a selected value without alias.
fn column_name(term: &Term) -> String {
    let list = |terms: &[Term]| terms.iter().map(column_name).collect::<Vec<_>>().join(", ");
    match term {
        Term::Column(name) => name.clone(),
        Term::CountStar => "count".into(),
        Term::Function(name, arguments) => {
            let function = name.name.to_ascii_lowercase();
            if function == "count" && matches!(arguments[..], [Term::Literal(..)]) {
                return "count".into();
            }
            format!("system.{function}({})", list(arguments))
        }
        Term::Cast(value, target) => format!("cast({} as {target})", column_name(value)),
        Term::Metadata(fact, of) => format!("{}({})", fact.name(), column_name(of)),
        Term::Field(value, field) => format!("{}.{field}", column_name(value)),
        Term::Element(value, key) => format!("{}[{}]", column_name(value), crate::text::term(key)),
        Term::Arithmetic(operator, left, right) => format!(
            "{} {} {}",
            column_name(left),
            operator.sign(),
            column_name(right)
        ),
        other => crate::text::term(other),
    }
}

fn not_distinct(name: &str) -> CqlError {
    invalid!(
        "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {name})"
    )
}

fn check_distinct(
    select: &Select,
    table: &TableMetadata,
    analysis: &Analysis<'_>,
) -> Result<(), CqlError> {
    if !select.distinct {
        return Ok(());
    }
    let fetched: Vec<&Column> = analysis
        .fetched
        .iter()
        .filter_map(|id| table.column_by_id(*id))
        .collect();
    for column in &fetched {
        if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static) {
            return Err(not_distinct(&column.name));
        }
    }
    let keys = fetched
        .iter()
        .filter(|column| column.kind == ColumnKind::PartitionKey)
        .count();
    if keys > 0 || !fetched.is_empty() {
        for column in table.partition_key() {
            if !fetched.iter().any(|found| found.id == column.id) {
                return Err(invalid!(
                    "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                    column.name
                ));
            }
        }
    }
    Ok(())
}

fn group_by(
    select: &Select,
    table: &TableMetadata,
    restrictions: &Restrictions,
) -> Result<Option<usize>, CqlError> {
    if select.group_by.is_empty() {
        return Ok(None);
    }
    if select.distinct {
        return Err(invalid!(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries"
        ));
    }
    let key: Vec<&Column> = table
        .partition_key()
        .iter()
        .chain(table.clustering())
        .collect();
    let partition = table.partition_key().len();
    let mut next = 0;
    for term in &select.group_by {
        let Term::Column(name) = term else {
            return Err(CqlError::unsupported("GROUP BY of an expression"));
        };
        let column = column_of(table, name)?;
        let Some(at) = key.iter().position(|k| k.id == column.id) else {
            return Err(invalid!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {name}"
            ));
        };
        let equal = |at: usize| {
            if at < partition {
                matches!(restrictions.partition[at], Some(Values::One(_)))
            } else {
                is_restricted_by_equal(restrictions, at - partition)
            }
        };
        while next < at && equal(next) {
            next += 1;
        }
        if next != at {
            return Err(invalid!(
                "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"
            ));
        }
        next = at + 1;
    }
    if next < partition {
        return Err(invalid!(
            "Group by is not supported on only a part of the partition key"
        ));
    }
    Ok(Some(next))
}

/// Whether a clustering column can have only one value.
fn is_restricted_by_equal(restrictions: &Restrictions, position: usize) -> bool {
    restrictions.clustering.iter().any(|restriction| {
        restriction.first <= position
            && position < restriction.first + restriction.count
            && matches!(restriction.values, Some(Values::One(_)))
    })
}

type Order = (bool, Vec<(usize, bool)>);

fn order_by(
    analysis: &mut Analysis<'_>,
    select: &Select,
    table: &TableMetadata,
    restrictions: &Restrictions,
) -> Result<Order, CqlError> {
    if select.ann {
        return Err(CqlError::unsupported("ORDER BY ... ANN OF (vector search)"));
    }
    if select.order_by.is_empty() {
        return Ok((false, Vec::new()));
    }
    if select.distinct {
        return Err(invalid!("ORDER BY is not supported with SELECT DISTINCT"));
    }
    if !restrictions.has_partition_key() {
        return Err(invalid!(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
        ));
    }
    let mut reversed = None;
    let mut next = 0;
    let mut sort = Vec::new();
    for (name, descending) in &select.order_by {
        let column = column_of(table, name)?;
        if column.kind != ColumnKind::Clustering {
            return Err(invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            ));
        }
        while next < column.position && is_restricted_by_equal(restrictions, next) {
            next += 1;
        }
        if next != column.position {
            return Err(invalid!(
                "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
            ));
        }
        next += 1;
        let this = *descending != column.reversed;
        if *reversed.get_or_insert(this) != this {
            return Err(invalid!("Unsupported order by relation"));
        }
        if restrictions.is_key_in() {
            sort.push((analysis.fetch(column.id), *descending));
        }
    }
    Ok((reversed.unwrap_or(false), sort))
}

/// The columns whose values a query uses: those fetched and those filtered by.
pub(crate) fn queried(select: &PreparedSelect) -> Vec<ColumnId> {
    let is_data = |column: &Column| matches!(column.kind, ColumnKind::Static | ColumnKind::Regular);
    let mut ids: Vec<ColumnId> = select
        .fetched
        .iter()
        .filter(|column| is_data(column))
        .map(|column| column.id)
        .collect();
    let filtered = select
        .restrictions
        .filters
        .iter()
        .filter_map(|filter| select.table.column_by_id(filter.column));
    ids.extend(
        filtered
            .filter(|column| is_data(column))
            .map(|column| column.id),
    );
    ids.sort_unstable();
    ids.dedup();
    ids
}
