//! The estimates in Statistics.db: sizes, tombstone times, count of keys.
//!
//! Sources: Cassandra 5.0 `EstimatedHistogram`, `TombstoneHistogram`; stream-lib `HyperLogLogPlus`.

use bytes::BufMut;
use helenus_types::{NowInSeconds, Reader, Truncated};
use std::collections::BTreeMap;

/// Tombstone times are rounded up to multiples of this.
const ROUND_SECONDS: NowInSeconds = 60;
/// Up to how many distinct tombstone times are kept.
const TOMBSTONE_BINS: usize = 100;

/// Counts in buckets that grow by a fifth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimatedHistogram {
    offsets: Vec<i64>,
    buckets: Vec<i64>,
}

impl EstimatedHistogram {
    /// A histogram with this many bucket bounds.
    pub fn new(count: usize) -> Self {
        let mut offsets = Vec::with_capacity(count);
        let mut last = 1_i64;
        for _ in 0..count {
            offsets.push(last);
            // Java's Math.round(last * 1.2)
            last = ((last * 12 + 5) / 10).max(last + 1);
        }
        Self {
            buckets: vec![0; offsets.len() + 1],
            offsets,
        }
    }

    /// For partition sizes.
    pub fn of_sizes() -> Self {
        Self::new(155)
    }

    /// For cells in a partition.
    pub fn of_counts() -> Self {
        Self::new(118)
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let at = self.offsets.partition_point(|offset| *offset < value);
        self.buckets[at] += 1;
    }

    /// Sum of all counts.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|count| count.unsigned_abs()).sum()
    }

    /// Estimated mean of the values.
    pub fn mean(&self) -> u64 {
        let pairs = self.offsets.iter().zip(&self.buckets);
        let sum: u128 = pairs
            .map(|(offset, count)| {
                u128::from(offset.unsigned_abs()) * u128::from(count.unsigned_abs())
            })
            .sum();
        u64::try_from(sum / u128::from(self.count().max(1))).unwrap_or(u64::MAX)
    }

    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(u32::try_from(self.buckets.len()).unwrap_or(u32::MAX));
        for (at, count) in self.buckets.iter().enumerate() {
            out.put_i64(self.offsets[at.saturating_sub(1)]);
            out.put_i64(*count);
        }
    }

    /// Reads it.
    pub fn decode(reader: &mut Reader) -> Result<Self, Truncated> {
        let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
        let mut histogram = Self {
            offsets: Vec::new(),
            buckets: Vec::new(),
        };
        for at in 0..count {
            let offset = reader.i64()?;
            if at > 0 {
                histogram.offsets.push(offset);
            }
            histogram.buckets.push(reader.i64()?);
        }
        Ok(histogram)
    }
}

/// How many tombstones may go when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TombstoneHistogram {
    bins: BTreeMap<NowInSeconds, u64>,
}

impl TombstoneHistogram {
    /// Counts a local deletion time.
    pub fn add(&mut self, seconds: NowInSeconds) {
        let rounded = seconds.saturating_add(ROUND_SECONDS - 1) / ROUND_SECONDS * ROUND_SECONDS;
        *self.bins.entry(rounded).or_insert(0) += 1;
        if self.bins.len() > TOMBSTONE_BINS {
            self.merge_nearest();
        }
    }

    fn merge_nearest(&mut self) {
        let pairs = self.bins.keys().zip(self.bins.keys().skip(1));
        let Some((left, right)) = pairs.min_by_key(|(a, b)| *b - *a).map(|(a, b)| (*a, *b)) else {
            return;
        };
        let (Some(a), Some(b)) = (self.bins.remove(&left), self.bins.remove(&right)) else {
            return;
        };
        let weighted = i128::from(left) * i128::from(a) + i128::from(right) * i128::from(b);
        let middle = i64::try_from(weighted / i128::from((a + b).max(1))).unwrap_or(right);
        *self.bins.entry(middle).or_insert(0) += a + b;
    }

    /// How many may go before `seconds`.
    pub fn before(&self, seconds: NowInSeconds) -> u64 {
        self.bins.range(..seconds).map(|(_, count)| *count).sum()
    }

    /// Appends it.
    pub fn encode(&self, unsigned: bool, out: &mut Vec<u8>) {
        let count = u32::try_from(self.bins.len()).unwrap_or(u32::MAX);
        out.put_u32(count);
        out.put_u32(count);
        for (seconds, count) in &self.bins {
            if unsigned {
                out.put_i64(*seconds);
                out.put_i32(i32::try_from(*count).unwrap_or(i32::MAX));
            } else {
                #[expect(clippy::cast_precision_loss, reason = "seconds fit a double")]
                out.put_f64(*seconds as f64);
                out.put_u64(*count);
            }
        }
    }

