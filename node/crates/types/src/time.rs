//! Times as CQL carries them: write timestamps in microseconds, expirations in seconds.

/// A write timestamp in microseconds since 1970 (by convention; clients may send any value).
pub type TimestampMicros = i64;

/// The time against which TTLs and tombstones are judged, in seconds since 1970.
pub type NowInSeconds = i64;

/// The timestamp that means “none” (Cassandra's `LivenessInfo.NO_TIMESTAMP`).
pub const NO_TIMESTAMP: TimestampMicros = i64::MIN;
