//! Back-off: the pause of a loop after failures in a row.

use std::time::Duration;

/// Returns the delay after a number of failures in a row: 100 ms, doubled each time, at most 30 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(PAUSE_MAX)
}

/// Longest pause after failures, unless a service sets its own.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_and_is_bounded() {
        let delays: Vec<u128> =
            [1, 2, 3, 9, 10, 1_000].map(|failures| backoff(failures).as_millis()).into();
        assert_eq!(delays, [100, 200, 400, 25_600, 30_000, 30_000]);
    }
}
