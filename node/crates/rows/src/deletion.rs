//! Deletions and the liveness of primary keys.

use helenus_types::time::NO_TIMESTAMP;
use helenus_types::{NowInSeconds, TimestampMicros};

/// The local deletion time that means “never” (Cassandra's `Cell.NO_DELETION_TIME`).
pub const NO_DELETION_TIME: NowInSeconds = NowInSeconds::MAX;

/// A deletion of a partition, row, range or multi-cell column: everything written at or before
/// `marked_for_delete_at` is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeletionTime {
    /// Write timestamp of the deletion in microseconds; `i64::MIN` when there is none.
    pub marked_for_delete_at: TimestampMicros,
    /// When it was made, in seconds; after `gc_grace_seconds` more it may be purged.
    pub local_deletion_time: NowInSeconds,
}

impl DeletionTime {
    /// No deletion.
    pub const LIVE: Self = Self {
        marked_for_delete_at: i64::MIN,
        local_deletion_time: NO_DELETION_TIME,
    };

    /// Whether there is no deletion.
    pub fn is_live(&self) -> bool {
        self.marked_for_delete_at == i64::MIN && self.local_deletion_time == NO_DELETION_TIME
    }

    /// Whether something written at `timestamp` is gone.
    pub fn deletes(&self, timestamp: TimestampMicros) -> bool {
        timestamp <= self.marked_for_delete_at && !self.is_live()
    }

    /// Whether it wins over `other`: newer, or equally new and made later.
    pub fn supersedes(&self, other: &Self) -> bool {
        (self.marked_for_delete_at, self.local_deletion_time)
            > (other.marked_for_delete_at, other.local_deletion_time)
            && !self.is_live()
            || (other.is_live() && !self.is_live())
    }

    /// The one that wins.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.supersedes(&self) { other } else { self }
    }
}

impl Default for DeletionTime {
    fn default() -> Self {
        Self::LIVE
    }
}

/// The time to live of “no TTL”.
pub const NO_TTL: i32 = 0;

/// The TTL by which Cassandra marks liveness that has expired (`LivenessInfo.EXPIRED_LIVENESS_TTL`).
pub const EXPIRED_LIVENESS_TTL: i32 = i32::MAX;

/// Since when a row's primary key lives (set by INSERT, not by UPDATE).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LivenessInfo {
    /// Write timestamp, or [`NO_TIMESTAMP`].
    pub timestamp: TimestampMicros,
    /// Time to live in seconds, or [`NO_TTL`].
    pub ttl: i32,
    /// When it expires in seconds, or [`NO_DELETION_TIME`].
    pub local_expiration_time: NowInSeconds,
}

impl LivenessInfo {
    /// No liveness.
    pub const EMPTY: Self = Self {
        timestamp: NO_TIMESTAMP,
        ttl: NO_TTL,
        local_expiration_time: NO_DELETION_TIME,
    };

    /// Liveness of a row inserted at `timestamp`.
    pub fn new(timestamp: TimestampMicros, ttl: i32, now: NowInSeconds) -> Self {
        if ttl == NO_TTL {
            Self {
                timestamp,
                ..Self::EMPTY
            }
        } else {
            Self {
                timestamp,
                ttl,
                local_expiration_time: expiration(now, ttl),
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Whether it has a TTL.
    pub fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL
    }

    /// Whether the row lives by it at `now`.
    pub fn is_live(&self, now: NowInSeconds) -> bool {
        !self.is_empty()
            && self.ttl != EXPIRED_LIVENESS_TTL
            && (!self.is_expiring() || now < self.local_expiration_time)
    }

    /// Whether it wins over `other`: newer; if equally new, expired or expiring wins, then the one
    /// that expires later.
    pub fn supersedes(&self, other: &Self) -> bool {
        if self.timestamp != other.timestamp {
            return self.timestamp > other.timestamp;
        }
        let expired = |info: &Self| info.ttl == EXPIRED_LIVENESS_TTL;
        if expired(self) != expired(other) {
            return expired(self);
        }
        if self.is_expiring() != other.is_expiring() {
            return self.is_expiring();
        }
        // the last comparison is ours: Cassandra leaves it to the order of arrival
        (self.local_expiration_time, other.ttl) > (other.local_expiration_time, self.ttl)
    }
}

impl Default for LivenessInfo {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// When something written at `now` with this TTL expires; capped as Cassandra's default policy caps.
pub fn expiration(now: NowInSeconds, ttl: i32) -> NowInSeconds {
    now.saturating_add(i64::from(ttl))
        .min(helenus_schema::table::MAX_DELETION_TIME)
}
