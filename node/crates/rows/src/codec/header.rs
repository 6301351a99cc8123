//! What rows are read and written against: clustering lengths, columns in order, minima of times.

use super::columns::{ColumnSet, decode_names, decode_subset, encode_names, encode_subset};
use super::stats::{EncodingStats, low_half, vint32};
use super::{CodecError, Version, deletion};
use crate::deletion::{DeletionTime, EXPIRED_LIVENESS_TTL};
use bytes::{BufMut, Bytes};
use helenus_schema::{Column, ColumnId, ColumnKind, TableMetadata};
use helenus_types::java_name::{TypeNameError, key_type_name};
use helenus_types::{CqlType, NowInSeconds, Reader, TimestampMicros, vint};

/// A column as rows of one header have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderColumn {
    /// Its id in the table; `None` for a column that is gone, whose cells are read and dropped.
    pub id: Option<ColumnId>,
    /// Length of every value, where the type fixes it.
    pub fixed_length: Option<usize>,
    /// Several cells.
    pub multi_cell: bool,
    /// Cells up to this timestamp were dropped; `i64::MIN` when the column never was.
    pub dropped_time: TimestampMicros,
}

impl HeaderColumn {
    fn of(column: &Column, table: &TableMetadata) -> Self {
        Self {
            id: Some(column.id),
            fixed_length: column.cql_type.fixed_length(),
            multi_cell: column.cql_type.is_multi_cell(),
            dropped_time: dropped_time(table, &column.name),
        }
    }

    fn gone(cql_type: &CqlType, dropped_time: TimestampMicros) -> Self {
        Self {
            id: None,
            fixed_length: cql_type.fixed_length(),
            multi_cell: cql_type.is_multi_cell(),
            dropped_time,
        }
    }
}

fn dropped_time(table: &TableMetadata, name: &str) -> TimestampMicros {
    table
        .dropped_columns
        .get(name)
        .map_or(i64::MIN, |dropped| dropped.dropped_time)
}

/// The header of a message's partition or of an SSTable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerializationHeader {
    /// Format.
    pub version: Version,
    /// Minima of times.
    pub stats: EncodingStats,
    /// Fixed lengths of the clustering types.
    pub clustering_lengths: Vec<Option<usize>>,
    /// Static columns in order.
    pub statics: Vec<HeaderColumn>,
    /// Regular columns in order.
    pub regulars: Vec<HeaderColumn>,
}

impl SerializationHeader {
    /// A header for `columns` of a table.
    pub fn new(
        table: &TableMetadata,
        columns: &ColumnSet,
        stats: EncodingStats,
        version: Version,
    ) -> Result<Self, CodecError> {
        let resolve = |ids: &[ColumnId]| -> Result<Vec<HeaderColumn>, CodecError> {
            ids.iter()
                .map(|id| {
                    let column = table
                        .column_by_id(*id)
                        .ok_or(CodecError::Invalid("a column id is not the table's"))?;
                    Ok(HeaderColumn::of(column, table))
                })
                .collect()
        };
        Ok(Self {
            version,
            stats,
            clustering_lengths: table
                .clustering()
                .iter()
                .map(|column| column.cql_type.fixed_length())
                .collect(),
            statics: resolve(&columns.statics)?,
            regulars: resolve(&columns.regulars)?,
        })
    }

    /// Columns of the static row or of rows.
    pub fn columns(&self, is_static: bool) -> &[HeaderColumn] {
        if is_static {
            &self.statics
        } else {
            &self.regulars
        }
    }

    /// Writes the header of a message: minima, then columns by name, or as a subset of `superset`
    /// (what the read command's column filter fetches).
    pub fn encode_for_message(
        &self,
        table: &TableMetadata,
        superset: Option<&ColumnSet>,
        has_static: bool,
        out: &mut impl BufMut,
    ) -> Result<(), CodecError> {
        self.stats.encode(out);
        if has_static {
            encode_columns(
                &self.statics,
                table,
                superset.map(|set| &set.statics[..]),
                out,
            )?;
        }
        encode_columns(
            &self.regulars,
            table,
            superset.map(|set| &set.regulars[..]),
            out,
        )
    }

    /// Reads what [`Self::encode_for_message`] writes.
    pub fn decode_for_message(
        reader: &mut Reader,
        table: &TableMetadata,
        superset: Option<&ColumnSet>,
        has_static: bool,
        version: Version,
    ) -> Result<Self, CodecError> {
        let stats = EncodingStats::decode(reader)?;
        let statics = if has_static {
            decode_columns(reader, table, superset.map(|set| &set.statics[..]))?
        } else {
            Vec::new()
        };
        let regulars = decode_columns(reader, table, superset.map(|set| &set.regulars[..]))?;
        let clustering_lengths = table
            .clustering()
            .iter()
            .map(|column| column.cql_type.fixed_length())
            .collect();
        Ok(Self {
            version,
            stats,
            clustering_lengths,
            statics,
            regulars,
        })
    }

