//! Time arithmetic: instants and durations, without a clock. Results stop at the ends of time instead of failing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Returns the later instant, or the end of time.
pub fn add(instant: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| instant.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Returns the earlier instant, or the beginning of time.
pub fn subtract(instant: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| instant.checked_sub(duration).ok())
        .unwrap_or(Timestamp::MIN)
}

/// Returns the duration from one instant to a later one; zero when it is not later.
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// Returns an instant cut to whole microseconds, as every storage keeps it.
pub(crate) fn whole_microseconds(instant: Timestamp) -> Timestamp {
    let nanosecond = instant.as_nanosecond();
    Timestamp::from_nanosecond(nanosecond - nanosecond.rem_euclid(1_000)).unwrap_or(instant)
}

/// Returns the next tick strictly after `now` on the grid of an interval, counted from the epoch.
///
/// At 30 s: 13:14:07 returns 13:14:30, an exact boundary returns a full interval.
pub fn next_tick(now: Timestamp, interval: Duration) -> Timestamp {
    let duration = i128::try_from(interval.as_nanos()).unwrap_or(i128::MAX).max(1);
    let next = now.as_nanosecond().div_euclid(duration).saturating_add(1).saturating_mul(duration);
    Timestamp::from_nanosecond(next).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 11.
    // spec: T-14, T-15, T-16
    #[test]
    fn ticks_stay_on_the_boundaries_of_the_clock() {
        let half_minute = Duration::from_secs(30);
        for (now, delay_ms) in [
            ("2026-01-01T13:14:07Z", 23_000),
            ("2026-01-01T13:14:30Z", 30_000),
            ("2026-01-01T13:14:29.999Z", 1),
            ("2026-01-01T13:14:00.001Z", 29_999),
        ] {
            let now: Timestamp = now.parse().unwrap();
            assert_eq!(between(now, next_tick(now, half_minute)).as_millis(), delay_ms, "{now}");
        }
    }

    #[test]
    fn arithmetic_past_the_ends_of_time_stops_at_them() {
        assert_eq!(add(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(add(Timestamp::MIN, Duration::MAX), Timestamp::MAX);
        assert_eq!(subtract(Timestamp::MIN, Duration::from_secs(1)), Timestamp::MIN);
        assert_eq!(next_tick(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(between(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
    }
}
