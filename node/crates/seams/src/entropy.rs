//! Randomness: the operating system's or a seeded sequence.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Where the node gets its randomness. Not for secrets.
pub trait Entropy: Send + Sync {
    /// 64 random bits.
    fn next_u64(&self) -> u64;

    /// A random (version 4) UUID.
    fn uuid_v4(&self) -> Uuid {
        let (high, low) = (self.next_u64(), self.next_u64());
        uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
            .into_uuid()
    }

    /// A number below `bound` (0 when `bound` is 0).
    fn below(&self, bound: usize) -> usize {
        let wide = u128::from(self.next_u64()) * bound as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

/// Randomness of the operating system, by way of random UUIDs.
#[derive(Debug, Clone, Default)]
pub struct RealEntropy;

impl Entropy for RealEntropy {
    #[expect(clippy::disallowed_methods, reason = "the real edge of randomness")]
    fn next_u64(&self) -> u64 {
        let (a, b) = (Uuid::new_v4().as_u64_pair(), Uuid::new_v4().as_u64_pair());
        // the version and variant bits are fixed in each half: mix two draws
        a.0.rotate_left(17) ^ b.1 ^ a.1.rotate_left(41)
    }
}

/// A sequence that one seed determines (SplitMix64).
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
    order: Mutex<()>,
}

impl SeededEntropy {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
            order: Mutex::new(()),
        }
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        let _held = self.order.lock();
        let mut z = self
            .state
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
