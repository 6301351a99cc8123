//! Version 1 UUIDs: built from a time and a node given by the caller, never from ambient state.

use uuid::Uuid;

/// Milliseconds from 1582-10-15 to 1970-01-01.
const GREGORIAN_OFFSET_MS: i64 = 12_219_292_800_000;
/// Least clock sequence and node in the order of `timeuuid` (signed bytes), as in Cassandra.
const MIN_CLOCK_AND_NODE: u64 = 0x8080_8080_8080_8080;
/// Greatest clock sequence and node in that order.
const MAX_CLOCK_AND_NODE: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The time part of a version 1 UUID of this count of 100 ns since 1582-10-15.
fn msb_of_ticks(ticks: u64) -> u64 {
    (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | 0x1000 | ((ticks >> 48) & 0x0fff)
}

/// Ticks of 100 ns since 1582-10-15 in a UUID's time part.
fn ticks_of_msb(msb: u64) -> u64 {
    (msb >> 32) | ((msb & 0xffff_0000) << 16) | ((msb & 0x0fff) << 48)
}

fn ticks_of_micros(micros: i64) -> u64 {
    micros
        .wrapping_add(GREGORIAN_OFFSET_MS * 1000)
        .wrapping_mul(10)
        .cast_unsigned()
}

/// A version 1 UUID of a wall time in microseconds since 1970, a clock sequence (14 bits) and a node (48 bits).
pub fn from_micros(micros: i64, clock_sequence: u16, node: [u8; 6]) -> Uuid {
    from_ticks(ticks_of_micros(micros), clock_sequence, node)
}

/// A version 1 UUID of a count of 100 ns since 1582-10-15: successive UUIDs of one clock take successive ticks.
pub fn from_ticks(ticks: u64, clock_sequence: u16, node: [u8; 6]) -> Uuid {
    let mut low = [0; 8];
    low[..2].copy_from_slice(&((clock_sequence & 0x3fff) | 0x8000).to_be_bytes());
    low[2..].copy_from_slice(&node);
    Uuid::from_u64_pair(msb_of_ticks(ticks), u64::from_be_bytes(low))
}

/// CQL's `minTimeuuid`: the least version 1 UUID of a millisecond.
pub fn min_of_millis(millis: i64) -> Uuid {
    Uuid::from_u64_pair(
        msb_of_ticks(ticks_of_micros(millis.wrapping_mul(1000))),
        MIN_CLOCK_AND_NODE,
    )
}

/// CQL's `maxTimeuuid`: the greatest version 1 UUID of a millisecond.
pub fn max_of_millis(millis: i64) -> Uuid {
    let ticks = ticks_of_micros(millis.wrapping_add(1).wrapping_mul(1000)).wrapping_sub(1);
    Uuid::from_u64_pair(msb_of_ticks(ticks), MAX_CLOCK_AND_NODE)
}

/// Ticks of 100 ns since 1582-10-15; `None` unless the version is 1.
pub fn ticks(uuid: &Uuid) -> Option<u64> {
    (uuid.get_version_num() == 1).then(|| ticks_of_msb(uuid.as_u64_pair().0))
}

/// Milliseconds since 1970; `None` unless the version is 1.
pub fn unix_millis(uuid: &Uuid) -> Option<i64> {
    Some(i64::try_from(ticks(uuid)?).ok()? / 10_000 - GREGORIAN_OFFSET_MS)
}

/// Microseconds since 1970; `None` unless the version is 1.
pub fn unix_micros(uuid: &Uuid) -> Option<i64> {
    Some(i64::try_from(ticks(uuid)?).ok()? / 10 - GREGORIAN_OFFSET_MS * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_in_and_out() {
        let uuid = from_micros(1_700_000_000_123_456, 0x1234, [1, 2, 3, 4, 5, 6]);
        assert_eq!(uuid.get_version_num(), 1);
        assert_eq!(unix_micros(&uuid), Some(1_700_000_000_123_456));
        assert_eq!(unix_millis(&uuid), Some(1_700_000_000_123));
        assert_eq!(&uuid.as_bytes()[8..], &[0x92, 0x34, 1, 2, 3, 4, 5, 6]);
        assert_eq!(unix_millis(&Uuid::nil()), None);
    }
}
