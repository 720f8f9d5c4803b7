//! Queues for delays: which one a delay waits in. Each delay has a queue of its own, because in a shared queue a
//! short delay would wait behind a long one. To limit their number, delays are rounded up, by an eighth at most.
//! Round delays stay as they are.

use std::time::Duration;

/// Rounding steps in milliseconds.
const STEPS_MS: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000];

/// Returns the TTL of the queue for a delay, in milliseconds: never shorter than the delay, and longer by an
/// eighth or 50 ms at most.
pub(crate) fn delay_ms(delay: Duration) -> u64 {
    let delay = delay.as_nanos().div_ceil(1_000_000);
    let delay = u64::try_from(delay).unwrap_or(u64::MAX);
    let fits = STEPS_MS.iter().rev().find(|step| **step <= delay / 8);
    let step = fits.copied().unwrap_or(STEPS_MS[0]);
    delay.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    // spec: D-22, D-23
    #[test]
    fn a_delay_is_never_shortened_and_hardly_lengthened() {
        for delay in (1..=3_600_000).step_by(37) {
            let ttl = delay_ms(Duration::from_millis(delay));
            assert!(ttl >= delay, "{delay} became {ttl}");
            assert!(ttl - delay < (delay / 8).max(50), "{delay} became {ttl}");
        }
        assert_eq!(delay_ms(Duration::from_nanos(50_000_001)), 100);
    }

    #[test]
    fn round_delays_stay_as_they_are() {
        for seconds in [1, 2, 5, 10, 15, 30, 32, 45, 60, 90, 120, 300, 600, 900, 1_800, 3_600] {
            assert_eq!(delay_ms(Duration::from_secs(seconds)), seconds * 1_000);
        }
    }

    #[test]
    fn an_hour_of_delays_needs_no_more_than_120_queues() {
        let ttls: BTreeSet<u64> =
            (1..=3_600_000).map(|delay| delay_ms(Duration::from_millis(delay))).collect();
        assert!(ttls.len() <= 120, "{}", ttls.len());
    }
}
