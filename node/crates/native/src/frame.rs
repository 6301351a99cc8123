//! Frames of version 5: a header of 3 bytes (17 bits of length, self-contained bit) or, with LZ4,
//! 5 bytes (17 bits of length, 17 bits of decompressed length, self-contained bit), little endian; the
//! header's CRC24; the payload; its CRC32. A self-contained frame holds whole envelopes; a longer
//! envelope spans several frames that are not.

use crate::compression::decompress_lz4;
use crate::error::ProtocolError;
use bytes::{BufMut, Bytes, BytesMut};

/// Greatest length in bytes of a frame's payload.
pub const MAX_PAYLOAD: usize = (1 << 17) - 1;
const TRAILER_LENGTH: usize = 4;
const CRC24_INITIAL: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4f0b;
const CRC32_PREFIX: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];

fn crc24(bytes: &[u8]) -> u32 {
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
    crc
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_PREFIX);
    hasher.update(bytes);
    hasher.finalize()
}

fn header_length(lz4: bool) -> usize {
    if lz4 { 5 } else { 3 }
}

/// Writes one frame around `payload` of at most [`MAX_PAYLOAD`] bytes.
pub(crate) fn write(payload: &[u8], self_contained: bool, lz4: bool, out: &mut BytesMut) {
    debug_assert!(payload.len() <= MAX_PAYLOAD);
    let compressed = if lz4 {
        Some(lz4_flex::block::compress(payload))
    } else {
        None
    };
    let compressed = compressed.filter(|block| block.len() < payload.len());
    let stored = compressed.as_deref().unwrap_or(payload);
    let plain_length = if compressed.is_some() {
        payload.len()
    } else {
        0
    };
    let header = if lz4 {
        stored.len() as u64 | ((plain_length as u64) << 17) | (u64::from(self_contained) << 34)
    } else {
        stored.len() as u64 | (u64::from(self_contained) << 17)
    };
    let header = &header.to_le_bytes()[..header_length(lz4)];
    out.reserve(header.len() + 3 + stored.len() + TRAILER_LENGTH);
    out.put_slice(header);
    out.put_slice(&crc24(header).to_le_bytes()[..3]);
    out.put_slice(stored);
    out.put_u32_le(crc32(stored));
}

/// A frame's payload, decompressed.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) self_contained: bool,
    pub(crate) payload: Bytes,
}

/// Takes the next frame from `input`: `None` when more bytes are needed. Every error is fatal.
pub(crate) fn read(input: &mut BytesMut, lz4: bool) -> Result<Option<Frame>, ProtocolError> {
    let short = header_length(lz4);
    if input.len() < short + 3 {
        return Ok(None);
    }
    let mut wide = [0; 8];
    wide[..short].copy_from_slice(&input[..short]);
    let header = u64::from_le_bytes(wide);
    let mut crc = [0; 4];
    crc[..3].copy_from_slice(&input[short..short + 3]);
    if crc24(&input[..short]) != u32::from_le_bytes(crc) {
        return Err(ProtocolError::fatal(
            "Corrupt frame header: its checksum does not match",
        ));
    }
    let part = |shift: u32| usize::try_from((header >> shift) & 0x1_ffff).unwrap_or(0);
    let (stored_length, plain_length) = (part(0), if lz4 { part(17) } else { 0 });
    let self_contained = (header >> (if lz4 { 34 } else { 17 })) & 1 == 1;
    let total = short + 3 + stored_length + TRAILER_LENGTH;
    if input.len() < total {
        input.reserve(total - input.len());
        return Ok(None);
    }
    let mut frame = input.split_to(total).freeze();
    let trailer = frame.split_off(total - TRAILER_LENGTH);
    let stored = frame.split_off(short + 3);
    if trailer[..] != crc32(&stored).to_le_bytes() {
        return Err(ProtocolError::fatal(
            "Corrupt frame payload: its checksum does not match",
        ));
    }
    let payload = if plain_length == 0 {
        stored
    } else {
        decompress_lz4(&stored, plain_length, MAX_PAYLOAD)
            .ok_or_else(|| ProtocolError::fatal("Corrupt frame payload: it does not decompress"))?
    };
    Ok(Some(Frame {
        self_contained,
        payload,
    }))
}
