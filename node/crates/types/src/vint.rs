//! Cassandra's variable-length integers (`VIntCoding`): the count of leading one bits of the first
//! byte is the count of bytes that follow.

use bytes::BufMut;

/// Maps a signed integer to an unsigned one, small magnitudes to small values.
pub fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// How many bytes [`write_unsigned`] writes: 1 to 9.
pub fn unsigned_size(value: u64) -> usize {
    let leading = (value | 1).leading_zeros() as usize;
    (639 - leading * 9) >> 6
}

/// Writes an unsigned vint.
pub fn write_unsigned(out: &mut impl BufMut, value: u64) {
    let size = unsigned_size(value);
    if size == 9 {
        out.put_u8(0xff);
        out.put_u64(value);
        return;
    }
    let bytes = value.to_be_bytes();
    let mut buffer = [0_u8; 8];
    buffer[..size].copy_from_slice(&bytes[8 - size..]);
    let extra = size - 1;
    buffer[0] |= !(0xff_u16 >> extra).to_be_bytes()[1];
    out.put_slice(&buffer[..size]);
}

/// Writes a signed (zigzag) vint.
pub fn write_signed(out: &mut impl BufMut, value: i64) {
    write_unsigned(out, zigzag(value));
}

/// How many bytes [`write_signed`] writes.
pub fn signed_size(value: i64) -> usize {
    unsigned_size(zigzag(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn every_size_round_trips() {
        for shift in 0..64 {
            for delta in [-1_i64, 0, 1] {
                let value = (1_u64 << shift).wrapping_add_signed(delta);
                let mut out = Vec::new();
                write_unsigned(&mut out, value);
                assert_eq!(out.len(), unsigned_size(value), "{value}");
                assert_eq!(Reader::copied(&out).unsigned_vint(), Ok(value));
                out.clear();
                write_signed(&mut out, value.cast_signed());
                assert_eq!(Reader::copied(&out).vint(), Ok(value.cast_signed()));
            }
        }
    }

    #[test]
    fn known_bytes_of_cassandra() {
        for (value, bytes) in [
            (0_u64, vec![0_u8]),
            (127, vec![127]),
            (128, vec![0x80, 0x80]),
            (16383, vec![0xbf, 0xff]),
            (16384, vec![0xc0, 0x40, 0]),
        ] {
            let mut out = Vec::new();
            write_unsigned(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }
}
