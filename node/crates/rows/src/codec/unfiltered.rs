//! Rows, static rows and range tombstone markers as bytes.

use super::CodecError;
use super::clustering::{
    decode_bound, decode_value, decode_values, encode_bound, encode_value, encode_values,
};
use super::columns::{decode_subset, encode_subset};
use super::header::{HeaderColumn, SerializationHeader};
use super::stats::vint32;
use crate::cell::{Cell, ColumnData, ComplexData};
use crate::clustering::Clustering;
use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL};
use crate::partition::{RangeTombstoneMarker, Unfiltered};
use crate::row::Row;
use bytes::{BufMut, Bytes};
use helenus_types::{Reader, vint};

const END_OF_PARTITION: u8 = 0x01;
const IS_MARKER: u8 = 0x02;
const HAS_TIMESTAMP: u8 = 0x04;
const HAS_TTL: u8 = 0x08;
const HAS_DELETION: u8 = 0x10;
const HAS_ALL_COLUMNS: u8 = 0x20;
const HAS_COMPLEX_DELETION: u8 = 0x40;
const EXTENSION: u8 = 0x80;
const EXTENDED_STATIC: u8 = 0x01;

const CELL_DELETED: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;
const CELL_EMPTY_VALUE: u8 = 0x04;
const CELL_ROW_TIMESTAMP: u8 = 0x08;
const CELL_ROW_TTL: u8 = 0x10;

/// Writes a row or marker. `previous_size` is the encoded size of the one before it in the
/// partition (SSTables only; 0 for the first).
pub fn encode(
    unfiltered: &Unfiltered,
    header: &SerializationHeader,
    previous_size: u64,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    match unfiltered {
        Unfiltered::Row(row) => encode_row(row, false, header, previous_size, out),
        Unfiltered::Marker(marker) => encode_marker(marker, header, previous_size, out),
    }
}

/// Writes a static row.
pub fn encode_static(
    row: &Row,
    header: &SerializationHeader,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    encode_row(row, true, header, 0, out)
}

/// Writes what stands after a partition's last row or marker.
pub fn encode_end(out: &mut impl BufMut) {
    out.put_u8(END_OF_PARTITION);
}

/// Puts the body behind its size where the format wants sizes.
fn put_body(body: &[u8], header: &SerializationHeader, previous_size: u64, out: &mut impl BufMut) {
    if header.version.sstable {
        vint::write_unsigned(
            out,
            (body.len() + vint::unsigned_size(previous_size)) as u64,
        );
        vint::write_unsigned(out, previous_size);
    }
    out.put_slice(body);
}

fn encode_marker(
    marker: &RangeTombstoneMarker,
    header: &SerializationHeader,
    previous_size: u64,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let kind = marker.bound.kind;
    if (kind.is_end(), kind.is_start()) != (marker.end.is_some(), marker.start.is_some()) {
        return Err(CodecError::Invalid(
            "a marker's deletions do not fit its kind",
        ));
    }
    out.put_u8(IS_MARKER);
    encode_bound(&marker.bound, &header.clustering_lengths, out)?;
    let mut body = Vec::with_capacity(36);
    for deletion in marker.end.iter().chain(&marker.start) {
        header.put_deletion(*deletion, &mut body);
    }
    put_body(&body, header, previous_size, out);
    Ok(())
}

