//! Cassandra's two checksums: CRC24 over frame headers, CRC32 with a fixed prefix over the rest.

const CRC24_INITIAL: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4f0b;
const CRC32_PREFIX: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];

/// CRC24 of up to eight bytes, in the order in which they stand on the wire.
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INITIAL;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
        }
    }
    crc & 0x00ff_ffff
}

/// CRC32 (IEEE) of `bytes` behind Cassandra's four fixed bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(bytes);
    hasher.finalize()
}
