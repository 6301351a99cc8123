//! Values in: partition keys, clusterings, slices and token ranges out.

use super::{Bound, Restrictions, Source, Values};
use crate::binding::{BoundValue, Evaluation};
use crate::error::{CqlError, invalid};
use bytes::Bytes;
use helenus_rows::{
    Clustering, ClusteringBound, ClusteringFilter, Operator, PartitionPosition, PrefixKind,
    RowFilter, RowFilterExpression, Slice,
};
use helenus_schema::Column;
use helenus_types::{CqlType, DecoratedKey, Token, composite, elements};

/// How many keys or rows the IN lists of one statement may name together.
const PRODUCT_LIMIT: usize = 65_536;

/// Clustering bounds: a prefix by values, then perhaps a bound of the next columns.
pub(crate) enum RowsBound {
    /// These rows.
    Names(Vec<Clustering>),
    /// Rows within these slices.
    Slices(Vec<Slice>),
}

impl Source {
    fn bind(
        &self,
        evaluation: &Evaluation<'_>,
        columns: &[Column],
    ) -> Result<Vec<Bytes>, CqlError> {
        match self {
            Self::Each(each) => each
                .iter()
                .zip(columns)
                .map(|(expr, column)| required(expr.value(evaluation)?, &column.name))
                .collect(),
            Self::Tuple(expr) => {
                let name = columns.first().map_or("", |column| column.name.as_str());
                split_tuple(&required(expr.value(evaluation)?, name)?, columns)
            }
        }
    }
}

fn required(value: BoundValue, name: &str) -> Result<Bytes, CqlError> {
    match value {
        BoundValue::Value(bytes) => Ok(bytes),
        BoundValue::Null => Err(invalid!(
            "Invalid null value in condition for column {name}"
        )),
        BoundValue::Unset => Err(invalid!("Invalid unset value for column {name}")),
    }
}

fn split_tuple(bytes: &Bytes, columns: &[Column]) -> Result<Vec<Bytes>, CqlError> {
    let fields = elements::read_fields(bytes, columns.len(), "tuple")?;
    fields
        .into_iter()
        .zip(columns)
        .map(|(field, column)| required(BoundValue::of(field), &column.name))
        .collect()
}

impl Values {
    fn bind(
        &self,
        evaluation: &Evaluation<'_>,
        columns: &[Column],
    ) -> Result<Vec<Vec<Bytes>>, CqlError> {
        match self {
            Self::One(source) => Ok(vec![source.bind(evaluation, columns)?]),
            Self::Many(sources) => sources
                .iter()
                .map(|source| source.bind(evaluation, columns))
                .collect(),
            Self::List { expr, tuples } => {
                let name = columns.first().map_or("", |column| column.name.as_str());
                let bytes = match expr.value(evaluation)? {
                    BoundValue::Value(bytes) => bytes,
                    BoundValue::Null => {
                        return Err(invalid!("Invalid null value for column {name}"));
                    }
                    BoundValue::Unset => {
                        return Err(invalid!("Invalid unset value for column {name}"));
                    }
                };
                let items = elements::read_list(&bytes)?;
                items
                    .into_iter()
                    .map(|item| {
                        if *tuples {
                            split_tuple(&item, columns)
                        } else {
                            Ok(vec![item])
                        }
                    })
                    .collect()
            }
        }
    }
}

/// Every combination of the rows of `prefixes` and of `next`.
fn product(prefixes: &[Vec<Bytes>], next: &[Vec<Bytes>]) -> Result<Vec<Vec<Bytes>>, CqlError> {
    if prefixes.len().saturating_mul(next.len()) > PRODUCT_LIMIT {
        return Err(invalid!(
            "The IN lists of the statement name more than {PRODUCT_LIMIT} keys together"
        ));
    }
    let mut combined = Vec::with_capacity(prefixes.len() * next.len());
    for prefix in prefixes {
        for more in next {
            combined.push(prefix.iter().chain(more).cloned().collect());
        }
    }
    Ok(combined)
}

