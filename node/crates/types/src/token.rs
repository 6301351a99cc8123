//! Tokens of the Murmur3 partitioner and keys decorated with them.

use bytes::Bytes;
use std::cmp::Ordering;

/// A place on the ring. A key's token is never [`Token::MINIMUM`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub i64);

impl Token {
    /// The start of the ring, before every key.
    pub const MINIMUM: Self = Self(i64::MIN);

    /// The token of a partition key (Cassandra's Murmur3Partitioner).
    pub fn of_key(key: &[u8]) -> Self {
        Self(crate::token::murmur3(key))
    }

    /// The shard that owns this token: the ring cut into `shards` equal contiguous parts.
    pub fn shard(self, shards: usize) -> usize {
        let biased = u128::from(self.0.cast_unsigned() ^ (1 << 63));
        usize::try_from((biased * shards as u128) >> 64).unwrap_or(0)
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition key with its token; ordered by token, then by the key's unsigned bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DecoratedKey {
    /// The token of `key`.
    pub token: Token,
    /// The serialized partition key (composite keys as Cassandra's CompositeType).
    pub key: Bytes,
}

impl DecoratedKey {
    /// Decorates a serialized partition key.
    pub fn new(key: Bytes) -> Self {
        Self {
            token: Token::of_key(&key),
            key,
        }
    }
}

impl Ord for DecoratedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.token
            .cmp(&other.token)
            .then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for DecoratedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The first half of [`murmur3_128`], `i64::MIN` folded to `i64::MAX`.
fn murmur3(key: &[u8]) -> i64 {
    let token = murmur3_128(key).0.cast_signed();
    if token == i64::MIN { i64::MAX } else { token }
}

/// Both halves of Cassandra's 128-bit Murmur3 of `key` with seed 0 (bloom filters take both).
pub fn murmur3_128(key: &[u8]) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let word = |chunk: &[u8]| -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&chunk[..8]);
        u64::from_le_bytes(bytes)
    };
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let mut blocks = key.chunks_exact(16);
    for block in &mut blocks {
        h1 = (h1 ^ mix1(word(block)))
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(word(&block[8..])))
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    // Cassandra's tail bytes are signed: a byte above 127 sets every bit above it too.
    let tail = |bytes: &[u8]| {
        bytes.iter().enumerate().fold(0_u64, |k, (i, b)| {
            k ^ (i64::from(b.cast_signed()).cast_unsigned() << (8 * i))
        })
    };
    let rest = blocks.remainder();
    if rest.len() > 8 {
        h2 ^= mix2(tail(&rest[8..]));
    }
    if !rest.is_empty() {
        h1 ^= mix1(tail(&rest[..rest.len().min(8)]));
    }
    let length = key.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let finish = |mut k: u64| {
        k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        k ^ (k >> 33)
    };
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cut_the_ring_in_order() {
        assert_eq!(Token(i64::MIN).shard(4), 0);
        assert_eq!(Token(-1).shard(2), 0);
        assert_eq!(Token(0).shard(2), 1);
        assert_eq!(Token(i64::MAX).shard(4), 3);
    }
}
