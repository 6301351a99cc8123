//! Decoded values and their serialized form.

use crate::cql_type::CqlType;
use crate::elements;
use crate::reader::Reader;
use crate::vint;
use bytes::{Bytes, BytesMut};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use uuid::Uuid;

/// Bytes or a text that are no value of a type; the message is Cassandra's where clients see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ValueError {
    /// What is wrong.
    pub message: String,
}

impl ValueError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

/// Months, days and nanoseconds, all of one sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Duration {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Nanoseconds.
    pub nanoseconds: i64,
}

/// A decimal number: `unscaled` × 10^−`scale`. Equality is of both parts (1.0 is not 1.00), order is
/// numeric, as with Java's `BigDecimal`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// All digits as an integer.
    pub unscaled: BigInt,
    /// Digits after the decimal point; negative for trailing zeros before it.
    pub scale: i32,
}

impl Decimal {
    /// Reads scale and unscaled value; `None` when there are less than four bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        Some(Self {
            unscaled: BigInt::from_signed_bytes_be(unscaled),
            scale: i32::from_be_bytes(*scale),
        })
    }

    /// Scale, then the unscaled value's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.scale.to_be_bytes().to_vec();
        out.extend(self.unscaled.to_signed_bytes_be());
        out
    }

    /// Whether it is negative, and its decimal digits as numbers, the most significant first; none for zero.
    pub(crate) fn digits(&self) -> (bool, Vec<u8>) {
        let (sign, digits) = self.unscaled.to_radix_be(10);
        (
            sign == Sign::Minus,
            if sign == Sign::NoSign {
                Vec::new()
            } else {
                digits
            },
        )
    }

    /// Numeric order, without ever building a number as long as the difference of the scales.
    pub fn compare(&self, other: &Self) -> Ordering {
        let ((a_negative, a), (b_negative, b)) = (self.digits(), other.digits());
        let sign = |negative: bool, digits: &[u8]| match (digits.is_empty(), negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let (a_sign, b_sign) = (sign(a_negative, &a), sign(b_negative, &b));
        if a_sign != b_sign || a_sign == 0 {
            return a_sign.cmp(&b_sign);
        }
        // The place of the first digit decides, then the digits, shorter ones padded with zeros.
        let place = |digits: &[u8], scale: i32| digits.len() as i128 - i128::from(scale);
        let magnitude = place(&a, self.scale)
            .cmp(&place(&b, other.scale))
            .then_with(|| {
                let common = a.len().min(b.len());
                a[..common].cmp(&b[..common]).then_with(|| {
                    a[common..]
                        .iter()
                        .any(|d| *d != 0)
                        .cmp(&b[common..].iter().any(|d| *d != 0))
                })
            });
        if a_negative {
            magnitude.reverse()
        } else {
            magnitude
        }
    }
}

/// A decoded value. Types that share a form share a variant: `Text` is ascii and text.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The empty value (no bytes) of a type that allows it.
    Empty,
    /// `ascii`, `text`.
    Text(String),
    /// `bigint`.
    BigInt(i64),
    /// `blob`, and types known only by name.
    Blob(Bytes),
    /// `boolean`.
    Boolean(bool),
    /// `counter`.
    Counter(i64),
    /// `date`: days since 1970-01-01.
    Date(i32),
    /// `decimal`.
    Decimal(Decimal),
    /// `double`.
    Double(f64),
    /// `duration`.
    Duration(Duration),
    /// `float`.
    Float(f32),
    /// `inet`.
    Inet(IpAddr),
    /// `int`.
    Int(i32),
    /// `smallint`.
    SmallInt(i16),
    /// `time`: nanoseconds since midnight.
    Time(i64),
    /// `timestamp`: milliseconds since 1970.
    Timestamp(i64),
    /// `timeuuid`.
    TimeUuid(Uuid),
    /// `tinyint`.
    TinyInt(i8),
    /// `uuid`.
    Uuid(Uuid),
    /// `varint`.
    VarInt(BigInt),
    /// `list`.
    List(Vec<Value>),
    /// `set`.
    Set(Vec<Value>),
    /// `map`.
    Map(Vec<(Value, Value)>),
    /// `tuple`: as many as the type has elements, or fewer where the value lacks the last ones.
    Tuple(Vec<Option<Value>>),
    /// User-defined type: in the order of its fields, fewer where the value was written before the last were added.
    Udt(Vec<Option<Value>>),
    /// `vector`.
    Vector(Vec<Value>),
}

/// Days since 1970 are stored with the epoch at 2^31.
const DATE_SHIFT: u32 = 1 << 31;

impl CqlType {
    /// The value of serialized bytes; an error unless [`CqlType::validate`] accepts them.
    pub fn decode(&self, bytes: &Bytes) -> Result<Value, ValueError> {
        self.validate(bytes)?;
        self.decode_valid(bytes)
    }