fn encode_row(
    row: &Row,
    is_static: bool,
    header: &SerializationHeader,
    previous_size: u64,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let columns = header.columns(is_static);
    let present: Vec<(usize, &ColumnData)> = columns
        .iter()
        .enumerate()
        .filter_map(|(at, column)| {
            column
                .id
                .and_then(|id| row.column(id))
                .map(|data| (at, data))
        })
        .collect();
    if present.len() != row.columns.len() {
        return Err(CodecError::Invalid(
            "a row has a column that its header has not",
        ));
    }
    let complex_deletion = row.columns.iter().any(
        |(_, data)| matches!(data, ColumnData::Complex(complex) if !complex.deletion.is_live()),
    );
    let mut flags = 0;
    for (condition, flag) in [
        (!row.liveness.is_empty(), HAS_TIMESTAMP),
        (row.liveness.is_expiring(), HAS_TTL),
        (!row.deletion.is_live(), HAS_DELETION),
        (complex_deletion, HAS_COMPLEX_DELETION),
        (present.len() == columns.len(), HAS_ALL_COLUMNS),
        (is_static, EXTENSION),
    ] {
        if condition {
            flags |= flag;
        }
    }
    out.put_u8(flags);
    if is_static {
        out.put_u8(EXTENDED_STATIC);
    } else {
        if row.clustering.0.len() != header.clustering_lengths.len() {
            return Err(CodecError::Invalid(
                "a row has another count of clustering values than its table",
            ));
        }
        encode_values(&row.clustering.0, &header.clustering_lengths, out)?;
    }
    if header.version.sstable {
        let mut body = Vec::with_capacity(64);
        encode_body(row, flags, &present, columns, header, &mut body)?;
        put_body(&body, header, previous_size, out);
        return Ok(());
    }
    encode_body(row, flags, &present, columns, header, out)
}

fn encode_body(
    row: &Row,
    flags: u8,
    present: &[(usize, &ColumnData)],
    columns: &[HeaderColumn],
    header: &SerializationHeader,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let liveness = &row.liveness;
    if flags & HAS_TIMESTAMP != 0 {
        header.put_timestamp(liveness.timestamp, out);
    }
    if flags & HAS_TTL != 0 {
        header.put_ttl(liveness.ttl, out);
        header.put_seconds(liveness.local_expiration_time, out);
    }
    if flags & HAS_DELETION != 0 {
        header.put_deletion(row.deletion, out);
    }
    if flags & HAS_ALL_COLUMNS == 0 {
        let indexes: Vec<usize> = present.iter().map(|(at, _)| *at).collect();
        encode_subset(&indexes, columns.len(), out);
    }
    for (at, data) in present {
        let column = &columns[*at];
        match data {
            ColumnData::Simple(cell) if !column.multi_cell => {
                encode_cell(cell, column, liveness, header, out)?;
            }
            ColumnData::Complex(complex) if column.multi_cell => {
                if flags & HAS_COMPLEX_DELETION != 0 {
                    header.put_deletion(complex.deletion, out);
                }
                vint::write_unsigned(out, complex.cells.len() as u64);
                for cell in &complex.cells {
                    encode_cell(cell, column, liveness, header, out)?;
                }
            }
            _ => {
                return Err(CodecError::Invalid(
                    "a column's data does not have the form of its type",
                ));
            }
        }
    }
    Ok(())
}

fn encode_cell(
    cell: &Cell,
    column: &HeaderColumn,
    row: &LivenessInfo,
    header: &SerializationHeader,
    out: &mut impl BufMut,
) -> Result<(), CodecError> {
    let deleted = cell.is_tombstone();
    let expiring = cell.is_expiring();
    let row_timestamp = !row.is_empty() && cell.timestamp == row.timestamp;
    let row_ttl = expiring
        && row.is_expiring()
        && cell.ttl == row.ttl
        && cell.local_deletion_time == row.local_expiration_time;
    let mut flags = 0;
    for (condition, flag) in [
        (cell.value.is_empty(), CELL_EMPTY_VALUE),
        (deleted, CELL_DELETED),
        (expiring && !deleted, CELL_EXPIRING),
        (row_timestamp, CELL_ROW_TIMESTAMP),
        (row_ttl, CELL_ROW_TTL),
    ] {
        if condition {
            flags |= flag;
        }
    }
    out.put_u8(flags);
    if !row_timestamp {
        header.put_timestamp(cell.timestamp, out);
    }
    if (deleted || expiring) && !row_ttl {
        header.put_seconds(cell.local_deletion_time, out);
    }
    if expiring && !row_ttl {
        header.put_ttl(cell.ttl, out);
    }
    if column.multi_cell {
        let path = cell.path.as_ref().ok_or(CodecError::Invalid(
            "a cell of a multi-cell column has no path",
        ))?;
        encode_value(path, None, out)?;
    }
    if !cell.value.is_empty() {
        encode_value(&cell.value, column.fixed_length_of_cell(), out)?;
    }
    Ok(())
}

