//! Payloads that need no rows: failures, pings, schema versions, snapshots, truncation.

use crate::error::{DecodeError, EncodeError};
use crate::handshake::ConnectionType;
use crate::wire::{read_bool, read_utf, read_uuid, write_bool, write_utf};
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{Reader, vint};
use uuid::Uuid;

/// Why a replica could not serve a request: the payload of FAILURE_RSP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// Any other reason, and reasons of later versions.
    Unknown,
    /// The read met more tombstones than `tombstone_failure_threshold`.
    ReadTooManyTombstones,
    /// The replica gave up in time.
    Timeout,
    /// The replica's schema lacks something named in the request.
    IncompatibleSchema,
    /// The read exceeded a size limit.
    ReadSize,
    /// The node is down (set by coordinators, seldom sent).
    NodeDown,
    /// An index is not built on the replica.
    IndexNotAvailable,
    /// The query names more indexes than allowed.
    ReadTooManyIndexes,
}

impl FailureReason {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::ReadTooManyTombstones,
        Self::Timeout,
        Self::IncompatibleSchema,
        Self::ReadSize,
        Self::NodeDown,
        Self::IndexNotAvailable,
        Self::ReadTooManyIndexes,
    ];

    /// The number on the wire and in the native protocol's reason maps.
    pub fn code(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::ReadTooManyTombstones => 1,
            Self::Timeout => 2,
            Self::IncompatibleSchema => 3,
            Self::ReadSize => 4,
            Self::NodeDown => 5,
            Self::IndexNotAvailable => 6,
            Self::ReadTooManyIndexes => 7,
        }
    }

    /// The payload.
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(1);
        vint::write_unsigned(&mut out, u64::from(self.code()));
        out.freeze()
    }

    /// Reads the payload.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let code = Reader::new(payload).unsigned_vint()?;
        Ok(usize::try_from(code)
            .ok()
            .and_then(|code| Self::ALL.get(code))
            .copied()
            .unwrap_or(Self::Unknown))
    }
}

/// The payload of PING_REQ: the kind of connection that is warmed up.
pub fn encode_ping(connection: ConnectionType) -> Bytes {
    Bytes::copy_from_slice(&[connection.id()])
}

/// Reads the payload of PING_REQ.
pub fn decode_ping(payload: Bytes) -> Result<ConnectionType, DecodeError> {
    ConnectionType::from_id(Reader::new(payload).u8()?)
}

/// A payload that is one UUID: SCHEMA_VERSION_RSP, BATCH_REMOVE_REQ.
pub fn encode_uuid(id: Uuid) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

/// Reads what [`encode_uuid`] writes.
pub fn decode_uuid(payload: Bytes) -> Result<Uuid, DecodeError> {
    read_uuid(&mut Reader::new(payload))
}

/// A payload that is one boolean: PAXOS_PROPOSE_RSP.
pub fn decode_bool(payload: Bytes) -> Result<bool, DecodeError> {
    read_bool(&mut Reader::new(payload))
}

/// SNAPSHOT_REQ: take or clear a snapshot of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotCommand {
    /// Keyspace.
    pub keyspace: String,
    /// Table; empty for all.
    pub table: String,
    /// Name of the snapshot.
    pub name: String,
    /// Remove it instead.
    pub clear: bool,
}

impl SnapshotCommand {
    /// The payload.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::new();
        write_utf(&mut out, &self.keyspace)?;
        write_utf(&mut out, &self.table)?;
        write_utf(&mut out, &self.name)?;
        write_bool(&mut out, self.clear);
        Ok(out.freeze())
    }

    /// Reads the payload.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        Ok(Self {
            keyspace: read_utf(&mut reader)?,
            table: read_utf(&mut reader)?,
            name: read_utf(&mut reader)?,
            clear: read_bool(&mut reader)?,
        })
    }
}

/// TRUNCATE_REQ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncateRequest {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
}

impl TruncateRequest {
    /// The payload.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::new();
        write_utf(&mut out, &self.keyspace)?;
        write_utf(&mut out, &self.table)?;
        Ok(out.freeze())
    }

    /// Reads the payload.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        Ok(Self {
            keyspace: read_utf(&mut reader)?,
            table: read_utf(&mut reader)?,
        })
    }
}

/// TRUNCATE_RSP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncateResponse {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Whether the table was truncated.
    pub success: bool,
}

impl TruncateResponse {
    /// The payload.
    pub fn encode(&self) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::new();
        write_utf(&mut out, &self.keyspace)?;
        write_utf(&mut out, &self.table)?;
        out.put_u8(u8::from(self.success));
        Ok(out.freeze())
    }

    /// Reads the payload.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        Ok(Self {
            keyspace: read_utf(&mut reader)?,
            table: read_utf(&mut reader)?,
            success: read_bool(&mut reader)?,
        })
    }
}
