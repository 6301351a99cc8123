//! Where a paged query goes on: Cassandra's `PagingState` in the form of native protocol v4 and v5.

use crate::error::CqlError;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_rows::Clustering;
use helenus_types::{Reader, vint};

/// Where the next page starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagingState {
    /// The partition of the last row; empty when the query reads one partition.
    pub partition_key: Bytes,
    /// The last row returned; `None` when its partition is done with.
    pub row: Option<Clustering>,
    /// Rows that LIMIT still allows.
    pub remaining: u32,
    /// Rows that PER PARTITION LIMIT still allows in that partition.
    pub remaining_in_partition: u32,
}

fn broken() -> CqlError {
    CqlError::Protocol("Invalid value for the paging state".into())
}

/// Cassandra's limits are signed: no limit is the greatest of those.
const NO_LIMIT: u64 = 0x7fff_ffff;

impl PagingState {
    /// The serialized form.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        put_bytes(&mut out, &self.partition_key);
        let mut mark = BytesMut::new();
        if let Some(row) = &self.row {
            put_clustering(&mut mark, row);
        }
        put_bytes(&mut out, &mark);
        vint::write_unsigned(&mut out, u64::from(self.remaining).min(NO_LIMIT));
        vint::write_unsigned(
            &mut out,
            u64::from(self.remaining_in_partition).min(NO_LIMIT),
        );
        out.freeze()
    }

    /// Reads the serialized form; `columns` is the count of the table's clustering columns.
    pub fn decode(bytes: &Bytes, columns: usize) -> Result<Self, CqlError> {
        let mut reader = Reader::new(bytes.clone());
        let partition_key = reader.vint_bytes().map_err(|_| broken())?;
        let mark = reader.vint_bytes().map_err(|_| broken())?;
        let mut limit = || {
            let value = reader.unsigned_vint().map_err(|_| broken())?;
            u32::try_from(value)
                .ok()
                .filter(|value| u64::from(*value) <= NO_LIMIT)
                .ok_or_else(broken)
        };
        let (remaining, remaining_in_partition) = (limit()?, limit()?);
        if !reader.is_empty() {
            return Err(broken());
        }
        let row = if mark.is_empty() {
            None
        } else {
            Some(read_clustering(mark, columns)?)
        };
        Ok(Self {
            partition_key,
            row,
            remaining,
            remaining_in_partition,
        })
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    vint::write_unsigned(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// Clustering values in batches of 32 behind a header of two bits each: 1 is empty, 2 is null.
fn put_clustering(out: &mut BytesMut, row: &Clustering) {
    for batch in row.0.chunks(32) {
        let mut header = 0_u64;
        for (at, value) in batch.iter().enumerate() {
            match value {
                None => header |= 2 << (at * 2),
                Some(value) if value.is_empty() => header |= 1 << (at * 2),
                Some(_) => {}
            }
        }
        vint::write_unsigned(out, header);
        for value in batch.iter().flatten().filter(|value| !value.is_empty()) {
            put_bytes(out, value);
        }
    }
}

fn read_clustering(mark: Bytes, columns: usize) -> Result<Clustering, CqlError> {
    let mut reader = Reader::new(mark);
    let mut values = Vec::with_capacity(columns.min(64));
    let mut header = 0;
    for at in 0..columns {
        if at % 32 == 0 {
            header = reader.unsigned_vint().map_err(|_| broken())?;
        }
        let bits = (header >> ((at % 32) * 2)) & 3;
        values.push(match bits {
            0 => Some(reader.vint_bytes().map_err(|_| broken())?),
            1 => Some(Bytes::new()),
            _ => None,
        });
    }
    if reader.is_empty() {
        Ok(Clustering(values))
    } else {
        Err(broken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by Cassandra 5.0.5: pages of two rows of `ks.t (a int, b text, c int, PRIMARY KEY (a, b, c))`.
    #[test]
    fn as_cassandra_writes_it() {
        for text in [
            "00080001620400000001f07ffffffdf07ffffffd",
            "040000000d080001620400000003f07ffffffdf07ffffffe",
            "040000000d08000162040000000301f07ffffffe",
        ] {
            let bytes: Vec<u8> = (0..text.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
                .collect();
            let state = PagingState::decode(&bytes.clone().into(), 2).unwrap();
            assert_eq!(state.encode(), bytes);
            for length in 0..bytes.len() {
                assert!(PagingState::decode(&Bytes::copy_from_slice(&bytes[..length]), 2).is_err());
            }
        }
        assert!(PagingState::decode(&Bytes::from_static(b"garbage, surely"), 2).is_err());
    }
}
