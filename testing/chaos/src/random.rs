//! Random numbers that are the same for the same seed.
//!
//! Only the plan repeats exactly (which process is killed, how and when), not the scheduling by the operating system.

use std::time::Duration;

/// Random number generator with a seed.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// Returns a generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns an independent generator for one user, so that its numbers do not depend on the use of others.
    pub fn fork(&self, number: u64) -> Self {
        Self { state: mix(self.state ^ mix(number.wrapping_add(1))) }
    }

    /// Returns a number below a limit; zero when the limit is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state).checked_rem(limit).unwrap_or(0)
    }

    /// Returns true with a probability in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns a duration in a range, in whole milliseconds.
    pub fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let span = longest.saturating_sub(shortest).as_millis();
        shortest + Duration::from_millis(self.below(u64::try_from(span).unwrap_or(u64::MAX)))
    }
}

/// Finalizer of splitmix64: every input bit affects every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = SeededRandom::new(seed);
            (0..9).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn numbers_stay_within_their_limits() {
        let mut random = SeededRandom::new(1).fork(3);
        let (short, long) = (Duration::from_millis(5), Duration::from_millis(9));
        for _ in 0..200 {
            assert!(random.below(3) < 3);
            assert!((short..long).contains(&random.between(short, long)));
        }
        assert_eq!(random.below(0), 0);
        assert!(!random.percent(0) && random.percent(100));
    }
}
