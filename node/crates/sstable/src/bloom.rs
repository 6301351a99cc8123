//! Filter.db: which partition keys an SSTable may hold (Cassandra's `BloomFilter` of 4.0 and later).

use crate::error::{Result, corrupt};
use bytes::{BufMut, Bytes};
use helenus_types::token::murmur3_128;
use std::path::Path;

#[expect(clippy::unreadable_literal, reason = "a table, as published")]
/// False-positive rates by bits per key (rows) and count of hashes (columns), as Cassandra takes them.
const RATES: [&[f64]; 21] = [
    &[1.0],
    &[1.0, 1.0],
    &[1.0, 0.393, 0.400],
    &[1.0, 0.283, 0.237, 0.253],
    &[1.0, 0.221, 0.155, 0.147, 0.160],
    &[1.0, 0.181, 0.109, 0.092, 0.092, 0.101],
    &[1.0, 0.154, 0.0804, 0.0609, 0.0561, 0.0578, 0.0638],
    &[1.0, 0.133, 0.0618, 0.0423, 0.0359, 0.0347, 0.0364],
    &[1.0, 0.118, 0.0489, 0.0306, 0.024, 0.0217, 0.0216, 0.0229],
    &[
        1.0, 0.105, 0.0397, 0.0228, 0.0166, 0.0141, 0.0133, 0.0135, 0.0145,
    ],
    &[
        1.0, 0.0952, 0.0329, 0.0174, 0.0118, 0.00943, 0.00844, 0.00819, 0.00846,
    ],
    &[
        1.0, 0.0869, 0.0276, 0.0136, 0.00864, 0.0065, 0.00552, 0.00513, 0.00509,
    ],
    &[
        1.0, 0.08, 0.0236, 0.0108, 0.00646, 0.00459, 0.00371, 0.00329, 0.00314,
    ],
    &[
        1.0, 0.074, 0.0203, 0.00875, 0.00492, 0.00332, 0.00255, 0.00217, 0.00199, 0.00194,
    ],
    &[
        1.0, 0.0689, 0.0177, 0.00718, 0.00381, 0.00244, 0.00179, 0.00146, 0.00129, 0.00121, 0.0012,
    ],
    &[
        1.0, 0.0645, 0.0156, 0.00596, 0.003, 0.00183, 0.00128, 0.001, 0.000852, 0.000775, 0.000744,
    ],
    &[
        1.0, 0.0606, 0.0138, 0.005, 0.00239, 0.00139, 0.000935, 0.000702, 0.000574, 0.000505,
        0.00047, 0.000459,
    ],
    &[
        1.0, 0.0571, 0.0123, 0.00423, 0.00193, 0.00107, 0.000692, 0.000499, 0.000394, 0.000335,
        0.000302, 0.000287, 0.000284,
    ],
    &[
        1.0, 0.054, 0.0111, 0.00362, 0.00158, 0.000839, 0.000519, 0.00036, 0.000275, 0.000226,
        0.000198, 0.000183, 0.000176,
    ],
    &[
        1.0, 0.0513, 0.00998, 0.00312, 0.0013, 0.000663, 0.000394, 0.000264, 0.000194, 0.000155,
        0.000132, 0.000118, 0.000111, 0.000109,
    ],
    &[
        1.0, 0.0488, 0.00906, 0.0027, 0.00108, 0.00053, 0.000303, 0.000196, 0.00014, 0.000108,
        8.89e-05, 7.77e-05, 7.12e-05, 6.79e-05, 6.71e-05,
    ],
];
/// Bits added to every filter.
const EXCESS_BITS: u64 = 20;
/// More hashes than any filter has.
const MAX_HASHES: u32 = 64;

/// A bloom filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BloomFilter {
    hashes: u32,
    bits: Vec<u8>,
}

/// The count of hashes with the least rate among those of a row.
fn best_hashes(bits_per_key: usize) -> usize {
    let mut best = (1, f64::MAX);
    for (hashes, rate) in RATES[bits_per_key].iter().enumerate() {
        if *rate < best.1 {
            best = (hashes.max(1), *rate);
        }
    }
    best.0
}

