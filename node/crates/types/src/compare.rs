//! The order of serialized values: `AbstractType.compare` of each of Cassandra's types.
//!
//! Malformed bytes (impossible after `validate`) never panic: what cannot be read sorts first.

use crate::cql_type::CqlType;
use crate::elements::{take_i32, take_value, take_vector_element};
use crate::value::Decimal;
use std::cmp::Ordering;

impl CqlType {
    /// Compares two serialized values in the order of the type (ascending).
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Ascii
            | Self::Text
            | Self::Blob
            | Self::Date
            | Self::Time
            | Self::Inet
            | Self::Duration
            | Self::Counter
            | Self::Custom(_) => a.cmp(b),
            Self::Empty => Ordering::Equal,
            Self::Boolean => a.first().map(|v| *v != 0).cmp(&b.first().map(|v| *v != 0)),
            Self::TinyInt | Self::SmallInt | Self::Int | Self::BigInt | Self::Timestamp => {
                compare_signed(a, b)
            }
            Self::Float => compare_floats(read_f32(a), read_f32(b)),
            Self::Double => compare_floats(read_f64(a), read_f64(b)),
            Self::VarInt => compare_varints(a, b),
            Self::Decimal => match (Decimal::from_bytes(a), Decimal::from_bytes(b)) {
                (Some(a), Some(b)) => a.compare(&b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            },
            Self::Uuid => compare_uuids(a, b),
            Self::TimeUuid => compare_timeuuids(a, b),
            Self::List { element, .. } | Self::Set { element, .. } => {
                compare_counted(a, b, &[element])
            }
            Self::Map { key, value, .. } => compare_counted(a, b, &[key, value]),
            Self::Tuple(elements) => compare_fields(a, b, elements.iter()),
            Self::Udt(user_type) => {
                compare_fields(a, b, user_type.fields.iter().map(|field| &field.1))
            }
            Self::Vector { element, dimension } => compare_vectors(element, *dimension, a, b),
        }
    }
}

/// Orders two's complement integers of equal length; the empty value first.
fn compare_signed(a: &[u8], b: &[u8]) -> Ordering {
    let head = |v: &[u8]| v.first().map(|byte| byte.cast_signed());
    head(a).cmp(&head(b)).then_with(|| a.cmp(b))
}

fn read_f32(bytes: &[u8]) -> Option<f64> {
    bytes
        .first_chunk()
        .map(|head| f64::from(f32::from_be_bytes(*head)))
}

fn read_f64(bytes: &[u8]) -> Option<f64> {
    bytes.first_chunk().map(|head| f64::from_be_bytes(*head))
}

/// Java's `Double.compare`: −0 before 0, every NaN equal and last.
fn compare_floats(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => match (a.is_nan(), b.is_nan()) {
            (false, false) => a.total_cmp(&b),
            (a_nan, b_nan) => a_nan.cmp(&b_nan),
        },
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Drops leading bytes that only repeat the sign.
pub(crate) fn canonical_varint(mut bytes: &[u8]) -> &[u8] {
    while let [first, second, ..] = bytes {
        if (*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80) {
            bytes = &bytes[1..];
        } else {
            break;
        }
    }
    bytes
}

fn compare_varints(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    let (a, b) = (canonical_varint(a), canonical_varint(b));
    let (a_negative, b_negative) = (a[0] >= 0x80, b[0] >= 0x80);
    match (a_negative, b_negative) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
        (true, true) => b.len().cmp(&a.len()).then_with(|| a.cmp(b)),
    }
}

/// The two halves of a UUID; `None` unless there are 16 bytes.
pub(crate) fn uuid_halves(bytes: &[u8]) -> Option<(u64, u64)> {
    let whole = u128::from_be_bytes(<[u8; 16]>::try_from(bytes).ok()?);
    let mask = u128::from(u64::MAX);
    Some((
        u64::try_from(whole >> 64).ok()?,
        u64::try_from(whole & mask).ok()?,
    ))
}

/// A version 1 UUID's time part with the most significant bits first, the version on top.
pub(crate) fn reorder_timestamp(msb: u64) -> u64 {
    (msb << 48) | ((msb << 16) & 0xffff_0000_0000) | (msb >> 32)
}

fn compare_uuids(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((a_high, a_low)), Some((b_high, b_low))) = (uuid_halves(a), uuid_halves(b)) else {
        return (a.len() == 16).cmp(&(b.len() == 16));
    };
    let version = |high: u64| (high >> 12) & 0xf;
    version(a_high)
        .cmp(&version(b_high))
        .then_with(|| {
            if version(a_high) == 1 {
                reorder_timestamp(a_high).cmp(&reorder_timestamp(b_high))
            } else {
                a_high.cmp(&b_high)
            }
        })
        .then_with(|| a_low.cmp(&b_low))
}

/// Time first, then clock sequence and node as signed bytes.
fn compare_timeuuids(a: &[u8], b: &[u8]) -> Ordering {
    let (Some((a_high, a_low)), Some((b_high, b_low))) = (uuid_halves(a), uuid_halves(b)) else {
        return (a.len() == 16).cmp(&(b.len() == 16));
    };
    let signed_bytes = |low: u64| low ^ 0x8080_8080_8080_8080;
    reorder_timestamp(a_high)
        .cast_signed()
        .cmp(&reorder_timestamp(b_high).cast_signed())
        .then_with(|| signed_bytes(a_low).cmp(&signed_bytes(b_low)))
}

fn compare_counted(mut a: &[u8], mut b: &[u8], types: &[&CqlType]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return b.is_empty().cmp(&a.is_empty());
    }
    let (Some(a_count), Some(b_count)) = (take_i32(&mut a), take_i32(&mut b)) else {
        return a.len().cmp(&b.len());
    };
    for _ in 0..a_count.min(b_count) {
        for element in types {
            let order = match (take_value(&mut a), take_value(&mut b)) {
                (Some(Some(a)), Some(Some(b))) => element.compare(a, b),
                // Both cut short: no bytes are left to justify the counts.
                (None, None) => return a_count.cmp(&b_count),
                (a, b) => {
                    (a.is_some(), a.flatten().is_some()).cmp(&(b.is_some(), b.flatten().is_some()))
                }
            };
            if order.is_ne() {
                return order;
            }
        }
    }
    a_count.cmp(&b_count)
}

fn only_nulls(mut rest: &[u8]) -> bool {
    while let Some(size) = take_i32(&mut rest) {
        if size >= 0 {
            return false;
        }
    }
    true
}

fn compare_fields<'a>(
    mut a: &[u8],
    mut b: &[u8],
    types: impl Iterator<Item = &'a CqlType>,
) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return b.is_empty().cmp(&a.is_empty());
    }
    for field in types {
        if a.is_empty() || b.is_empty() {
            break;
        }
        let order = match (take_value(&mut a).flatten(), take_value(&mut b).flatten()) {
            (Some(a), Some(b)) => field.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    only_nulls(b).cmp(&only_nulls(a))
}

fn compare_vectors(element: &CqlType, dimension: u32, mut a: &[u8], mut b: &[u8]) -> Ordering {
    let fixed = element.fixed_length();
    for _ in 0..dimension {
        let order = match (
            take_vector_element(fixed, &mut a),
            take_vector_element(fixed, &mut b),
        ) {
            (Some(a), Some(b)) => element.compare(a, b),
            (None, None) => return Ordering::Equal,
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
