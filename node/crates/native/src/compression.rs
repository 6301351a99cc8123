//! Compression of bodies (version 3 and 4) and of frames (version 5, LZ4 only).

use crate::error::ProtocolError;
use crate::version::ProtocolVersion;
use bytes::{BufMut, Bytes, BytesMut};

/// How a connection compresses, as chosen in STARTUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4 blocks.
    Lz4,
    /// Snappy; not in version 5.
    Snappy,
}

impl Compression {
    /// The names for SUPPORTED.
    pub const NAMES: [&'static str; 2] = ["snappy", "lz4"];

    /// The compression that STARTUP names, in any case; an absent option is `None`.
    pub fn from_startup(
        option: Option<&str>,
        version: ProtocolVersion,
    ) -> Result<Self, ProtocolError> {
        match option.map(str::to_lowercase).as_deref() {
            None => Ok(Self::None),
            Some("lz4") => Ok(Self::Lz4),
            Some("snappy") if version >= ProtocolVersion::V5 => Err(ProtocolError::new(
                "Snappy compression is not supported in protocol V5",
            )),
            Some("snappy") => Ok(Self::Snappy),
            Some(other) => Err(ProtocolError::new(format!(
                "Unknown compression algorithm: {other}"
            ))),
        }
    }

    /// A body of version 3 or 4, compressed; `None` where that would not make it shorter.
    pub(crate) fn compress_body(self, body: &[u8]) -> Option<Bytes> {
        let mut out = BytesMut::new();
        match self {
            Self::None => return None,
            Self::Lz4 => {
                out.put_u32(u32::try_from(body.len()).ok()?);
                out.put_slice(&lz4_flex::block::compress(body));
            }
            Self::Snappy => out.put_slice(&snap::raw::Encoder::new().compress_vec(body).ok()?),
        }
        (out.len() < body.len()).then(|| out.freeze())
    }

    /// The inverse of [`Self::compress_body`], refusing results longer than `limit`.
    pub(crate) fn decompress_body(self, body: &[u8], limit: usize) -> Result<Bytes, ProtocolError> {
        let corrupt = || ProtocolError::new("Unable to decompress the message's body");
        match self {
            Self::None => Err(ProtocolError::new(
                "Received a compressed message on a connection without compression",
            )),
            Self::Lz4 => {
                let (length, block) = body.split_first_chunk::<4>().ok_or_else(corrupt)?;
                let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                decompress_lz4(block, length, limit).ok_or_else(corrupt)
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(body).map_err(|_| corrupt())?;
                // A copy of 64 bytes takes two bytes or more, so that a false length is noticed before memory is taken.
                if length > limit || length / 64 > body.len() {
                    return Err(corrupt());
                }
                snap::raw::Decoder::new()
                    .decompress_vec(body)
                    .map(Bytes::from)
                    .map_err(|_| corrupt())
            }
        }
    }
}

/// An LZ4 block of known decompressed length; an LZ4 block cannot grow more than 255-fold.
pub(crate) fn decompress_lz4(block: &[u8], length: usize, limit: usize) -> Option<Bytes> {
    if length > limit || length / 255 > block.len() {
        return None;
    }
    let out = lz4_flex::block::decompress(block, length).ok()?;
    (out.len() == length).then(|| out.into())
}
