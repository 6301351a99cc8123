//! Cassandra's byte-comparable encoding, version OSS50: bytes whose unsigned order is the order of
//! the values, prefix-free within a sequence. BTI indexes are tries of these.
//!
//! Source: `ByteComparable.md`, `ByteSource.java` and `asComparableBytes` of each type in 5.0.

use crate::compare::{canonical_varint, reorder_timestamp, uuid_halves};
use crate::cql_type::CqlType;
use crate::elements::{take_i32, take_value, take_vector_element};
use crate::token::{DecoratedKey, Token};
use crate::value::Decimal;

/// Before a component that is present.
pub const NEXT_COMPONENT: u8 = 0x40;
/// Instead of a component that is present but empty, where the type has no encoding of emptiness.
pub const NEXT_COMPONENT_EMPTY: u8 = 0x3f;
/// [`NEXT_COMPONENT_EMPTY`] in a descending column.
pub const NEXT_COMPONENT_EMPTY_REVERSED: u8 = 0x41;
/// Instead of a null component.
pub const NEXT_COMPONENT_NULL: u8 = 0x3e;
/// Ends a sequence: keys, clusterings, tuples, collections.
pub const TERMINATOR: u8 = 0x38;
/// Ends a bound before everything that starts with it: inclusive start, exclusive end.
pub const LT_NEXT_COMPONENT: u8 = 0x20;
/// Ends a bound after everything that starts with it: exclusive start, inclusive end.
pub const GT_NEXT_COMPONENT: u8 = 0x60;
/// The static row's clustering.
pub const EXCLUDED: u8 = 0x18;

/// The encoding of a partition key as Partitions.db has it: token, then key, then terminator.
pub fn decorated_key(key: &DecoratedKey) -> Vec<u8> {
    decorated_key_ending(key, TERMINATOR)
}

/// [`decorated_key`] with another last byte: [`LT_NEXT_COMPONENT`] is just before the key,
/// [`GT_NEXT_COMPONENT`] just after.
pub fn decorated_key_ending(key: &DecoratedKey, terminator: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.key.len() + 12);
    out.push(NEXT_COMPONENT);
    put_token(key.token, &mut out);
    out.push(NEXT_COMPONENT);
    put_escaped(&key.key, &mut out);
    out.push(terminator);
    out
}

/// The encoding of the position before (or after) every key of a token.
pub fn token_bound(token: Token, before: bool) -> Vec<u8> {
    let mut out = vec![NEXT_COMPONENT];
    put_token(token, &mut out);
    out.push(if before {
        LT_NEXT_COMPONENT
    } else {
        GT_NEXT_COMPONENT
    });
    out
}

fn put_token(token: Token, out: &mut Vec<u8>) {
    out.extend_from_slice(&(token.0.cast_unsigned() ^ (1 << 63)).to_be_bytes());
}

/// Appends one clustering component with the separator before it; `None` is null. After the last
/// one the caller appends the terminator of the clustering's kind.
pub fn component(cql_type: &CqlType, value: Option<&[u8]>, reversed: bool, out: &mut Vec<u8>) {
    let Some(bytes) = value else {
        out.push(NEXT_COMPONENT_NULL);
        return;
    };
    let start = out.len();
    out.push(NEXT_COMPONENT);
    if !cql_type.put_byte_comparable(bytes, out) {
        out.truncate(start);
        out.push(if reversed {
            NEXT_COMPONENT_EMPTY_REVERSED
        } else {
            NEXT_COMPONENT_EMPTY
        });
        return;
    }
    if reversed {
        for byte in &mut out[start + 1..] {
            *byte = !*byte;
        }
    }
}

/// Appends bytes with zeros escaped and an escape at the end.
pub fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut escaped = false;
    for &byte in bytes {
        if escaped && byte == 0 {
            out.push(0xfe);
            continue;
        }
        if escaped {
            out.push(0xff);
        }
        out.push(byte);
        escaped = byte == 0;
    }
    out.push(if escaped { 0xfe } else { 0 });
}

