//! Descriptions of columns: of a result, and of the bind markers of a prepared statement.

use crate::error::ProtocolError;
use crate::type_option;
use crate::version::ProtocolVersion;
use crate::wire;
use bytes::{BufMut, Bytes, BytesMut};
use helenus_types::{CqlType, Reader};

const GLOBAL_TABLES_SPEC: u32 = 0x0001;
const HAS_MORE_PAGES: u32 = 0x0002;
const NO_METADATA: u32 = 0x0004;
const METADATA_CHANGED: u32 = 0x0008;

/// A column of a result, or a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace of its table.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Its name, as the result shows it.
    pub name: String,
    /// Its type.
    pub cql_type: CqlType,
}

/// The columns of a result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsMetadata {
    /// The columns; needed by the server for their count even when `no_metadata`. Empty for a client
    /// that asked for no metadata.
    pub columns: Vec<ColumnSpec>,
    /// Count of columns.
    pub column_count: usize,
    /// Leave the columns out: the client knows them.
    pub no_metadata: bool,
    /// Where the next page begins, if there is one.
    pub paging_state: Option<Bytes>,
    /// The columns' new id when they are not those that the client knows (version 5).
    pub new_metadata_id: Option<Bytes>,
}

impl RowsMetadata {
    /// A description of these columns alone.
    pub fn new(columns: Vec<ColumnSpec>) -> Self {
        Self {
            column_count: columns.len(),
            columns,
            ..Self::default()
        }
    }

    pub(crate) fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let new_id = self
            .new_metadata_id
            .as_ref()
            .filter(|_| version >= ProtocolVersion::V5);
        // A changed description must be there to be read.
        let no_metadata = self.no_metadata && new_id.is_none();
        let global = !no_metadata && one_table(&self.columns);
        let mut flags = 0;
        for (set, flag) in [
            (global, GLOBAL_TABLES_SPEC),
            (self.paging_state.is_some(), HAS_MORE_PAGES),
            (no_metadata, NO_METADATA),
            (new_id.is_some(), METADATA_CHANGED),
        ] {
            flags |= if set { flag } else { 0 };
        }
        out.put_u32(flags);
        wire::put_length(out, self.column_count);
        if let Some(paging_state) = &self.paging_state {
            wire::put_bytes(out, Some(paging_state));
        }
        if let Some(id) = new_id {
            wire::put_short_bytes(out, id);
        }
        if !no_metadata {
            put_columns(&self.columns, global, version, out);
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, ProtocolError> {
        let flags = reader.u32()?;
        let column_count = column_count(reader)?;
        let has = |flag: u32| flags & flag != 0;
        let paging_state = if has(HAS_MORE_PAGES) {
            wire::bytes(reader)?
        } else {
            None
        };
        let new_metadata_id = if has(METADATA_CHANGED) {
            Some(wire::short_bytes(reader)?)
        } else {
            None
        };
        let no_metadata = has(NO_METADATA);
        let columns = if no_metadata {
            Vec::new()
        } else {
            columns(reader, column_count, has(GLOBAL_TABLES_SPEC))?
        };
        Ok(Self {
            columns,
            column_count,
            no_metadata,
            paging_state,
            new_metadata_id,
        })
    }
}

/// The bind markers of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreparedMetadata {
    /// The markers in order.
    pub columns: Vec<ColumnSpec>,
    /// Which markers give the partition key, in the key's order; empty unless they give all of it (version 4 and later).
    pub partition_key_indexes: Vec<u16>,
}

impl PreparedMetadata {
    pub(crate) fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let global = one_table(&self.columns);
        out.put_u32(if global { GLOBAL_TABLES_SPEC } else { 0 });
        wire::put_length(out, self.columns.len());
        if version >= ProtocolVersion::V4 {
            // Of no use for markers of several tables.
            let indexes = if global {
                self.partition_key_indexes.as_slice()
            } else {
                &[]
            };
            wire::put_length(out, indexes.len());
            for index in indexes {
                out.put_u16(*index);
            }
        }
        put_columns(&self.columns, global, version, out);
    }

    pub(crate) fn decode(
        reader: &mut Reader,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        let flags = reader.u32()?;
        let column_count = column_count(reader)?;
        let mut partition_key_indexes = Vec::new();
        if version >= ProtocolVersion::V4 {
            let length = usize::try_from(reader.i32()?).unwrap_or(0);
            for _ in 0..wire::count(reader, length, 2)? {
                partition_key_indexes.push(reader.u16()?);
            }
        }
        let columns = columns(reader, column_count, flags & GLOBAL_TABLES_SPEC != 0)?;
        Ok(Self {
            columns,
            partition_key_indexes,
        })
    }
}

fn one_table(columns: &[ColumnSpec]) -> bool {
    columns.first().is_some_and(|first| {
        columns
            .iter()
            .all(|c| c.table == first.table && c.keyspace == first.keyspace)
    })
}

fn put_columns(columns: &[ColumnSpec], global: bool, version: ProtocolVersion, out: &mut BytesMut) {
    if let Some(first) = columns.first().filter(|_| global) {
        wire::put_string(out, &first.keyspace);
        wire::put_string(out, &first.table);
    }
    for column in columns {
        if !global {
            wire::put_string(out, &column.keyspace);
            wire::put_string(out, &column.table);
        }
        wire::put_string(out, &column.name);
        type_option::encode(&column.cql_type, version, out);
    }
}

fn column_count(reader: &mut Reader) -> Result<usize, ProtocolError> {
    usize::try_from(reader.i32()?).map_err(|_| ProtocolError::new("Negative count of columns"))
}

fn columns(
    reader: &mut Reader,
    count: usize,
    global: bool,
) -> Result<Vec<ColumnSpec>, ProtocolError> {
    let shared = if global {
        Some((wire::string(reader)?, wire::string(reader)?))
    } else {
        None
    };
    let mut columns = Vec::with_capacity(wire::count(reader, count, 4)?);
    for _ in 0..count {
        let (keyspace, table) = match &shared {
            Some(shared) => shared.clone(),
            None => (wire::string(reader)?, wire::string(reader)?),
        };
        columns.push(ColumnSpec {
            keyspace,
            table,
            name: wire::string(reader)?,
            cql_type: type_option::decode(reader)?,
        });
    }
    Ok(columns)
}
