//! Read commands and their answers as replicas exchange them. Sources: Cassandra 5.0 `ReadCommand`,
//! `ColumnFilter`, `RowFilter`, `DataLimits`, `ClusteringIndexFilter`, `DataRange`,
//! `PartitionPosition`, `ReadResponse`, `UnfilteredPartitionIterators`.
//!
//! Commands that this node cannot answer as asked (index names, sub-selections of collections,
//! GROUP BY counting, custom expressions) are refused by name, never answered with less.

use crate::clustering::{Clustering, Slice};
use crate::codec::clustering::{
    decode_bound, decode_value, decode_values, encode_bound, encode_value, encode_values,
};
use crate::codec::columns::{decode_names, encode_names};
use crate::codec::deletion::{from_signed, from_unsigned, to_signed, to_unsigned};
use crate::codec::partition::{self, PartitionOptions};
use crate::codec::{CodecError, ColumnSet, Version};
use crate::command::{
    ClusteringFilter, ColumnFilter, DataLimits, DataRange, Operator, PartitionPosition,
    ReadCommand, ReadKind, ResumeAfter, RowFilter, RowFilterExpression,
};
use crate::partition::Partition;
use bytes::{BufMut, Bytes};
use helenus_schema::{Column, ColumnId, Schema, TableId, TableMetadata};
use helenus_types::{DecoratedKey, Reader, Token, vint};
use std::sync::Arc;
use uuid::Uuid;

const IS_DIGEST: u8 = 0x01;
const HAS_INDEX: u8 = 0x04;

const FETCH_ALL_REGULARS: u8 = 0x01;
const HAS_QUERIED: u8 = 0x02;
const HAS_SUB_SELECTIONS: u8 = 0x04;
const FETCH_ALL_STATICS: u8 = 0x08;

const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

/// A command as received, and whether only a digest is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedRead {
    /// The command.
    pub command: ReadCommand,
    /// Answer with a digest.
    pub digest: bool,
}

/// Writes a read command; `messaging` is the version number of the connection.
pub fn encode_command(
    command: &ReadCommand,
    digest: bool,
    messaging: u32,
    version: Version,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let table = &command.table;
    out.put_u8(match command.kind {
        ReadKind::Partition { .. } => 0,
        ReadKind::Range(_) => 1,
    });
    out.put_u8(if digest { IS_DIGEST } else { 0 });
    if digest {
        vint::write_unsigned(out, u64::from(messaging));
    }
    out.put_slice(table.id.0.as_bytes());
    if version.unsigned_deletion_times {
        out.put_u32(to_unsigned(command.now_in_seconds));
    } else {
        out.put_i32(to_signed(command.now_in_seconds));
    }
    encode_column_filter(&command.columns, table, out);
    encode_row_filter(&command.row_filter, table, out)?;
    let first_key = match &command.kind {
        ReadKind::Partition { key, .. }
        | ReadKind::Range(DataRange {
            start: PartitionPosition::Key { key, .. },
            ..
        }) => Some(key),
        ReadKind::Range(_) => None,
    };
    encode_limits(&command.limits, first_key, out);
    match &command.kind {
        ReadKind::Partition { key, filter } => {
            encode_value(&key.key, key_length(table), out)?;
            encode_clustering_filter(filter, table, out)
        }
        ReadKind::Range(range) => encode_range(range, table, out),
    }
}