impl CqlType {
    /// The byte-comparable form of a value outside of a sequence, inverted when `reversed`; `None`
    /// for an empty value of a type that has no encoding of emptiness.
    pub fn byte_comparable(&self, bytes: &[u8], reversed: bool) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len() + 2);
        if !self.put_byte_comparable(bytes, &mut out) {
            return None;
        }
        if reversed {
            for byte in &mut out {
                *byte = !*byte;
            }
        }
        Some(out)
    }

    /// Appends the encoding; `false` (and nothing appended) where Cassandra's is null.
    fn put_byte_comparable(&self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Ascii
            | Self::Text
            | Self::Blob
            | Self::Inet
            | Self::Duration
            | Self::Counter
            | Self::Custom(_) => {
                put_escaped(bytes, out);
                return true;
            }
            Self::Empty => return false,
            _ => {}
        }
        let Some(&first) = bytes.first() else {
            return false;
        };
        match self {
            Self::Boolean => out.push(u8::from(first != 0)),
            Self::TinyInt | Self::SmallInt | Self::Int | Self::Timestamp => {
                out.push(first ^ 0x80);
                out.extend_from_slice(&bytes[1..]);
            }
            Self::Date | Self::Time => out.extend_from_slice(bytes),
            Self::BigInt => match <[u8; 8]>::try_from(bytes) {
                Ok(array) => put_integer(i64::from_be_bytes(array), out),
                Err(_) => put_escaped(bytes, out),
            },
            Self::Float | Self::Double => {
                let negative = first >= 0x80;
                out.push(if negative { !first } else { first | 0x80 });
                out.extend(
                    bytes[1..]
                        .iter()
                        .map(|byte| if negative { !*byte } else { *byte }),
                );
            }
            Self::VarInt => put_varint(bytes, out),
            Self::Decimal => match Decimal::from_bytes(bytes) {
                Some(decimal) => put_decimal(&decimal, out),
                None => put_escaped(bytes, out),
            },
            Self::Uuid | Self::TimeUuid => put_uuid(bytes, matches!(self, Self::TimeUuid), out),
            Self::List { element, .. } | Self::Set { element, .. } => {
                put_counted(bytes, &[element], out);
            }
            Self::Map { key, value, .. } => put_counted(bytes, &[key, value], out),
            Self::Tuple(elements) => put_fields(bytes, elements.iter(), out),
            Self::Udt(user_type) => {
                put_fields(bytes, user_type.fields.iter().map(|field| &field.1), out);
            }
            Self::Vector { element, dimension } => {
                let mut rest = bytes;
                for _ in 0..*dimension {
                    let Some(part) = take_vector_element(element.fixed_length(), &mut rest) else {
                        break;
                    };
                    put_element(element, Some(part), out);
                }
                out.push(TERMINATOR);
            }
            _ => put_escaped(bytes, out),
        }
        true
    }
}

/// An element of a collection, tuple or vector: null and encodings that are null alike.
fn put_element(element: &CqlType, value: Option<&[u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(NEXT_COMPONENT);
    if !value.is_some_and(|bytes| element.put_byte_comparable(bytes, out)) {
        out.truncate(start);
        out.push(NEXT_COMPONENT_NULL);
    }
}

fn put_counted(mut bytes: &[u8], types: &[&CqlType], out: &mut Vec<u8>) {
    let count = take_i32(&mut bytes).unwrap_or(0);
    'entries: for _ in 0..count {
        for element in types {
            let Some(value) = take_value(&mut bytes) else {
                break 'entries;
            };
            put_element(element, value, out);
        }
    }
    out.push(TERMINATOR);
}

fn put_fields<'a>(mut bytes: &[u8], types: impl Iterator<Item = &'a CqlType>, out: &mut Vec<u8>) {
    let mut end = out.len();
    for field in types {
        let Some(value) = take_value(&mut bytes) else {
            break;
        };
        put_element(field, value, out);
        if value.is_some() {
            end = out.len();
        }
    }
    // Trailing nulls are left out, so that a field added later changes nothing.
    out.truncate(end);
    out.push(TERMINATOR);
}

/// Signed integer of 1 to 9 bytes: the leading bits say sign and length.
fn put_integer(value: i64, out: &mut Vec<u8>) {
    let negative = (value >> 63).cast_unsigned();
    let magnitude = value.cast_unsigned() ^ negative;
    let bits = 64 - (magnitude | 1).leading_zeros() as usize;
    let count = bits / 7 + 1;
    if count >= 9 {
        out.push(if negative == 0 { 0xff } else { 0 });
        out.extend_from_slice(&((magnitude | (1 << 63)) ^ negative).to_be_bytes());
        return;
    }
    let mask = (0xff_u64 << (8 - count)) & 0xff;
    let marked = (magnitude | (mask << (8 * (count - 1)))) ^ negative;
    out.extend_from_slice(&marked.to_be_bytes()[8 - count..]);
}

/// Unsigned integer of 1 to 9 bytes whose leading one bits count the bytes after the first.
fn unsigned_integer(value: u64) -> Vec<u8> {
    let bits = 63 - (value | 1).leading_zeros() as usize;
    let extra = bits / 7;
    if extra >= 8 {
        let mut out = vec![0xff];
        out.extend_from_slice(&value.to_be_bytes());
        return out;
    }
    let mask = u64::from(
        !(0xff_u8
            .checked_shr(u32::try_from(extra).unwrap_or(0))
            .unwrap_or(0)),
    );
    (value | (mask << (8 * extra))).to_be_bytes()[7 - extra..].to_vec()
}