    fn decode_valid(&self, bytes: &Bytes) -> Result<Value, ValueError> {
        let text = || {
            String::from_utf8(bytes.to_vec())
                .map_err(|_| ValueError::new("String didn't validate."))
        };
        match self {
            Self::Ascii | Self::Text => return Ok(Value::Text(text()?)),
            Self::Blob | Self::Custom(_) => return Ok(Value::Blob(bytes.clone())),
            Self::Tuple(_) | Self::Udt(_) => {}
            _ if bytes.is_empty() => return Ok(Value::Empty),
            _ => {}
        }
        let each = |element: &CqlType, parts: Vec<Bytes>| -> Result<Vec<Value>, ValueError> {
            parts
                .iter()
                .map(|part| element.decode_valid(part))
                .collect()
        };
        let mut reader = Reader::new(bytes.clone());
        Ok(match self {
            Self::BigInt => Value::BigInt(reader.i64().map_err(short)?),
            Self::Boolean => Value::Boolean(reader.u8().map_err(short)? != 0),
            Self::Counter => Value::Counter(reader.i64().map_err(short)?),
            Self::Date => Value::Date((reader.u32().map_err(short)? ^ DATE_SHIFT).cast_signed()),
            Self::Decimal => Value::Decimal(
                Decimal::from_bytes(bytes)
                    .ok_or_else(|| ValueError::new("decimal is cut short"))?,
            ),
            Self::Double => Value::Double(f64::from_be_bytes(reader.array().map_err(short)?)),
            Self::Duration => Value::Duration(decode_duration(&mut reader)?),
            Self::Float => Value::Float(f32::from_be_bytes(reader.array().map_err(short)?)),
            Self::Inet => Value::Inet(decode_inet(bytes)?),
            Self::Int => Value::Int(reader.i32().map_err(short)?),
            Self::SmallInt => Value::SmallInt(i16::from_be_bytes(reader.array().map_err(short)?)),
            Self::Time => Value::Time(reader.i64().map_err(short)?),
            Self::Timestamp => Value::Timestamp(reader.i64().map_err(short)?),
            Self::TimeUuid => Value::TimeUuid(Uuid::from_bytes(reader.array().map_err(short)?)),
            Self::TinyInt => Value::TinyInt(reader.u8().map_err(short)?.cast_signed()),
            Self::Uuid => Value::Uuid(Uuid::from_bytes(reader.array().map_err(short)?)),
            Self::VarInt => Value::VarInt(BigInt::from_signed_bytes_be(bytes)),
            Self::List { element, .. } => Value::List(each(element, elements::read_list(bytes)?)?),
            Self::Set { element, .. } => Value::Set(each(element, elements::read_set(bytes)?)?),
            Self::Map { key, value, .. } => Value::Map(
                elements::read_map(bytes)?
                    .iter()
                    .map(|(k, v)| Ok((key.decode_valid(k)?, value.decode_valid(v)?)))
                    .collect::<Result<_, ValueError>>()?,
            ),
            Self::Tuple(types) => Value::Tuple(decode_fields(
                types.iter(),
                &elements::read_present_fields(bytes, types.len(), "tuple")?,
            )?),
            Self::Udt(user_type) => Value::Udt(decode_fields(
                user_type.fields.iter().map(|field| &field.1),
                &elements::read_present_fields(bytes, user_type.fields.len(), "UDT")?,
            )?),
            Self::Vector { element, dimension } => Value::Vector(each(
                element,
                elements::read_vector(element, *dimension, bytes)?,
            )?),
            Self::Empty | Self::Ascii | Self::Text | Self::Blob | Self::Custom(_) => Value::Empty,
        })
    }

