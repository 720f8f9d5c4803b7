//! Clock: reads the time and waits for instants. This is the one file that may read the system's clock or sleep;
//! everything else receives `now` or a [`Clock`], so that tests and the simulation control time.

mod storage_clock;

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

pub use self::storage_clock::StorageClock;

/// Reads the time and waits for it.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Returns the present instant of a clock that is never set: two readings differ by the time that
    /// passed, whatever happened to [`Clock::now`] between them. It may differ from `now` by any amount.
    ///
    /// The default returns `now`, for clocks that only their owner sets.
    fn steady(&self) -> Timestamp {
        self.now()
    }

    /// Waits until an instant; returns at once when it is past. Cancel-safe.
    ///
    /// A clock that is set back meanwhile must not prolong the wait, so a caller that needs the instant itself
    /// reads [`Clock::now`] again.
    async fn sleep_until(&self, instant: Timestamp);
}

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
pub fn whole_microseconds(instant: Timestamp) -> Timestamp {
    let nanosecond = instant.as_nanosecond();
    Timestamp::from_nanosecond(nanosecond - nanosecond.rem_euclid(1_000)).unwrap_or(instant)
}

/// Returns the next tick strictly after `now` on the grid of an interval, counted from the epoch.
///
/// At 30 s: 13:14:07 gives 13:14:30, an exact boundary gives a full interval.
pub fn next_tick(now: Timestamp, interval: Duration) -> Timestamp {
    let duration = i128::try_from(interval.as_nanos()).unwrap_or(i128::MAX).max(1);
    let next = now.as_nanosecond().div_euclid(duration).saturating_add(1).saturating_mul(duration);
    Timestamp::from_nanosecond(next).unwrap_or(Timestamp::MAX)
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Longest single sleep. The wall clock may be stepped while we sleep on the monotonic one, so the
/// two are compared again at least this often.
const SLEEP_MAX: Duration = Duration::from_secs(30);

#[async_trait]
impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one reading of the system's clock
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[allow(clippy::disallowed_methods)] // the one reading of the monotonic clock
    fn steady(&self) -> Timestamp {
        static FIRST: OnceLock<(Instant, Timestamp)> = OnceLock::new();
        let (first, first_time) = FIRST.get_or_init(|| (Instant::now(), Timestamp::now()));
        add(*first_time, first.elapsed())
    }

    #[allow(clippy::disallowed_methods)] // the one sleep
    async fn sleep_until(&self, instant: Timestamp) {
        let started_at = tokio::time::Instant::now();
        let total = between(self.now(), instant);
        loop {
            let remaining =
                between(self.now(), instant).min(total.saturating_sub(started_at.elapsed()));
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining.min(SLEEP_MAX)).await;
        }
    }
}

/// Waits for work, but not past an instant; returns `None` when the instant came first.
///
/// This is the only form of a timeout in Punctual. The work is dropped when time runs out.
pub async fn within<T>(
    clock: &dyn Clock,
    until: Timestamp,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        value = work => Some(value),
        () = clock.sleep_until(until) => None,
    }
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
