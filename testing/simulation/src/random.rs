//! Random numbers: one splitmix generator per seed, the only source of randomness, so that a seed determines a run.

use std::time::Duration;

/// Generator that repeats its numbers for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed ^ 0x5bf0_3635_ddf1_7a2b) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Returns a number below a bound; zero when the bound is zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Returns a number between two bounds, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability per ten thousand.
    pub(crate) fn chance(&mut self, in_ten_thousand: u64) -> bool {
        self.below(10_000) < in_ten_thousand
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.below(from.len() as u64);
        &from[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns a whole number of seconds between two bounds, both included.
    pub(crate) fn seconds(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_secs(self.between(low, high))
    }

    /// Returns a whole number of milliseconds between two bounds, both included.
    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}

/// Finalizer of splitmix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
