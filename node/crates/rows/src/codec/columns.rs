//! Sets of columns, by name and as subsets of a larger set.

use super::CodecError;
use crate::partition::{Partition, Unfiltered};
use crate::row::Row;
use bytes::BufMut;
use helenus_schema::{Column, ColumnId, TableMetadata};
use helenus_types::{Reader, vint};

/// Up to how many columns (exclusive) a subset is a bitmap.
const BITMAP_LIMIT: usize = 64;

/// Static and regular columns, each in Cassandra's order (C3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnSet {
    /// Static columns.
    pub statics: Vec<ColumnId>,
    /// Regular columns.
    pub regulars: Vec<ColumnId>,
}

impl ColumnSet {
    /// Every column of the table.
    pub fn all(table: &TableMetadata) -> Self {
        let ids = |columns: &[Column]| columns.iter().map(|column| column.id).collect();
        Self {
            statics: ids(table.static_columns()),
            regulars: ids(table.regular_columns()),
        }
    }

    /// The columns that a partition has data of.
    pub fn of_partition(partition: &Partition, table: &TableMetadata) -> Self {
        let rows = partition.unfiltereds.iter().filter_map(Unfiltered::as_row);
        Self {
            statics: present(
                std::iter::once(&partition.static_row),
                table.static_columns(),
            ),
            regulars: present(rows, table.regular_columns()),
        }
    }
}

fn present<'a>(rows: impl Iterator<Item = &'a Row>, columns: &[Column]) -> Vec<ColumnId> {
    let mut found: Vec<ColumnId> = Vec::new();
    for row in rows {
        for (id, _) in &row.columns {
            if let Err(at) = found.binary_search(id) {
                found.insert(at, *id);
            }
        }
    }
    columns
        .iter()
        .map(|column| column.id)
        .filter(|id| found.binary_search(id).is_ok())
        .collect()
}

/// Writes which of `count` columns are there; `present` ascends.
pub fn encode_subset(present: &[usize], count: usize, out: &mut impl BufMut) {
    if present.len() == count {
        vint::write_unsigned(out, 0);
    } else if count < BITMAP_LIMIT {
        let all = (1_u64 << count) - 1;
        let bits = present.iter().fold(0_u64, |bits, at| bits | (1 << at));
        vint::write_unsigned(out, all & !bits);
    } else {
        vint::write_unsigned(out, (count - present.len()) as u64);
        if present.len() < count / 2 {
            for at in present {
                vint::write_unsigned(out, *at as u64);
            }
        } else {
            let mut next = present.iter().peekable();
            for at in 0..count {
                if next.next_if_eq(&&at).is_none() {
                    vint::write_unsigned(out, at as u64);
                }
            }
        }
    }
}

/// Reads which of `count` columns are there, ascending.
pub fn decode_subset(reader: &mut Reader, count: usize) -> Result<Vec<usize>, CodecError> {
    let encoded = reader.unsigned_vint()?;
    if encoded == 0 {
        return Ok((0..count).collect());
    }
    if count < BITMAP_LIMIT {
        if encoded >> count != 0 {
            return Err(CodecError::Invalid("a bitmap of columns has too many bits"));
        }
        return Ok((0..count).filter(|at| encoded & (1 << at) == 0).collect());
    }
    let missing = usize::try_from(encoded).unwrap_or(usize::MAX);
    let Some(present) = count.checked_sub(missing) else {
        return Err(CodecError::Invalid(
            "more columns are missing than there are",
        ));
    };
    let listed = if present < count / 2 {
        present
    } else {
        missing
    };
    let mut indexes: Vec<usize> = Vec::with_capacity(listed);
    for _ in 0..listed {
        let at = usize::try_from(reader.unsigned_vint()?).unwrap_or(usize::MAX);
        if at >= count || indexes.last().is_some_and(|last| *last >= at) {
            return Err(CodecError::Invalid("a list of columns does not ascend"));
        }
        indexes.push(at);
    }
    if present < count / 2 {
        return Ok(indexes);
    }
    let mut skip = indexes.into_iter().peekable();
    Ok((0..count)
        .filter(|at| skip.next_if_eq(at).is_none())
        .collect())
}

/// Writes `columns` as names.
pub fn encode_names<'a>(columns: impl ExactSizeIterator<Item = &'a str>, out: &mut impl BufMut) {
    vint::write_unsigned(out, columns.len() as u64);
    for name in columns {
        vint::write_unsigned(out, name.len() as u64);
        out.put_slice(name.as_bytes());
    }
}

/// Reads names; not more than the input could hold.
pub fn decode_names(reader: &mut Reader) -> Result<Vec<String>, CodecError> {
    let count = reader.vint_length()?;
    let mut names = Vec::new();
    for _ in 0..count {
        let bytes = reader.vint_bytes()?;
        let name = std::str::from_utf8(&bytes)
            .map_err(|_| CodecError::Invalid("a column name is not UTF-8"))?;
        names.push(name.to_owned());
    }
    Ok(names)
}
