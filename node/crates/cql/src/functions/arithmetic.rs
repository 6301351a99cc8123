//! Numbers: arithmetic of expressions and of `sum` and `avg`.

use super::{Function, Kind};
use crate::analysis::Analysis;
use crate::ast::{Arithmetic, Term};
use crate::error::{CqlError, invalid};
use crate::expr::Expr;
use bytes::Bytes;
use helenus_types::value::Decimal;
use helenus_types::{CqlType, Value};
use num_bigint::BigInt;
use std::sync::Arc;

/// Whether arithmetic works on the type.
pub(crate) fn is_number(cql_type: &CqlType) -> bool {
    rank(cql_type).is_some()
}

fn rank(cql_type: &CqlType) -> Option<u8> {
    Some(match cql_type {
        CqlType::TinyInt => 0,
        CqlType::SmallInt => 1,
        CqlType::Int => 2,
        CqlType::BigInt | CqlType::Counter => 3,
        CqlType::VarInt => 4,
        CqlType::Float => 5,
        CqlType::Double => 6,
        CqlType::Decimal => 7,
        _ => return None,
    })
}

/// The type of `left operator right`, as Cassandra's `OperationFcts`.
fn result_type(left: &CqlType, right: &CqlType) -> Option<CqlType> {
    let (a, b) = (rank(left)?, rank(right)?);
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    let wide = if a >= b { left } else { right };
    Some(match (low, high) {
        // a wide integer does not fit a float, a varint fits only a decimal
        (3, 5) => CqlType::Double,
        (4, 5 | 6) => CqlType::Decimal,
        (_, 3) => CqlType::BigInt,
        _ => wide.clone(),
    })
}

/// Types an arithmetic expression.
pub(crate) fn arithmetic(
    analysis: &mut Analysis<'_>,
    operator: Arithmetic,
    left: &Term,
    right: &Term,
    wanted: Option<&CqlType>,
) -> Result<(Expr, CqlType), CqlError> {
    let own = |analysis: &Analysis<'_>, term: &Term| analysis.type_of(term, None);
    let (left_own, right_own) = (own(analysis, left), own(analysis, right));
    let left_wanted = left_own
        .clone()
        .or_else(|| right_own.clone())
        .or_else(|| wanted.cloned());
    let right_wanted = right_own.or(left_own).or_else(|| wanted.cloned());
    let literal = |term: &Term| matches!(term, Term::Literal(..));
    // a literal takes the type of the other side, or the wanted one between two literals
    let pick = |term: &Term, other: &Term, own: Option<CqlType>| {
        if literal(term) && literal(other) {
            wanted.cloned().filter(is_number).or(own)
        } else {
            own
        }
    };
    let left_type = pick(left, right, left_wanted);
    let right_type = pick(right, left, right_wanted);
    let (left_expr, left_type) = analysis.infer(left, left_type.as_ref())?;
    let (right_expr, right_type) = analysis.infer(right, right_type.as_ref())?;
    let result = result_type(&left_type, &right_type).ok_or_else(|| {
        invalid!(
            "the '{}' operation is not supported between {left_type} and {right_type}",
            operator.sign()
        )
    })?;
    let kind = Kind::Arithmetic {
        operator,
        left: left_type,
        right: right_type,
        result: result.clone(),
    };
    let function = Function {
        name: format!("system._{}", operator.sign()),
        kind,
    };
    Ok((
        Expr::Call(Arc::new(function), vec![left_expr, right_expr]),
        result,
    ))
}

/// The negation of a type.
pub(crate) fn negate(cql_type: &CqlType) -> Result<Function, CqlError> {
    if !is_number(cql_type) {
        return Err(invalid!("the '-' operation is not supported on {cql_type}"));
    }
    Ok(Function {
        name: "system._negate".into(),
        kind: Kind::Negate(cql_type.clone()),
    })
}

