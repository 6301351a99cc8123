//! Cells and the data of one column in one row.

use crate::deletion::{DeletionTime, NO_DELETION_TIME, NO_TTL, expiration};
use bytes::Bytes;
use helenus_types::{NowInSeconds, TimestampMicros};
use std::cmp::Ordering;

/// One value with its timestamp, or the tombstone of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Write timestamp in microseconds.
    pub timestamp: TimestampMicros,
    /// Time to live in seconds; 0 for none and for tombstones.
    pub ttl: i32,
    /// When it expires or was deleted, in seconds; [`NO_DELETION_TIME`] for a plain live cell.
    pub local_deletion_time: NowInSeconds,
    /// Key within a multi-cell column: list position (time UUID), set element, map key or field index.
    pub path: Option<Bytes>,
    /// The value; empty for a tombstone.
    pub value: Bytes,
}

impl Cell {
    /// A live cell; with a TTL other than 0 it expires.
    pub fn live(
        timestamp: TimestampMicros,
        ttl: i32,
        now: NowInSeconds,
        path: Option<Bytes>,
        value: Bytes,
    ) -> Self {
        let local_deletion_time = if ttl == NO_TTL {
            NO_DELETION_TIME
        } else {
            expiration(now, ttl)
        };
        Self {
            timestamp,
            ttl,
            local_deletion_time,
            path,
            value,
        }
    }

    /// A tombstone made at `now`.
    pub fn tombstone(timestamp: TimestampMicros, now: NowInSeconds, path: Option<Bytes>) -> Self {
        Self {
            timestamp,
            ttl: NO_TTL,
            local_deletion_time: now,
            path,
            value: Bytes::new(),
        }
    }

    /// Whether it was written as a tombstone.
    pub fn is_tombstone(&self) -> bool {
        self.ttl == NO_TTL && self.local_deletion_time != NO_DELETION_TIME
    }

    /// Whether it has a TTL.
    pub fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL
    }

    /// Whether it holds a value at `now`.
    pub fn is_live(&self, now: NowInSeconds) -> bool {
        self.local_deletion_time == NO_DELETION_TIME
            || (self.is_expiring() && now < self.local_deletion_time)
    }

    /// The one of two regular cells of the same place that wins (Cassandra's `Cells.reconcile`):
    /// newer; then tombstone or expiring over plain; then tombstone over expiring; then the later
    /// deletion time; then the smaller TTL; then the larger value.
    #[must_use]
    pub fn reconcile(self, other: Self) -> Self {
        match self.order(&other) {
            Ordering::Less => other,
            Ordering::Equal | Ordering::Greater => self,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let mortal = |cell: &Self| cell.local_deletion_time != NO_DELETION_TIME;
        self.timestamp
            .cmp(&other.timestamp)
            .then_with(|| mortal(self).cmp(&mortal(other)))
            .then_with(|| self.is_tombstone().cmp(&other.is_tombstone()))
            .then_with(|| self.local_deletion_time.cmp(&other.local_deletion_time))
            .then_with(|| other.ttl.cmp(&self.ttl))
            .then_with(|| self.value.cmp(&other.value))
    }
}

/// The cells of a multi-cell column in the order of their paths, and what deleted older ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ComplexData {
    /// Deletes every older cell of the column in this row.
    pub deletion: DeletionTime,
    /// Cells with distinct paths in order.
    pub cells: Vec<Cell>,
}

/// The data of one column in one row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ColumnData {
    /// A column of one cell.
    Simple(Cell),
    /// A non-frozen collection or user type.
    Complex(ComplexData),
}

impl ColumnData {
    /// Whether any cell lives at `now`.
    pub fn has_live(&self, now: NowInSeconds) -> bool {
        match self {
            Self::Simple(cell) => cell.is_live(now),
            Self::Complex(data) => data.cells.iter().any(|cell| cell.is_live(now)),
        }
    }

    /// Its cells.
    pub fn cells(&self) -> &[Cell] {
        match self {
            Self::Simple(cell) => std::slice::from_ref(cell),
            Self::Complex(data) => &data.cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(timestamp: i64, ttl: i32, now: i64, value: &'static str) -> Cell {
        Cell::live(
            timestamp,
            ttl,
            now,
            None,
            Bytes::from_static(value.as_bytes()),
        )
    }

    #[track_caller]
    fn check(loser: &Cell, winner: &Cell) {
        assert_eq!(&loser.clone().reconcile(winner.clone()), winner);
        assert_eq!(&winner.clone().reconcile(loser.clone()), winner);
    }

    #[test]
    fn equal_timestamps_are_decided_as_cassandra_decides() {
        check(&cell(1, 0, 0, "z"), &cell(2, 0, 0, "a"));
        check(&cell(1, 0, 0, "a"), &cell(1, 0, 0, "b"));
        check(&cell(1, 0, 0, "z"), &cell(1, 10, 0, "a"));
        check(&cell(1, 10, 0, "z"), &Cell::tombstone(1, 0, None));
        check(&Cell::tombstone(1, 5, None), &Cell::tombstone(1, 6, None));
        // the same expiration reached by a smaller TTL: the later write, whatever its value
        check(&cell(1, 20, 0, "z"), &cell(1, 10, 10, "a"));
    }
}
