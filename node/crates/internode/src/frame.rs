//! Frames: what stands on a messaging connection after the handshake.
//!
//! A frame holds whole messages (self-contained) or a part of one large message. Layouts, all
//! little-endian:
//! - CRC: 17 bits payload length, 1 bit self-contained, padding to 3 bytes; CRC24; payload; CRC32.
//! - unprotected: the same header, payload, nothing behind it.
//! - LZ4: 17 bits length on the wire, 17 bits length before compression (0: not compressed), 1 bit
//!   self-contained, padding to 5 bytes; CRC24; LZ4 block or payload; CRC32 of what is on the wire.
//!
//! Source: Cassandra 5.0 `net/FrameEncoder*.java`, `net/FrameDecoder*.java`.

use crate::crc::{crc24, crc32};
use crate::error::DecodeError;
use bytes::{BufMut, Bytes, BytesMut};

/// The largest payload of a frame in bytes.
pub const MAX_PAYLOAD_BYTES: usize = (1 << 17) - 1;
const LENGTH_BITS: u64 = 17;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;

/// How frames are protected, chosen by the connecting side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Checksum over the header only; used with TLS by some.
    Unprotected,
    /// Compressed and checksummed.
    Lz4,
    /// Checksummed.
    Crc,
}

impl Framing {
    /// The number in the handshake's flags.
    pub fn id(self) -> u8 {
        match self {
            Self::Unprotected => 0,
            Self::Lz4 => 1,
            Self::Crc => 2,
        }
    }

    /// The framing of this number.
    pub fn from_id(id: u8) -> Result<Self, DecodeError> {
        match id {
            0 => Ok(Self::Unprotected),
            1 => Ok(Self::Lz4),
            2 => Ok(Self::Crc),
            other => Err(DecodeError::invalid("framing", other)),
        }
    }

    fn header_bytes(self) -> usize {
        if self == Self::Lz4 { 8 } else { 6 }
    }

    fn trailer_bytes(self) -> usize {
        if self == Self::Unprotected { 0 } else { 4 }
    }
}

/// A frame's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Whether it holds whole messages.
    pub self_contained: bool,
    /// The bytes of messages.
    pub payload: Bytes,
}

/// Writes frames.
#[derive(Debug, Clone, Copy)]
pub struct FrameEncoder {
    framing: Framing,
}

impl FrameEncoder {
    /// An encoder for this framing.
    pub fn new(framing: Framing) -> Self {
        Self { framing }
    }

    /// Appends one frame to `out`. A payload longer than [`MAX_PAYLOAD_BYTES`] becomes several
    /// frames, none of them self-contained.
    pub fn encode(&self, self_contained: bool, payload: &[u8], out: &mut BytesMut) {
        if payload.len() <= MAX_PAYLOAD_BYTES {
            self.encode_one(self_contained, payload, out);
        } else {
            for part in payload.chunks(MAX_PAYLOAD_BYTES) {
                self.encode_one(false, part, out);
            }
        }
    }

    fn encode_one(self, self_contained: bool, payload: &[u8], out: &mut BytesMut) {
        debug_assert!(payload.len() <= MAX_PAYLOAD_BYTES, "the caller splits");
        let length = payload.len() as u64;
        let flag = u64::from(self_contained);
        if self.framing == Framing::Lz4 {
            let compressed = lz4_flex::block::compress(payload);
            if compressed.len() < payload.len() {
                write_header::<5>(
                    out,
                    compressed.len() as u64 | (length << LENGTH_BITS) | (flag << (2 * LENGTH_BITS)),
                );
                write_payload(out, &compressed);
            } else {
                write_header::<5>(out, length | (flag << (2 * LENGTH_BITS)));
                write_payload(out, payload);
            }
            return;
        }
        write_header::<3>(out, length | (flag << LENGTH_BITS));
        if self.framing == Framing::Crc {
            write_payload(out, payload);
        } else {
            out.put_slice(payload);
        }
    }
}