    pub(super) fn put_timestamp(&self, timestamp: TimestampMicros, out: &mut impl BufMut) {
        vint::write_unsigned(
            out,
            timestamp
                .wrapping_sub(self.stats.min_timestamp)
                .cast_unsigned(),
        );
    }

    pub(super) fn put_seconds(&self, seconds: NowInSeconds, out: &mut impl BufMut) {
        vint::write_unsigned(
            out,
            low_half(seconds.wrapping_sub(self.stats.min_local_deletion_time)),
        );
    }

    pub(super) fn put_ttl(&self, ttl: i32, out: &mut impl BufMut) {
        vint::write_unsigned(
            out,
            i64::from(ttl.wrapping_sub(self.stats.min_ttl)).cast_unsigned(),
        );
    }

    pub(super) fn put_deletion(&self, deletion: DeletionTime, out: &mut impl BufMut) {
        self.put_timestamp(deletion.marked_for_delete_at, out);
        self.put_seconds(deletion.local_deletion_time, out);
    }

    pub(super) fn timestamp(&self, reader: &mut Reader) -> Result<TimestampMicros, CodecError> {
        Ok(reader
            .unsigned_vint()?
            .cast_signed()
            .wrapping_add(self.stats.min_timestamp))
    }

    /// Seconds as they stand: negative when they went over 32 bits or were none.
    pub(super) fn seconds(&self, reader: &mut Reader) -> Result<NowInSeconds, CodecError> {
        Ok(i64::from(vint32(reader)?).wrapping_add(self.stats.min_local_deletion_time))
    }

    /// Seconds of a cell or liveness with this TTL (Cassandra's `Cell.decodeLocalDeletionTime`).
    pub(super) fn expiration(&self, seconds: NowInSeconds, ttl: i32) -> NowInSeconds {
        let seconds = self.unsigned(seconds);
        if seconds >= i64::from(ttl) || ttl == EXPIRED_LIVENESS_TTL {
            seconds
        } else {
            deletion::INVALID_DELETION_TIME
        }
    }

    fn unsigned(&self, seconds: NowInSeconds) -> NowInSeconds {
        if (0..i64::from(u32::MAX)).contains(&seconds) {
            seconds
        } else if self.version.unsigned_deletion_times {
            u32::try_from(seconds & i64::from(u32::MAX))
                .map_or(deletion::INVALID_DELETION_TIME, deletion::from_unsigned)
        } else {
            deletion::INVALID_DELETION_TIME
        }
    }

    pub(super) fn ttl(&self, reader: &mut Reader) -> Result<i32, CodecError> {
        let ttl = vint32(reader)?.wrapping_add(self.stats.min_ttl);
        if ttl < 0 {
            Err(CodecError::Invalid("a TTL is negative"))
        } else {
            Ok(ttl)
        }
    }

    pub(super) fn deletion(&self, reader: &mut Reader) -> Result<DeletionTime, CodecError> {
        let marked_for_delete_at = self.timestamp(reader)?;
        let seconds = self.seconds(reader)?;
        Ok(deletion::normal(
            marked_for_delete_at,
            self.unsigned(seconds),
        ))
    }
}

fn encode_columns(
    columns: &[HeaderColumn],
    table: &TableMetadata,
    superset: Option<&[ColumnId]>,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let ids: Vec<ColumnId> = columns.iter().filter_map(|column| column.id).collect();
    if let Some(superset) = superset {
        let mut present = Vec::with_capacity(ids.len());
        for (at, id) in superset.iter().enumerate() {
            if ids.contains(id) {
                present.push(at);
            }
        }
        if present.len() != ids.len() {
            return Err(CodecError::Invalid("a column was not asked for"));
        }
        encode_subset(&present, superset.len(), out);
        return Ok(());
    }
    let names: Vec<&str> = ids
        .iter()
        .filter_map(|id| table.column_by_id(*id))
        .map(|column| column.name.as_str())
        .collect();
    encode_names(names.into_iter(), out);
    Ok(())
}

fn decode_columns(
    reader: &mut Reader,
    table: &TableMetadata,
    superset: Option<&[ColumnId]>,
) -> Result<Vec<HeaderColumn>, CodecError> {
    if let Some(superset) = superset {
        return decode_subset(reader, superset.len())?
            .into_iter()
            .map(|at| {
                let column = superset.get(at).and_then(|id| table.column_by_id(*id));
                let column = column.ok_or(CodecError::Invalid("a column id is not the table's"))?;
                Ok(HeaderColumn::of(column, table))
            })
            .collect();
    }
    decode_names(reader)?
        .into_iter()
        .map(
            |name| match (table.column(&name), table.dropped_columns.get(&name)) {
                (Some(column), _) => Ok(HeaderColumn::of(column, table)),
                (None, Some(dropped)) => {
                    Ok(HeaderColumn::gone(&dropped.cql_type, dropped.dropped_time))
                }
                (None, None) => Err(unknown(table, name)),
            },
        )
        .collect()
}

fn unknown(table: &TableMetadata, column: String) -> CodecError {
    CodecError::UnknownColumn {
        table: format!("{}.{}", table.keyspace, table.name),
        column,
    }
}

