//! Typed expressions: what terms and selectors become once names and types are known, and how
//! they are evaluated.

use crate::ast::CellFact;
use crate::binding::{BoundValue, Evaluation};
use crate::error::{CqlError, invalid};
use crate::functions::Function;
use bytes::Bytes;
use helenus_types::{CqlType, UserType, elements};
use std::sync::Arc;

/// A typed expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Constant(Option<Bytes>),
    Marker {
        index: usize,
        cql_type: CqlType,
    },
    List(Vec<Expr>),
    Set {
        element: CqlType,
        items: Vec<Expr>,
    },
    Map {
        key: CqlType,
        entries: Vec<(Expr, Expr)>,
    },
    Vector {
        element: CqlType,
        items: Vec<Expr>,
    },
    /// Fields of a tuple or user type.
    Fields(Vec<Expr>),
    Call(Arc<Function>, Vec<Expr>),
    /// The n-th of the columns that the query fetches.
    Column(usize),
    Fact {
        fact: CellFact,
        column: usize,
        multi_cell: bool,
    },
    /// The result of the n-th aggregate.
    Aggregate(usize),
    Field {
        value: Box<Expr>,
        user_type: Arc<UserType>,
        index: usize,
    },
    Element {
        value: Box<Expr>,
        collection: CqlType,
        key: Box<Expr>,
    },
    Range {
        value: Box<Expr>,
        collection: CqlType,
        from: Option<Box<Expr>>,
        to: Option<Box<Expr>>,
    },
}

/// Where an expression finds the values of the current row.
pub(crate) trait RowValues {
    fn column(&self, index: usize) -> Option<Bytes>;
    fn fact(
        &self,
        fact: CellFact,
        column: usize,
        multi_cell: bool,
    ) -> Result<Option<Bytes>, CqlError>;
    fn aggregate(&self, index: usize) -> Option<Bytes>;
}

/// No row: for values of statements.
pub(crate) struct NoRow;

impl RowValues for NoRow {
    fn column(&self, _: usize) -> Option<Bytes> {
        None
    }
    fn fact(&self, _: CellFact, _: usize, _: bool) -> Result<Option<Bytes>, CqlError> {
        Ok(None)
    }
    fn aggregate(&self, _: usize) -> Option<Bytes> {
        None
    }
}

impl Expr {
    /// Evaluates without a row.
    pub(crate) fn value(&self, evaluation: &Evaluation<'_>) -> Result<BoundValue, CqlError> {
        self.evaluate(evaluation, &NoRow)
    }

    /// Evaluates without a row; unset is not allowed.
    pub(crate) fn option(
        &self,
        evaluation: &Evaluation<'_>,
        what: &str,
    ) -> Result<Option<Bytes>, CqlError> {
        match self.value(evaluation)? {
            BoundValue::Value(bytes) => Ok(Some(bytes)),
            BoundValue::Null => Ok(None),
            BoundValue::Unset => Err(invalid!("Invalid unset value for {what}")),
        }
    }

    pub(crate) fn evaluate(
        &self,
        evaluation: &Evaluation<'_>,
        row: &dyn RowValues,
    ) -> Result<BoundValue, CqlError> {
        Ok(match self {
            Self::Constant(value) => BoundValue::of(value.clone()),
            Self::Marker { index, cql_type } => bound_to(*index, cql_type, evaluation)?,
            Self::List(items) => {
                BoundValue::Value(elements::write_list(&elements_of(items, evaluation, row)?)?)
            }
            Self::Set { element, items } => {
                BoundValue::Value(set_of(element, items, evaluation, row)?)
            }
            Self::Map { key, entries } => BoundValue::Value(map_of(key, entries, evaluation, row)?),
            Self::Vector { element, items } => BoundValue::Value(elements::write_vector(
                element,
                &elements_of(items, evaluation, row)?,
            )?),
            Self::Fields(fields) => {
                let unset = || invalid!("Invalid unset value in a tuple or user defined type");
                let fields = nullable(fields, unset, evaluation, row)?;
                BoundValue::Value(elements::write_fields(&fields)?)
            }
            Self::Call(function, arguments) => {
                let unset = || {
                    invalid!(
                        "Invalid unset value for argument in call to function {}",
                        function.name
                    )
                };
                let values = nullable(arguments, unset, evaluation, row)?;
                BoundValue::of(function.call(&values, evaluation)?)
            }
            Self::Column(index) => BoundValue::of(row.column(*index)),
            Self::Fact {
                fact,
                column,
                multi_cell,
            } => BoundValue::of(row.fact(*fact, *column, *multi_cell)?),
            Self::Aggregate(index) => BoundValue::of(row.aggregate(*index)),
            Self::Field {
                value,
                user_type,
                index,
            } => select_field(value.evaluate(evaluation, row)?, user_type, *index)?,
            Self::Element {
                value,
                collection,
                key,
            } => select_element(value, collection, key, evaluation, row)?,
            Self::Range {
                value,
                collection,
                from,
                to,
            } => {
                let bound = |bound: &Option<Box<Expr>>| match bound {
                    Some(bound) => bound.option(evaluation, "slice bound"),
                    None => Ok(None),
                };
                select_range(
                    &value.evaluate(evaluation, row)?,
                    collection,
                    bound(from)?.as_ref(),
                    bound(to)?.as_ref(),
                )?
            }
        })
    }
}

/// The value bound to a marker, if it is one of the marker's type.
fn bound_to(
    index: usize,
    cql_type: &CqlType,
    evaluation: &Evaluation<'_>,
) -> Result<BoundValue, CqlError> {
    let value = evaluation.values.get(index).cloned();
    let value = value.unwrap_or(BoundValue::Null);
    if let BoundValue::Value(bytes) = &value {
        cql_type.validate(bytes)?;
    }
    Ok(value)
}