    /// The serialized form of a value; an error where the value is not of this type.
    pub fn encode(&self, value: &Value) -> Result<Bytes, ValueError> {
        let each = |element: &CqlType, values: &[Value]| -> Result<Vec<Bytes>, ValueError> {
            values.iter().map(|v| element.encode(v)).collect()
        };
        Ok(match (self, value) {
            (_, Value::Empty) => Bytes::new(),
            (Self::Ascii | Self::Text, Value::Text(text)) => {
                Bytes::copy_from_slice(text.as_bytes())
            }
            (Self::Blob | Self::Custom(_), Value::Blob(bytes)) => bytes.clone(),
            (Self::BigInt, Value::BigInt(n))
            | (Self::Counter, Value::Counter(n))
            | (Self::Time, Value::Time(n))
            | (Self::Timestamp, Value::Timestamp(n)) => Bytes::copy_from_slice(&n.to_be_bytes()),
            (Self::Boolean, Value::Boolean(b)) => Bytes::copy_from_slice(&[u8::from(*b)]),
            (Self::Date, Value::Date(days)) => {
                Bytes::copy_from_slice(&(days.cast_unsigned() ^ DATE_SHIFT).to_be_bytes())
            }
            (Self::Decimal, Value::Decimal(decimal)) => decimal.to_bytes().into(),
            (Self::Double, Value::Double(n)) => Bytes::copy_from_slice(&n.to_be_bytes()),
            (Self::Duration, Value::Duration(duration)) => encode_duration(duration),
            (Self::Float, Value::Float(n)) => Bytes::copy_from_slice(&n.to_be_bytes()),
            (Self::Inet, Value::Inet(IpAddr::V4(address))) => {
                Bytes::copy_from_slice(&address.octets())
            }
            (Self::Inet, Value::Inet(IpAddr::V6(address))) => {
                Bytes::copy_from_slice(&address.octets())
            }
            (Self::Int, Value::Int(n)) => Bytes::copy_from_slice(&n.to_be_bytes()),
            (Self::SmallInt, Value::SmallInt(n)) => Bytes::copy_from_slice(&n.to_be_bytes()),
            (Self::TinyInt, Value::TinyInt(n)) => Bytes::copy_from_slice(&n.to_be_bytes()),
            (Self::TimeUuid, Value::TimeUuid(uuid)) | (Self::Uuid, Value::Uuid(uuid)) => {
                Bytes::copy_from_slice(uuid.as_bytes())
            }
            (Self::VarInt, Value::VarInt(n)) => n.to_signed_bytes_be().into(),
            (Self::List { element, .. }, Value::List(values))
            | (Self::Set { element, .. }, Value::Set(values)) => {
                elements::write_list(&each(element, values)?)?
            }
            (Self::Map { key, value, .. }, Value::Map(entries)) => {
                let entries: Result<Vec<_>, _> = entries
                    .iter()
                    .map(|(k, v)| Ok::<_, ValueError>((key.encode(k)?, value.encode(v)?)))
                    .collect();
                elements::write_map(&entries?)?
            }
            (Self::Tuple(types), Value::Tuple(fields)) if fields.len() <= types.len() => {
                encode_fields(types.iter(), fields)?
            }
            (Self::Udt(user_type), Value::Udt(fields))
                if fields.len() <= user_type.fields.len() =>
            {
                encode_fields(user_type.fields.iter().map(|field| &field.1), fields)?
            }
            (Self::Vector { element, dimension }, Value::Vector(values)) => {
                if u32::try_from(values.len()) != Ok(*dimension) {
                    return Err(ValueError::new(format!(
                        "Required {dimension} elements, but saw {}",
                        values.len()
                    )));
                }
                elements::write_vector(element, &each(element, values)?)?
            }
            (cql_type, value) => {
                return Err(ValueError::new(format!(
                    "{value:?} is not a value of type {cql_type}"
                )));
            }
        })
    }
}

fn short(error: crate::Truncated) -> ValueError {
    ValueError::new(error.to_string())
}

fn decode_fields<'a>(
    types: impl Iterator<Item = &'a CqlType>,
    fields: &[Option<Bytes>],
) -> Result<Vec<Option<Value>>, ValueError> {
    types
        .zip(fields)
        .map(|(t, field)| {
            field
                .as_ref()
                .map(|bytes| t.decode_valid(bytes))
                .transpose()
        })
        .collect()
}

fn encode_fields<'a>(
    types: impl Iterator<Item = &'a CqlType>,
    fields: &[Option<Value>],
) -> Result<Bytes, ValueError> {
    let fields: Result<Vec<_>, _> = types
        .zip(fields)
        .map(|(t, field)| field.as_ref().map(|v| t.encode(v)).transpose())
        .collect();
    elements::write_fields(&fields?)
}

pub(crate) fn decode_duration(reader: &mut Reader) -> Result<Duration, ValueError> {
    let months = reader.vint().map_err(short)?;
    let days = reader.vint().map_err(short)?;
    let nanoseconds = reader.vint().map_err(short)?;
    let too_big = |name: &str, value: i64| {
        ValueError::new(format!(
            "The duration {name} must be a 32 bits integer but was: {value}"
        ))
    };
    let duration = Duration {
        months: i32::try_from(months).map_err(|_| too_big("months", months))?,
        days: i32::try_from(days).map_err(|_| too_big("days", days))?,
        nanoseconds,
    };
    let parts = [months, days, nanoseconds];
    if parts.iter().any(|part| *part < 0) && parts.iter().any(|part| *part > 0) {
        return Err(ValueError::new(format!(
            "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
        )));
    }
    Ok(duration)
}

fn encode_duration(duration: &Duration) -> Bytes {
    let mut out = BytesMut::with_capacity(8);
    vint::write_signed(&mut out, i64::from(duration.months));
    vint::write_signed(&mut out, i64::from(duration.days));
    vint::write_signed(&mut out, duration.nanoseconds);
    out.freeze()
}

fn decode_inet(bytes: &[u8]) -> Result<IpAddr, ValueError> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    <[u8; 16]>::try_from(bytes)
        .map(|v6| IpAddr::V6(Ipv6Addr::from(v6)))
        .map_err(|_| {
            ValueError::new(format!(
                "Expected 4 or 16 byte inetaddress; got {}",
                crate::literal::hex(bytes)
            ))
        })
}
