//! Numbers out of a seed (SplitMix64), so that a run's plan can be repeated. Its timing cannot: processes are real.

use std::cell::Cell;

/// A stream of numbers.
#[derive(Debug)]
pub(crate) struct Seed(Cell<u64>);

impl Seed {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = (self.0.get() ^ (self.0.get() >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Whether something that happens once in `times` happens now.
    pub(crate) fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Another stream, which does not depend on how far this one is read.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.below(u64::MAX))
    }
}
