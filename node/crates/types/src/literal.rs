//! Values as text: CQL literals (`toCQLLiteral`) and the plain form (`getString`), and back from the
//! plain form (`fromString`), with Cassandra's messages.

use crate::calendar;
use crate::cql_name::quote_name;
use crate::cql_type::CqlType;
use crate::java_name::decode_hex;
use crate::value::{Decimal, Duration, Value, ValueError};
use bytes::Bytes;
use num_bigint::BigInt;
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use uuid::Uuid;

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            write!(out, "{byte:02x}").unwrap_or_default();
            out
        })
}

/// A floating point number as Java writes it: `1.0`, `1.0E10`, `NaN`, `-Infinity`. The digits are the
/// shortest that read back the same (as Java since 19; older ones sometimes write one more).
fn java_float(scientific: &str, nan: bool, infinite: bool, negative: bool) -> String {
    if nan {
        return "NaN".into();
    }
    if infinite {
        return if negative {
            "-Infinity".into()
        } else {
            "Infinity".into()
        };
    }
    // Rust's form is [-]d[.ddd]e[-]x.
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |m| ("-", m));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if !(-3..7).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        return format!(
            "{sign}{first}.{}E{exponent}",
            if rest.is_empty() { "0" } else { rest }
        );
    }
    let point = usize::try_from(exponent + 1).unwrap_or(0);
    if point == 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    }
    let padded = format!("{digits:0<point$}");
    let (whole, fraction) = padded.split_at(point);
    format!(
        "{sign}{whole}.{}",
        if fraction.is_empty() { "0" } else { fraction }
    )
}

/// A `float` as Java writes it.
pub fn format_f32(value: f32) -> String {
    java_float(
        &format!("{value:e}"),
        value.is_nan(),
        value.is_infinite(),
        value < 0.0,
    )
}

/// A `double` as Java writes it.
pub fn format_f64(value: f64) -> String {
    java_float(
        &format!("{value:e}"),
        value.is_nan(),
        value.is_infinite(),
        value < 0.0,
    )
}

/// An address as Java writes it: IPv6 in full, without `::`.
pub fn format_inet(address: &IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6
            .segments()
            .map(|segment| format!("{segment:x}"))
            .join(":"),
    }
}

impl fmt::Display for Decimal {
    /// `BigDecimal.toString`: plain where the scale is not negative and the number not tiny, else scientific.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.unscaled.to_string();
        let (sign, digits) = text
            .strip_prefix('-')
            .map_or(("", text.as_str()), |d| ("-", d));
        if self.scale == 0 {
            return write!(f, "{text}");
        }
        let adjusted = -i64::from(self.scale) + i64::try_from(digits.len()).unwrap_or(i64::MAX) - 1;
        if self.scale > 0 && adjusted >= -6 {
            let scale = usize::try_from(self.scale).unwrap_or(0);
            let padded = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            return write!(f, "{sign}{whole}.{fraction}");
        }
        let (first, rest) = digits.split_at(1);
        write!(f, "{sign}{first}")?;
        if !rest.is_empty() {
            write!(f, ".{rest}")?;
        }
        if adjusted == 0 {
            Ok(())
        } else {
            write!(f, "E{adjusted:+}")
        }
    }
}

impl std::str::FromStr for Decimal {
    type Err = ValueError;

    /// `new BigDecimal(text)`.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let invalid = || ValueError::new(format!("unable to make BigDecimal from '{text}'"));
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => {
                let digits = exponent.strip_prefix('+').unwrap_or(exponent);
                if exponent.starts_with("+-") {
                    return Err(invalid());
                }
                (number, digits.parse::<i64>().map_err(|_| invalid())?)
            }
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let unsigned = whole.strip_prefix(['-', '+']).unwrap_or(whole);
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if (unsigned.is_empty() && fraction.is_empty())
            || !all_digits(unsigned)
            || !all_digits(fraction)
        {
            return Err(invalid());
        }
        let unscaled: BigInt = format!("{unsigned}{fraction}")
            .parse()
            .map_err(|_| invalid())?;
        let scale = i64::try_from(fraction.len())
            .ok()
            .and_then(|f| f.checked_sub(exponent));
        let scale = scale
            .and_then(|s| i32::try_from(s).ok())
            .ok_or_else(invalid)?;
        Ok(Self {
            unscaled: if whole.starts_with('-') {
                -unscaled
            } else {
                unscaled
            },
            scale,
        })
    }
}

