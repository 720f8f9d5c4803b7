//! Randomness that repeats for the same seed, so that a run can be told again by its number.
//!
//! Only the plan repeats exactly (who is killed, how, after how long); when the system lets a process
//! run is the system's business.

use std::time::Duration;

/// Throws numbers; the same ones for the same seed.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice for a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Dice of their own for somebody, so that nobody's throws depend on how often others throw.
    pub fn for_one(&self, who: u64) -> Self {
        Self { state: mix(self.state ^ mix(who.wrapping_add(1))) }
    }

    /// A number below a limit; zero when the limit is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state).checked_rem(limit).unwrap_or(0)
    }

    /// Whether something happens that happens in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A length between two, by the millisecond.
    pub fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let span = longest.saturating_sub(shortest).as_millis();
        shortest + Duration::from_millis(self.below(u64::try_from(span).unwrap_or(u64::MAX)))
    }
}

/// The finalizer of splitmix64: every input bit reaches every output bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            (0..9).map(|_| dice.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(throws(7), throws(7));
        assert_ne!(throws(7), throws(8));
    }

    #[test]
    fn throws_stay_within_their_limits() {
        let mut dice = Dice::new(1).for_one(3);
        let (short, long) = (Duration::from_millis(5), Duration::from_millis(9));
        for _ in 0..200 {
            assert!(dice.below(3) < 3);
            assert!((short..long).contains(&dice.between(short, long)));
        }
        assert_eq!(dice.below(0), 0);
        assert!(!dice.percent(0) && dice.percent(100));
    }
}