fn write_header<const N: usize>(out: &mut BytesMut, fields: u64) {
    let bytes = fields.to_le_bytes();
    out.put_slice(&bytes[..N]);
    out.put_slice(&crc24(&bytes[..N]).to_le_bytes()[..3]);
}

fn write_payload(out: &mut BytesMut, bytes: &[u8]) {
    out.put_slice(bytes);
    out.put_u32_le(crc32(bytes));
}

/// Reads frames from bytes as they arrive. Holds at most one incomplete frame (under 128 KiB and
/// what the edge fed beyond it). After an error it must not be used again.
#[derive(Debug)]
pub struct FrameDecoder {
    framing: Framing,
    buffer: BytesMut,
}

impl FrameDecoder {
    /// A decoder for this framing.
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            buffer: BytesMut::new(),
        }
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Where the edge may read a socket's bytes to, in place of [`FrameDecoder::feed`].
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next complete frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        let header_bytes = self.framing.header_bytes();
        if self.buffer.len() < header_bytes {
            return Ok(None);
        }
        let fields = header_fields(&self.buffer[..header_bytes])?;
        let wire_length = masked_length(fields);
        let total = header_bytes + wire_length + self.framing.trailer_bytes();
        if self.buffer.len() < total {
            self.buffer.reserve(total - self.buffer.len());
            return Ok(None);
        }
        let frame = self.buffer.split_to(total).freeze();
        let body = frame.slice(header_bytes..header_bytes + wire_length);
        if self.framing != Framing::Unprotected {
            verify_payload(&body, &frame[header_bytes + wire_length..])?;
        }
        if self.framing != Framing::Lz4 {
            return Ok(Some(Frame {
                self_contained: fields & (1 << LENGTH_BITS) != 0,
                payload: body,
            }));
        }
        let self_contained = fields & (1 << (2 * LENGTH_BITS)) != 0;
        let plain_length = masked_length(fields >> LENGTH_BITS);
        let payload = if plain_length == 0 {
            body
        } else {
            decompress(&body, plain_length)?
        };
        Ok(Some(Frame {
            self_contained,
            payload,
        }))
    }

    /// Whether bytes of an incomplete frame are held: an end of the connection now is a loss.
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }
}

fn masked_length(fields: u64) -> usize {
    usize::try_from(fields & LENGTH_MASK).unwrap_or(MAX_PAYLOAD_BYTES)
}

fn header_fields(header: &[u8]) -> Result<u64, DecodeError> {
    let (fields, crc) = header.split_at(header.len() - 3);
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u64, |n, b| (n << 8) | u64::from(*b))
    };
    let computed = crc24(fields);
    let read = number(crc);
    if read == u64::from(computed) {
        Ok(number(fields))
    } else {
        Err(DecodeError::Checksum {
            what: "frame header",
            read: u32::try_from(read).unwrap_or(u32::MAX),
            computed,
        })
    }
}

fn verify_payload(body: &[u8], trailer: &[u8]) -> Result<(), DecodeError> {
    let read = trailer
        .iter()
        .rev()
        .fold(0_u32, |n, b| (n << 8) | u32::from(*b));
    let computed = crc32(body);
    if read == computed {
        Ok(())
    } else {
        Err(DecodeError::Checksum {
            what: "frame",
            read,
            computed,
        })
    }
}

fn decompress(body: &[u8], plain_length: usize) -> Result<Bytes, DecodeError> {
    let mut plain = vec![0; plain_length];
    match lz4_flex::block::decompress_into(body, &mut plain) {
        Ok(written) if written == plain_length => Ok(plain.into()),
        Ok(written) => Err(DecodeError::invalid(
            "LZ4 frame",
            format!("{written} bytes where {plain_length} were announced"),
        )),
        Err(error) => Err(DecodeError::invalid("LZ4 frame", error)),
    }
}
