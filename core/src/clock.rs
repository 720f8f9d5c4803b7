//! Clock: reads the time and waits for instants. This is the one file that may read the system's clock or sleep;
//! everything else receives `now` or a [`Clock`], so that tests and the simulation control time.

mod storage_clock;

use std::fmt;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;

pub use self::storage_clock::StorageClock;
pub use crate::model::time::{add, between, next_tick, subtract};

/// Reads the time and waits for it.
#[async_trait]
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Returns the present instant of a clock that is never set: two readings differ by the time that
    /// passed, independent of changes of [`Clock::now`] between them. It may differ from `now` by any amount.
    ///
    /// The default returns `now`, for clocks that only their owner sets.
    fn steady(&self) -> Timestamp {
        self.now()
    }

    /// Waits until an instant; returns immediately when it is past. Cancel-safe.
    ///
    /// A clock that is set back meanwhile must not prolong the wait, so a caller that needs the instant itself
    /// reads [`Clock::now`] again.
    async fn sleep_until(&self, instant: Timestamp);
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