impl Restrictions {
    /// The partition keys, without repetition, in the order of their values (not of their tokens), as
    /// Cassandra answers IN.
    pub(crate) fn keys(&self, evaluation: &Evaluation<'_>) -> Result<Vec<DecoratedKey>, CqlError> {
        let mut combinations = vec![Vec::new()];
        for (column, values) in self.table.partition_key().iter().zip(&self.partition) {
            let Some(values) = values else {
                return Ok(Vec::new());
            };
            let bound = values.bind(evaluation, std::slice::from_ref(column))?;
            combinations = product(&combinations, &bound)?;
        }
        let columns = self.table.partition_key();
        combinations.sort_by(|a, b| {
            let mut orders = a.iter().zip(b).zip(columns);
            orders
                .find_map(|((a, b), column)| {
                    Some(column.cql_type.compare(a, b)).filter(|order| order.is_ne())
                })
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        combinations.dedup();
        let mut keys = Vec::with_capacity(combinations.len());
        for combination in combinations {
            let key = composite::build(&combination).map_err(|_| {
                let length: usize = combination.iter().map(Bytes::len).sum();
                invalid!("Key length of {length} is longer than maximum of 65535")
            })?;
            if key.is_empty() {
                return Err(invalid!("Key may not be empty"));
            }
            if key.len() > usize::from(u16::MAX) {
                return Err(invalid!(
                    "Key length of {} is longer than maximum of 65535",
                    key.len()
                ));
            }
            keys.push(DecoratedKey::new(key));
        }
        Ok(keys)
    }

    /// Which rows.
    pub(crate) fn rows(&self, evaluation: &Evaluation<'_>) -> Result<RowsBound, CqlError> {
        let columns = self.table.clustering();
        let mut prefixes: Vec<Vec<Bytes>> = vec![Vec::new()];
        for restriction in &self.clustering {
            let own = &columns[restriction.first..restriction.first + restriction.count];
            if let Some(values) = &restriction.values {
                prefixes = product(&prefixes, &values.bind(evaluation, own)?)?;
                continue;
            }
            let bind = |bound: &Option<Bound>| -> Result<Option<(Vec<Bytes>, bool)>, CqlError> {
                let Some(bound) = bound else { return Ok(None) };
                let values = bound.source.bind(evaluation, &own[..bound.count])?;
                Ok(Some((values, bound.inclusive)))
            };
            let (lower, upper) = (bind(&restriction.lower)?, bind(&restriction.upper)?);
            if lower
                .iter()
                .chain(&upper)
                .any(|end| end.0.len() < own.len())
                && is_mixed(own)
            {
                return Err(CqlError::unsupported(
                    "slices of different numbers of clustering columns that are sorted in different directions",
                ));
            }
            let mut slices = Vec::new();
            for prefix in self.in_order(prefixes) {
                slices.extend(slices_of(&prefix, own, lower.as_ref(), upper.as_ref()));
            }
            return Ok(RowsBound::Slices(self.proper(slices)));
        }
        let prefixes = self.in_order(prefixes);
        if !columns.is_empty() && self.value_columns() == columns.len() {
            let names = prefixes
                .into_iter()
                .map(|prefix| Clustering(prefix.into_iter().map(Some).collect()))
                .collect();
            return Ok(RowsBound::Names(names));
        }
        let slices = prefixes.iter().map(|prefix| Slice {
            start: bound(PrefixKind::InclusiveStart, prefix, &[]),
            end: bound(PrefixKind::InclusiveEnd, prefix, &[]),
        });
        Ok(RowsBound::Slices(self.proper(slices.collect())))
    }

    /// [`Self::rows`] as a filter of a read.
    pub(crate) fn row_filter_of_clustering(
        &self,
        evaluation: &Evaluation<'_>,
        reversed: bool,
    ) -> Result<ClusteringFilter, CqlError> {
        Ok(match self.rows(evaluation)? {
            RowsBound::Names(clusterings) => ClusteringFilter::Names {
                clusterings,
                reversed,
            },
            RowsBound::Slices(slices) => ClusteringFilter::Slices { slices, reversed },
        })
    }

    /// Clustering prefixes in the table's order, without repetition.
    fn in_order(&self, mut prefixes: Vec<Vec<Bytes>>) -> Vec<Vec<Bytes>> {
        let columns = self.table.clustering();
        prefixes.sort_by(|a, b| {
            for ((a, b), column) in a.iter().zip(b).zip(columns) {
                let order = column.cql_type.compare(a, b);
                if order.is_ne() {
                    return if column.reversed {
                        order.reverse()
                    } else {
                        order
                    };
                }
            }
            a.len().cmp(&b.len())
        });
        prefixes.dedup();
        prefixes
    }

    /// Slices in order, without those that hold nothing.
    fn proper(&self, mut slices: Vec<Slice>) -> Vec<Slice> {
        slices.retain(|slice| slice.start.compare(&slice.end, &self.table).is_lt());
        slices.sort_by(|a, b| a.start.compare(&b.start, &self.table));
        slices
    }

    /// The conditions on values.
    pub(crate) fn row_filter(&self, evaluation: &Evaluation<'_>) -> Result<RowFilter, CqlError> {
        let mut expressions = Vec::with_capacity(self.filters.len());
        for filter in &self.filters {
            let map_key = filter
                .map_key
                .as_ref()
                .map(|key| required(key.value(evaluation)?, &filter.name))
                .transpose()?;
            let value = match (filter.operator, filter.value.value(evaluation)?) {
                (_, BoundValue::Value(bytes)) => bytes,
                (Operator::Contains, BoundValue::Null) => {
                    return Err(invalid!("Invalid null value for column {}", filter.name));
                }
                (_, value) => required(value, &filter.name)?,
            };
            expressions.push(RowFilterExpression {
                column: filter.column,
                operator: filter.operator,
                map_key,
                value,
            });
        }
        Ok(RowFilter { expressions })
    }

    /// The range of the ring: start and end; `None` when nothing lies within.
    pub(crate) fn token_range(
        &self,
        evaluation: &Evaluation<'_>,
    ) -> Result<Option<(PartitionPosition, PartitionPosition)>, CqlError> {
        let token = |expr: &crate::expr::Expr| -> Result<Token, CqlError> {
            let bytes = required(expr.value(evaluation)?, "partition key token")?;
            CqlType::BigInt.validate(&bytes)?;
            let array = bytes[..]
                .try_into()
                .map_err(|_| invalid!("Invalid token value"))?;
            Ok(Token(i64::from_be_bytes(array)))
        };
        if let Some(expr) = &self.token_values {
            let only = token(expr)?;
            return Ok(Some((
                PartitionPosition::MinOf(only),
                PartitionPosition::MaxOf(only),
            )));
        }
        let mut start = PartitionPosition::MinOf(Token::MINIMUM);
        let mut end = PartitionPosition::MinOf(Token::MINIMUM);
        let mut first = Token::MINIMUM;
        if let Some((expr, inclusive)) = &self.token_lower {
            first = token(expr)?;
            start = if *inclusive {
                PartitionPosition::MinOf(first)
            } else {
                PartitionPosition::MaxOf(first)
            };
        }
        if let Some((expr, inclusive)) = &self.token_upper {
            let last = token(expr)?;
            if last == Token::MINIMUM {
                // the greatest token of the ring is written as the smallest: no bound
                return Ok(Some((start, end)));
            }
            let start_excluded = self.token_lower.as_ref().is_some_and(|bound| !bound.1);
            if first > last || (first == last && (start_excluded || !inclusive)) {
                return Ok(None);
            }
            end = if *inclusive {
                PartitionPosition::MaxOf(last)
            } else {
                PartitionPosition::MinOf(last)
            };
        }
        Ok(Some((start, end)))
    }
}

fn bound(kind: PrefixKind, prefix: &[Bytes], more: &[Bytes]) -> ClusteringBound {
    ClusteringBound {
        kind,
        values: prefix.iter().chain(more).cloned().map(Some).collect(),
    }
}

type BoundEnd = (Vec<Bytes>, bool);

/// Whether columns are sorted in different directions.
fn is_mixed(columns: &[Column]) -> bool {
    columns
        .windows(2)
        .any(|pair| pair[0].reversed != pair[1].reversed)
}

/// The slices of rows that start with `prefix` and whose next columns lie between two bounds. With
/// columns of mixed directions that is one slice per column: `(a, b) > (x, y)` is `a = x AND b > y`
/// and `a > x`.
fn slices_of(
    prefix: &[Bytes],
    columns: &[Column],
    lower: Option<&BoundEnd>,
    upper: Option<&BoundEnd>,
) -> Vec<Slice> {
    if !is_mixed(columns) {
        let reversed = columns.first().is_some_and(|column| column.reversed);
        let (start, end) = if reversed {
            (upper, lower)
        } else {
            (lower, upper)
        };
        let start = start.map_or_else(
            || bound(PrefixKind::InclusiveStart, prefix, &[]),
            |(values, inclusive)| {
                bound(
                    if *inclusive {
                        PrefixKind::InclusiveStart
                    } else {
                        PrefixKind::ExclusiveStart
                    },
                    prefix,
                    values,
                )
            },
        );
        let end = end.map_or_else(
            || bound(PrefixKind::InclusiveEnd, prefix, &[]),
            |(values, inclusive)| {
                bound(
                    if *inclusive {
                        PrefixKind::InclusiveEnd
                    } else {
                        PrefixKind::ExclusiveEnd
                    },
                    prefix,
                    values,
                )
            },
        );
        return vec![Slice { start, end }];
    }
    let mut common = 0;
    if let (Some(lower), Some(upper)) = (lower, upper) {
        common = lower
            .0
            .iter()
            .zip(&upper.0)
            .take_while(|(a, b)| a == b)
            .count();
    }
    mixed_slices(prefix, columns, lower, upper, common)
}

/// See [`slices_of`]: `common` leading values are equal in both bounds.
fn mixed_slices(
    prefix: &[Bytes],
    columns: &[Column],
    lower: Option<&BoundEnd>,
    upper: Option<&BoundEnd>,
    common: usize,
) -> Vec<Slice> {
    let mut slices = Vec::new();
    let mut add =
        |values: &[Bytes], at: usize, low: Option<(&Bytes, bool)>, high: Option<(&Bytes, bool)>| {
            let mut base: Vec<Bytes> = prefix.to_vec();
            base.extend(values.iter().cloned());
            let end = |end: Option<(&Bytes, bool)>| {
                end.map(|(value, inclusive)| (vec![value.clone()], inclusive))
            };
            slices.extend(slices_of(
                &base,
                &columns[at..=at],
                end(low).as_ref(),
                end(high).as_ref(),
            ));
        };
    let last = columns.len() - 1;
    if common == columns.len() {
        if let (Some(lower), Some(upper)) = (lower, upper)
            && lower.1
            && upper.1
        {
            add(
                &lower.0[..last],
                last,
                Some((&lower.0[last], true)),
                Some((&lower.0[last], true)),
            );
        }
        return slices;
    }
    // between the bounds in the first column in which they differ
    let low = lower.map(|bound| (&bound.0[common], common == last && bound.1));
    let high = upper.map(|bound| (&bound.0[common], common == last && bound.1));
    let shared: &[Bytes] = lower.or(upper).map_or(&[], |bound| &bound.0[..common]);
    add(shared, common, low, high);
    // then, with equal values before, further in each later column
    for at in common + 1..=last {
        if let Some((values, inclusive)) = lower {
            add(
                &values[..at],
                at,
                Some((&values[at], at == last && *inclusive)),
                None,
            );
        }
        if let Some((values, inclusive)) = upper {
            add(
                &values[..at],
                at,
                None,
                Some((&values[at], at == last && *inclusive)),
            );
        }
    }
    slices
}