/// A number of any type.
#[derive(Debug, Clone)]
pub(crate) enum Number {
    Integer(BigInt),
    Float(f64),
    Decimal(Decimal),
}

pub(crate) fn number(cql_type: &CqlType, bytes: &Bytes) -> Result<Option<Number>, CqlError> {
    Ok(Some(match cql_type.decode(bytes)? {
        Value::TinyInt(v) => Number::Integer(v.into()),
        Value::SmallInt(v) => Number::Integer(v.into()),
        Value::Int(v) => Number::Integer(v.into()),
        Value::BigInt(v) | Value::Counter(v) => Number::Integer(v.into()),
        Value::VarInt(v) => Number::Integer(v),
        Value::Float(v) => Number::Float(v.into()),
        Value::Double(v) => Number::Float(v),
        Value::Decimal(v) => Number::Decimal(v),
        _ => return Ok(None),
    }))
}

/// A number in the form of a type; integers wrap as Java's do.
pub(crate) fn encode(number: &Number, cql_type: &CqlType) -> Result<Option<Bytes>, CqlError> {
    let value = match cql_type {
        CqlType::TinyInt => Value::TinyInt(wrapped(number).to_be_bytes()[7].cast_signed()),
        CqlType::SmallInt => {
            let bytes = wrapped(number).to_be_bytes();
            Value::SmallInt(i16::from_be_bytes([bytes[6], bytes[7]]))
        }
        CqlType::Int => {
            let bytes = wrapped(number).to_be_bytes();
            Value::Int(i32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]))
        }
        CqlType::BigInt => Value::BigInt(wrapped(number)),
        CqlType::Counter => Value::Counter(wrapped(number)),
        CqlType::VarInt => Value::VarInt(integer(number)),
        CqlType::Float => Value::Float(to_f32(float(number))),
        CqlType::Double => Value::Double(float(number)),
        CqlType::Decimal => Value::Decimal(decimal(number)?),
        _ => return Ok(None),
    };
    Ok(Some(cql_type.encode(&value)?))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "CQL floats round to the nearest f32, as Java's cast does"
)]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// The low 64 bits.
fn wrapped(number: &Number) -> i64 {
    let bytes = integer(number).to_signed_bytes_be();
    let fill = if bytes.first().is_some_and(|b| *b > 127) {
        0xff
    } else {
        0
    };
    let mut out = [fill; 8];
    for (target, source) in out.iter_mut().rev().zip(bytes.iter().rev()) {
        *target = *source;
    }
    i64::from_be_bytes(out)
}

pub(crate) fn integer(number: &Number) -> BigInt {
    match number {
        Number::Integer(v) => v.clone(),
        Number::Float(v) => {
            let text = format!("{:.0}", v.trunc());
            text.parse().unwrap_or_default()
        }
        Number::Decimal(v) => scaled(v, 0),
    }
}

pub(crate) fn float(number: &Number) -> f64 {
    match number {
        Number::Integer(v) => v.to_string().parse().unwrap_or(f64::NAN),
        Number::Float(v) => *v,
        Number::Decimal(v) => format!("{}e{}", v.unscaled, -i64::from(v.scale))
            .parse()
            .unwrap_or(f64::NAN),
    }
}

pub(crate) fn decimal(number: &Number) -> Result<Decimal, CqlError> {
    Ok(match number {
        Number::Integer(v) => Decimal {
            unscaled: v.clone(),
            scale: 0,
        },
        Number::Float(v) => helenus_types::literal::format_f64(*v).parse()?,
        Number::Decimal(v) => v.clone(),
    })
}

/// Powers of ten beyond this are refused: they would be numbers as long as the attacker likes.
const SCALE_LIMIT: i64 = 100_000;

