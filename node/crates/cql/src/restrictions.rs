//! WHERE: relations sorted into restrictions of the partition key, the token, the clustering and
//! conditions that need filtering. Binding them (values in, keys and slices out) is in [`bind`].

mod bind;

pub(crate) use bind::RowsBound;

use crate::analysis::{Analysis, Receiver, column_of};
use crate::ast::{Comparison, InValues, Relation, Term};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use crate::text;
use helenus_rows::Operator;
use helenus_schema::{Column, ColumnId, ColumnKind, TableMetadata};
use helenus_types::CqlType;
use helenus_types::cql_name::quote_name;
use std::sync::Arc;

/// What Cassandra says of queries that would read far more than they return.
pub(crate) const NEEDS_FILTERING: &str = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";

/// Values of one or several columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// One expression per column.
    Each(Vec<Expr>),
    /// One expression of a tuple type.
    Tuple(Expr),
}

/// What columns may equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    One(Source),
    Many(Vec<Source>),
    /// An expression of a list type; its elements are values, or tuples of them.
    List {
        expr: Expr,
        tuples: bool,
    },
}

/// One end of a slice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) source: Source,
    pub(crate) inclusive: bool,
    /// How many columns it has values for.
    pub(crate) count: usize,
}

/// A restriction of `count` columns of a key, from the `first` on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Restriction {
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) values: Option<Values>,
    pub(crate) lower: Option<Bound>,
    pub(crate) upper: Option<Bound>,
}

impl Restriction {
    fn new(first: usize, count: usize) -> Self {
        Self {
            first,
            count,
            values: None,
            lower: None,
            upper: None,
        }
    }

    fn is_slice(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }
}

/// A condition on values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) column: ColumnId,
    pub(crate) name: String,
    pub(crate) operator: Operator,
    pub(crate) map_key: Option<Expr>,
    /// Type-checked; for IN an expression of a list.
    pub(crate) value: Expr,
}

/// A WHERE clause.
#[derive(Debug, Clone)]
pub(crate) struct Restrictions {
    pub(crate) table: Arc<TableMetadata>,
    /// Restrictions of partition-key columns by position.
    pub(crate) partition: Vec<Option<Values>>,
    pub(crate) token_values: Option<Expr>,
    pub(crate) token_lower: Option<(Expr, bool)>,
    pub(crate) token_upper: Option<(Expr, bool)>,
    /// Restrictions of the clustering, ascending, without gaps: all but the last by values.
    pub(crate) clustering: Vec<Restriction>,
    pub(crate) filters: Vec<Filter>,
    needs_filtering: bool,
    /// Whether a column of the partition key is compared by something else than `=` and IN.
    pub(crate) key_slices: bool,
    /// The error of a gap between restricted clustering columns, unless ALLOW FILTERING is given.
    pub(crate) gap: Option<CqlError>,
}

/// What the token equals, and its lower and upper bounds with whether they belong to it.
type TokenBounds = (Option<Expr>, Option<(Expr, bool)>, Option<(Expr, bool)>);

/// Collects relations.
struct Collector<'a, 'b> {
    analysis: &'a mut Analysis<'b>,
    table: Arc<TableMetadata>,
    partition: Vec<Option<Values>>,
    partition_slices: bool,
    token: TokenBounds,
    clustering: Vec<Restriction>,
    filters: Vec<Filter>,
    /// Filters on columns of the partition key.
    key_filters: Vec<Filter>,
}

impl Restrictions {
    /// Sorts relations.
    pub(crate) fn prepare(
        analysis: &mut Analysis<'_>,
        table: &Arc<TableMetadata>,
        relations: &[Relation],
    ) -> Result<Self, CqlError> {
        let mut collector = Collector {
            analysis,
            table: Arc::clone(table),
            partition: vec![None; table.partition_key().len()],
            partition_slices: false,
            token: (None, None, None),
            clustering: Vec::new(),
            filters: Vec::new(),
            key_filters: Vec::new(),
        };
        for relation in relations {
            collector.relation(relation)?;
        }
        collector.finish()
    }

    /// Whether every column of the partition key has values.
    pub(crate) fn has_partition_key(&self) -> bool {
        self.partition.iter().all(Option::is_some)
    }

    /// Names of the columns of the partition key without values.
    pub(crate) fn missing_partition_key(&self) -> Vec<&str> {
        let columns = self.table.partition_key().iter().zip(&self.partition);
        columns
            .filter(|(_, values)| values.is_none())
            .map(|(column, _)| column.name.as_str())
            .collect()
    }

