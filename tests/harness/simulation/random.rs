//! Random numbers out of a seed: small, the same on every machine and in every version. Not for secrets.

use std::ops::RangeInclusive;

/// A stream of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed and purpose. Streams of different purposes do not disturb each other: a change in how many
    /// numbers one part takes changes no other part.
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        let mut random = Self { state: seed ^ fnv(purpose.as_bytes()) };
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// True this many times in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("below a length")
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }
}

/// FNV-1a.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    extend_fnv(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues a hash.
pub(super) fn extend_fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
