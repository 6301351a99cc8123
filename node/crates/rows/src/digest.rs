//! The MD5 digest by which replicas compare what they hold without sending it. Every byte follows
//! Cassandra 5.0 (`UnfilteredRowIterators.digest` and what it calls), so that a mixed ring agrees.

use crate::cell::{Cell, ColumnData};
use crate::clustering::PrefixKind;
use crate::command::{ColumnFilter, ReadCommand, ReadKind};
use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME};
use crate::partition::{Partition, Unfiltered};
use crate::row::Row;
use bytes::Bytes;
use helenus_schema::{Column, ColumnId, TableMetadata};
use md5::{Digest as _, Md5};

/// The digest of a replica's answer to a read.
pub fn of_response(command: &ReadCommand, partitions: &[Partition]) -> [u8; 16] {
    let reversed = match &command.kind {
        ReadKind::Partition { filter, .. } => filter.is_reversed(),
        ReadKind::Range(range) => range.filter.is_reversed(),
    };
    let mut digest = Digest(Md5::new());
    for partition in partitions.iter().filter(|partition| !partition.is_empty()) {
        digest.partition(&command.table, &command.columns, partition, reversed);
    }
    digest.0.finalize().into()
}

struct Digest(Md5);

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Cassandra writes 0 for true.
    fn boolean(&mut self, value: bool) {
        self.bytes(&[u8::from(!value)]);
    }

    fn partition(
        &mut self,
        table: &TableMetadata,
        columns: &ColumnFilter,
        partition: &Partition,
        reversed: bool,
    ) {
        self.bytes(&partition.key.key);
        self.deletion(partition.deletion);
        self.names(table.regular_columns(), columns);
        if !partition.static_row.is_empty() {
            self.names(table.static_columns(), columns);
        }
        self.boolean(reversed);
        self.row(table, &partition.static_row, PrefixKind::Static);
        for unfiltered in &partition.unfiltereds {
            match unfiltered {
                Unfiltered::Row(row) => self.row(table, row, PrefixKind::Clustering),
                Unfiltered::Marker(marker) => {
                    self.prefix(marker.bound.kind, &marker.bound.values);
                    marker
                        .end
                        .into_iter()
                        .chain(marker.start)
                        .for_each(|deletion| self.deletion(deletion));
                }
            }
        }
    }

    fn names(&mut self, columns: &[Column], filter: &ColumnFilter) {
        for column in columns.iter().filter(|column| filter.fetches(column.id)) {
            self.bytes(column.name.as_bytes());
        }
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        self.bytes(&deletion.marked_for_delete_at.to_be_bytes());
    }

    fn prefix(&mut self, kind: PrefixKind, values: &[Option<Bytes>]) {
        values.iter().flatten().for_each(|value| self.bytes(value));
        self.bytes(&[kind.ordinal()]);
    }

    fn row(&mut self, table: &TableMetadata, row: &Row, kind: PrefixKind) {
        self.bytes(&[0]); // Unfiltered.Kind.ROW
        self.prefix(kind, &row.clustering.0);
        self.deletion(row.deletion);
        self.boolean(false); // no row deletion of ours is shadowable
        self.liveness(row.liveness);
        for column in in_order(table, row) {
            let Some(data) = row.column(column) else {
                continue;
            };
            if let ColumnData::Complex(complex) = data
                && !complex.deletion.is_live()
            {
                self.deletion(complex.deletion);
            }
            data.cells()
                .iter()
                .for_each(|cell| self.cell(cell, table.is_counter()));
        }
    }

    fn liveness(&mut self, liveness: LivenessInfo) {
        self.bytes(&liveness.timestamp.to_be_bytes());
        if liveness.is_expiring() {
            let expiration = if liveness.local_expiration_time == NO_DELETION_TIME {
                u32::MAX
            } else {
                u32::try_from(liveness.local_expiration_time).unwrap_or(u32::MAX)
            };
            self.bytes(&expiration.to_be_bytes());
            self.bytes(&liveness.ttl.to_be_bytes());
        }
    }

    fn cell(&mut self, cell: &Cell, counter: bool) {
        if counter && !cell.is_tombstone() {
            self.bytes(counter_shards(&cell.value));
        } else {
            self.bytes(&cell.value);
        }
        self.bytes(&cell.timestamp.to_be_bytes());
        self.bytes(&cell.ttl.to_be_bytes());
        self.boolean(counter && !cell.is_tombstone());
        if let Some(path) = &cell.path {
            self.bytes(path);
        }
    }
}

/// A counter context without its header, which has a meaning on one node only.
fn counter_shards(context: &[u8]) -> &[u8] {
    let Some(count) = context
        .first_chunk::<2>()
        .map(|bytes| i16::from_be_bytes(*bytes))
    else {
        return context;
    };
    let header = 2 + 2 * usize::from(count.unsigned_abs());
    context.get(header..).unwrap_or(&[])
}

fn in_order<'a>(table: &'a TableMetadata, row: &'a Row) -> impl Iterator<Item = ColumnId> + 'a {
    let columns = table.static_columns().iter().chain(table.regular_columns());
    columns
        .map(|column| column.id)
        .filter(|id| row.column(*id).is_some())
}