    /// Names of the clustering columns without values.
    pub(crate) fn missing_clustering(&self) -> Vec<&str> {
        let covered = self.value_columns();
        self.table.clustering()[covered..]
            .iter()
            .map(|column| column.name.as_str())
            .collect()
    }

    /// How many leading clustering columns have values.
    pub(crate) fn value_columns(&self) -> usize {
        self.clustering
            .iter()
            .filter(|r| r.values.is_some())
            .map(|r| r.count)
            .sum()
    }

    /// Whether a clustering column is restricted by a slice.
    pub(crate) fn has_clustering_slice(&self) -> bool {
        self.clustering.iter().any(Restriction::is_slice)
    }

    /// Whether the partition key is restricted by IN.
    pub(crate) fn is_key_in(&self) -> bool {
        self.partition
            .iter()
            .flatten()
            .any(|values| !matches!(values, Values::One(_)))
    }

    /// Whether the token is restricted.
    pub(crate) fn has_token(&self) -> bool {
        self.token_values.is_some() || self.token_lower.is_some() || self.token_upper.is_some()
    }

    /// Whether the query may read much more than it returns.
    pub(crate) fn needs_filtering(&self) -> bool {
        self.needs_filtering
            || !self.filters.is_empty()
            || (!self.has_partition_key() && !self.clustering.is_empty())
    }

    /// Bind-marker indexes of the partition key's columns, when each has one; of several in one IN the
    /// last.
    pub(crate) fn partition_markers(&self) -> Vec<u16> {
        let marker = |source: &Source| match source {
            Source::Each(each) => match &each[..] {
                [Expr::Marker { index, .. }] => u16::try_from(*index).ok(),
                _ => None,
            },
            Source::Tuple(_) => None,
        };
        let index = |values: &Option<Values>| match values {
            Some(Values::One(source)) => marker(source),
            Some(Values::Many(sources)) => sources.iter().rev().find_map(marker),
            _ => None,
        };
        self.partition
            .iter()
            .map(index)
            .collect::<Option<Vec<_>>>()
            .unwrap_or_default()
    }
}

fn operator_of(comparison: Comparison) -> Operator {
    match comparison {
        Comparison::Equal => Operator::Equal,
        Comparison::NotEqual => Operator::NotEqual,
        Comparison::Less => Operator::Less,
        Comparison::LessEqual => Operator::LessEqual,
        Comparison::Greater => Operator::Greater,
        Comparison::GreaterEqual => Operator::GreaterEqual,
        Comparison::Contains => Operator::Contains,
        Comparison::ContainsKey => Operator::ContainsKey,
        Comparison::Like => Operator::Like,
    }
}

impl Collector<'_, '_> {
    fn column(&self, name: &str) -> Result<Column, CqlError> {
        column_of(&self.table, name).cloned()
    }

    fn relation(&mut self, relation: &Relation) -> Result<(), CqlError> {
        match relation {
            Relation::Column {
                comparison: Comparison::NotEqual,
                ..
            }
            | Relation::Tuple {
                comparison: Comparison::NotEqual,
                ..
            }
            | Relation::MapEntry {
                comparison: Comparison::NotEqual,
                ..
            } => Err(invalid!(
                "Unsupported \"!=\" relation: {}",
                text::relation(relation)
            )),
            Relation::Column {
                column,
                comparison: Comparison::Like,
                ..
            } => {
                self.column(column)?;
                Err(invalid!(
                    "LIKE restriction is only supported on properly indexed columns. {} is not valid.",
                    text::relation(relation)
                ))
            }
            Relation::Column {
                column,
                comparison,
                value,
            } => self.single(column, *comparison, value, relation),
            Relation::In { column, values } => self.single_in(column, values),
            Relation::Tuple {
                columns,
                comparison,
                value,
            } => self.tuple(columns, *comparison, value, relation),
            Relation::TupleIn { columns, values } => self.tuple_in(columns, values, relation),
            Relation::Token {
                columns,
                comparison,
                value,
            } => self.token(columns, *comparison, value),
            Relation::MapEntry {
                column,
                key,
                comparison,
                value,
            } => self.map_entry(column, key, *comparison, value),
            Relation::IsNotNull { .. } => Err(invalid!(
                "Unsupported restriction: {}",
                text::relation(relation)
            )),
            Relation::CustomIndex { .. } => {
                Err(CqlError::unsupported("a custom index expression in WHERE"))
            }
        }
    }

