//! One answer for many who ask at the same time: it is found out once, by the first, and holds for a while.
//! What was costly to find holds longer, so that finding it never takes more than half a percent of the time, and
//! who asks for it gets the one before while it is found anew. One slow answer among quick ones is a busy machine and
//! not a costly question, so the quicker one of the last two counts.

use std::sync::{Mutex as Short, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::between;
use punctual::{Clock, Result};
use tokio::sync::Mutex;

/// How many times as long as it took an answer holds.
const HOLDS: u32 = 200;
/// The longest that an answer holds because it was costly.
const HOLDS_MAX: Duration = Duration::from_secs(60);
/// From when on an answer is costly.
const COSTLY: Duration = Duration::from_millis(10);
/// How much older a costly answer may be while it is found anew in the background.
const GRACE: Duration = Duration::from_secs(15);

/// An answer, and when it was found.
pub(crate) struct Cached<T> {
    slot: Short<Option<Found<T>>>,
    /// Held by whoever finds out.
    finding: Mutex<()>,
}

struct Found<T> {
    at: Timestamp,
    took: Duration,
    /// What it took, or the one before when that was quicker.
    cost: Duration,
    asked_at: Timestamp,
    answer: T,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { slot: Short::new(None), finding: Mutex::new(()) }
    }
}

impl<T> Found<T> {
    fn holds(&self, age: Duration) -> Duration {
        age.max(self.cost.saturating_mul(HOLDS).min(HOLDS_MAX))
    }

    fn is_costly(&self) -> bool {
        self.cost >= COSTLY
    }

    /// Whether it may still be given out.
    fn is_good(&self, now: Timestamp, age: Duration) -> bool {
        let grace = if self.is_costly() { GRACE } else { Duration::ZERO };
        self.at <= now && between(self.at, now) < self.holds(age) + grace
    }
}

impl<T: Clone> Cached<T> {
    /// The answer, not older than `age` unless it is costly. Who asks while it is found out waits for it,
    /// unless the one before is good enough; an error is not kept.
    pub(crate) async fn get(
        &self,
        clock: &dyn Clock,
        age: Duration,
        find: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if let Some(answer) = self.known(clock.now(), age) {
            return Ok(answer);
        }
        let _finding = self.finding.lock().await;
        if let Some(answer) = self.known(clock.now(), age) {
            return Ok(answer);
        }
        self.found(clock, find).await
    }

    /// The answer, never older than `age`, however costly it is: for what must not look better than it is.
    pub(crate) async fn get_fresh(
        &self,
        clock: &dyn Clock,
        age: Duration,
        find: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if let Some(answer) = self.fresh(clock.now(), age) {
            return Ok(answer);
        }
        let _finding = self.finding.lock().await;
        if let Some(answer) = self.fresh(clock.now(), age) {
            return Ok(answer);
        }
        self.found(clock, find).await
    }

    /// Finds a costly answer anew that no longer holds, when somebody asked for it lately; whoever asks
    /// meanwhile gets the one before.
    pub(crate) async fn renew(
        &self,
        clock: &dyn Clock,
        find: impl Future<Output = Result<T>>,
    ) -> Result<()> {
        let now = clock.now();
        let is_due = self.slot().as_ref().is_some_and(|found| {
            found.is_costly()
                && between(found.asked_at, now) < GRACE
                && between(found.at, now) >= found.holds(Duration::ZERO)
        });
        if is_due {
            let _finding = self.finding.lock().await;
            self.found(clock, find).await?;
        }
        Ok(())
    }

    /// The answer when it is costly and good enough.
    pub(crate) fn costly(&self, now: Timestamp) -> Option<T> {
        let slot = self.slot();
        let found = slot.as_ref().filter(|found| found.is_costly());
        found.filter(|found| found.is_good(now, Duration::ZERO)).map(|found| found.answer.clone())
    }

    /// Forgets the answer, because something changed that it is about.
    pub(crate) fn forget(&self) {
        *self.slot() = None;
    }

    fn fresh(&self, now: Timestamp, age: Duration) -> Option<T> {
        let slot = self.slot();
        let found = slot.as_ref().filter(|found| found.at <= now)?;
        (between(found.at, now) < age).then(|| found.answer.clone())
    }

    fn known(&self, now: Timestamp, age: Duration) -> Option<T> {
        let mut slot = self.slot();
        let found = slot.as_mut().filter(|found| found.is_good(now, age))?;
        found.asked_at = now;
        Some(found.answer.clone())
    }

    async fn found(&self, clock: &dyn Clock, find: impl Future<Output = Result<T>>) -> Result<T> {
        let began = clock.now();
        let answer = find.await?;
        let at = clock.now();
        let took = between(began, at);
        let mut slot = self.slot();
        let (asked_at, cost) = slot
            .as_ref()
            .map_or((at, took), |before| (before.asked_at.max(began), before.took.min(took)));
        *slot = Some(Found { at, took, cost, asked_at, answer: answer.clone() });
        Ok(answer)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Found<T>>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use punctual::ManualClock;

    use super::*;

    #[tokio::test]
    async fn five_who_ask_at_once_cost_one_answer() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (Cached::default(), AtomicU32::new(0));
        let ask = || {
            cached.get(&clock, Duration::from_secs(1), async {
                tokio::task::yield_now().await;
                Ok(found.fetch_add(1, Ordering::Relaxed))
            })
        };
        let answers = futures_util::future::join_all((0..5).map(|_| ask())).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap() == 0));
        clock.advance(Duration::from_millis(999));
        assert_eq!(ask().await.unwrap(), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(ask().await.unwrap(), 1);
    }

    #[tokio::test]
    async fn what_must_be_fresh_is_never_older_however_costly() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (Cached::default(), AtomicU32::new(0));
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
    async fn an_error_is_not_kept() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let cached = Cached::default();
        let age = Duration::from_secs(1);
        let failing = async { Err(punctual::Error::unavailable("away")) };
        assert!(cached.get(&clock, age, failing).await.is_err());
        assert_eq!(cached.get(&clock, age, async { Ok(7) }).await.unwrap(), 7);
    }

    // A single hiccup of 300 ms had kept health as it was for a minute.
    #[tokio::test]
    async fn one_slow_answer_among_quick_ones_holds_no_longer() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (Cached::default(), AtomicU32::new(0));
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
        assert_eq!(ask(5).await.unwrap(), 2, "twice in a row is costly");
    }

    #[tokio::test]
    async fn what_was_costly_holds_longer_and_is_found_anew_in_the_background() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let (cached, found) = (Cached::default(), AtomicU32::new(0));
        let find = || async {
            clock.advance(Duration::from_millis(200));
            Ok(found.fetch_add(1, Ordering::Relaxed))
        };
        let ask = || cached.get(&clock, Duration::ZERO, find());
        assert_eq!(ask().await.unwrap(), 0);
        clock.advance(Duration::from_millis(39_999));
        cached.renew(&clock, find()).await.unwrap();
        assert_eq!(ask().await.unwrap(), 0, "two hundred times as long as it took");
        clock.advance(Duration::from_millis(1));
        assert_eq!(ask().await.unwrap(), 0, "it is to be found anew, and nobody waits for that");
        cached.renew(&clock, find()).await.unwrap();
        assert_eq!(ask().await.unwrap(), 1);
        cached.forget();
        assert_eq!(ask().await.unwrap(), 2);
        clock.advance(Duration::from_secs(56));
        assert_eq!(cached.costly(clock.now()), None);
        cached.renew(&clock, find()).await.unwrap();
        assert_eq!(found.load(Ordering::Relaxed), 3, "nobody has asked for it lately");
    }
}
