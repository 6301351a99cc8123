//! What comes with a statement: consistency, values and options.

use crate::error::ProtocolError;
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{ConsistencyLevel, Reader};

const VALUES: u32 = 0x0001;
const SKIP_METADATA: u32 = 0x0002;
const PAGE_SIZE: u32 = 0x0004;
const PAGING_STATE: u32 = 0x0008;
const SERIAL_CONSISTENCY: u32 = 0x0010;
const TIMESTAMP: u32 = 0x0020;
const NAMES_FOR_VALUES: u32 = 0x0040;
const KEYSPACE: u32 = 0x0080;
const NOW_IN_SECONDS: u32 = 0x0100;

/// A value for a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundValue {
    /// Serialized bytes.
    Value(Bytes),
    /// Null: deletes.
    Null,
    /// Not set: leaves as it is (version 4 and later).
    Unset,
}

impl BoundValue {
    /// The value's bytes; `None` when null or unset.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Value(bytes) => Some(bytes),
            Self::Null | Self::Unset => None,
        }
    }

    pub(crate) fn decode(
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        let length = reader.i32()?;
        match (usize::try_from(length), length) {
            (Ok(length), _) => Ok(Self::Value(reader.bytes(length)?)),
            (Err(_), -1) => Ok(Self::Null),
            (Err(_), _) if version < ProtocolVersion::V4 => Ok(Self::Null),
            (Err(_), -2) => Ok(Self::Unset),
            (Err(_), _) => Err(ProtocolError::new(format!(
                "Invalid ByteBuf length {length}"
            ))),
        }
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Value(bytes) => wire::put_bytes(out, Some(bytes)),
            Self::Null => out.put_i32(-1),
            Self::Unset => out.put_i32(-2),
        }
    }
}

/// The values of a statement's bind markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundValues {
    /// In the order of the markers.
    Positional(Vec<BoundValue>),
    /// By the names of the markers.
    Named(Vec<(String, BoundValue)>),
}

impl Default for BoundValues {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}

impl BoundValues {
    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Positional(values) => values.len(),
            Self::Named(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Everything that comes with the statement of QUERY, EXECUTE and BATCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryParameters {
    /// Consistency of reads and writes.
    pub consistency: ConsistencyLevel,
    /// Values of the bind markers; not in BATCH.
    pub values: BoundValues,
    /// The client knows the result's columns.
    pub skip_metadata: bool,
    /// Rows a page; `None` or not positive is no paging.
    pub page_size: Option<i32>,
    /// Where the page before ended.
    pub paging_state: Option<Bytes>,
    /// Consistency of the Paxos rounds of conditional updates.
    pub serial_consistency: Option<ConsistencyLevel>,
    /// Write timestamp in microseconds.
    pub timestamp_micros: Option<i64>,
    /// Keyspace for names without one (version 5).
    pub keyspace: Option<String>,
    /// The time against which TTLs are judged (version 5); unsigned 32 bits on the wire.
    pub now_in_seconds: Option<i64>,
}

impl QueryParameters {
    /// Parameters of a consistency level alone.
    pub fn new(consistency: ConsistencyLevel) -> Self {
        Self {
            consistency,
            values: BoundValues::default(),
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp_micros: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }

    /// Reads parameters.
    pub fn decode(reader: &mut Reader, version: ProtocolVersion) -> Result<Self, ProtocolError> {
        let mut parameters = Self::new(wire::consistency(reader)?);
        let flags = if version >= ProtocolVersion::V5 {
            reader.u32()?
        } else {
            u32::from(reader.u8()?)
        };
        let has = |flag: u32| flags & flag != 0;
        if has(VALUES) {
            let length = usize::from(reader.u16()?);
            parameters.values = if has(NAMES_FOR_VALUES) {
                let values: Result<Vec<_>, ProtocolError> = (0..wire::count(reader, length, 6)?)
                    .map(|_| Ok((wire::string(reader)?, BoundValue::decode(reader, version)?)))
                    .collect();
                BoundValues::Named(values?)
            } else {
                let values: Result<Vec<_>, _> = (0..wire::count(reader, length, 4)?)
                    .map(|_| BoundValue::decode(reader, version))
                    .collect();
                BoundValues::Positional(values?)
            };
        }
        parameters.skip_metadata = has(SKIP_METADATA);
        if has(PAGE_SIZE) {
            parameters.page_size = Some(reader.i32()?);
        }
        if has(PAGING_STATE) {
            parameters.paging_state = wire::bytes(reader)?;
        }
        if has(SERIAL_CONSISTENCY) {
            parameters.serial_consistency = Some(wire::consistency(reader)?);
        }
        if has(TIMESTAMP) {
            let timestamp = reader.i64()?;
            if timestamp == i64::MIN {
                return Err(ProtocolError::new(format!(
                    "Out of bound timestamp, must be in [{}, {}] (got {timestamp})",
                    i64::MIN + 1,
                    i64::MAX
                )));
            }
            parameters.timestamp_micros = Some(timestamp);
        }
        if has(KEYSPACE) && version >= ProtocolVersion::V5 {
            parameters.keyspace = Some(wire::string(reader)?);
        }
        if has(NOW_IN_SECONDS) {
            parameters.now_in_seconds = Some(i64::from(reader.u32()?));
        }
        Ok(parameters)
    }

    /// Writes parameters; keyspace and time are left out before version 5.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let newest = version >= ProtocolVersion::V5;
        let keyspace = self.keyspace.as_deref().filter(|_| newest);
        let now_in_seconds = self.now_in_seconds.filter(|_| newest);
        let mut flags = 0;
        for (set, flag) in [
            (!self.values.is_empty(), VALUES),
            (
                matches!(&self.values, BoundValues::Named(values) if !values.is_empty()),
                NAMES_FOR_VALUES,
            ),
            (self.skip_metadata, SKIP_METADATA),
            (self.page_size.is_some(), PAGE_SIZE),
            (self.paging_state.is_some(), PAGING_STATE),
            (self.serial_consistency.is_some(), SERIAL_CONSISTENCY),
            (self.timestamp_micros.is_some(), TIMESTAMP),
            (keyspace.is_some(), KEYSPACE),
            (now_in_seconds.is_some(), NOW_IN_SECONDS),
        ] {
            flags |= if set { flag } else { 0 };
        }
        wire::put_consistency(out, self.consistency);
        if newest {
            out.put_u32(flags);
        } else {
            out.put_u8(flags.to_be_bytes()[3]);
        }
        match &self.values {
            values if values.is_empty() => {}
            BoundValues::Positional(values) => {
                wire::put_list(out, values, |out, value| value.encode(out));
            }
            BoundValues::Named(values) => wire::put_list(out, values, |out, (name, value)| {
                wire::put_string(out, name);
                value.encode(out);
            }),
        }
        if let Some(page_size) = self.page_size {
            out.put_i32(page_size);
        }
        if let Some(paging_state) = &self.paging_state {
            wire::put_bytes(out, Some(paging_state));
        }
        if let Some(level) = self.serial_consistency {
            wire::put_consistency(out, level);
        }
        if let Some(timestamp) = self.timestamp_micros {
            out.put_i64(timestamp);
        }
        if let Some(keyspace) = keyspace {
            wire::put_string(out, keyspace);
        }
        if let Some(now) = now_in_seconds {
            out.put_u32(u32::try_from(now).unwrap_or(u32::MAX));
        }
    }
}
