//! The minima to which times are written as deltas.

use super::CodecError;
use crate::cell::{Cell, ColumnData};
use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL};
use crate::partition::{Partition, RangeTombstoneMarker, Unfiltered};
use crate::row::Row;
use bytes::BufMut;
use helenus_types::time::NO_TIMESTAMP;
use helenus_types::{NowInSeconds, Reader, TimestampMicros, vint};

/// 2015-09-22 in microseconds: what Cassandra takes when there is no timestamp.
pub const TIMESTAMP_EPOCH: TimestampMicros = 1_442_880_000_000_000;
/// 2015-09-22 in seconds.
pub const DELETION_TIME_EPOCH: NowInSeconds = 1_442_880_000;

/// Minima of what a partition or SSTable holds. Smaller values still encode, only longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EncodingStats {
    /// Least write timestamp.
    pub min_timestamp: TimestampMicros,
    /// Least local deletion time.
    pub min_local_deletion_time: NowInSeconds,
    /// Least TTL; 0 when nothing expires.
    pub min_ttl: i32,
}

impl EncodingStats {
    /// Nothing known.
    pub const NONE: Self = Self {
        min_timestamp: TIMESTAMP_EPOCH,
        min_local_deletion_time: DELETION_TIME_EPOCH,
        min_ttl: NO_TTL,
    };

    /// The minima of a partition.
    pub fn of_partition(partition: &Partition) -> Self {
        let mut collector = StatsCollector::default();
        collector.deletion(partition.deletion);
        collector.row(&partition.static_row);
        for unfiltered in &partition.unfiltereds {
            collector.unfiltered(unfiltered);
        }
        collector.stats()
    }

    /// The minima of both.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        fn least<T: Ord + Copy>(a: T, b: T, unset: T) -> T {
            if a == unset {
                b
            } else if b == unset {
                a
            } else {
                a.min(b)
            }
        }
        Self {
            min_timestamp: least(self.min_timestamp, other.min_timestamp, TIMESTAMP_EPOCH),
            min_local_deletion_time: least(
                self.min_local_deletion_time,
                other.min_local_deletion_time,
                DELETION_TIME_EPOCH,
            ),
            min_ttl: least(self.min_ttl, other.min_ttl, NO_TTL),
        }
    }

    /// Writes the three as vints of their distance to the epochs.
    pub fn encode(&self, out: &mut impl BufMut) {
        vint::write_unsigned(
            out,
            self.min_timestamp
                .wrapping_sub(TIMESTAMP_EPOCH)
                .cast_unsigned(),
        );
        vint::write_unsigned(
            out,
            low_half(
                self.min_local_deletion_time
                    .wrapping_sub(DELETION_TIME_EPOCH),
            ),
        );
        vint::write_unsigned(out, i64::from(self.min_ttl).cast_unsigned());
    }

    /// Reads what [`Self::encode`] writes.
    pub fn decode(reader: &mut Reader) -> Result<Self, CodecError> {
        let min_timestamp = reader
            .unsigned_vint()?
            .cast_signed()
            .wrapping_add(TIMESTAMP_EPOCH);
        let min_local_deletion_time = i64::from(vint32(reader)?) + DELETION_TIME_EPOCH;
        let min_ttl = vint32(reader)?;
        Ok(Self {
            min_timestamp,
            min_local_deletion_time,
            min_ttl,
        })
    }
}

/// The low 32 bits, sign-extended, as Java's cast to int and back.
pub(super) fn low_half(value: i64) -> u64 {
    ((value << 32) >> 32).cast_unsigned()
}

/// An unsigned vint that Java reads into an int: negative ones come sign-extended.
pub(super) fn vint32(reader: &mut Reader) -> Result<i32, CodecError> {
    i32::try_from(reader.unsigned_vint()?.cast_signed())
        .map_err(|_| CodecError::Invalid("a variable-length integer is out of the 32-bit range"))
}

/// Collects [`EncodingStats`].
#[derive(Debug, Clone, Copy)]
pub struct StatsCollector {
    timestamp: TimestampMicros,
    deletion_time: NowInSeconds,
    ttl: i32,
}

impl Default for StatsCollector {
    fn default() -> Self {
        Self {
            timestamp: i64::MAX,
            deletion_time: i64::MAX,
            ttl: i32::MAX,
        }
    }
}

impl StatsCollector {
    /// Takes in a deletion.
    pub fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamp = self.timestamp.min(deletion.marked_for_delete_at);
            self.deletion_time = self.deletion_time.min(deletion.local_deletion_time);
        }
    }

    /// Takes in a row's liveness.
    pub fn liveness(&mut self, liveness: &LivenessInfo) {
        if liveness.is_empty() {
            return;
        }
        self.timestamp = self.timestamp.min(liveness.timestamp);
        if liveness.is_expiring() {
            self.ttl = self.ttl.min(liveness.ttl);
            self.deletion_time = self.deletion_time.min(liveness.local_expiration_time);
        }
    }

    /// Takes in a cell.
    pub fn cell(&mut self, cell: &Cell) {
        self.timestamp = self.timestamp.min(cell.timestamp);
        self.deletion_time = self.deletion_time.min(cell.local_deletion_time);
        if cell.is_expiring() {
            self.ttl = self.ttl.min(cell.ttl);
        }
    }

    /// Takes in a row.
    pub fn row(&mut self, row: &Row) {
        self.liveness(&row.liveness);
        self.deletion(row.deletion);
        for (_, data) in &row.columns {
            if let ColumnData::Complex(complex) = data {
                self.deletion(complex.deletion);
            }
            for cell in data.cells() {
                self.cell(cell);
            }
        }
    }

    /// Takes in a marker.
    pub fn marker(&mut self, marker: &RangeTombstoneMarker) {
        for deletion in marker.end.iter().chain(&marker.start) {
            self.deletion(*deletion);
        }
    }

    /// Takes in a row or marker.
    pub fn unfiltered(&mut self, unfiltered: &Unfiltered) {
        match unfiltered {
            Unfiltered::Row(row) => self.row(row),
            Unfiltered::Marker(marker) => self.marker(marker),
        }
    }

    /// The minima.
    pub fn stats(&self) -> EncodingStats {
        let none = EncodingStats::NONE;
        EncodingStats {
            min_timestamp: if matches!(self.timestamp, i64::MAX | NO_TIMESTAMP) {
                none.min_timestamp
            } else {
                self.timestamp
            },
            min_local_deletion_time: if self.deletion_time == NO_DELETION_TIME {
                none.min_local_deletion_time
            } else {
                self.deletion_time
            },
            min_ttl: if self.ttl == i32::MAX {
                NO_TTL
            } else {
                self.ttl
            },
        }
    }
}
