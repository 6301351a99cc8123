//! A whole partition as messages and the commit log carry it.

use super::columns::ColumnSet;
use super::header::SerializationHeader;
use super::stats::EncodingStats;
use super::{CodecError, Version, unfiltered};
use crate::deletion::DeletionTime;
use crate::partition::{Partition, PartitionUpdate};
use crate::row::Row;
use bytes::BufMut;
use helenus_schema::{Schema, TableId, TableMetadata};
use helenus_types::{DecoratedKey, Reader, vint};
use std::sync::Arc;
use uuid::Uuid;

const IS_EMPTY: u8 = 0x01;
const IS_REVERSED: u8 = 0x02;
const HAS_PARTITION_DELETION: u8 = 0x04;
const HAS_STATIC_ROW: u8 = 0x08;
const HAS_ROW_ESTIMATE: u8 = 0x10;

/// How a partition is written where the message decides.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartitionOptions<'a> {
    /// Columns of the header; `None`: those that the partition has data of.
    pub columns: Option<&'a ColumnSet>,
    /// What the read command fetches: the header's columns are written as a subset of it.
    pub superset: Option<&'a ColumnSet>,
    /// Rows stand in reverse clustering order.
    pub reversed: bool,
    /// Count of rows, where the form has it (partition updates).
    pub row_estimate: Option<u32>,
}

/// A partition that was read, and what its message said beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedPartition {
    /// The partition.
    pub partition: Partition,
    /// Columns of its header; none when the partition is empty.
    pub columns: ColumnSet,
    /// Rows stand in reverse clustering order.
    pub reversed: bool,
}

/// Writes a partition in Cassandra's `UnfilteredRowIteratorSerializer` form.
pub fn encode(
    partition: &Partition,
    table: &TableMetadata,
    options: PartitionOptions<'_>,
    version: Version,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    vint::write_unsigned(out, partition.key.key.len() as u64);
    out.put_slice(&partition.key.key);
    let mut flags = if options.reversed { IS_REVERSED } else { 0 };
    if partition.is_empty() {
        out.put_u8(flags | IS_EMPTY);
        return Ok(());
    }
    let has_static = !partition.static_row.is_empty();
    for (condition, flag) in [
        (!partition.deletion.is_live(), HAS_PARTITION_DELETION),
        (has_static, HAS_STATIC_ROW),
        (options.row_estimate.is_some(), HAS_ROW_ESTIMATE),
    ] {
        if condition {
            flags |= flag;
        }
    }
    out.put_u8(flags);
    let own;
    let columns = if let Some(columns) = options.columns {
        columns
    } else {
        own = ColumnSet::of_partition(partition, table);
        &own
    };
    let header = SerializationHeader::new(
        table,
        columns,
        EncodingStats::of_partition(partition),
        version,
    )?;
    header.encode_for_message(table, options.superset, has_static, out)?;
    if !partition.deletion.is_live() {
        header.put_deletion(partition.deletion, out);
    }
    if has_static {
        unfiltered::encode_static(&partition.static_row, &header, out)?;
    }
    if let Some(estimate) = options.row_estimate {
        vint::write_unsigned(out, u64::from(estimate));
    }
    for one in &partition.unfiltereds {
        unfiltered::encode(one, &header, 0, out)?;
    }
    unfiltered::encode_end(out);
    Ok(())
}

/// Reads what [`encode`] writes; `superset` as it was given there.
pub fn decode(
    reader: &mut Reader,
    table: &TableMetadata,
    superset: Option<&ColumnSet>,
    version: Version,
) -> Result<DecodedPartition, CodecError> {
    let key = DecoratedKey::new(reader.vint_bytes()?);
    let flags = reader.u8()?;
    let reversed = flags & IS_REVERSED != 0;
    let mut partition = Partition::new(key);
    if flags & IS_EMPTY != 0 {
        return Ok(DecodedPartition {
            partition,
            columns: ColumnSet::default(),
            reversed,
        });
    }
    let has_static = flags & HAS_STATIC_ROW != 0;
    let header =
        SerializationHeader::decode_for_message(reader, table, superset, has_static, version)?;
    partition.deletion = if flags & HAS_PARTITION_DELETION != 0 {
        header.deletion(reader)?
    } else {
        DeletionTime::LIVE
    };
    partition.static_row = if has_static {
        unfiltered::decode_static(reader, &header)?
    } else {
        Row::default()
    };
    if flags & HAS_ROW_ESTIMATE != 0 {
        reader.unsigned_vint()?;
    }
    while let Some(one) = unfiltered::decode(reader, &header)? {
        partition.unfiltereds.push(one);
    }
    let ids = |is_static| {
        header
            .columns(is_static)
            .iter()
            .filter_map(|column| column.id)
            .collect()
    };
    let columns = ColumnSet {
        statics: ids(true),
        regulars: ids(false),
    };
    Ok(DecodedPartition {
        partition,
        columns,
        reversed,
    })
}

/// Writes an update: the table's id, then the partition with its count of rows.
pub fn encode_update(
    update: &PartitionUpdate,
    version: Version,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    out.put_slice(update.table.id.0.as_bytes());
    let rows = u32::try_from(update.partition.rows().count()).unwrap_or(u32::MAX >> 1);
    let options = PartitionOptions {
        row_estimate: Some(rows),
        ..PartitionOptions::default()
    };
    encode(&update.partition, &update.table, options, version, out)
}

/// Reads what [`encode_update`] writes.
pub fn decode_update(
    reader: &mut Reader,
    schema: &Schema,
    version: Version,
) -> Result<PartitionUpdate, CodecError> {
    let id = TableId(Uuid::from_bytes(reader.array()?));
    let table = schema.table_by_id(id).ok_or(CodecError::UnknownTable(id))?;
    let decoded = decode(reader, table, None, version)?;
    if decoded.reversed {
        return Err(CodecError::Invalid("an update is in reverse order"));
    }
    Ok(PartitionUpdate {
        table: Arc::clone(table),
        partition: decoded.partition,
    })
}