impl BloomFilter {
    /// A filter for about `keys` keys with this false-positive rate; `None` when the rate is 1.
    pub(crate) fn new(keys: u64, false_positives: f64) -> Option<Self> {
        if false_positives >= 1.0 {
            return None;
        }
        let (bits_per_key, hashes) = Self::shape(false_positives);
        let bits = keys
            .max(1)
            .saturating_mul(bits_per_key as u64)
            .saturating_add(EXCESS_BITS);
        let words = usize::try_from((bits - 1) / 64 + 1).ok()?;
        Some(Self {
            hashes: u32::try_from(hashes).ok()?,
            bits: vec![0; words * 8],
        })
    }

    /// Bits per key and count of hashes for a rate.
    fn shape(false_positives: f64) -> (usize, usize) {
        if false_positives >= RATES[2][1] {
            return (best_hashes(2), 2);
        }
        let mut bits_per_key = 2;
        let mut hashes = best_hashes(2);
        while bits_per_key + 1 < RATES.len() && RATES[bits_per_key][hashes] > false_positives {
            bits_per_key += 1;
            hashes = best_hashes(bits_per_key);
        }
        while hashes > 1 && RATES[bits_per_key][hashes - 1] <= false_positives {
            hashes -= 1;
        }
        (bits_per_key, hashes)
    }

    fn indexes(&self, key: &[u8]) -> impl Iterator<Item = (usize, u8)> + use<> {
        let (step, start) = murmur3_128(key);
        let capacity = (self.bits.len() as u64 * 8).cast_signed().max(1);
        let mut at = start.cast_signed();
        (0..self.hashes).map(move |_| {
            let bit = (at % capacity).unsigned_abs();
            at = at.wrapping_add(step.cast_signed());
            (usize::try_from(bit / 8).unwrap_or(0), 1 << (bit % 8))
        })
    }

    /// Adds a key.
    pub(crate) fn add(&mut self, key: &[u8]) {
        for (at, bit) in self.indexes(key) {
            if let Some(byte) = self.bits.get_mut(at) {
                *byte |= bit;
            }
        }
    }

    /// Whether the key may have been added.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        self.indexes(key)
            .all(|(at, bit)| self.bits.get(at).is_some_and(|byte| byte & bit != 0))
    }

    /// The file's content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bits.len() + 8);
        out.put_u32(self.hashes);
        out.put_u32(u32::try_from(self.bits.len() / 8).unwrap_or(u32::MAX));
        out.put_slice(&self.bits);
        out
    }

    /// Reads a file's content; `old_format` for versions before 4.0, whose words are big-endian.
    pub(crate) fn decode(content: &Bytes, old_format: bool, path: &Path) -> Result<Self> {
        let head: [u8; 8] = content
            .get(..8)
            .and_then(|head| head.try_into().ok())
            .ok_or_else(|| corrupt(path, 0, "the file is too short"))?;
        let [h0, h1, h2, h3, w0, w1, w2, w3] = head;
        let hashes = u32::from_be_bytes([h0, h1, h2, h3]);
        let words = u64::from(u32::from_be_bytes([w0, w1, w2, w3]));
        if hashes > MAX_HASHES || words * 8 != content.len() as u64 - 8 {
            return Err(corrupt(
                path,
                0,
                "counts of hashes and words do not fit the file",
            ));
        }
        let mut bits = content[8..].to_vec();
        if old_format {
            for word in bits.chunks_exact_mut(8) {
                word.reverse();
            }
        }
        Ok(Self { hashes, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_added_are_found() {
        let mut filter = BloomFilter::new(1000, 0.01).unwrap();
        for key in 0..1000_u32 {
            filter.add(&key.to_be_bytes());
        }
        assert!((0..1000_u32).all(|key| filter.may_contain(&key.to_be_bytes())));
        let wrong = (1000..11_000_u32)
            .filter(|key| filter.may_contain(&key.to_be_bytes()))
            .count();
        assert!(wrong < 200, "{wrong}");
        let path = Path::new("f");
        let again = BloomFilter::decode(&Bytes::from(filter.encode()), false, path).unwrap();
        assert_eq!(again, filter);
        assert!(BloomFilter::decode(&Bytes::from_static(&[0, 0, 0, 1]), false, path).is_err());
        assert!(BloomFilter::new(10, 1.0).is_none());
    }
}
