//! Cache of one computed value: concurrent readers compute it once and share it for a while. An expensive value
//! is cached longer, so that computing it takes at most half a percent of the time, and the previous value is
//! served while it is recomputed. The cost is the smaller of the last two, since one slow computation among fast
//! ones means a busy machine.

use std::sync::{Mutex as SyncMutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::between;
use punctual::{Clock, Result};
use tokio::sync::Mutex;

/// Cache time of a value as a multiple of its cost.
const TTL_PER_COST: u32 = 200;
/// Longest cache time because of the cost.
const COST_TTL_MAX: Duration = Duration::from_secs(60);
/// Cost from which a value is expensive.
const EXPENSIVE: Duration = Duration::from_millis(10);
/// How much longer an expensive value is served while it is recomputed in the background.
const GRACE: Duration = Duration::from_secs(15);

/// A cached value.
pub(crate) struct CachedValue<T> {
    slot: SyncMutex<Option<Entry<T>>>,
    /// Held while the value is computed.
    refresh: Mutex<()>,
}

struct Entry<T> {
    at: Timestamp,
    took: Duration,
    /// The smaller of the last two computation times.
    cost: Duration,
    /// When the value was last read.
    read_at: Timestamp,
    value: T,
}

impl<T> Default for CachedValue<T> {
    fn default() -> Self {
        Self { slot: SyncMutex::new(None), refresh: Mutex::new(()) }
    }
}

impl<T> Entry<T> {
    fn ttl(&self, age: Duration) -> Duration {
        age.max(self.cost.saturating_mul(TTL_PER_COST).min(COST_TTL_MAX))
    }

    fn is_expensive(&self) -> bool {
        self.cost >= EXPENSIVE
    }

    /// Returns whether the value may still be served.
    fn is_valid(&self, now: Timestamp, age: Duration) -> bool {
        let grace = if self.is_expensive() { GRACE } else { Duration::ZERO };
        self.at <= now && between(self.at, now) < self.ttl(age) + grace
    }
}

impl<T: Clone> CachedValue<T> {
    /// Returns the value, at most `age` old unless it is expensive. Concurrent callers wait for the same computation,
    /// unless the previous value is still valid. Errors are not cached.
    pub(crate) async fn get(
        &self,
        clock: &dyn Clock,
        age: Duration,
        find: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if let Some(value) = self.cached(clock.now(), age) {
            return Ok(value);
        }
        let _refresh = self.refresh.lock().await;
        if let Some(value) = self.cached(clock.now(), age) {
            return Ok(value);
        }
        self.refresh_with(clock, find).await
    }

    /// Returns the value, never older than `age`, however expensive; for health, which must not be outdated.
    pub(crate) async fn get_fresh(
        &self,
        clock: &dyn Clock,
        age: Duration,
        find: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if let Some(value) = self.fresh(clock.now(), age) {
            return Ok(value);
        }
        let _refresh = self.refresh.lock().await;
        if let Some(value) = self.fresh(clock.now(), age) {
            return Ok(value);
        }
        self.refresh_with(clock, find).await
    }

    /// Recomputes an expired expensive value that was read recently; readers get the previous one meanwhile.
    pub(crate) async fn renew(
        &self,
        clock: &dyn Clock,
        find: impl Future<Output = Result<T>>,
    ) -> Result<()> {
        let now = clock.now();
        let is_due = self.slot().as_ref().is_some_and(|found| {
            found.is_expensive()
                && between(found.read_at, now) < GRACE
                && between(found.at, now) >= found.ttl(Duration::ZERO)
        });
        if is_due {
            let _refresh = self.refresh.lock().await;
            self.refresh_with(clock, find).await?;
        }
        Ok(())
    }

    /// Returns the value if it is expensive and still valid.
    pub(crate) fn expensive(&self, now: Timestamp) -> Option<T> {
        let slot = self.slot();
        let found = slot.as_ref().filter(|found| found.is_expensive());
        found.filter(|found| found.is_valid(now, Duration::ZERO)).map(|found| found.value.clone())
    }

    /// Drops the value because its source changed.
    pub(crate) fn forget(&self) {
        *self.slot() = None;
    }

    fn fresh(&self, now: Timestamp, age: Duration) -> Option<T> {
        let slot = self.slot();
        let found = slot.as_ref().filter(|found| found.at <= now)?;
        (between(found.at, now) < age).then(|| found.value.clone())
    }

    fn cached(&self, now: Timestamp, age: Duration) -> Option<T> {
        let mut slot = self.slot();
        let found = slot.as_mut().filter(|found| found.is_valid(now, age))?;
        found.read_at = now;
        Some(found.value.clone())
    }

    async fn refresh_with(
        &self,
        clock: &dyn Clock,
        find: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = clock.now();
        let value = find.await?;
        let at = clock.now();
        let took = between(began, at);
        let mut slot = self.slot();
        let (read_at, cost) = slot
            .as_ref()
            .map_or((at, took), |before| (before.read_at.max(began), before.took.min(took)));
        *slot = Some(Entry { at, took, cost, read_at, value: value.clone() });
        Ok(value)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Entry<T>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use punctual::ManualClock;

    use super::*;

    #[tokio::test]
    async fn concurrent_callers_share_one_computation() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (CachedValue::default(), AtomicU32::new(0));
        let ask = || {
            cached.get(&clock, Duration::from_secs(1), async {
                tokio::task::yield_now().await;
                Ok(found.fetch_add(1, Ordering::Relaxed))
            })
        };
        let results = futures_util::future::join_all((0..5).map(|_| ask())).await;
        assert!(results.into_iter().all(|result| result.unwrap() == 0));
        clock.advance(Duration::from_millis(999));
        assert_eq!(ask().await.unwrap(), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(ask().await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_fresh_value_is_never_older_however_expensive() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (CachedValue::default(), AtomicU32::new(0));
        let ask = || {
            cached.get_fresh(&clock, Duration::from_secs(1), async {
                clock.advance(Duration::from_millis(200));
                Ok(found.fetch_add(1, Ordering::Relaxed))
            })
        };
        assert_eq!(ask().await.unwrap(), 0);
        clock.advance(Duration::from_millis(999));
        assert_eq!(ask().await.unwrap(), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(ask().await.unwrap(), 1);
    }

    #[tokio::test]
    async fn an_error_is_not_cached() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let cached = CachedValue::default();
        let age = Duration::from_secs(1);
        let failing = async { Err(punctual::Error::unavailable("away")) };
        assert!(cached.get(&clock, age, failing).await.is_err());
        assert_eq!(cached.get(&clock, age, async { Ok(7) }).await.unwrap(), 7);
    }

    // Regression: one slow computation of 300 ms kept health outdated for a minute.
    #[tokio::test]
    async fn one_slow_computation_among_fast_ones_is_not_cached_longer() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (CachedValue::default(), AtomicU32::new(0));
        let ask = |took: u64| {
            let (clock, found) = (&clock, &found);
            cached.get(clock, Duration::from_secs(5), async move {
                clock.advance(Duration::from_millis(took));
                Ok(found.fetch_add(1, Ordering::Relaxed))
            })
        };
        for (number, took) in [(0, 5), (1, 300), (2, 300)] {
            assert_eq!(ask(took).await.unwrap(), number);
            clock.advance(Duration::from_secs(5));
        }
        assert_eq!(ask(5).await.unwrap(), 2, "twice in a row is expensive");
    }

    #[tokio::test]
    async fn an_expensive_value_is_cached_longer_and_recomputed_in_the_background() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (CachedValue::default(), AtomicU32::new(0));
        let find = || async {
            clock.advance(Duration::from_millis(200));
            Ok(found.fetch_add(1, Ordering::Relaxed))
        };
        let ask = || cached.get(&clock, Duration::ZERO, find());
        assert_eq!(ask().await.unwrap(), 0);
        clock.advance(Duration::from_millis(39_999));
        cached.renew(&clock, find()).await.unwrap();
        assert_eq!(ask().await.unwrap(), 0, "two hundred times the cost");
        clock.advance(Duration::from_millis(1));
        assert_eq!(
            ask().await.unwrap(),
            0,
            "it has expired, and no caller waits for the computation"
        );
        cached.renew(&clock, find()).await.unwrap();
        assert_eq!(ask().await.unwrap(), 1);
        cached.forget();
        assert_eq!(ask().await.unwrap(), 2);
        clock.advance(Duration::from_secs(56));
        assert_eq!(cached.expensive(clock.now()), None);
        cached.renew(&clock, find()).await.unwrap();
        assert_eq!(found.load(Ordering::Relaxed), 3, "it was not read recently");
    }
}