/// The unscaled value at another scale, digits cut off.
fn scaled(value: &Decimal, scale: i32) -> BigInt {
    let shift = i64::from(scale) - i64::from(value.scale);
    if shift.abs() > SCALE_LIMIT {
        return BigInt::default();
    }
    let power = BigInt::from(10).pow(u32::try_from(shift.unsigned_abs()).unwrap_or(0));
    if shift >= 0 {
        &value.unscaled * power
    } else {
        &value.unscaled / power
    }
}

fn zero_divided() -> CqlError {
    invalid!("the operation 'value / 0' failed: / by zero")
}

/// The result of an arithmetic operation on serialized numbers.
pub(super) fn compute(
    operator: Arithmetic,
    left: (&CqlType, &Bytes),
    right: (&CqlType, &Bytes),
    result: &CqlType,
) -> Result<Option<Bytes>, CqlError> {
    let (Some(a), Some(b)) = (number(left.0, left.1)?, number(right.0, right.1)?) else {
        return Ok(None);
    };
    let computed = match result {
        CqlType::Float | CqlType::Double => {
            let (a, b) = (float(&a), float(&b));
            Number::Float(match operator {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                Arithmetic::Modulo => a % b,
            })
        }
        CqlType::Decimal => Number::Decimal(on_decimals(operator, &decimal(&a)?, &decimal(&b)?)?),
        _ => {
            let (a, b) = (integer(&a), integer(&b));
            if matches!(operator, Arithmetic::Divide | Arithmetic::Modulo) && b == BigInt::default()
            {
                return Err(zero_divided());
            }
            Number::Integer(match operator {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                Arithmetic::Modulo => a % b,
            })
        }
    };
    encode(&computed, result)
}

/// Addition, subtraction and multiplication of decimals; division is to 32 digits.
pub(crate) fn on_decimals(
    operator: Arithmetic,
    a: &Decimal,
    b: &Decimal,
) -> Result<Decimal, CqlError> {
    if (i64::from(a.scale) - i64::from(b.scale)).abs() > SCALE_LIMIT {
        return Err(invalid!(
            "the scales of the decimals {} and {} are too far apart",
            a.scale,
            b.scale
        ));
    }
    let scale = a.scale.max(b.scale);
    Ok(match operator {
        Arithmetic::Add => Decimal {
            unscaled: scaled(a, scale) + scaled(b, scale),
            scale,
        },
        Arithmetic::Subtract => Decimal {
            unscaled: scaled(a, scale) - scaled(b, scale),
            scale,
        },
        Arithmetic::Multiply => Decimal {
            unscaled: &a.unscaled * &b.unscaled,
            scale: a.scale.saturating_add(b.scale),
        },
        Arithmetic::Divide | Arithmetic::Modulo if b.unscaled == BigInt::default() => {
            return Err(zero_divided());
        }
        Arithmetic::Modulo => Decimal {
            unscaled: scaled(a, scale) % scaled(b, scale),
            scale,
        },
        Arithmetic::Divide => {
            let extra = scale.max(32);
            let shifted = Decimal {
                unscaled: scaled(a, a.scale.saturating_add(extra)),
                scale: 0,
            };
            let (mut unscaled, mut scale) = (
                shifted.unscaled / &b.unscaled,
                a.scale.saturating_add(extra).saturating_sub(b.scale),
            );
            let ten = BigInt::from(10);
            while scale > 0 && &unscaled % &ten == BigInt::default() {
                unscaled /= &ten;
                scale -= 1;
            }
            Decimal { unscaled, scale }
        }
    })
}

/// The negated number.
pub(super) fn negated(cql_type: &CqlType, bytes: &Bytes) -> Result<Option<Bytes>, CqlError> {
    let Some(value) = number(cql_type, bytes)? else {
        return Ok(None);
    };
    let negated = match value {
        Number::Integer(v) => Number::Integer(-v),
        Number::Float(v) => Number::Float(-v),
        Number::Decimal(v) => Number::Decimal(Decimal {
            unscaled: -v.unscaled,
            scale: v.scale,
        }),
    };
    encode(&negated, cql_type)
}
