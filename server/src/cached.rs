//! One answer for many who ask at the same time: it is found out once, by the first, and holds for a while.

use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::between;
use punctual::{Clock, Result};
use tokio::sync::Mutex;

/// An answer, and when it was found.
pub(crate) struct Cached<T> {
    slot: Mutex<Option<(Timestamp, T)>>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { slot: Mutex::new(None) }
    }
}

impl<T: Clone> Cached<T> {
    /// The answer, not older than `age`. Who asks while it is found out waits for it; an error is not kept.
    pub(crate) async fn get(
        &self,
        clock: &dyn Clock,
        age: Duration,
        find: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut slot = self.slot.lock().await;
        let now = clock.now();
        if let Some((found_at, answer)) = &*slot
            && *found_at <= now
            && between(*found_at, now) < age
        {
            return Ok(answer.clone());
        }
        let answer = find.await?;
        *slot = Some((clock.now(), answer.clone()));
        Ok(answer)
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
    async fn an_error_is_not_kept() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        let cached = Cached::default();
        let age = Duration::from_secs(1);
        let failing = async { Err(punctual::Error::unavailable("away")) };
        assert!(cached.get(&clock, age, failing).await.is_err());
        assert_eq!(cached.get(&clock, age, async { Ok(7) }).await.unwrap(), 7);
    }
}
