//! Keys of several columns (Cassandra's `CompositeType`): each component as a `u16` length, its
//! bytes and an end-of-component byte 0. A key of one column is the column's bytes alone.

use crate::{Reader, Truncated};
use bytes::{BufMut, Bytes, BytesMut};

/// Why a composite key cannot be built or split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompositeError {
    /// A component has more than 65,535 bytes.
    #[error("key component of {0} bytes: at most 65535 are allowed")]
    TooLong(usize),
    /// The key ends inside a component.
    #[error("composite key is cut short: {0}")]
    Truncated(#[from] Truncated),
    /// Another count of components than the table has columns in its partition key.
    #[error("composite key has {found} components, {expected} expected")]
    Count {
        /// Columns of the partition key.
        expected: usize,
        /// Components found.
        found: usize,
    },
}

/// The serialized partition key of these column values.
pub fn build(components: &[Bytes]) -> Result<Bytes, CompositeError> {
    if let [only] = components {
        if only.len() > usize::from(u16::MAX) {
            return Err(CompositeError::TooLong(only.len()));
        }
        return Ok(only.clone());
    }
    let mut out = BytesMut::with_capacity(components.iter().map(|c| c.len() + 3).sum());
    for component in components {
        let length =
            u16::try_from(component.len()).map_err(|_| CompositeError::TooLong(component.len()))?;
        out.put_u16(length);
        out.put_slice(component);
        out.put_u8(0);
    }
    Ok(out.freeze())
}

/// The column values of a serialized partition key of `count` columns, sharing its buffer.
pub fn split(key: &Bytes, count: usize) -> Result<Vec<Bytes>, CompositeError> {
    if count == 1 {
        return Ok(vec![key.clone()]);
    }
    let mut reader = Reader::new(key.clone());
    let mut components = Vec::with_capacity(count);
    while !reader.is_empty() {
        components.push(reader.short_bytes()?);
        reader.skip(1)?;
    }
    if components.len() == count {
        Ok(components)
    } else {
        Err(CompositeError::Count {
            expected: count,
            found: components.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_columns() {
        let parts = [
            Bytes::from_static(&[0, 0, 0, 1]),
            Bytes::from_static(b"ab"),
            Bytes::new(),
        ];
        let key = build(&parts).unwrap();
        assert_eq!(&key[..], b"\0\x04\0\0\0\x01\0\0\x02ab\0\0\0\0");
        assert_eq!(split(&key, 3).unwrap(), parts);
        assert_eq!(
            split(&key, 2),
            Err(CompositeError::Count {
                expected: 2,
                found: 3
            })
        );
        assert!(split(&key.slice(..5), 3).is_err());
        assert_eq!(build(&parts[1..2]).unwrap(), parts[1]);
        assert!(build(&[Bytes::from(vec![0; 65536])]).is_err());
    }
}