/// The header as Statistics.db of an SSTable has it: types by Java name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderComponent {
    /// Minima of times.
    pub stats: EncodingStats,
    /// Type of the partition key.
    pub key_type: String,
    /// Types of the clustering columns, `ReversedType` where descending.
    pub clustering_types: Vec<String>,
    /// Names and types of static columns.
    pub static_columns: Vec<(String, String)>,
    /// Names and types of regular columns.
    pub regular_columns: Vec<(String, String)>,
}

impl HeaderComponent {
    /// The component of a table with these columns.
    pub fn new(table: &TableMetadata, columns: &ColumnSet, stats: EncodingStats) -> Self {
        let named = |ids: &[ColumnId]| {
            ids.iter()
                .filter_map(|id| table.column_by_id(*id))
                .map(|column| (column.name.clone(), column.cql_type.java_name()))
                .collect()
        };
        let key_types: Vec<CqlType> = table
            .partition_key()
            .iter()
            .map(|column| column.cql_type.clone())
            .collect();
        Self {
            stats,
            key_type: key_type_name(&key_types),
            clustering_types: table
                .clustering()
                .iter()
                .map(|column| column.cql_type.java_name_with_order(column.reversed))
                .collect(),
            static_columns: named(&columns.statics),
            regular_columns: named(&columns.regulars),
        }
    }

    /// Writes the component.
    pub fn encode(&self, out: &mut impl BufMut) {
        self.stats.encode(out);
        put_text(&self.key_type, out);
        vint::write_unsigned(out, self.clustering_types.len() as u64);
        for name in &self.clustering_types {
            put_text(name, out);
        }
        for columns in [&self.static_columns, &self.regular_columns] {
            vint::write_unsigned(out, columns.len() as u64);
            for (name, type_name) in columns {
                put_text(name, out);
                put_text(type_name, out);
            }
        }
    }

    /// Reads what [`Self::encode`] writes.
    pub fn decode(reader: &mut Reader) -> Result<Self, CodecError> {
        let stats = EncodingStats::decode(reader)?;
        let key_type = text(reader.vint_bytes()?)?;
        let mut clustering_types = Vec::new();
        for _ in 0..reader.vint_length()? {
            clustering_types.push(text(reader.vint_bytes()?)?);
        }
        let mut columns = || -> Result<Vec<(String, String)>, CodecError> {
            let mut found = Vec::new();
            for _ in 0..reader.vint_length()? {
                found.push((text(reader.vint_bytes()?)?, text(reader.vint_bytes()?)?));
            }
            Ok(found)
        };
        let static_columns = columns()?;
        let regular_columns = columns()?;
        Ok(Self {
            stats,
            key_type,
            clustering_types,
            static_columns,
            regular_columns,
        })
    }

    /// The header for reading the SSTable's rows as rows of `table`. Values are read by the types
    /// they were written with; a column that the table neither has nor had is an error.
    pub fn to_header(
        &self,
        table: &TableMetadata,
        version: Version,
    ) -> Result<SerializationHeader, CodecError> {
        if self.clustering_types.len() != table.clustering().len() {
            return Err(CodecError::Invalid(
                "the SSTable has another count of clustering columns than the table",
            ));
        }
        let clustering_lengths = self
            .clustering_types
            .iter()
            .map(|name| {
                Ok(CqlType::from_java_name(name)
                    .map_err(|error| bad_type(&error))?
                    .fixed_length())
            })
            .collect::<Result<_, CodecError>>()?;
        Ok(SerializationHeader {
            version,
            stats: self.stats,
            clustering_lengths,
            statics: resolve(&self.static_columns, table, ColumnKind::Static)?,
            regulars: resolve(&self.regular_columns, table, ColumnKind::Regular)?,
        })
    }
}

fn resolve(
    columns: &[(String, String)],
    table: &TableMetadata,
    kind: ColumnKind,
) -> Result<Vec<HeaderColumn>, CodecError> {
    columns
        .iter()
        .map(|(name, type_name)| {
            let written = CqlType::from_java_name(type_name).map_err(|error| bad_type(&error))?;
            let present = table.column(name).filter(|column| column.kind == kind);
            let dropped_time = dropped_time(table, name);
            if present.is_none() && !table.dropped_columns.contains_key(name) {
                return Err(unknown(table, name.clone()));
            }
            let same_form =
                |column: &&Column| column.cql_type.is_multi_cell() == written.is_multi_cell();
            Ok(HeaderColumn {
                id: present.filter(same_form).map(|column| column.id),
                ..HeaderColumn::gone(&written, dropped_time)
            })
        })
        .collect()
}

fn bad_type(_: &TypeNameError) -> CodecError {
    CodecError::Invalid("a type name cannot be read")
}

fn put_text(text: &str, out: &mut impl BufMut) {
    vint::write_unsigned(out, text.len() as u64);
    out.put_slice(text.as_bytes());
}

fn text(bytes: Bytes) -> Result<String, CodecError> {
    String::from_utf8(bytes.into()).map_err(|_| CodecError::Invalid("a name is not UTF-8"))
}
