//! Native functions: found by name and argument types, called on serialized values.

mod aggregate;
mod arithmetic;
mod convert;
mod resolve;

pub(crate) use aggregate::{Accumulator, Aggregate};
pub(crate) use arithmetic::{arithmetic, negate};
pub(crate) use convert::cast;
pub(crate) use resolve::resolve;

use crate::ast::Arithmetic;
use crate::binding::Evaluation;
use crate::error::{CqlError, invalid};
use bytes::Bytes;
use helenus_types::{CqlType, Token, Value, composite, timeuuid};

/// A native function with its types resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Function {
    /// As messages and column names show it: `system.token`.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// What a function does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Now,
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    CurrentTime,
    ToDate(CqlType),
    ToTimestamp(CqlType),
    ToUnixTimestamp(CqlType),
    MinTimeUuid,
    MaxTimeUuid,
    Token,
    ToBlob,
    FromBlob(CqlType),
    ToJson(CqlType),
    FromJson(CqlType),
    Cast {
        from: CqlType,
        to: CqlType,
    },
    Arithmetic {
        operator: Arithmetic,
        left: CqlType,
        right: CqlType,
        result: CqlType,
    },
    Negate(CqlType),
    MapKeys,
    MapValues,
    CollectionCount(CqlType),
}

impl Function {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: format!("system.{name}"),
            kind,
        }
    }

    /// The result on these arguments.
    pub(crate) fn call(
        &self,
        arguments: &[Option<Bytes>],
        evaluation: &Evaluation<'_>,
    ) -> Result<Option<Bytes>, CqlError> {
        let context = evaluation.context;
        let millis = context.now_micros.div_euclid(1000);
        Ok(match &self.kind {
            Kind::Now => Some(Bytes::copy_from_slice(evaluation.time_uuid().as_bytes())),
            Kind::Uuid => Some(Bytes::copy_from_slice(evaluation.random_uuid().as_bytes())),
            Kind::CurrentTimestamp => Some(CqlType::Timestamp.encode(&Value::Timestamp(millis))?),
            Kind::CurrentDate => Some(CqlType::Date.encode(&Value::Date(days(millis)))?),
            Kind::CurrentTime => {
                let nanos = context.now_micros.rem_euclid(86_400_000_000) * 1000;
                Some(CqlType::Time.encode(&Value::Time(nanos))?)
            }
            Kind::Token => {
                let parts: Option<Vec<Bytes>> = arguments.iter().cloned().collect();
                let Some(parts) = parts else { return Ok(None) };
                let key = composite::build(&parts).map_err(|error| invalid!("{error}"))?;
                Some(Bytes::copy_from_slice(&Token::of_key(&key).0.to_be_bytes()))
            }
            Kind::ToJson(cql_type) => {
                let text = match arguments.first().cloned().flatten() {
                    None => "null".to_owned(),
                    Some(bytes) => cql_type.to_json(&bytes)?,
                };
                Some(Bytes::from(text))
            }
            _ => {
                let values: Option<Vec<Bytes>> = arguments.iter().cloned().collect();
                let Some(values) = values else {
                    return Ok(None);
                };
                self.call_on_values(&values)?
            }
        })
    }

    fn call_on_values(&self, arguments: &[Bytes]) -> Result<Option<Bytes>, CqlError> {
        let first = arguments.first().cloned().unwrap_or_default();
        Ok(match &self.kind {
            Kind::ToBlob => Some(first),
            Kind::FromBlob(target) => {
                target.validate(&first).map_err(|_| {
                    invalid!(
                        "In call to function {}, value 0x{} is not a valid binary representation for type {target}",
                        self.name, helenus_types::literal::hex(&first)
                    )
                })?;
                Some(first)
            }
            Kind::FromJson(target) => convert::from_json(target, &first)?,
            Kind::ToDate(from) => millis_of(from, &first)?
                .map(|millis| CqlType::Date.encode(&Value::Date(days(millis))))
                .transpose()?,
            Kind::ToTimestamp(from) => millis_of(from, &first)?
                .map(|millis| CqlType::Timestamp.encode(&Value::Timestamp(millis)))
                .transpose()?,
            Kind::ToUnixTimestamp(from) => {
                millis_of(from, &first)?.map(|millis| Bytes::copy_from_slice(&millis.to_be_bytes()))
            }
            Kind::MinTimeUuid => millis_of(&CqlType::Timestamp, &first)?
                .map(|millis| Bytes::copy_from_slice(timeuuid::min_of_millis(millis).as_bytes())),
            Kind::MaxTimeUuid => millis_of(&CqlType::Timestamp, &first)?
                .map(|millis| Bytes::copy_from_slice(timeuuid::max_of_millis(millis).as_bytes())),
            Kind::Cast { from, to } => convert::convert(from, to, &first)?,
            Kind::Arithmetic {
                operator,
                left,
                right,
                result,
            } => {
                let second = arguments.get(1).cloned().unwrap_or_default();
                arithmetic::compute(*operator, (left, &first), (right, &second), result)?
            }
            Kind::Negate(cql_type) => arithmetic::negated(cql_type, &first)?,
            Kind::MapKeys => {
                let keys: Vec<Bytes> = helenus_types::elements::read_map(&first)?
                    .into_iter()
                    .map(|entry| entry.0)
                    .collect();
                Some(helenus_types::elements::write_list(&keys)?)
            }
            Kind::MapValues => {
                let values: Vec<Bytes> = helenus_types::elements::read_map(&first)?
                    .into_iter()
                    .map(|entry| entry.1)
                    .collect();
                Some(helenus_types::elements::write_list(&values)?)
            }
            Kind::CollectionCount(collection) => {
                let count = match collection {
                    CqlType::Map { .. } => helenus_types::elements::read_map(&first)?.len(),
                    _ => helenus_types::elements::read_list(&first)?.len(),
                };
                Some(Bytes::copy_from_slice(
                    &i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes(),
                ))
            }
            _ => None,
        })
    }
}

/// Days since 1970 of milliseconds since 1970.
fn days(millis: i64) -> i32 {
    i32::try_from(millis.div_euclid(86_400_000)).unwrap_or(i32::MAX)
}

/// Milliseconds since 1970 of a date, timestamp or time UUID.
fn millis_of(from: &CqlType, bytes: &Bytes) -> Result<Option<i64>, CqlError> {
    Ok(match from.decode(bytes)? {
        Value::Timestamp(millis) => Some(millis),
        Value::Date(days) => Some(i64::from(days) * 86_400_000),
        Value::TimeUuid(uuid) | Value::Uuid(uuid) => timeuuid::unix_millis(&uuid),
        _ => None,
    })
}