/// Reads what [`encode_command`] writes.
pub fn decode_command(
    reader: &mut Reader,
    schema: &Schema,
    version: Version,
) -> Result<ReceivedRead, CodecError> {
    let kind = reader.u8()?;
    let flags = reader.u8()?;
    let digest = flags & IS_DIGEST != 0;
    if digest {
        reader.unsigned_vint()?;
    }
    let id = TableId(Uuid::from_bytes(reader.array()?));
    let table = Arc::clone(schema.table_by_id(id).ok_or(CodecError::UnknownTable(id))?);
    let now_in_seconds = if version.unsigned_deletion_times {
        from_unsigned(reader.u32()?)
    } else {
        from_signed(reader.i32()?)
    };
    let columns = decode_column_filter(reader, &table)?;
    let row_filter = decode_row_filter(reader, &table)?;
    let limits = decode_limits(reader)?;
    if flags & HAS_INDEX != 0 {
        return Err(CodecError::Invalid(
            "reads through an index are not supported yet",
        ));
    }
    let kind = match kind {
        0 => {
            let key = DecoratedKey::new(decode_value(reader, key_length(&table))?);
            ReadKind::Partition {
                key,
                filter: decode_clustering_filter(reader, &table)?,
            }
        }
        1 => ReadKind::Range(decode_range(reader, &table)?),
        _ => return Err(CodecError::Invalid("unknown kind of read command")),
    };
    let command = ReadCommand {
        table,
        now_in_seconds,
        columns,
        row_filter,
        limits,
        kind,
    };
    Ok(ReceivedRead { command, digest })
}

fn lengths(table: &TableMetadata) -> Vec<Option<usize>> {
    table
        .clustering()
        .iter()
        .map(|column| column.cql_type.fixed_length())
        .collect()
}

/// Only a key of one column can have a fixed length.
fn key_length(table: &TableMetadata) -> Option<usize> {
    match table.partition_key() {
        [column] => column.cql_type.fixed_length(),
        _ => None,
    }
}

/// The columns that a filter fetches, as the header of an answer knows them.
pub fn fetched(filter: &ColumnFilter, table: &TableMetadata) -> ColumnSet {
    match filter {
        ColumnFilter::All { .. } => ColumnSet::all(table),
        ColumnFilter::Selected(ids) => column_set(ids, table),
    }
}

fn column_set(ids: &[ColumnId], table: &TableMetadata) -> ColumnSet {
    let chosen = |columns: &[Column]| {
        columns
            .iter()
            .map(|column| column.id)
            .filter(|id| ids.contains(id))
            .collect()
    };
    ColumnSet {
        statics: chosen(table.static_columns()),
        regulars: chosen(table.regular_columns()),
    }
}

fn encode_columns(set: &ColumnSet, table: &TableMetadata, out: &mut impl BufMut) {
    for ids in [&set.statics, &set.regulars] {
        let names: Vec<&str> = ids
            .iter()
            .filter_map(|id| table.column_by_id(*id))
            .map(|column| column.name.as_str())
            .collect();
        encode_names(names.into_iter(), out);
    }
}

fn decode_columns(reader: &mut Reader, table: &TableMetadata) -> Result<Vec<ColumnId>, CodecError> {
    let mut ids = Vec::new();
    for _ in 0..2 {
        for name in decode_names(reader)? {
            match table.column(&name) {
                Some(column) => ids.push(column.id),
                None if table.dropped_columns.contains_key(&name) => {}
                None => {
                    let table = format!("{}.{}", table.keyspace, table.name);
                    return Err(CodecError::UnknownColumn {
                        table,
                        column: name,
                    });
                }
            }
        }
    }
    Ok(ids)
}

fn encode_column_filter(filter: &ColumnFilter, table: &TableMetadata, out: &mut impl BufMut) {
    match filter {
        ColumnFilter::All { queried } => {
            let all = ColumnSet::all(table);
            let wildcard =
                queried.is_empty() || queried.len() == all.statics.len() + all.regulars.len();
            let flags = FETCH_ALL_REGULARS | FETCH_ALL_STATICS;
            out.put_u8(if wildcard { flags } else { flags | HAS_QUERIED });
            encode_columns(&all, table, out);
            if !wildcard {
                encode_columns(&column_set(queried, table), table, out);
            }
        }
        ColumnFilter::Selected(ids) => {
            out.put_u8(HAS_QUERIED);
            encode_columns(&column_set(ids, table), table, out);
        }
    }
}

