//! What collections, tuples and vectors are made of. Collections (native protocol v3 and later, and
//! on disk): `i32` count, then each element as `i32` length and bytes; −1 is null. Tuples and user
//! types: the same without the count, missing tail fields are null. Vectors: elements of fixed
//! length packed, others with an unsigned vint length.

use crate::cql_type::CqlType;
use crate::value::ValueError;
use crate::vint;
use bytes::{BufMut, Bytes, BytesMut};

/// Takes the next four bytes as `i32`.
pub(crate) fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(i32::from_be_bytes(*head))
}

/// Takes the next value behind an `i32` length: `Some(None)` is null, `None` means cut short.
#[expect(
    clippy::option_option,
    reason = "two different absences, kept apart by every caller"
)]
pub(crate) fn take_value<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(length) = usize::try_from(take_i32(rest)?) else {
        return Some(None);
    };
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(Some(head))
}

/// Takes the next value behind an unsigned vint length.
pub(crate) fn take_vint_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let first = *rest.first()?;
    let extra = first.leading_ones() as usize;
    let tail = rest.get(1..1 + extra)?;
    let start = if extra >= 7 {
        0
    } else {
        u64::from(first) & (0xff >> (extra + 1))
    };
    let length = tail
        .iter()
        .fold(start, |value, byte| (value << 8) | u64::from(*byte));
    let after = rest.get(1 + extra..)?;
    let (head, tail) = after.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = tail;
    Some(head)
}

/// Writes a value behind an `i32` length, null as −1.
pub fn put_value(out: &mut BytesMut, value: Option<&[u8]>) -> Result<(), ValueError> {
    match value {
        None => out.put_i32(-1),
        Some(bytes) => {
            out.put_i32(length(bytes.len())?);
            out.put_slice(bytes);
        }
    }
    Ok(())
}

fn length(count: usize) -> Result<i32, ValueError> {
    i32::try_from(count)
        .map_err(|_| ValueError::new("a value may have at most 2147483647 bytes or elements"))
}

/// A list or set of serialized elements.
pub fn write_list<B: AsRef<[u8]>>(elements: &[B]) -> Result<Bytes, ValueError> {
    let mut out =
        BytesMut::with_capacity(4 + elements.iter().map(|e| 4 + e.as_ref().len()).sum::<usize>());
    out.put_i32(length(elements.len())?);
    for element in elements {
        put_value(&mut out, Some(element.as_ref()))?;
    }
    Ok(out.freeze())
}

/// A map of serialized keys and values.
pub fn write_map<K: AsRef<[u8]>, V: AsRef<[u8]>>(entries: &[(K, V)]) -> Result<Bytes, ValueError> {
    let mut out = BytesMut::new();
    out.put_i32(length(entries.len())?);
    for (key, value) in entries {
        put_value(&mut out, Some(key.as_ref()))?;
        put_value(&mut out, Some(value.as_ref()))?;
    }
    Ok(out.freeze())
}

/// A tuple or user type of serialized fields.
pub fn write_fields<B: AsRef<[u8]>>(fields: &[Option<B>]) -> Result<Bytes, ValueError> {
    let mut out = BytesMut::new();
    for field in fields {
        put_value(&mut out, field.as_ref().map(AsRef::as_ref))?;
    }
    Ok(out.freeze())
}

/// A vector of serialized elements of type `element`.
pub fn write_vector<B: AsRef<[u8]>>(
    element: &CqlType,
    elements: &[B],
) -> Result<Bytes, ValueError> {
    let mut out = BytesMut::new();
    let fixed = element.fixed_length();
    for bytes in elements.iter().map(AsRef::as_ref) {
        match fixed {
            Some(size) if size != bytes.len() => {
                return Err(ValueError::new(format!(
                    "vector element of {} bytes: {size} expected",
                    bytes.len()
                )));
            }
            Some(_) => {}
            None => vint::write_unsigned(&mut out, bytes.len() as u64),
        }
        out.put_slice(bytes);
    }
    Ok(out.freeze())
}

fn cut_short(kind: &str) -> ValueError {
    ValueError::new(format!("Not enough bytes to read a {kind}"))
}

fn shared(whole: &Bytes, part: &[u8]) -> Bytes {
    if part.is_empty() {
        Bytes::new()
    } else {
        whole.slice_ref(part)
    }
}