impl CqlType {
    /// The value as CQL writes it: texts in single quotes, blobs `0x…`, collections in brackets;
    /// empty values of types without meaning for them are `null`.
    pub fn format_literal(&self, bytes: &Bytes) -> Result<String, ValueError> {
        if let Self::Custom(_) = self {
            return Ok(format!("0x{}", hex(bytes)));
        }
        Ok(self.literal_of(&self.decode(bytes)?))
    }

    /// [`Self::format_literal`] of a decoded value.
    pub fn literal_of(&self, value: &Value) -> String {
        let list = |element: &CqlType, values: &[Value]| {
            values
                .iter()
                .map(|v| element.literal_of(v))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match (self, value) {
            (_, Value::Empty) => "null".into(),
            (_, Value::Text(text)) => quote_text(text),
            (_, Value::Blob(bytes)) => format!("0x{}", hex(bytes)),
            (_, Value::Date(_) | Value::Time(_) | Value::Inet(_)) => format!("'{}'", plain(value)),
            (_, Value::Timestamp(millis)) => {
                format!("'{}'", calendar::format_timestamp(*millis, 'T'))
            }
            (Self::List { element, .. }, Value::List(values))
            | (Self::Vector { element, .. }, Value::Vector(values)) => {
                format!("[{}]", list(element, values))
            }
            (Self::Set { element, .. }, Value::Set(values)) => {
                format!("{{{}}}", list(element, values))
            }
            (Self::Map { key, value, .. }, Value::Map(entries)) => {
                let entries: Vec<_> = entries
                    .iter()
                    .map(|(k, v)| format!("{}: {}", key.literal_of(k), value.literal_of(v)))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            (Self::Tuple(types), Value::Tuple(fields)) => {
                let fields: Vec<_> = types
                    .iter()
                    .zip(fields)
                    .map(|(t, f)| literal_or_null(t, f.as_ref()))
                    .collect();
                format!("({})", fields.join(", "))
            }
            (Self::Udt(user_type), Value::Udt(fields)) => {
                let fields: Vec<_> = user_type
                    .fields
                    .iter()
                    .zip(fields)
                    .map(|((name, t), f)| {
                        format!("{}: {}", quote_name(name), literal_or_null(t, f.as_ref()))
                    })
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }
            _ => plain(value),
        }
    }

    /// The value as plain text without quotes (Cassandra's `getString`): blobs and collections in
    /// hexadecimal, tuples with `:` between fields and `@` for null.
    pub fn format_plain(&self, bytes: &Bytes) -> Result<String, ValueError> {
        match self {
            Self::List { .. } | Self::Set { .. } | Self::Map { .. } | Self::Vector { .. } => {
                Ok(hex(bytes))
            }
            Self::Tuple(types) => plain_fields(types.iter(), bytes),
            Self::Udt(user_type) => {
                plain_fields(user_type.fields.iter().map(|field| &field.1), bytes)
            }
            _ => Ok(plain(&self.decode(bytes)?)),
        }
    }

    /// The serialized value of a plain text (Cassandra's `fromString`), for constants of CQL and
    /// arguments of tools. Collections, vectors and unknown types are taken as hexadecimal.
    pub fn parse_plain(&self, text: &str) -> Result<Bytes, ValueError> {
        let fail = |message: &str| ValueError::new(format!("{message} from '{text}'"));
        if text.is_empty() && self.allows_empty() && !matches!(self, Self::Boolean) {
            return Ok(Bytes::new());
        }
        self.encode(&match self {
            Self::Ascii if !text.is_ascii() => {
                return Err(ValueError::new(
                    "Invalid ASCII character in string literal: java.nio.charset.UnmappableCharacterException: Input length = 1",
                ));
            }
            Self::Ascii | Self::Text => Value::Text(text.to_owned()),
            Self::BigInt => Value::BigInt(text.parse().map_err(|_| fail("Unable to make long"))?),
            Self::Int => Value::Int(text.parse().map_err(|_| fail("Unable to make int"))?),
            Self::SmallInt => {
                Value::SmallInt(text.parse().map_err(|_| fail("Unable to make short"))?)
            }
            Self::TinyInt => Value::TinyInt(text.parse().map_err(|_| fail("Unable to make byte"))?),
            Self::VarInt => {
                Value::VarInt(parse_varint(text).ok_or_else(|| fail("unable to make int"))?)
            }
            Self::Decimal => Value::Decimal(text.parse()?),
            Self::Float => Value::Float(
                java_number(text)
                    .and_then(|t| t.parse().ok())
                    .ok_or_else(|| fail("Unable to make float"))?,
            ),
            Self::Double => Value::Double(
                java_number(text)
                    .and_then(|t| t.parse().ok())
                    .ok_or_else(|| fail("Unable to make double"))?,
            ),
            Self::Boolean if text.is_empty() || text.eq_ignore_ascii_case("false") => {
                Value::Boolean(false)
            }
            Self::Boolean if text.eq_ignore_ascii_case("true") => Value::Boolean(true),
            Self::Boolean => return Err(fail("Unable to make boolean")),
            Self::Date => Value::Date(calendar::parse_date(text)?),
            Self::Time => Value::Time(calendar::parse_time(text)?),
            Self::Timestamp => Value::Timestamp(calendar::parse_timestamp(text)?),
            Self::Duration => Value::Duration(text.parse::<Duration>()?),
            Self::Inet => Value::Inet(
                text.parse::<std::net::IpAddr>()
                    .map_err(|_| fail("Unable to make inet address"))?
                    // an IPv4 address written as IPv6 is an IPv4 address, as in Java
                    .to_canonical(),
            ),
            Self::Uuid => Value::Uuid(parse_uuid(text).ok_or_else(|| fail("Unable to make UUID"))?),
            Self::TimeUuid => Value::TimeUuid(parse_timeuuid(text)?),
            Self::Empty => return Err(ValueError::new(format!("'{text}' is not empty"))),
            _ => {
                let bytes = decode_hex(text).ok_or_else(|| {
                    ValueError::new(format!("cannot parse '{text}' as hex bytes"))
                })?;
                return Ok(bytes.into());
            }
        })
    }
}

/// A text in single quotes, those in it doubled.
pub fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn literal_or_null(t: &CqlType, field: Option<&Value>) -> String {
    field.map_or_else(|| "null".into(), |value| t.literal_of(value))
}

fn plain_fields<'a>(
    types: impl Iterator<Item = &'a CqlType>,
    bytes: &Bytes,
) -> Result<String, ValueError> {
    let types: Vec<_> = types.collect();
    let mut texts = Vec::new();
    for (t, field) in types.iter().zip(crate::elements::read_present_fields(
        bytes,
        types.len(),
        "tuple",
    )?) {
        texts.push(match field {
            Some(field) => t
                .format_plain(&field)?
                .replace(':', "\\:")
                .replace('@', "\\@"),
            None => "@".to_owned(),
        });
    }
    Ok(texts.join(":"))
}

/// The plain text of a simple value; compound ones are formatted by their type.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::BigInt(n) | Value::Counter(n) => n.to_string(),
        Value::Int(n) => n.to_string(),
        Value::SmallInt(n) => n.to_string(),
        Value::TinyInt(n) => n.to_string(),
        Value::VarInt(n) => n.to_string(),
        Value::Decimal(decimal) => decimal.to_string(),
        Value::Float(n) => format_f32(*n),
        Value::Double(n) => format_f64(*n),
        Value::Boolean(b) => b.to_string(),
        Value::Blob(bytes) => hex(bytes),
        Value::Date(days) => calendar::format_date(i64::from(*days)),
        Value::Time(nanos) => calendar::format_time(*nanos),
        Value::Timestamp(millis) => calendar::format_timestamp(*millis, 'T'),
        Value::Duration(duration) => duration.to_string(),
        Value::Inet(address) => format_inet(address),
        Value::Uuid(uuid) | Value::TimeUuid(uuid) => uuid.to_string(),
        Value::Empty
        | Value::List(_)
        | Value::Set(_)
        | Value::Map(_)
        | Value::Tuple(_)
        | Value::Udt(_)
        | Value::Vector(_) => String::new(),
    }
}

fn parse_varint(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A number as Java reads it, in a form that Rust reads: without blanks and type suffix, only Java's words.
fn java_number(text: &str) -> Option<&str> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "NaN" {
        // Java's NaN has no sign
        return Some(unsigned);
    }
    if unsigned == "Infinity" {
        return Some(text);
    }
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let numeric = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    numeric.then_some(text)
}

/// A UUID in the one form `8-4-4-4-12`.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    if text.len() == 36 {
        Uuid::try_parse(text).ok()
    } else {
        None
    }
}

fn parse_timeuuid(text: &str) -> Result<Uuid, ValueError> {
    let uuid = parse_uuid(text)
        .ok_or_else(|| ValueError::new(format!("Unknown timeuuid representation: {text}")))?;
    if uuid.get_version_num() == 1 {
        Ok(uuid)
    } else {
        Err(ValueError::new("TimeUUID supports only version 1 UUIDs"))
    }
}