fn decode_column_filter(
    reader: &mut Reader,
    table: &TableMetadata,
) -> Result<ColumnFilter, CodecError> {
    let flags = reader.u8()?;
    if flags & HAS_SUB_SELECTIONS != 0 {
        return Err(CodecError::Invalid(
            "selections of single collection elements are not supported yet",
        ));
    }
    let fetched = if flags & FETCH_ALL_REGULARS != 0 {
        Some(decode_columns(reader, table)?)
    } else {
        None
    };
    let queried = if flags & HAS_QUERIED != 0 {
        Some(decode_columns(reader, table)?)
    } else {
        None
    };
    Ok(match (fetched, queried) {
        (Some(fetched), None) => {
            let all = ColumnSet::all(table);
            if fetched.len() == all.statics.len() + all.regulars.len() {
                ColumnFilter::All {
                    queried: Vec::new(),
                }
            } else {
                ColumnFilter::Selected(fetched)
            }
        }
        (Some(fetched), Some(queried)) => {
            if flags & FETCH_ALL_STATICS != 0 || table.static_columns().is_empty() {
                ColumnFilter::All { queried }
            } else {
                ColumnFilter::Selected(fetched)
            }
        }
        (None, queried) => ColumnFilter::Selected(queried.unwrap_or_default()),
    })
}

fn put_short_bytes(bytes: &[u8], out: &mut impl BufMut) -> Result<(), CodecError> {
    let length = u16::try_from(bytes.len())
        .map_err(|_| CodecError::Invalid("a filter value exceeds 65535 bytes"))?;
    out.put_u16(length);
    out.put_slice(bytes);
    Ok(())
}

fn encode_row_filter(
    filter: &RowFilter,
    table: &TableMetadata,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    out.put_u8(0);
    vint::write_unsigned(out, filter.expressions.len() as u64);
    for expression in &filter.expressions {
        out.put_u8(u8::from(expression.map_key.is_some()));
        let column = table
            .column_by_id(expression.column)
            .ok_or(CodecError::Invalid("a filter names a column that is gone"))?;
        put_short_bytes(column.name.as_bytes(), out)?;
        out.put_i32(expression.operator as i32);
        if let Some(key) = &expression.map_key {
            put_short_bytes(key, out)?;
        }
        put_short_bytes(&expression.value, out)?;
    }
    Ok(())
}

fn decode_row_filter(reader: &mut Reader, table: &TableMetadata) -> Result<RowFilter, CodecError> {
    reader.u8()?;
    let count = reader.unsigned_vint()?;
    let mut expressions = Vec::new();
    for _ in 0..count {
        let kind = reader.u8()?;
        if kind > 1 {
            return Err(CodecError::Invalid(
                "custom row filters are not supported yet",
            ));
        }
        let name = reader.short_bytes()?;
        let column = std::str::from_utf8(&name)
            .ok()
            .and_then(|name| table.column(name))
            .ok_or_else(|| CodecError::UnknownColumn {
                table: format!("{}.{}", table.keyspace, table.name),
                column: String::from_utf8_lossy(&name).into_owned(),
            })?;
        let operator = Operator::from_code(reader.i32()?)
            .ok_or(CodecError::Invalid("unknown operator in a filter"))?;
        let map_key = if kind == 1 {
            Some(reader.short_bytes()?)
        } else {
            None
        };
        expressions.push(RowFilterExpression {
            column: column.id,
            operator,
            map_key,
            value: reader.short_bytes()?,
        });
    }
    Ok(RowFilter { expressions })
}

fn put_limit(limit: u32, out: &mut impl BufMut) {
    vint::write_unsigned(out, u64::from(limit.min(NO_LIMIT)));
}

fn get_limit(reader: &mut Reader) -> Result<u32, CodecError> {
    let limit = u32::try_from(reader.unsigned_vint()?).unwrap_or(u32::MAX);
    Ok(if limit >= NO_LIMIT { u32::MAX } else { limit })
}

fn encode_limits(limits: &DataLimits, first_key: Option<&DecoratedKey>, out: &mut impl BufMut) {
    let paging = first_key.filter(|_| limits.first_partition_returned > 0);
    out.put_u8(u8::from(paging.is_some()));
    put_limit(limits.rows, out);
    put_limit(limits.per_partition, out);
    out.put_u8(u8::from(limits.distinct));
    if let Some(key) = paging {
        vint::write_unsigned(out, key.key.len() as u64);
        out.put_slice(&key.key);
        put_limit(
            limits
                .per_partition
                .saturating_sub(limits.first_partition_returned),
            out,
        );
    }
}

