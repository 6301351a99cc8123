//! A bounds-checked cursor over shared bytes: the one way in which the node's codecs read input.

use bytes::Bytes;

/// The input ended before the value did, or a length in it is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("input ends at byte {at}: {wanted} more bytes wanted, {left} left")]
pub struct Truncated {
    /// Offset in bytes from the start of the input.
    pub at: usize,
    /// How many bytes the value needs.
    pub wanted: usize,
    /// How many bytes there were.
    pub left: usize,
}

/// A cursor over [`Bytes`]; slices that it hands out share the buffer.
#[derive(Debug, Clone)]
pub struct Reader {
    buffer: Bytes,
    position: usize,
}

impl Reader {
    /// A cursor at the start of `buffer`.
    pub fn new(buffer: Bytes) -> Self {
        Self {
            buffer,
            position: 0,
        }
    }

    /// A cursor over a copy of `slice`.
    pub fn copied(slice: &[u8]) -> Self {
        Self::new(Bytes::copy_from_slice(slice))
    }

    /// Offset in bytes from the start.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.buffer.len() - self.position
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The bytes not yet read, without moving.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.position..]
    }

    fn need(&self, wanted: usize) -> Result<(), Truncated> {
        let left = self.remaining();
        if wanted > left {
            Err(Truncated {
                at: self.position,
                wanted,
                left,
            })
        } else {
            Ok(())
        }
    }

    /// Moves `count` bytes on.
    pub fn skip(&mut self, count: usize) -> Result<(), Truncated> {
        self.need(count)?;
        self.position += count;
        Ok(())
    }

    /// The next `count` bytes, sharing the buffer.
    pub fn bytes(&mut self, count: usize) -> Result<Bytes, Truncated> {
        self.need(count)?;
        let taken = self.buffer.slice(self.position..self.position + count);
        self.position += count;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        self.need(N)?;
        let mut out = [0; N];
        out.copy_from_slice(&self.buffer[self.position..self.position + N]);
        self.position += N;
        Ok(out)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    /// Big-endian `u16`.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Big-endian `u32`.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Big-endian `u64`.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Big-endian `i32`.
    pub fn i32(&mut self) -> Result<i32, Truncated> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Big-endian `i64`.
    pub fn i64(&mut self) -> Result<i64, Truncated> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Unsigned variable-length integer as Cassandra's `VIntCoding` writes it.
    pub fn unsigned_vint(&mut self) -> Result<u64, Truncated> {
        let first = self.u8()?;
        let extra = first.leading_ones() as usize;
        if extra == 0 {
            return Ok(u64::from(first));
        }
        self.need(extra)?;
        let mut value = if extra >= 8 {
            0
        } else {
            u64::from(first) & (0xff >> extra)
        };
        for _ in 0..extra {
            value = (value << 8) | u64::from(self.u8()?);
        }
        Ok(value)
    }

    /// Signed (zigzag) variable-length integer.
    pub fn vint(&mut self) -> Result<i64, Truncated> {
        Ok(crate::vint::unzigzag(self.unsigned_vint()?))
    }

    /// An unsigned vint used as a length of what follows: refused when more than what is left.
    pub fn vint_length(&mut self) -> Result<usize, Truncated> {
        let length = self.unsigned_vint()?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.need(length)?;
        Ok(length)
    }

    /// Bytes behind an unsigned vint length.
    pub fn vint_bytes(&mut self) -> Result<Bytes, Truncated> {
        let length = self.vint_length()?;
        self.bytes(length)
    }

    /// Bytes behind a `u16` length.
    pub fn short_bytes(&mut self) -> Result<Bytes, Truncated> {
        let length = usize::from(self.u16()?);
        self.bytes(length)
    }
}