    /// Reads it.
    pub fn decode(reader: &mut Reader, unsigned: bool) -> Result<Self, Truncated> {
        reader.u32()?;
        let mut bins = BTreeMap::new();
        for _ in 0..reader.u32()? {
            let (seconds, count) = if unsigned {
                (reader.i64()?, u64::from(reader.u32()?))
            } else {
                #[expect(clippy::cast_possible_truncation, reason = "saturates, as Java's does")]
                let seconds = f64::from_bits(reader.u64()?) as i64;
                (seconds, reader.u64()?)
            };
            let entry = bins.entry(seconds).or_insert(0_u64);
            *entry = entry.saturating_add(count);
        }
        Ok(Self { bins })
    }
}

const PRECISION: u32 = 13;
const SPARSE_PRECISION: u64 = 25;
const REGISTER_BITS: usize = 5;
const REGISTERS_PER_WORD: usize = 6;

/// An estimate of the count of distinct keys that can be merged with others' (HyperLogLog++).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cardinality {
    registers: Vec<u8>,
}

impl Default for Cardinality {
    fn default() -> Self {
        Self {
            registers: vec![0; 1 << PRECISION],
        }
    }
}

impl Cardinality {
    /// Counts a key.
    pub fn add(&mut self, key: &[u8]) {
        let hash = murmur2_64(key);
        let at = usize::try_from(hash >> (64 - PRECISION)).unwrap_or(0);
        let rest = (hash << PRECISION) | (1 << (PRECISION - 1));
        let rank = u8::try_from(rest.leading_zeros() + 1)
            .unwrap_or(u8::MAX)
            .min(31);
        if let Some(register) = self.registers.get_mut(at) {
            *register = (*register).max(rank);
        }
    }

    /// Takes in another's keys.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// The estimate.
    pub fn estimate(&self) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let count = self.registers.len() as f64;
        let sum: f64 = self
            .registers
            .iter()
            .map(|rank| 1.0 / f64::from(1_u32 << rank.min(&31)))
            .sum();
        #[expect(
            clippy::naive_bytecount,
            clippy::cast_precision_loss,
            reason = "8192 registers"
        )]
        let zeros = self.registers.iter().filter(|rank| **rank == 0).count() as f64;
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        let estimate = if zeros > 0.0 && raw <= 2.5 * count {
            count * (count / zeros).ln()
        } else {
            raw
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive; saturates"
        )]
        let rounded = estimate.round() as u64;
        rounded
    }

    /// stream-lib's form of a dense estimator.
    pub fn encode(&self) -> Vec<u8> {
        let words = self.registers.len().div_ceil(REGISTERS_PER_WORD);
        let mut out = Vec::with_capacity(words * 4 + 16);
        out.put_i32(-2);
        vint7(u64::from(PRECISION), &mut out);
        vint7(SPARSE_PRECISION, &mut out);
        vint7(0, &mut out);
        vint7(words as u64 * 4, &mut out);
        for registers in self.registers.chunks(REGISTERS_PER_WORD) {
            let word = registers
                .iter()
                .enumerate()
                .fold(0_u32, |word, (at, rank)| {
                    word | (u32::from(*rank) << (REGISTER_BITS * at))
                });
            out.put_u32(word);
        }
        out
    }
}

/// LEB128, as stream-lib writes counts.
fn vint7(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let [.., low] = value.to_be_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// MurmurHash 2.0 of 64 bits as Cassandra's `MurmurHash.hash2_64`, with seed 0.
fn murmur2_64(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = (key.len() as u64).wrapping_mul(M);
    let mut blocks = key.chunks_exact(8);
    for block in &mut blocks {
        let mut k = block
            .iter()
            .rev()
            .fold(0_u64, |k, byte| (k << 8) | u64::from(*byte))
            .wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    let rest = blocks.remainder();
    if !rest.is_empty() {
        // The tail's bytes are signed in Java.
        for (at, byte) in rest.iter().enumerate() {
            hash ^= i64::from(byte.cast_signed()).cast_unsigned() << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 47)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinality_is_near() {
        let mut cardinality = Cardinality::default();
        for key in 0..20_000_u32 {
            cardinality.add(&key.to_be_bytes());
        }
        let estimate = cardinality.estimate();
        assert!((19_000..21_000).contains(&estimate), "{estimate}");
    }

    #[test]
    fn histograms_round_trip() {
        let mut sizes = EstimatedHistogram::of_sizes();
        let mut times = TombstoneHistogram::default();
        for at in 0..1000_u32 {
            sizes.add(u64::from(at) * 977);
            times.add(1_700_000_000 + i64::from(at) * 977);
        }
        assert_eq!(sizes.count(), 1000);
        let mut out = Vec::new();
        sizes.encode(&mut out);
        assert_eq!(
            EstimatedHistogram::decode(&mut Reader::copied(&out)).unwrap(),
            sizes
        );
        for unsigned in [true, false] {
            let mut out = Vec::new();
            times.encode(unsigned, &mut out);
            assert_eq!(
                TombstoneHistogram::decode(&mut Reader::copied(&out), unsigned).unwrap(),
                times
            );
        }
        assert_eq!(times.before(i64::MAX), 1000);
    }
}