fn decode_limits(reader: &mut Reader) -> Result<DataLimits, CodecError> {
    let kind = reader.u8()?;
    if kind > 1 {
        return Err(CodecError::Invalid(
            "GROUP BY counted by replicas is not supported yet",
        ));
    }
    let rows = get_limit(reader)?;
    let per_partition = get_limit(reader)?;
    let distinct = reader.u8()? != 0;
    let mut limits = DataLimits {
        rows,
        per_partition,
        distinct,
        first_partition_returned: 0,
    };
    if kind == 1 {
        reader.vint_bytes()?;
        limits.first_partition_returned = per_partition.saturating_sub(get_limit(reader)?);
    }
    Ok(limits)
}

fn encode_clustering_filter(
    filter: &ClusteringFilter,
    table: &TableMetadata,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let lengths = lengths(table);
    match filter {
        ClusteringFilter::Slices { slices, reversed } => {
            out.put_u8(0);
            out.put_u8(u8::from(*reversed));
            vint::write_unsigned(out, slices.len() as u64);
            for slice in slices {
                encode_bound(&slice.start, &lengths, out)?;
                encode_bound(&slice.end, &lengths, out)?;
            }
        }
        ClusteringFilter::Names {
            clusterings,
            reversed,
        } => {
            out.put_u8(1);
            out.put_u8(u8::from(*reversed));
            vint::write_unsigned(out, clusterings.len() as u64);
            for clustering in clusterings {
                encode_values(&clustering.0, &lengths, out)?;
            }
        }
    }
    Ok(())
}

fn decode_clustering_filter(
    reader: &mut Reader,
    table: &TableMetadata,
) -> Result<ClusteringFilter, CodecError> {
    let lengths = lengths(table);
    let kind = reader.u8()?;
    let reversed = reader.u8()? != 0;
    let count = reader.unsigned_vint()?;
    match kind {
        0 => {
            let mut slices = Vec::new();
            for _ in 0..count {
                slices.push(Slice {
                    start: decode_bound(reader, &lengths)?,
                    end: decode_bound(reader, &lengths)?,
                });
            }
            Ok(ClusteringFilter::Slices { slices, reversed })
        }
        1 => {
            // without clustering columns there is one row, and a name of it takes no bytes
            if lengths.is_empty() && count > 1 {
                return Err(CodecError::Invalid("more names than there can be rows"));
            }
            let mut clusterings = Vec::new();
            for _ in 0..count {
                let values = decode_values(reader, lengths.len(), &lengths)?;
                clusterings.push(Clustering(values));
            }
            Ok(ClusteringFilter::Names {
                clusterings,
                reversed,
            })
        }
        _ => Err(CodecError::Invalid("unknown kind of clustering filter")),
    }
}

const START_INCLUSIVE: u8 = 0x02;
const END_INCLUSIVE: u8 = 0x04;

fn encode_position(position: &PartitionPosition, out: &mut impl BufMut) -> Result<(), CodecError> {
    let (kind, token) = match position {
        PartitionPosition::Key { key, .. } => {
            out.put_u8(0);
            return put_short_bytes(&key.key, out);
        }
        PartitionPosition::MinOf(token) => (1, token),
        PartitionPosition::MaxOf(token) => (2, token),
    };
    out.put_u8(kind);
    out.put_i32(8);
    out.put_i64(token.0);
    Ok(())
}

fn decode_position(reader: &mut Reader, inclusive: bool) -> Result<PartitionPosition, CodecError> {
    let kind = reader.u8()?;
    if kind == 0 {
        return Ok(PartitionPosition::Key {
            key: DecoratedKey::new(reader.short_bytes()?),
            inclusive,
        });
    }
    if reader.i32()? != 8 {
        return Err(CodecError::Invalid(
            "a token is not of the Murmur3 partitioner",
        ));
    }
    let token = Token(reader.i64()?);
    match kind {
        1 => Ok(PartitionPosition::MinOf(token)),
        2 => Ok(PartitionPosition::MaxOf(token)),
        _ => Err(CodecError::Invalid("unknown kind of partition position")),
    }
}

