//! How envelopes travel: bare up to v4 (and in v5 until STARTUP is answered), in frames with checksums afterwards.

use anyhow::{Result, bail};
use std::io::{Read, Write};

/// A v5 frame holds at most this much.
const MAX_PAYLOAD: usize = 128 * 1024 - 1;
const SELF_CONTAINED: u32 = 1 << 17;

/// The framing of one connection.
#[derive(Clone, Copy)]
pub(super) enum Framing {
    /// Envelopes follow each other.
    Bare,
    /// Uncompressed v5 frames.
    Checksummed,
}

impl Framing {
    /// Send one envelope.
    pub(super) fn write(self, stream: &mut impl Write, envelope: &[u8]) -> Result<()> {
        match self {
            Self::Bare => stream.write_all(envelope)?,
            Self::Checksummed => {
                let whole = envelope.len() <= MAX_PAYLOAD;
                for payload in envelope.chunks(MAX_PAYLOAD) {
                    let bits =
                        u32::try_from(payload.len())? | if whole { SELF_CONTAINED } else { 0 };
                    let header = bits.to_le_bytes();
                    let mut frame = header[..3].to_vec();
                    frame.extend(&crc24(&header[..3]).to_le_bytes()[..3]);
                    frame.extend(payload);
                    frame.extend(payload_crc(payload).to_le_bytes());
                    stream.write_all(&frame)?;
                }
            }
        }
        Ok(())
    }

    /// Read one envelope; an answer that shares a frame with others is not expected, because we ask one thing at a time.
    pub(super) fn read_envelope(self, stream: &mut impl Read) -> Result<Vec<u8>> {
        match self {
            Self::Bare => {
                let mut envelope = vec![0; 9];
                stream.read_exact(&mut envelope)?;
                let length = body_length(&envelope)?;
                envelope.resize(9 + length, 0);
                stream.read_exact(&mut envelope[9..])?;
                Ok(envelope)
            }
            Self::Checksummed => {
                let mut envelope = Vec::new();
                loop {
                    envelope.extend(read_payload(stream)?);
                    if envelope.len() >= 9 {
                        let whole = 9 + body_length(&envelope)?;
                        if envelope.len() > whole {
                            bail!(
                                "{} bytes follow the answer in its frame",
                                envelope.len() - whole
                            );
                        }
                        if envelope.len() == whole {
                            return Ok(envelope);
                        }
                    }
                }
            }
        }
    }
}

fn body_length(envelope: &[u8]) -> Result<usize> {
    let length = u32::from_be_bytes([envelope[5], envelope[6], envelope[7], envelope[8]]);
    if length > 256 << 20 {
        bail!("an answer of {length} bytes");
    }
    Ok(usize::try_from(length)?)
}

fn read_payload(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut header = [0; 6];
    stream.read_exact(&mut header)?;
    let expected = u32::from_le_bytes([header[3], header[4], header[5], 0]);
    if crc24(&header[..3]) != expected {
        bail!("the header of a v5 frame fails its checksum: {header:02x?}");
    }
    let bits = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; usize::try_from(bits & 0x1_FFFF)?];
    stream.read_exact(&mut payload)?;
    let mut trailer = [0; 4];
    stream.read_exact(&mut trailer)?;
    if payload_crc(&payload) != u32::from_le_bytes(trailer) {
        bail!("the payload of a v5 frame fails its checksum");
    }
    Ok(payload)
}

/// CRC-24 of a frame's header, bit by bit (speed does not matter here).
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x87_5060;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4F0B;
            }
        }
    }
    crc & 0xFF_FFFF
}

/// CRC-32 of a payload, begun with the four bytes that the specification names.
fn payload_crc(payload: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in [0xFA, 0x2D, 0x55, 0xCA].iter().chain(payload) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xEDB8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}
