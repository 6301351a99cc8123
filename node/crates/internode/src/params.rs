//! Parameters of a message's header. Source: Cassandra 5.0 `net/ParamType.java`.

use crate::error::{DecodeError, EncodeError};
use crate::wire::{read_endpoint, read_utf, read_uuid, write_endpoint, write_utf, write_uuid};
use bytes::{BufMut, Bytes};
use helenus_types::{Endpoint, Reader, vint};
use std::collections::BTreeMap;
use uuid::Uuid;

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Param {
    /// Pass the message on to these endpoints, under these ids.
    ForwardTo(Vec<(Endpoint, u64)>),
    /// Answer to this endpoint, not to the sender.
    RespondTo(Endpoint),
    /// The tracing session that the message belongs to.
    TraceSession(Uuid),
    /// Kind of that session: 0 none, 1 query, 2 repair.
    TraceType(u8),
    /// A read was stopped at this many tombstones.
    TombstoneFail(i32),
    /// A read saw this many tombstones.
    TombstoneWarning(i32),
    /// A read was stopped at this many bytes.
    LocalReadSizeFail(i64),
    /// A read returned this many bytes.
    LocalReadSizeWarn(i64),
    /// A read was stopped by a row index of this many bytes.
    RowIndexReadSizeFail(i64),
    /// A read met a row index of this many bytes.
    RowIndexReadSizeWarn(i64),
    /// Free entries, passed on as they are.
    CustomMap(BTreeMap<String, Bytes>),
    /// Token ranges of a repair snapshot, not decoded.
    SnapshotRanges(Bytes),
    /// A query named this many indexes.
    TooManyIndexesWarn(i32),
    /// A query was refused for naming this many indexes.
    TooManyIndexesFail(i32),
}

impl Param {
    /// The number on the wire.
    pub fn id(&self) -> u8 {
        match self {
            Self::ForwardTo(_) => 0,
            Self::RespondTo(_) => 1,
            Self::TraceSession(_) => 5,
            Self::TraceType(_) => 6,
            Self::TombstoneFail(_) => 8,
            Self::TombstoneWarning(_) => 9,
            Self::LocalReadSizeFail(_) => 10,
            Self::LocalReadSizeWarn(_) => 11,
            Self::RowIndexReadSizeFail(_) => 12,
            Self::RowIndexReadSizeWarn(_) => 13,
            Self::CustomMap(_) => 14,
            Self::SnapshotRanges(_) => 15,
            Self::TooManyIndexesWarn(_) => 16,
            Self::TooManyIndexesFail(_) => 17,
        }
    }

    fn write_value(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::ForwardTo(targets) => {
                vint::write_unsigned(out, targets.len() as u64);
                for (endpoint, id) in targets {
                    write_endpoint(out, endpoint);
                    vint::write_unsigned(out, *id);
                }
            }
            Self::RespondTo(endpoint) => write_endpoint(out, endpoint),
            Self::TraceSession(id) => write_uuid(out, *id),
            Self::TraceType(kind) => out.put_u8(*kind),
            Self::TombstoneFail(n)
            | Self::TombstoneWarning(n)
            | Self::TooManyIndexesWarn(n)
            | Self::TooManyIndexesFail(n) => out.put_i32(*n),
            Self::LocalReadSizeFail(n)
            | Self::LocalReadSizeWarn(n)
            | Self::RowIndexReadSizeFail(n)
            | Self::RowIndexReadSizeWarn(n) => out.put_i64(*n),
            Self::CustomMap(entries) => {
                vint::write_unsigned(out, entries.len() as u64);
                for (key, value) in entries {
                    write_utf(out, key)?;
                    vint::write_unsigned(out, value.len() as u64);
                    out.put_slice(value);
                }
            }
            Self::SnapshotRanges(bytes) => out.put_slice(bytes),
        }
        Ok(())
    }

    /// Decodes a value; `None` for numbers that we do not know, which Cassandra too ignores.
    fn read_value(id: u64, value: Bytes) -> Result<Option<Self>, DecodeError> {
        let mut reader = Reader::new(value);
        Ok(Some(match id {
            0 => Self::ForwardTo(read_targets(&mut reader)?),
            1 => Self::RespondTo(read_endpoint(&mut reader)?),
            5 => Self::TraceSession(read_uuid(&mut reader)?),
            6 => Self::TraceType(reader.u8()?),
            8 => Self::TombstoneFail(reader.i32()?),
            9 => Self::TombstoneWarning(reader.i32()?),
            10 => Self::LocalReadSizeFail(reader.i64()?),
            11 => Self::LocalReadSizeWarn(reader.i64()?),
            12 => Self::RowIndexReadSizeFail(reader.i64()?),
            13 => Self::RowIndexReadSizeWarn(reader.i64()?),
            14 => Self::CustomMap(read_custom(&mut reader)?),
            15 => Self::SnapshotRanges(reader.bytes(reader.remaining())?),
            16 => Self::TooManyIndexesWarn(reader.i32()?),
            17 => Self::TooManyIndexesFail(reader.i32()?),
            _ => return Ok(None),
        }))
    }
}

fn read_targets(reader: &mut Reader) -> Result<Vec<(Endpoint, u64)>, DecodeError> {
    let count = reader.unsigned_vint()?;
    // the smallest target has eight bytes
    if count > reader.remaining() as u64 / 8 {
        return Err(DecodeError::invalid("count of forwarding targets", count));
    }
    (0..count)
        .map(|_| Ok((read_endpoint(reader)?, reader.unsigned_vint()?)))
        .collect()
}

fn read_custom(reader: &mut Reader) -> Result<BTreeMap<String, Bytes>, DecodeError> {
    let count = reader.unsigned_vint()?;
    if count > reader.remaining() as u64 / 3 {
        return Err(DecodeError::invalid("count of custom parameters", count));
    }
    (0..count)
        .map(|_| Ok((read_utf(reader)?, reader.vint_bytes()?)))
        .collect()
}

/// Writes the parameters of a header.
pub(crate) fn write_params(out: &mut Vec<u8>, params: &[Param]) -> Result<(), EncodeError> {
    vint::write_unsigned(out, params.len() as u64);
    let mut value = Vec::new();
    for param in params {
        value.clear();
        param.write_value(&mut value)?;
        vint::write_unsigned(out, u64::from(param.id()));
        vint::write_unsigned(out, value.len() as u64);
        out.put_slice(&value);
    }
    Ok(())
}

/// Reads the parameters of a header.
pub(crate) fn read_params(reader: &mut Reader) -> Result<Vec<Param>, DecodeError> {
    let count = reader.unsigned_vint()?;
    let mut params = Vec::new();
    for _ in 0..count {
        let id = reader.unsigned_vint()?;
        let value = reader.vint_bytes()?;
        params.extend(Param::read_value(id, value)?);
    }
    Ok(params)
}
