//! RESULT: what a statement gives.

use crate::error::ProtocolError;
use crate::event::SchemaChange;
use crate::metadata::{PreparedMetadata, RowsMetadata};
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::Reader;

const VOID: u32 = 1;
const ROWS: u32 = 2;
const SET_KEYSPACE: u32 = 3;
const PREPARED: u32 = 4;
const SCHEMA_CHANGE: u32 = 5;

/// A row's values in the order of the columns; `None` is null.
pub type Row = Vec<Option<Bytes>>;

/// A prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The statement's id.
    pub id: Bytes,
    /// The id of the result's columns (version 5).
    pub result_metadata_id: Option<Bytes>,
    /// The bind markers.
    pub markers: PreparedMetadata,
    /// The result's columns; `no_metadata` when the statement gives no rows.
    pub columns: RowsMetadata,
}

/// A result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultBody {
    /// Done.
    Void,
    /// Rows.
    Rows {
        /// The columns.
        metadata: RowsMetadata,
        /// The values.
        rows: Vec<Row>,
    },
    /// Rows that [`RowsWriter`] has written already.
    RawRows(Bytes),
    /// USE was done.
    SetKeyspace(String),
    /// A statement was prepared.
    Prepared(Box<Prepared>),
    /// The schema was changed.
    SchemaChange(SchemaChange),
}

impl ResultBody {
    pub(crate) fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self {
            Self::Void => out.put_u32(VOID),
            Self::Rows { metadata, rows } => {
                let mut writer = RowsWriter::new(metadata, version);
                for row in rows {
                    writer.push(row.iter().map(Option::as_deref));
                }
                out.put_slice(&writer.finish());
            }
            Self::RawRows(body) => out.put_slice(body),
            Self::SetKeyspace(keyspace) => {
                out.put_u32(SET_KEYSPACE);
                wire::put_string(out, keyspace);
            }
            Self::Prepared(prepared) => {
                out.put_u32(PREPARED);
                wire::put_short_bytes(out, &prepared.id);
                if version >= ProtocolVersion::V5 {
                    wire::put_short_bytes(
                        out,
                        prepared.result_metadata_id.as_deref().unwrap_or_default(),
                    );
                }
                prepared.markers.encode(version, out);
                prepared.columns.encode(version, out);
            }
            Self::SchemaChange(change) => {
                out.put_u32(SCHEMA_CHANGE);
                change.encode(version, out);
            }
        }
    }

    pub(crate) fn decode(
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        match reader.u32()? {
            VOID => Ok(Self::Void),
            ROWS => {
                let metadata = RowsMetadata::decode(reader)?;
                let rows = decode_rows(reader, metadata.column_count)?;
                Ok(Self::Rows { metadata, rows })
            }
            SET_KEYSPACE => Ok(Self::SetKeyspace(wire::string(reader)?)),
            PREPARED => {
                let id = wire::short_bytes(reader)?;
                let newest = version >= ProtocolVersion::V5;
                let result_metadata_id = newest.then(|| wire::short_bytes(reader)).transpose()?;
                let markers = PreparedMetadata::decode(reader, version)?;
                let columns = RowsMetadata::decode(reader)?;
                Ok(Self::Prepared(Box::new(Prepared {
                    id,
                    result_metadata_id,
                    markers,
                    columns,
                })))
            }
            SCHEMA_CHANGE => Ok(Self::SchemaChange(SchemaChange::decode(reader)?)),
            other => Err(ProtocolError::new(format!(
                "Unknown kind id {other} in RESULT message"
            ))),
        }
    }
}

fn decode_rows(reader: &mut Reader, columns: usize) -> Result<Vec<Row>, ProtocolError> {
    let count =
        usize::try_from(reader.i32()?).map_err(|_| ProtocolError::new("Negative count of rows"))?;
    if columns == 0 && count > 0 {
        return Err(ProtocolError::new("Rows without columns"));
    }
    let mut rows = Vec::with_capacity(wire::count(reader, count, columns.saturating_mul(4))?);
    for _ in 0..count {
        rows.push(
            (0..columns)
                .map(|_| wire::bytes(reader))
                .collect::<Result<Row, _>>()?,
        );
    }
    Ok(rows)
}

/// Writes a result of rows one by one, straight into the body.
#[derive(Debug)]
pub struct RowsWriter {
    out: BytesMut,
    count_at: usize,
    count: i32,
}

impl RowsWriter {
    /// Begins a result with these columns.
    pub fn new(metadata: &RowsMetadata, version: ProtocolVersion) -> Self {
        let mut out = BytesMut::new();
        out.put_u32(ROWS);
        metadata.encode(version, &mut out);
        let count_at = out.len();
        out.put_i32(0);
        Self {
            out,
            count_at,
            count: 0,
        }
    }

    /// Adds a row: as many values as there are columns.
    pub fn push<'a>(&mut self, values: impl IntoIterator<Item = Option<&'a [u8]>>) {
        for value in values {
            wire::put_bytes(&mut self.out, value);
        }
        self.count = self.count.saturating_add(1);
    }

    /// Length of the body so far, in bytes.
    pub fn length(&self) -> usize {
        self.out.len()
    }

    /// The body, for [`ResultBody::RawRows`].
    pub fn finish(mut self) -> Bytes {
        self.out[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_be_bytes());
        self.out.freeze()
    }
}