    fn single(
        &mut self,
        name: &str,
        comparison: Comparison,
        value: &Term,
        relation: &Relation,
    ) -> Result<(), CqlError> {
        let column = self.column(name)?;
        if matches!(comparison, Comparison::Contains | Comparison::ContainsKey) {
            return self.contains(&column, comparison, value);
        }
        if column.cql_type == CqlType::Duration && comparison != Comparison::Equal {
            return Err(invalid!(
                "Slice restrictions are not supported on duration columns"
            ));
        }
        if column.cql_type.is_multi_cell() {
            return Err(invalid!(
                "Collection column '{name}' ({}) cannot be restricted by a '{}' relation",
                column.cql_type,
                comparison.sign()
            ));
        }
        let receiver = Receiver::new(name, column.cql_type.clone());
        let expr = self.analysis.term(value, &receiver)?;
        if expr == Expr::Constant(None) {
            return Err(invalid!(
                "Invalid null value in condition for column {name}"
            ));
        }
        let source = Source::Each(vec![expr.clone()]);
        match column.kind {
            ColumnKind::PartitionKey if comparison == Comparison::Equal => {
                self.partition_values(&column, Values::One(source))
            }
            ColumnKind::PartitionKey => {
                self.partition_slices = true;
                self.key_filters.push(Filter {
                    column: column.id,
                    name: name.into(),
                    operator: operator_of(comparison),
                    map_key: None,
                    value: expr,
                });
                Ok(())
            }
            ColumnKind::Clustering => {
                self.clustering_restriction(column.position, 1, comparison, source, relation)
            }
            ColumnKind::Static | ColumnKind::Regular => {
                self.filters.push(Filter {
                    column: column.id,
                    name: name.into(),
                    operator: operator_of(comparison),
                    map_key: None,
                    value: expr,
                });
                Ok(())
            }
        }
    }

    fn contains(
        &mut self,
        column: &Column,
        comparison: Comparison,
        value: &Term,
    ) -> Result<(), CqlError> {
        let wants_key = comparison == Comparison::ContainsKey;
        let (wanted, prefix) = match &column.cql_type {
            CqlType::List { element, .. } | CqlType::Set { element, .. } if !wants_key => {
                (element, "value")
            }
            CqlType::Map { value, .. } if !wants_key => (value, "value"),
            CqlType::Map { key, .. } => (key, "key"),
            CqlType::List { .. } | CqlType::Set { .. } => {
                return Err(invalid!(
                    "Cannot use CONTAINS KEY on non-map column {}",
                    column.name
                ));
            }
            _ => {
                return Err(invalid!(
                    "Cannot use {} on non-collection column {}",
                    comparison.sign(),
                    column.name
                ));
            }
        };
        let receiver = Receiver::new(format!("{prefix}({})", column.name), (**wanted).clone());
        let value = self.analysis.term(value, &receiver)?;
        self.filters.push(Filter {
            column: column.id,
            name: column.name.clone(),
            operator: operator_of(comparison),
            map_key: None,
            value,
        });
        Ok(())
    }

    fn map_entry(
        &mut self,
        name: &str,
        key: &Term,
        comparison: Comparison,
        value: &Term,
    ) -> Result<(), CqlError> {
        let column = self.column(name)?;
        let CqlType::Map {
            key: key_type,
            value: value_type,
            frozen,
        } = &column.cql_type
        else {
            return Err(invalid!("Column {name} cannot be used as a map"));
        };
        if *frozen {
            return Err(invalid!(
                "Map-entry equality predicates on frozen map column {name} are not supported"
            ));
        }
        if comparison != Comparison::Equal {
            return Err(invalid!("Only EQ relations are supported on map entries"));
        }
        let map_key = self.analysis.term(
            key,
            &Receiver::new(format!("key({name})"), (**key_type).clone()),
        )?;
        let value = self.analysis.term(
            value,
            &Receiver::new(format!("value({name})"), (**value_type).clone()),
        )?;
        self.filters.push(Filter {
            column: column.id,
            name: name.into(),
            operator: Operator::Equal,
            map_key: Some(map_key),
            value,
        });
        Ok(())
    }