fn read_counted(bytes: &Bytes, kind: &str, per_entry: usize) -> Result<Vec<Bytes>, ValueError> {
    let mut rest = &bytes[..];
    let count = usize::try_from(take_i32(&mut rest).ok_or_else(|| cut_short(kind))?).unwrap_or(0);
    // Each element takes at least its length's four bytes.
    let count = count
        .checked_mul(per_entry)
        .filter(|c| *c <= rest.len() / 4)
        .ok_or_else(|| cut_short(kind))?;
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let element = take_value(&mut rest).ok_or_else(|| cut_short(kind))?;
        let element = element.ok_or_else(|| ValueError::new("Null value read when not allowed"))?;
        elements.push(shared(bytes, element));
    }
    if rest.is_empty() {
        Ok(elements)
    } else {
        Err(ValueError::new(format!(
            "Unexpected extraneous bytes after {kind} value"
        )))
    }
}

/// The serialized elements of a list, sharing its buffer.
pub fn read_list(bytes: &Bytes) -> Result<Vec<Bytes>, ValueError> {
    read_counted(bytes, "list", 1)
}

/// The serialized elements of a set, sharing its buffer.
pub fn read_set(bytes: &Bytes) -> Result<Vec<Bytes>, ValueError> {
    read_counted(bytes, "set", 1)
}

/// The serialized entries of a map, sharing its buffer.
pub fn read_map(bytes: &Bytes) -> Result<Vec<(Bytes, Bytes)>, ValueError> {
    let flat = read_counted(bytes, "map", 2)?;
    let mut entries = Vec::with_capacity(flat.len() / 2);
    let mut parts = flat.into_iter();
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        entries.push((key, value));
    }
    Ok(entries)
}

/// The serialized fields of a tuple or user type of `count` fields, sharing its buffer; missing tail
/// fields are null. `kind` is "tuple" or "UDT".
pub fn read_fields(
    bytes: &Bytes,
    count: usize,
    kind: &str,
) -> Result<Vec<Option<Bytes>>, ValueError> {
    let mut fields = read_present_fields(bytes, count, kind)?;
    fields.resize(count, None);
    Ok(fields)
}

/// [`read_fields`] without the tail fields that the value lacks.
pub fn read_present_fields(
    bytes: &Bytes,
    count: usize,
    kind: &str,
) -> Result<Vec<Option<Bytes>>, ValueError> {
    let mut rest = &bytes[..];
    let mut fields = Vec::new();
    for index in 0..count {
        if rest.is_empty() {
            break;
        }
        if rest.len() < 4 {
            return Err(ValueError::new(format!(
                "Not enough bytes to read size of {index}th component"
            )));
        }
        let field = take_value(&mut rest).ok_or_else(|| {
            ValueError::new(format!("Not enough bytes to read {index}th component"))
        })?;
        fields.push(field.map(|part| shared(bytes, part)));
    }
    if rest.is_empty() {
        Ok(fields)
    } else {
        Err(ValueError::new(format!(
            "Invalid remaining data after end of {kind} value"
        )))
    }
}

/// The serialized elements of a vector, sharing its buffer.
pub fn read_vector(
    element: &CqlType,
    dimension: u32,
    bytes: &Bytes,
) -> Result<Vec<Bytes>, ValueError> {
    let short = || cut_short(&format!("vector<{element}, {dimension}>"));
    let mut rest = &bytes[..];
    let mut elements = Vec::new();
    for _ in 0..dimension {
        let part = take_vector_element(element.fixed_length(), &mut rest).ok_or_else(short)?;
        elements.push(shared(bytes, part));
    }
    if rest.is_empty() {
        Ok(elements)
    } else {
        Err(ValueError::new(
            "Unexpected extraneous bytes after vector value",
        ))
    }
}

/// Takes the next element of a vector.
pub(crate) fn take_vector_element<'a>(
    fixed: Option<usize>,
    rest: &mut &'a [u8],
) -> Option<&'a [u8]> {
    let Some(size) = fixed else {
        return take_vint_value(rest);
    };
    let (head, tail) = rest.split_at_checked(size)?;
    *rest = tail;
    Some(head)
}

impl CqlType {
    /// Length in bytes that Cassandra takes as fixed for the type: decides how vectors and SSTable
    /// cells carry it. `None` for types that Cassandra writes with a length, `smallint`, `tinyint`,
    /// `date` and `time` among them.
    pub fn fixed_length(&self) -> Option<usize> {
        match self {
            Self::Boolean => Some(1),
            Self::Int | Self::Float => Some(4),
            Self::BigInt | Self::Double | Self::Timestamp => Some(8),
            Self::Uuid | Self::TimeUuid => Some(16),
            Self::Empty => Some(0),
            Self::Vector { element, dimension } => element
                .fixed_length()?
                .checked_mul(usize::try_from(*dimension).ok()?),
            _ => None,
        }
    }
}