impl HeaderColumn {
    /// Fixed length of a cell's value; a multi-cell type itself has none, and its elements are
    /// written behind lengths.
    fn fixed_length_of_cell(&self) -> Option<usize> {
        if self.multi_cell {
            None
        } else {
            self.fixed_length
        }
    }
}

/// Reads the next row or marker; `None` at the end of the partition. Rows of which nothing is left
/// after dropped columns are passed over.
pub fn decode(
    reader: &mut Reader,
    header: &SerializationHeader,
) -> Result<Option<Unfiltered>, CodecError> {
    loop {
        match decode_one(reader, header)? {
            Some(Unfiltered::Row(row)) if row.is_empty() => {}
            other => return Ok(other),
        }
    }
}

/// Reads exactly one row or marker, an empty row too; `None` at the end of the partition.
pub fn decode_one(
    reader: &mut Reader,
    header: &SerializationHeader,
) -> Result<Option<Unfiltered>, CodecError> {
    let flags = reader.u8()?;
    if flags & END_OF_PARTITION != 0 {
        return Ok(None);
    }
    let extended = if flags & EXTENSION != 0 {
        reader.u8()?
    } else {
        0
    };
    if flags & IS_MARKER != 0 {
        return decode_marker(reader, header).map(|marker| Some(Unfiltered::Marker(marker)));
    }
    if extended & EXTENDED_STATIC != 0 {
        return Err(CodecError::Invalid("a static row stands among rows"));
    }
    let lengths = &header.clustering_lengths;
    let clustering = Clustering(decode_values(reader, lengths.len(), lengths)?);
    decode_sized_row(reader, header, flags, clustering, false).map(|row| Some(Unfiltered::Row(row)))
}

/// Reads a static row.
pub fn decode_static(reader: &mut Reader, header: &SerializationHeader) -> Result<Row, CodecError> {
    let flags = reader.u8()?;
    if flags & (END_OF_PARTITION | IS_MARKER) != 0 || flags & EXTENSION == 0 {
        return Err(CodecError::Invalid("a static row is expected"));
    }
    if reader.u8()? & EXTENDED_STATIC == 0 {
        return Err(CodecError::Invalid("a static row is expected"));
    }
    decode_sized_row(reader, header, flags, Clustering::default(), true)
}

/// Passes over the sizes of an SSTable's row or marker; the body's length.
fn decode_sizes(reader: &mut Reader) -> Result<usize, CodecError> {
    let size = reader.vint_length()?;
    let start = reader.position();
    reader.unsigned_vint()?;
    size.checked_sub(reader.position() - start)
        .ok_or(CodecError::Invalid("a row is smaller than its own header"))
}

fn decode_marker(
    reader: &mut Reader,
    header: &SerializationHeader,
) -> Result<RangeTombstoneMarker, CodecError> {
    let bound = decode_bound(reader, &header.clustering_lengths)?;
    if header.version.sstable {
        decode_sizes(reader)?;
    }
    let kind = bound.kind;
    let end = if kind.is_end() {
        Some(header.deletion(reader)?)
    } else {
        None
    };
    let start = if kind.is_start() {
        Some(header.deletion(reader)?)
    } else {
        None
    };
    Ok(RangeTombstoneMarker { bound, end, start })
}

fn decode_sized_row(
    reader: &mut Reader,
    header: &SerializationHeader,
    flags: u8,
    clustering: Clustering,
    is_static: bool,
) -> Result<Row, CodecError> {
    if !header.version.sstable {
        return decode_body(reader, header, flags, clustering, is_static);
    }
    let length = decode_sizes(reader)?;
    let mut body = Reader::new(reader.bytes(length)?);
    // A length that lies is no reason to ask for more input.
    let row =
        decode_body(&mut body, header, flags, clustering, is_static).map_err(
            |error| match error {
                CodecError::Truncated(_) => CodecError::Invalid("a row is longer than its size"),
                other => other,
            },
        )?;
    if !body.is_empty() {
        return Err(CodecError::Invalid("a row is shorter than its size"));
    }
    Ok(row)
}

