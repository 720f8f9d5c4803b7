//! Which queue a delay waits in. There is one queue for each length, because in one queue a short delay
//! would wait behind a long one; so that there are not too many, lengths are rounded up, by an eighth at
//! most. Round lengths stay as they are.

use std::time::Duration;

/// How coarse a length may be, in milliseconds.
const STEPS_MS: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000];

/// The length of the queue for a delay, in milliseconds: never shorter, and later by an eighth or 50 ms at
/// most.
pub(crate) fn length_ms(delay: Duration) -> u64 {
    let wanted = delay.as_nanos().div_ceil(1_000_000);
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    let fits = STEPS_MS.iter().rev().find(|step| **step <= wanted / 8);
    let step = fits.copied().unwrap_or(STEPS_MS[0]);
    wanted.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // spec: D-22, D-23
    #[test]
    fn a_delay_is_never_shortened_and_hardly_lengthened() {
        for wanted in (1..=3_600_000).step_by(37) {
            let length = length_ms(Duration::from_millis(wanted));
            assert!(length >= wanted, "{wanted} became {length}");
            assert!(length - wanted < (wanted / 8).max(50), "{wanted} became {length}");
        }
        assert_eq!(length_ms(Duration::from_nanos(50_000_001)), 100);
    }

    #[test]
    fn round_lengths_stay_as_they_are() {
        for seconds in [1, 2, 5, 10, 15, 30, 32, 45, 60, 90, 120, 300, 600, 900, 1_800, 3_600] {
            assert_eq!(length_ms(Duration::from_secs(seconds)), seconds * 1_000);
        }
    }

    #[test]
    fn an_hour_of_delays_needs_no_more_than_120_queues() {
        let lengths: BTreeSet<u64> =
            (1..=3_600_000).map(|wanted| length_ms(Duration::from_millis(wanted))).collect();
        assert!(lengths.len() <= 120, "{}", lengths.len());
    }
}
