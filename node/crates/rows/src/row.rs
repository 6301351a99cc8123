//! Rows.

use crate::cell::{Cell, ColumnData, ComplexData};
use crate::clustering::Clustering;
use crate::deletion::{DeletionTime, LivenessInfo};
use helenus_schema::{ColumnId, TableMetadata};
use helenus_types::NowInSeconds;
use std::cmp::Ordering;

/// A row, or the static row (whose clustering is empty).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Row {
    /// Where it stands in its partition.
    pub clustering: Clustering,
    /// Liveness of its primary key.
    pub liveness: LivenessInfo,
    /// Deletes everything older in the row.
    pub deletion: DeletionTime,
    /// Data by column, ascending by id (R1).
    pub columns: Vec<(ColumnId, ColumnData)>,
}

impl Row {
    /// An empty row at this clustering.
    pub fn new(clustering: Clustering) -> Self {
        Self {
            clustering,
            ..Self::default()
        }
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.liveness.is_empty() && self.deletion.is_live() && self.columns.is_empty()
    }

    /// The data of a column.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnData> {
        self.columns
            .binary_search_by_key(&id, |entry| entry.0)
            .ok()
            .map(|at| &self.columns[at].1)
    }

    /// The live cell of a single-cell column at `now`.
    pub fn live_cell(&self, id: ColumnId, now: NowInSeconds) -> Option<&Cell> {
        match self.column(id)? {
            ColumnData::Simple(cell) if cell.is_live(now) => Some(cell),
            _ => None,
        }
    }

    /// Whether a query at `now` sees the row: its key lives or any cell does.
    pub fn is_live(&self, now: NowInSeconds) -> bool {
        self.liveness.is_live(now) || self.columns.iter().any(|(_, data)| data.has_live(now))
    }

    /// Adds a cell, reconciling it with one already there.
    pub fn add_cell(&mut self, table: &TableMetadata, id: ColumnId, cell: Cell) {
        let data = if cell.path.is_some() {
            ColumnData::Complex(ComplexData {
                deletion: DeletionTime::LIVE,
                cells: vec![cell],
            })
        } else {
            ColumnData::Simple(cell)
        };
        self.add_data(table, id, data);
    }

    /// Adds a deletion of a whole multi-cell column.
    pub fn add_complex_deletion(
        &mut self,
        table: &TableMetadata,
        id: ColumnId,
        deletion: DeletionTime,
    ) {
        self.add_data(
            table,
            id,
            ColumnData::Complex(ComplexData {
                deletion,
                cells: Vec::new(),
            }),
        );
    }

    fn add_data(&mut self, table: &TableMetadata, id: ColumnId, data: ColumnData) {
        match self.columns.binary_search_by_key(&id, |entry| entry.0) {
            Err(at) => self.columns.insert(at, (id, data)),
            Ok(at) => {
                let present = std::mem::replace(
                    &mut self.columns[at].1,
                    ColumnData::Complex(ComplexData::default()),
                );
                self.columns[at].1 = merge_data(table, id, present, data);
            }
        }
    }

    /// Merges another row of the same clustering into this one (R3).
    pub fn merge(&mut self, other: Self, table: &TableMetadata) {
        self.deletion = self.deletion.max(other.deletion);
        if other.liveness.supersedes(&self.liveness) {
            self.liveness = other.liveness;
        }
        let mine = std::mem::take(&mut self.columns);
        self.columns = merge_columns(mine, other.columns, table);
        self.drop_deleted(self.deletion);
    }

    /// Drops what the deletion of an enclosing range or partition deletes: cells, liveness, and a
    /// row deletion that does not supersede it.
    pub fn shadow(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() && !self.deletion.supersedes(&deletion) {
            self.deletion = DeletionTime::LIVE;
            self.drop_deleted(deletion);
        }
    }

    fn drop_deleted(&mut self, deletion: DeletionTime) {
        if deletion.is_live() {
            return;
        }
        if deletion.deletes(self.liveness.timestamp) {
            self.liveness = LivenessInfo::EMPTY;
        }
        self.columns.retain_mut(|(_, data)| match data {
            ColumnData::Simple(cell) => !deletion.deletes(cell.timestamp),
            ColumnData::Complex(complex) => {
                if !complex.deletion.supersedes(&deletion) {
                    complex.deletion = DeletionTime::LIVE;
                }
                complex
                    .cells
                    .retain(|cell| !deletion.deletes(cell.timestamp));
                !complex.cells.is_empty() || !complex.deletion.is_live()
            }
        });
    }
}

fn merge_columns(
    mine: Vec<(ColumnId, ColumnData)>,
    theirs: Vec<(ColumnId, ColumnData)>,
    table: &TableMetadata,
) -> Vec<(ColumnId, ColumnData)> {
    if mine.is_empty() {
        return theirs;
    }
    let mut merged = Vec::with_capacity(mine.len().max(theirs.len()));
    let (mut left, mut right) = (mine.into_iter().peekable(), theirs.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return merged,
        };
        match order {
            Ordering::Less => merged.extend(left.next()),
            Ordering::Greater => merged.extend(right.next()),
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (left.next(), right.next()) {
                    merged.push((a.0, merge_data(table, a.0, a.1, b.1)));
                }
            }
        }
    }
}

fn merge_data(table: &TableMetadata, id: ColumnId, a: ColumnData, b: ColumnData) -> ColumnData {
    match (a, b) {
        (ColumnData::Simple(a), ColumnData::Simple(b)) => ColumnData::Simple(a.reconcile(b)),
        (ColumnData::Complex(a), ColumnData::Complex(b)) => {
            ColumnData::Complex(merge_complex(table, id, a, b))
        }
        // a column cannot be both; a dropped and re-added one may: the multi-cell form is newer or wins
        (ColumnData::Complex(data), _) | (_, ColumnData::Complex(data)) => {
            ColumnData::Complex(data)
        }
    }
}

fn merge_complex(
    table: &TableMetadata,
    id: ColumnId,
    a: ComplexData,
    b: ComplexData,
) -> ComplexData {
    let deletion = a.deletion.max(b.deletion);
    let mut cells = Vec::with_capacity(a.cells.len() + b.cells.len());
    let (mut left, mut right) = (
        a.cells.into_iter().peekable(),
        b.cells.into_iter().peekable(),
    );
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => compare_paths(table, id, a, b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let cell = match order {
            Ordering::Less => left.next(),
            Ordering::Greater => right.next(),
            Ordering::Equal => left.next().zip(right.next()).map(|(a, b)| a.reconcile(b)),
        };
        cells.extend(cell.filter(|cell| !deletion.deletes(cell.timestamp)));
    }
    ComplexData { deletion, cells }
}

/// Order of two cells of one multi-cell column: by the type of its path.
pub fn compare_paths(table: &TableMetadata, id: ColumnId, a: &Cell, b: &Cell) -> Ordering {
    use helenus_types::CqlType;
    let (Some(a), Some(b)) = (&a.path, &b.path) else {
        return a.path.cmp(&b.path);
    };
    match table.column_by_id(id).map(|column| &column.cql_type) {
        Some(CqlType::Set { element, .. }) => element.compare(a, b),
        Some(CqlType::Map { key, .. }) => key.compare(a, b),
        Some(CqlType::List { .. }) => CqlType::TimeUuid.compare(a, b),
        _ => a.cmp(b),
    }
}
