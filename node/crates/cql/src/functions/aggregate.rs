//! Aggregates: `count`, `min`, `max`, `sum`, `avg`.

use super::arithmetic::{Number, encode, integer, number, on_decimals};
use crate::analysis::AggregateCall;
use crate::ast::Arithmetic;
use crate::error::CqlError;
use bytes::Bytes;
use helenus_types::CqlType;
use helenus_types::value::Decimal;
use num_bigint::BigInt;

/// Which aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregate {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Average,
}

/// The running state of one aggregate over one group.
#[derive(Debug, Clone)]
pub(crate) struct Accumulator {
    function: Aggregate,
    cql_type: CqlType,
    count: i64,
    best: Option<Bytes>,
    sum: Option<Number>,
}

impl Accumulator {
    pub(crate) fn new(call: &AggregateCall) -> Self {
        Self {
            function: call.function,
            cql_type: call.argument_type.clone(),
            count: 0,
            best: None,
            sum: None,
        }
    }

    /// Takes the argument's value in one more row.
    pub(crate) fn add(&mut self, value: Option<Bytes>) -> Result<(), CqlError> {
        if self.function == Aggregate::CountRows {
            self.count += 1;
            return Ok(());
        }
        let Some(value) = value else { return Ok(()) };
        match self.function {
            Aggregate::CountRows | Aggregate::Count => self.count += 1,
            Aggregate::Min | Aggregate::Max => {
                let better = self.best.as_ref().is_none_or(|best| {
                    let order = self.cql_type.compare(&value, best);
                    if self.function == Aggregate::Min {
                        order.is_lt()
                    } else {
                        order.is_gt()
                    }
                });
                if better {
                    self.best = Some(value);
                }
            }
            Aggregate::Sum | Aggregate::Average => {
                if let Some(next) = number(&self.cql_type, &value)? {
                    self.count += 1;
                    self.sum = Some(match self.sum.take() {
                        None => next,
                        Some(sum) => plus(&sum, &next)?,
                    });
                }
            }
        }
        Ok(())
    }

    /// The result.
    pub(crate) fn result(&self) -> Result<Option<Bytes>, CqlError> {
        match self.function {
            Aggregate::CountRows | Aggregate::Count => {
                Ok(Some(Bytes::copy_from_slice(&self.count.to_be_bytes())))
            }
            Aggregate::Min | Aggregate::Max => Ok(self.best.clone()),
            Aggregate::Sum => encode(
                self.sum
                    .as_ref()
                    .unwrap_or(&Number::Integer(BigInt::default())),
                &self.cql_type,
            ),
            Aggregate::Average => {
                let Some(sum) = &self.sum else {
                    return encode(&Number::Integer(BigInt::default()), &self.cql_type);
                };
                let count = BigInt::from(self.count.max(1));
                let average = match sum {
                    Number::Integer(_) => Number::Integer(integer(sum) / count),
                    Number::Float(value) => {
                        Number::Float(value / super::arithmetic::float(&Number::Integer(count)))
                    }
                    Number::Decimal(value) => {
                        // as Cassandra: the scale of the sum, half to even at a digit more is not kept
                        let exact = on_decimals(
                            Arithmetic::Divide,
                            value,
                            &Decimal {
                                unscaled: count,
                                scale: 0,
                            },
                        )?;
                        let floor = on_decimals(
                            Arithmetic::Modulo,
                            &exact,
                            &Decimal {
                                unscaled: BigInt::from(1),
                                scale: value.scale,
                            },
                        )?;
                        Number::Decimal(
                            on_decimals(Arithmetic::Subtract, &exact, &floor)
                                .map(|d| rescaled(&d, value.scale))?,
                        )
                    }
                };
                encode(&average, &self.cql_type)
            }
        }
    }
}

/// A decimal whose digits behind `scale` are zeros, without them.
fn rescaled(value: &Decimal, scale: i32) -> Decimal {
    let (mut unscaled, mut at) = (value.unscaled.clone(), value.scale);
    let ten = BigInt::from(10);
    while at > scale && &unscaled % &ten == BigInt::default() {
        unscaled /= &ten;
        at -= 1;
    }
    Decimal {
        unscaled,
        scale: at,
    }
}

fn plus(a: &Number, b: &Number) -> Result<Number, CqlError> {
    Ok(match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => Number::Integer(a + b),
        (Number::Decimal(a), Number::Decimal(b)) => {
            Number::Decimal(on_decimals(Arithmetic::Add, a, b)?)
        }
        (a, b) => Number::Float(super::arithmetic::float(a) + super::arithmetic::float(b)),
    })
}
