//! Deletion times in full form, as they stand before an SSTable's partitions and in its indexes.

use super::{CodecError, Version};
use crate::deletion::{DeletionTime, NO_DELETION_TIME};
use bytes::BufMut;
use helenus_types::{NowInSeconds, Reader};

/// The byte of a live deletion where deletion times are unsigned.
const LIVE: u8 = 0x80;
/// What Cassandra reads a local deletion time as that cannot be (`Cell.INVALID_DELETION_TIME`).
pub const INVALID_DELETION_TIME: NowInSeconds = u32::MAX as NowInSeconds - 1;

/// Seconds as unsigned 32 bits; [`NO_DELETION_TIME`] is all ones.
pub fn to_unsigned(seconds: NowInSeconds) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// The inverse of [`to_unsigned`].
pub fn from_unsigned(seconds: u32) -> NowInSeconds {
    if seconds == u32::MAX {
        NO_DELETION_TIME
    } else {
        i64::from(seconds)
    }
}

/// Seconds as signed 32 bits; [`NO_DELETION_TIME`] is the largest, later ones are capped before it.
pub fn to_signed(seconds: NowInSeconds) -> i32 {
    if seconds == NO_DELETION_TIME {
        return i32::MAX;
    }
    i32::try_from(seconds.clamp(0, i64::from(i32::MAX) - 1)).unwrap_or(i32::MAX - 1)
}

/// The inverse of [`to_signed`].
pub fn from_signed(seconds: i32) -> NowInSeconds {
    match seconds {
        i32::MAX => NO_DELETION_TIME,
        negative if negative < 0 => INVALID_DELETION_TIME,
        other => i64::from(other),
    }
}

/// Writes a deletion: 1 or 12 bytes.
pub fn encode(deletion: DeletionTime, version: Version, out: &mut impl BufMut) {
    if !version.unsigned_deletion_times {
        out.put_i32(to_signed(deletion.local_deletion_time));
        out.put_i64(deletion.marked_for_delete_at);
    } else if deletion.is_live() || deletion.marked_for_delete_at < 0 {
        // Timestamps before 1970 have no form here; Cassandra cannot say them either.
        out.put_u8(LIVE);
    } else {
        out.put_i64(deletion.marked_for_delete_at);
        out.put_u32(to_unsigned(deletion.local_deletion_time));
    }
}

/// Reads what [`encode`] writes.
pub fn decode(reader: &mut Reader, version: Version) -> Result<DeletionTime, CodecError> {
    if !version.unsigned_deletion_times {
        let local_deletion_time = from_signed(reader.i32()?);
        let marked_for_delete_at = reader.i64()?;
        return Ok(normal(marked_for_delete_at, local_deletion_time));
    }
    let flags = reader.u8()?;
    if flags & LIVE != 0 {
        return if flags == LIVE {
            Ok(DeletionTime::LIVE)
        } else {
            Err(CodecError::Invalid(
                "a deletion time starts with unknown flags",
            ))
        };
    }
    let mut bytes = [0; 8];
    bytes[0] = flags;
    bytes[1..].copy_from_slice(&reader.array::<7>()?);
    let marked_for_delete_at = i64::from_be_bytes(bytes);
    Ok(normal(marked_for_delete_at, from_unsigned(reader.u32()?)))
}

/// A deletion of nothing is [`DeletionTime::LIVE`], however its seconds came out.
pub fn normal(marked_for_delete_at: i64, local_deletion_time: NowInSeconds) -> DeletionTime {
    if marked_for_delete_at == i64::MIN {
        DeletionTime::LIVE
    } else {
        DeletionTime {
            marked_for_delete_at,
            local_deletion_time,
        }
    }
}