fn set_of(
    element: &CqlType,
    items: &[Expr],
    evaluation: &Evaluation<'_>,
    row: &dyn RowValues,
) -> Result<Bytes, CqlError> {
    let mut items = elements_of(items, evaluation, row)?;
    items.sort_by(|a, b| element.compare(a, b));
    items.dedup();
    Ok(elements::write_list(&items)?)
}

fn map_of(
    key: &CqlType,
    entries: &[(Expr, Expr)],
    evaluation: &Evaluation<'_>,
    row: &dyn RowValues,
) -> Result<Bytes, CqlError> {
    let mut pairs = Vec::with_capacity(entries.len());
    for (k, v) in entries {
        pairs.push((
            element_of(k, evaluation, row)?,
            element_of(v, evaluation, row)?,
        ));
    }
    pairs.sort_by(|a, b| key.compare(&a.0, &b.0));
    // the last of equal keys wins
    pairs.reverse();
    pairs.dedup_by(|a, b| a.0 == b.0);
    pairs.reverse();
    Ok(elements::write_map(&pairs)?)
}

/// Values that may be null, but not unset.
fn nullable(
    items: &[Expr],
    unset: impl Fn() -> CqlError,
    evaluation: &Evaluation<'_>,
    row: &dyn RowValues,
) -> Result<Vec<Option<Bytes>>, CqlError> {
    items
        .iter()
        .map(|item| match item.evaluate(evaluation, row)? {
            BoundValue::Value(bytes) => Ok(Some(bytes)),
            BoundValue::Null => Ok(None),
            BoundValue::Unset => Err(unset()),
        })
        .collect()
}

fn select_field(
    value: BoundValue,
    user_type: &UserType,
    index: usize,
) -> Result<BoundValue, CqlError> {
    let BoundValue::Value(bytes) = value else {
        return Ok(BoundValue::Null);
    };
    let mut fields = elements::read_fields(&bytes, user_type.fields.len(), "UDT")?;
    Ok(BoundValue::of(fields.get_mut(index).and_then(Option::take)))
}

fn element_of(
    item: &Expr,
    evaluation: &Evaluation<'_>,
    row: &dyn RowValues,
) -> Result<Bytes, CqlError> {
    match item.evaluate(evaluation, row)? {
        BoundValue::Value(bytes) => Ok(bytes),
        BoundValue::Null => Err(invalid!("null is not supported inside collections")),
        BoundValue::Unset => Err(invalid!("unset value is not supported inside collections")),
    }
}

fn elements_of(
    items: &[Expr],
    evaluation: &Evaluation<'_>,
    row: &dyn RowValues,
) -> Result<Vec<Bytes>, CqlError> {
    items
        .iter()
        .map(|item| element_of(item, evaluation, row))
        .collect()
}

fn select_element(
    value: &Expr,
    collection: &CqlType,
    key: &Expr,
    evaluation: &Evaluation<'_>,
    row: &dyn RowValues,
) -> Result<BoundValue, CqlError> {
    let (BoundValue::Value(bytes), BoundValue::Value(wanted)) = (
        value.evaluate(evaluation, row)?,
        key.evaluate(evaluation, row)?,
    ) else {
        return Ok(BoundValue::Null);
    };
    let found = match collection {
        CqlType::Map { key, .. } => elements::read_map(&bytes)?
            .into_iter()
            .find(|(k, _)| key.compare(k, &wanted).is_eq())
            .map(|entry| entry.1),
        CqlType::Set { element, .. } => elements::read_set(&bytes)?
            .into_iter()
            .find(|item| element.compare(item, &wanted).is_eq()),
        _ => None,
    };
    Ok(BoundValue::of(found))
}

fn select_range(
    value: &BoundValue,
    collection: &CqlType,
    from: Option<&Bytes>,
    to: Option<&Bytes>,
) -> Result<BoundValue, CqlError> {
    let BoundValue::Value(bytes) = value else {
        return Ok(BoundValue::Null);
    };
    let within = |key_type: &CqlType, key: &Bytes| {
        from.is_none_or(|from| key_type.compare(from, key).is_le())
            && to
                .as_ref()
                .is_none_or(|to| key_type.compare(key, to).is_le())
    };
    Ok(BoundValue::Value(match collection {
        CqlType::Map { key, .. } => {
            let entries: Vec<_> = elements::read_map(bytes)?
                .into_iter()
                .filter(|(k, _)| within(key, k))
                .collect();
            elements::write_map(&entries)?
        }
        CqlType::Set { element, .. } => {
            let items: Vec<_> = elements::read_set(bytes)?
                .into_iter()
                .filter(|item| within(element, item))
                .collect();
            elements::write_list(&items)?
        }
        _ => return Ok(BoundValue::Null),
    }))
}

impl Expr {
    /// Whether an aggregate's result is part of it.
    pub(crate) fn has_aggregate(&self) -> bool {
        match self {
            Self::Aggregate(_) => true,
            Self::Constant(_) | Self::Marker { .. } | Self::Column(_) | Self::Fact { .. } => false,
            Self::List(items)
            | Self::Set { items, .. }
            | Self::Vector { items, .. }
            | Self::Fields(items)
            | Self::Call(_, items) => items.iter().any(Self::has_aggregate),
            Self::Map { entries, .. } => entries
                .iter()
                .any(|(key, value)| key.has_aggregate() || value.has_aggregate()),
            Self::Field { value, .. } | Self::Element { value, .. } | Self::Range { value, .. } => {
                value.has_aggregate()
            }
        }
    }
}
