//! Clusterings and bounds as bytes: headers of two bits a value (null, empty), then the values.

use super::CodecError;
use crate::clustering::{Clustering, ClusteringBound, PrefixKind};
use bytes::{BufMut, Bytes};
use helenus_types::{Reader, vint};

/// How many values share a header.
const BLOCK: usize = 32;

/// Writes a value: as it is when its type has a fixed length, else behind its length.
pub fn encode_value(
    value: &[u8],
    fixed: Option<usize>,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    match fixed {
        Some(length) if length != value.len() => {
            return Err(CodecError::Invalid(
                "a value does not have the length of its type",
            ));
        }
        Some(_) => {}
        None => vint::write_unsigned(out, value.len() as u64),
    }
    out.put_slice(value);
    Ok(())
}

/// Reads a value.
pub fn decode_value(reader: &mut Reader, fixed: Option<usize>) -> Result<Bytes, CodecError> {
    Ok(match fixed {
        Some(length) => reader.bytes(length)?,
        None => reader.vint_bytes()?,
    })
}

/// Writes values without their count; `lengths` are the fixed lengths of the clustering types.
pub fn encode_values(
    values: &[Option<Bytes>],
    lengths: &[Option<usize>],
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    if values.len() > lengths.len() {
        return Err(CodecError::Invalid("more clustering values than columns"));
    }
    for (block, types) in values.chunks(BLOCK).zip(lengths.chunks(BLOCK)) {
        let header = block
            .iter()
            .enumerate()
            .fold(0_u64, |header, (at, value)| match value {
                None => header | (2 << (2 * at)),
                Some(bytes) if bytes.is_empty() => header | (1 << (2 * at)),
                Some(_) => header,
            });
        vint::write_unsigned(out, header);
        for (value, fixed) in block.iter().zip(types) {
            if let Some(bytes) = value.as_ref().filter(|bytes| !bytes.is_empty()) {
                encode_value(bytes, *fixed, out)?;
            }
        }
    }
    Ok(())
}

/// Reads `count` values.
pub fn decode_values(
    reader: &mut Reader,
    count: usize,
    lengths: &[Option<usize>],
) -> Result<Vec<Option<Bytes>>, CodecError> {
    let Some(lengths) = lengths.get(..count) else {
        return Err(CodecError::Invalid("more clustering values than columns"));
    };
    let mut values = Vec::with_capacity(count);
    for block in lengths.chunks(BLOCK) {
        let header = reader.unsigned_vint()?;
        for (at, fixed) in block.iter().enumerate() {
            values.push(match (header >> (2 * at)) & 3 {
                0 => Some(decode_value(reader, *fixed)?),
                1 => Some(Bytes::new()),
                _ => None,
            });
        }
    }
    Ok(values)
}

/// Writes a bound: kind, count of values, values.
pub fn encode_bound(
    bound: &ClusteringBound,
    lengths: &[Option<usize>],
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let count = u16::try_from(bound.values.len())
        .map_err(|_| CodecError::Invalid("too many clustering values"))?;
    out.put_u8(bound.kind.ordinal());
    out.put_u16(count);
    encode_values(&bound.values, lengths, out)
}

/// Reads a bound behind its kind.
fn decode_bound_of(
    kind: PrefixKind,
    reader: &mut Reader,
    lengths: &[Option<usize>],
) -> Result<ClusteringBound, CodecError> {
    let count = usize::from(reader.u16()?);
    Ok(ClusteringBound {
        kind,
        values: decode_values(reader, count, lengths)?,
    })
}

fn decode_kind(reader: &mut Reader) -> Result<PrefixKind, CodecError> {
    PrefixKind::from_ordinal(reader.u8()?)
        .ok_or(CodecError::Invalid("unknown kind of clustering prefix"))
}

/// Reads a bound or boundary.
pub fn decode_bound(
    reader: &mut Reader,
    lengths: &[Option<usize>],
) -> Result<ClusteringBound, CodecError> {
    let kind = decode_kind(reader)?;
    if matches!(kind, PrefixKind::Clustering | PrefixKind::Static) {
        return Err(CodecError::Invalid("a bound has the kind of a row"));
    }
    decode_bound_of(kind, reader, lengths)
}

/// A full clustering or a bound, as in indexes and covered slices.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClusteringPrefix {
    /// A row's place.
    Clustering(Clustering),
    /// A bound.
    Bound(ClusteringBound),
}

impl ClusteringPrefix {
    /// Kind and values.
    pub fn parts(&self) -> (PrefixKind, &[Option<Bytes>]) {
        match self {
            Self::Clustering(clustering) => (PrefixKind::Clustering, &clustering.0),
            Self::Bound(bound) => (bound.kind, &bound.values),
        }
    }
}

/// Writes a prefix: the kind, and the count of values unless it is a full clustering.
pub fn encode_prefix(
    prefix: &ClusteringPrefix,
    lengths: &[Option<usize>],
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    match prefix {
        ClusteringPrefix::Clustering(clustering) => {
            out.put_u8(PrefixKind::Clustering.ordinal());
            encode_values(&clustering.0, lengths, out)
        }
        ClusteringPrefix::Bound(bound) => encode_bound(bound, lengths, out),
    }
}

/// Reads a prefix.
pub fn decode_prefix(
    reader: &mut Reader,
    lengths: &[Option<usize>],
) -> Result<ClusteringPrefix, CodecError> {
    match decode_kind(reader)? {
        PrefixKind::Clustering => Ok(ClusteringPrefix::Clustering(Clustering(decode_values(
            reader,
            lengths.len(),
            lengths,
        )?))),
        PrefixKind::Static => Err(CodecError::Invalid("a prefix has the kind of a static row")),
        kind => Ok(ClusteringPrefix::Bound(decode_bound_of(
            kind, reader, lengths,
        )?)),
    }
}