    fn in_list(
        &mut self,
        values: &InValues,
        name: &str,
        receiver: &Receiver,
    ) -> Result<Values, CqlError> {
        Ok(match values {
            InValues::Marker(marker) => {
                let list = CqlType::List {
                    element: Arc::new(receiver.cql_type.clone()),
                    frozen: false,
                };
                let expr = self
                    .analysis
                    .marker(marker, &Receiver::new(format!("in({name})"), list));
                Values::List {
                    expr,
                    tuples: false,
                }
            }
            InValues::List(terms) => {
                let mut sources = Vec::with_capacity(terms.len());
                for term in terms {
                    sources.push(Source::Each(vec![self.analysis.term(term, receiver)?]));
                }
                match (sources.len(), sources.pop()) {
                    (1, Some(only)) => Values::One(only),
                    (_, last) => {
                        sources.extend(last);
                        Values::Many(sources)
                    }
                }
            }
        })
    }

    fn single_in(&mut self, name: &str, values: &InValues) -> Result<(), CqlError> {
        let column = self.column(name)?;
        if column.cql_type.is_multi_cell() {
            return Err(invalid!(
                "Collection column '{name}' ({}) cannot be restricted by a 'IN' relation",
                column.cql_type
            ));
        }
        let receiver = Receiver::new(name, column.cql_type.clone());
        let values = self.in_list(values, name, &receiver)?;
        if matches!(column.kind, ColumnKind::Static | ColumnKind::Regular) {
            self.filters.push(value_filter(&column, values)?);
            return Ok(());
        }
        if column.kind == ColumnKind::PartitionKey {
            return self.partition_values(&column, values);
        }
        self.clustering_values(column.position, 1, values)
    }

    fn partition_values(&mut self, column: &Column, values: Values) -> Result<(), CqlError> {
        let slot = &mut self.partition[column.position];
        if slot.is_some() {
            return Err(invalid!(
                "{} cannot be restricted by more than one relation if it includes an Equal",
                column.name
            ));
        }
        *slot = Some(values);
        Ok(())
    }

    fn names(&self, first: usize, count: usize) -> String {
        let names: Vec<_> = self.table.clustering()[first..first + count]
            .iter()
            .map(|c| c.name.clone())
            .collect();
        if count == 1 {
            names.concat()
        } else {
            format!("({})", names.join(", "))
        }
    }

    fn clustering_values(
        &mut self,
        first: usize,
        count: usize,
        values: Values,
    ) -> Result<(), CqlError> {
        if self
            .clustering
            .iter()
            .any(|r| r.first < first + count && first < r.first + r.count)
        {
            return Err(invalid!(
                "{} cannot be restricted by more than one relation if it includes an Equal",
                self.names(first, count)
            ));
        }
        self.clustering.push(Restriction {
            values: Some(values),
            ..Restriction::new(first, count)
        });
        Ok(())
    }

    fn clustering_restriction(
        &mut self,
        first: usize,
        count: usize,
        comparison: Comparison,
        source: Source,
        _relation: &Relation,
    ) -> Result<(), CqlError> {
        if comparison == Comparison::Equal {
            return self.clustering_values(first, count, Values::One(source));
        }
        let lower = matches!(comparison, Comparison::Greater | Comparison::GreaterEqual);
        let inclusive = matches!(comparison, Comparison::GreaterEqual | Comparison::LessEqual);
        let names = self.names(first, count);
        let present = self.clustering.iter().position(|r| r.first == first);
        let at = present.unwrap_or_else(|| {
            self.clustering.push(Restriction::new(first, count));
            self.clustering.len() - 1
        });
        let restriction = &mut self.clustering[at];
        if restriction.values.is_some() {
            return Err(invalid!(
                "{names} cannot be restricted by more than one relation if it includes an Equal"
            ));
        }
        restriction.count = restriction.count.max(count);
        let (slot, word) = if lower {
            (&mut restriction.lower, "start")
        } else {
            (&mut restriction.upper, "end")
        };
        if slot.is_some() {
            return Err(invalid!(
                "More than one restriction was found for the {word} bound on {names}"
            ));
        }
        *slot = Some(Bound {
            source,
            inclusive,
            count,
        });
        Ok(())
    }