fn decode_body(
    reader: &mut Reader,
    header: &SerializationHeader,
    flags: u8,
    clustering: Clustering,
    is_static: bool,
) -> Result<Row, CodecError> {
    let columns = header.columns(is_static);
    let mut liveness = LivenessInfo::EMPTY;
    if flags & HAS_TIMESTAMP != 0 {
        liveness.timestamp = header.timestamp(reader)?;
        if flags & HAS_TTL != 0 {
            liveness.ttl = header.ttl(reader)?;
            let seconds = header.seconds(reader)?;
            liveness.local_expiration_time = header.expiration(seconds, liveness.ttl);
            if !liveness.is_expiring() {
                liveness.local_expiration_time = NO_DELETION_TIME;
            }
        }
    }
    let deletion = if flags & HAS_DELETION != 0 {
        header.deletion(reader)?
    } else {
        DeletionTime::LIVE
    };
    let present = if flags & HAS_ALL_COLUMNS == 0 {
        decode_subset(reader, columns.len())?
    } else {
        (0..columns.len()).collect()
    };
    let mut row = Row {
        clustering,
        liveness,
        deletion,
        columns: Vec::with_capacity(present.len()),
    };
    for at in present {
        let column = columns
            .get(at)
            .ok_or(CodecError::Invalid("a column index is out of range"))?;
        let data = if column.multi_cell {
            decode_complex(
                reader,
                column,
                flags & HAS_COMPLEX_DELETION != 0,
                &liveness,
                header,
            )?
        } else {
            let cell = decode_cell(reader, column, &liveness, header)?;
            (cell.timestamp > column.dropped_time || column.dropped_time == i64::MIN)
                .then_some(ColumnData::Simple(cell))
        };
        if let (Some(id), Some(data)) = (column.id, data) {
            row.columns.push((id, data));
        }
    }
    if !row.columns.is_sorted_by_key(|entry| entry.0) {
        row.columns.sort_by_key(|entry| entry.0);
    }
    if row.columns.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(CodecError::Invalid("a row has a column twice"));
    }
    Ok(row)
}

fn decode_complex(
    reader: &mut Reader,
    column: &HeaderColumn,
    has_deletion: bool,
    liveness: &LivenessInfo,
    header: &SerializationHeader,
) -> Result<Option<ColumnData>, CodecError> {
    let kept = |timestamp: i64| timestamp > column.dropped_time || column.dropped_time == i64::MIN;
    let mut complex = ComplexData::default();
    if has_deletion {
        let deletion = header.deletion(reader)?;
        if kept(deletion.marked_for_delete_at) {
            complex.deletion = deletion;
        }
    }
    let count = vint32(reader)?;
    for _ in 0..count {
        let cell = decode_cell(reader, column, liveness, header)?;
        if kept(cell.timestamp) && column.id.is_some() {
            complex.cells.push(cell);
        }
    }
    let empty = complex.cells.is_empty() && complex.deletion.is_live();
    Ok((!empty).then_some(ColumnData::Complex(complex)))
}

fn decode_cell(
    reader: &mut Reader,
    column: &HeaderColumn,
    row: &LivenessInfo,
    header: &SerializationHeader,
) -> Result<Cell, CodecError> {
    let flags = reader.u8()?;
    let deleted = flags & CELL_DELETED != 0;
    let expiring = flags & CELL_EXPIRING != 0;
    let timestamp = if flags & CELL_ROW_TIMESTAMP != 0 {
        row.timestamp
    } else {
        header.timestamp(reader)?
    };
    let row_ttl = flags & CELL_ROW_TTL != 0;
    let seconds = if row_ttl {
        row.local_expiration_time
    } else if deleted || expiring {
        header.seconds(reader)?
    } else {
        NO_DELETION_TIME
    };
    let ttl = if row_ttl {
        row.ttl
    } else if expiring {
        header.ttl(reader)?
    } else {
        NO_TTL
    };
    let path = if column.multi_cell {
        Some(decode_value(reader, None)?)
    } else {
        None
    };
    let value = if flags & CELL_EMPTY_VALUE != 0 {
        Bytes::new()
    } else {
        decode_value(reader, column.fixed_length_of_cell())?
    };
    let local_deletion_time = if row_ttl || seconds == NO_DELETION_TIME {
        seconds
    } else {
        header.expiration(seconds, ttl)
    };
    Ok(Cell {
        timestamp,
        ttl,
        local_deletion_time,
        path,
        value,
    })
}