/// Integers of up to six significant bytes as [`put_integer`]; longer ones as sign, length and bytes.
fn put_varint(bytes: &[u8], out: &mut Vec<u8>) {
    const FULL_FORM_THRESHOLD: usize = 7;
    let sign: u8 = if bytes[0] >= 0x80 { 0xff } else { 0 };
    // The sign is written apart, so every leading sign byte is dropped, even a needed one.
    let start = bytes
        .iter()
        .position(|byte| *byte != sign)
        .unwrap_or(bytes.len() - 1);
    let stripped = &bytes[start..];
    if stripped.len() < FULL_FORM_THRESHOLD {
        let canonical = canonical_varint(bytes);
        let extended = canonical
            .iter()
            .fold(if sign == 0 { 0 } else { -1_i64 }, |value, byte| {
                (value << 8) | i64::from(*byte)
            });
        put_integer(extended, out);
        return;
    }
    out.push(!sign);
    out.extend(
        unsigned_integer((stripped.len() - FULL_FORM_THRESHOLD) as u64)
            .iter()
            .map(|byte| byte ^ sign),
    );
    out.extend_from_slice(stripped);
}

/// Sign, base-100 exponent and mantissa in base 100, all such that bytes order as numbers.
fn put_decimal(decimal: &Decimal, out: &mut Vec<u8>) {
    const POSITIVE: i32 = 0x80;
    const NEGATIVE: i32 = 0x00;
    const EXPONENT_LENGTH: i32 = 0x40;
    let (negative, digits) = decimal.digits();
    if digits.is_empty() {
        out.push(0x80);
        return;
    }
    let place = i64::from(decimal.scale) - i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let scale = place & !1;
    let exponent = -scale >> 1;
    let modulated = if negative { -exponent } else { exponent };
    let magnitude = u32::try_from(modulated.unsigned_abs()).unwrap_or(u32::MAX);
    let length = 4 - magnitude.leading_zeros() / 8;
    let signed_length = i32::try_from(length).unwrap_or(4) * if modulated < 0 { -1 } else { 1 };
    let header = EXPONENT_LENGTH + signed_length + if negative { NEGATIVE } else { POSITIVE };
    out.push(u8::try_from(header).unwrap_or(0));
    let length = usize::try_from(length).unwrap_or(4);
    out.extend_from_slice(&modulated.to_be_bytes()[8 - length..]);
    put_mantissa(&digits, place - scale, negative, out);
}

/// The digits after the decimal point, two a byte; a negative number's pairs are floors.
fn put_mantissa(digits: &[u8], leading_zeros: i64, negative: bool, out: &mut Vec<u8>) {
    // 0 or 1 leading zero makes the exponent even.
    let mut pairs = Vec::with_capacity(digits.len() / 2 + 1);
    let mut padded: Vec<u8> = if leading_zeros == 1 {
        vec![0]
    } else {
        Vec::new()
    };
    padded.extend(digits.iter().copied());
    while padded.last() == Some(&0) {
        padded.pop();
    }
    for pair in padded.chunks(2) {
        pairs.push(pair[0] * 10 + pair.get(1).copied().unwrap_or(0));
    }
    if !negative {
        out.extend(pairs.iter().map(|pair| pair + 0x80));
        out.push(0);
        return;
    }
    // −0.d1d2... : floor of the first pair, then what is left is positive.
    let last = pairs.len() - 1;
    for (index, pair) in pairs.iter().enumerate() {
        let digit = match (index, last) {
            (0, 0) => 0x80 - pair,
            (0, _) => 0x80 - pair - 1,
            (i, l) if i == l => 0x80 + (100 - pair),
            _ => 0x80 + (99 - pair),
        };
        out.push(digit);
    }
    out.push(0);
}

fn put_uuid(bytes: &[u8], by_time: bool, out: &mut Vec<u8>) {
    let Some((high, low)) = uuid_halves(bytes) else {
        put_escaped(bytes, out);
        return;
    };
    let version = (high >> 12) & 0xf;
    let (high, low) = if by_time {
        (reorder_timestamp(high), low ^ 0x8080_8080_8080_8080)
    } else if version == 1 {
        (reorder_timestamp(high), low)
    } else {
        (
            (version << 60) | ((high >> 4) & 0x0fff_ffff_ffff_f000) | (high & 0xfff),
            low,
        )
    };
    out.extend_from_slice(&high.to_be_bytes());
    out.extend_from_slice(&low.to_be_bytes());
}