fn encode_range(
    range: &DataRange,
    table: &TableMetadata,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    // no key is at a token bound, so its inclusion says nothing; Cassandra's ranges are (start, end]
    let included = |position: &PartitionPosition, at_bound| match position {
        PartitionPosition::Key { inclusive, .. } => *inclusive,
        _ => at_bound,
    };
    let mut flags = 0;
    if included(&range.start, false) {
        flags |= START_INCLUSIVE;
    }
    if included(&range.end, true) {
        flags |= END_INCLUSIVE;
    }
    out.put_u8(flags);
    encode_position(&range.start, out)?;
    encode_position(&range.end, out)?;
    encode_clustering_filter(&range.filter, table, out)?;
    out.put_u8(u8::from(range.resume_after.is_some()));
    if let Some(resume) = &range.resume_after {
        encode_values(&resume.clustering.0, &lengths(table), out)?;
        out.put_u8(u8::from(resume.inclusive));
    }
    Ok(())
}

fn decode_range(reader: &mut Reader, table: &TableMetadata) -> Result<DataRange, CodecError> {
    let flags = reader.u8()?;
    let start = decode_position(reader, flags & START_INCLUSIVE != 0)?;
    let end = decode_position(reader, flags & END_INCLUSIVE != 0)?;
    let filter = decode_clustering_filter(reader, table)?;
    let resume_after = if reader.u8()? != 0 {
        let lengths = lengths(table);
        let values = decode_values(reader, lengths.len(), &lengths)?;
        Some(ResumeAfter {
            clustering: Clustering(values),
            inclusive: reader.u8()? != 0,
        })
    } else {
        None
    };
    Ok(DataRange {
        start,
        end,
        filter,
        resume_after,
    })
}

/// A replica's answer to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadAnswer {
    /// Partitions in order.
    Data(Vec<Partition>),
    /// The digest of them.
    Digest([u8; 16]),
}

/// Writes an answer to `command`.
pub fn encode_answer(
    answer: &ReadAnswer,
    command: &ReadCommand,
    version: Version,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let partitions = match answer {
        ReadAnswer::Digest(digest) => {
            vint::write_unsigned(out, digest.len() as u64);
            out.put_slice(digest);
            return Ok(());
        }
        ReadAnswer::Data(partitions) => partitions,
    };
    let reversed = match &command.kind {
        ReadKind::Partition { filter, .. } => filter.is_reversed(),
        ReadKind::Range(range) => range.filter.is_reversed(),
    };
    let columns = fetched(&command.columns, &command.table);
    let mut data = vec![0_u8];
    for partition in partitions {
        data.put_u8(1);
        let options = PartitionOptions {
            columns: Some(&columns),
            superset: Some(&columns),
            reversed,
            row_estimate: None,
        };
        partition::encode(partition, &command.table, options, version, &mut data)?;
    }
    data.put_u8(0);
    out.put_slice(&[0, 0, 1]); // no digest; no repaired-data digest; conclusive
    vint::write_unsigned(out, data.len() as u64);
    out.put_slice(&data);
    Ok(())
}

/// Reads an answer to `command`.
pub fn decode_answer(
    reader: &mut Reader,
    command: &ReadCommand,
    version: Version,
) -> Result<ReadAnswer, CodecError> {
    let digest: Bytes = reader.vint_bytes()?;
    if !digest.is_empty() {
        let digest = <[u8; 16]>::try_from(&digest[..])
            .map_err(|_| CodecError::Invalid("a digest is not of 16 bytes"))?;
        return Ok(ReadAnswer::Digest(digest));
    }
    reader.vint_bytes()?;
    reader.u8()?;
    let mut data = Reader::new(reader.vint_bytes()?);
    let columns = fetched(&command.columns, &command.table);
    data.u8()?;
    let mut partitions = Vec::new();
    while data.u8()? != 0 {
        partitions
            .push(partition::decode(&mut data, &command.table, Some(&columns), version)?.partition);
    }
    Ok(ReadAnswer::Data(partitions))
}