    /// Position of the first of the columns of a multi-column relation, and their types.
    fn tuple_columns(
        &self,
        names: &[String],
        relation: &Relation,
    ) -> Result<(usize, Vec<CqlType>), CqlError> {
        let mut first = 0;
        let mut types = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let column = self.column(name)?;
            if column.kind != ColumnKind::Clustering {
                return Err(invalid!(
                    "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                    quote_name(name)
                ));
            }
            if at == 0 {
                first = column.position;
            } else if column.position != first + at {
                return Err(invalid!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {}",
                    text::relation(relation)
                ));
            }
            types.push(column.cql_type);
        }
        Ok((first, types))
    }

    fn tuple_source(
        &mut self,
        names: &[String],
        types: &[CqlType],
        value: &Term,
    ) -> Result<Source, CqlError> {
        match value {
            Term::Marker(marker) => {
                let tuple = CqlType::Tuple(types.to_vec().into());
                let receiver = Receiver::new(format!("({})", names.join(",")), tuple);
                Ok(Source::Tuple(self.analysis.marker(marker, &receiver)))
            }
            Term::Tuple(items) => {
                if items.len() != types.len() {
                    return Err(invalid!(
                        "Expected {} elements in value tuple, but got {}: {}",
                        types.len(),
                        items.len(),
                        text::term(value)
                    ));
                }
                let mut each = Vec::with_capacity(items.len());
                for ((item, cql_type), name) in items.iter().zip(types).zip(names) {
                    each.push(
                        self.analysis
                            .term(item, &Receiver::new(name, cql_type.clone()))?,
                    );
                }
                Ok(Source::Each(each))
            }
            other => Err(invalid!(
                "Invalid value of a multi-column relation: {}",
                text::term(other)
            )),
        }
    }

    fn tuple(
        &mut self,
        names: &[String],
        comparison: Comparison,
        value: &Term,
        relation: &Relation,
    ) -> Result<(), CqlError> {
        let (first, types) = self.tuple_columns(names, relation)?;
        let source = self.tuple_source(names, &types, value)?;
        self.clustering_restriction(first, names.len(), comparison, source, relation)
    }

    fn tuple_in(
        &mut self,
        names: &[String],
        values: &InValues,
        relation: &Relation,
    ) -> Result<(), CqlError> {
        let (first, types) = self.tuple_columns(names, relation)?;
        let values = match values {
            InValues::Marker(marker) => {
                let tuple = CqlType::Tuple(types.into());
                let list = CqlType::List {
                    element: Arc::new(tuple),
                    frozen: false,
                };
                let receiver = Receiver::new(format!("in({})", names.join(",")), list);
                Values::List {
                    expr: self.analysis.marker(marker, &receiver),
                    tuples: true,
                }
            }
            InValues::List(terms) => {
                let sources: Result<Vec<_>, _> = terms
                    .iter()
                    .map(|term| self.tuple_source(names, &types, term))
                    .collect();
                Values::Many(sources?)
            }
        };
        self.clustering_values(first, names.len(), values)
    }

    fn token(
        &mut self,
        names: &[String],
        comparison: Comparison,
        value: &Term,
    ) -> Result<(), CqlError> {
        for name in names {
            self.column(name)?;
        }
        let key: Vec<&str> = self
            .table
            .partition_key()
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        if key.len() != names.len() || names.iter().any(|name| !key.contains(&name.as_str())) {
            return Err(invalid!(
                "The token() function must be applied to all partition key components or none of them"
            ));
        }
        if key.iter().zip(names).any(|(a, b)| a != b) {
            return Err(invalid!(
                "The token function arguments must be in the partition key order: {}",
                key.join(", ")
            ));
        }
        let expr = self.analysis.term(
            value,
            &Receiver::new("partition key token", CqlType::BigInt),
        )?;
        let inclusive = matches!(comparison, Comparison::GreaterEqual | Comparison::LessEqual);
        match comparison {
            Comparison::Equal => self.token.0 = Some(expr),
            Comparison::Greater | Comparison::GreaterEqual => {
                self.token.1 = Some((expr, inclusive));
            }
            Comparison::Less | Comparison::LessEqual => self.token.2 = Some((expr, inclusive)),
            _ => {
                return Err(invalid!(
                    "{} cannot be used with the token function",
                    comparison.sign()
                ));
            }
        }
        Ok(())
    }

    /// Puts the clustering restrictions in order; those behind a gap or slice become filters.
    fn finish(mut self) -> Result<Restrictions, CqlError> {
        self.clustering.sort_by_key(|r| r.first);
        let mut usable: Vec<Restriction> = Vec::new();
        let mut gap_error = None;
        let mut next = 0;
        for restriction in std::mem::take(&mut self.clustering) {
            let after_slice = usable.last().filter(|last| last.is_slice());
            if restriction.first == next && after_slice.is_none() && gap_error.is_none() {
                next += restriction.count;
                usable.push(restriction);
                continue;
            }
            let clustering = self.table.clustering();
            let name = &clustering[restriction.first].name;
            gap_error.get_or_insert_with(|| match after_slice {
                Some(slice) => invalid!(
                    "Clustering column \"{name}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                    clustering[slice.first].name
                ),
                None => invalid!(
                    "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
                    clustering[next].name
                ),
            });
            self.as_filters(restriction)?;
        }
        let mut restrictions = Restrictions {
            partition: self.partition,
            token_values: self.token.0,
            token_lower: self.token.1,
            token_upper: self.token.2,
            clustering: usable,
            filters: self.filters,
            needs_filtering: self.partition_slices,
            key_slices: self.partition_slices,
            gap: None,
            table: self.table,
        };
        if !restrictions.has_partition_key() {
            let columns = restrictions.table.partition_key().to_vec();
            for (column, values) in columns.iter().zip(&mut restrictions.partition) {
                if let Some(values) = values.take() {
                    restrictions.needs_filtering = true;
                    self.key_filters.push(value_filter(column, values)?);
                }
            }
        }
        restrictions.filters.extend(self.key_filters);
        Ok(restrictions.with_gap(gap_error))
    }

    /// Equality of several columns as one filter each.
    fn as_column_filters(&mut self, restriction: Restriction) -> Result<(), CqlError> {
        let Some(values) = restriction.values else {
            return Err(invalid!(
                "Multi-column slice restrictions cannot be used for filtering."
            ));
        };
        match values {
            Values::One(Source::Each(each)) => {
                let columns = &self.table.clustering()[restriction.first..];
                for (column, value) in columns.iter().zip(each) {
                    let values = Values::One(Source::Each(vec![value]));
                    self.filters.push(value_filter(column, values)?);
                }
                Ok(())
            }
            Values::One(Source::Tuple(_)) => Err(CqlError::unsupported(
                "filtering by a bound tuple of columns",
            )),
            Values::Many(_) | Values::List { .. } => {
                Err(invalid!("Multicolumn IN filters are not supported"))
            }
        }
    }

    fn as_filters(&mut self, restriction: Restriction) -> Result<(), CqlError> {
        let column = self.table.clustering()[restriction.first].clone();
        if restriction.count > 1 {
            return self.as_column_filters(restriction);
        }
        if let Some(values) = restriction.values {
            self.filters.push(value_filter(&column, values)?);
        }
        let bounds = [
            (restriction.lower, Operator::Greater, Operator::GreaterEqual),
            (restriction.upper, Operator::Less, Operator::LessEqual),
        ];
        for (bound, exclusive, inclusive) in bounds {
            let Some(bound) = bound else { continue };
            let operator = if bound.inclusive {
                inclusive
            } else {
                exclusive
            };
            let value = single_expr(bound.source)?;
            self.filters.push(Filter {
                column: column.id,
                name: column.name.clone(),
                operator,
                map_key: None,
                value,
            });
        }
        Ok(())
    }
}

impl Restrictions {
    /// A gap between clustering columns is an error unless the query filters anyway.
    fn with_gap(mut self, error: Option<CqlError>) -> Self {
        self.gap = error.filter(|_| self.has_partition_key());
        self
    }
}

fn single_expr(source: Source) -> Result<Expr, CqlError> {
    match source {
        Source::Each(mut each) if each.len() == 1 => {
            each.pop().ok_or_else(|| invalid!("empty restriction"))
        }
        Source::Each(each) => Ok(Expr::Fields(each)),
        Source::Tuple(expr) => Ok(expr),
    }
}

fn value_filter(column: &Column, values: Values) -> Result<Filter, CqlError> {
    let (operator, value) = match values {
        Values::One(source) => (Operator::Equal, single_expr(source)?),
        Values::Many(sources) => {
            let exprs: Result<Vec<_>, _> = sources.into_iter().map(single_expr).collect();
            (Operator::In, Expr::List(exprs?))
        }
        Values::List { expr, .. } => (Operator::In, expr),
    };
    Ok(Filter {
        column: column.id,
        name: column.name.clone(),
        operator,
        map_key: None,
        value,
    })
}
