//! Wrong clock: the machine's, ahead or behind by a constant, as of a machine that nobody sets.

use async_trait::async_trait;
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::{Clock, SystemClock};

/// The machine's clock, wrong by a constant.
#[derive(Debug)]
pub struct WrongClock(pub SignedDuration);

impl WrongClock {
    /// An hour ahead, and an hour behind.
    pub const BY_AN_HOUR: [Self; 2] =
        [Self(SignedDuration::from_hours(1)), Self(SignedDuration::from_hours(-1))];
}

#[async_trait]
impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        // The ends of time stay where they are.
        let now = SystemClock.now();
        now.checked_add(self.0).unwrap_or(now)
    }

    fn steady(&self) -> Timestamp {
        SystemClock.steady()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        let instant = instant.checked_sub(self.0).unwrap_or(instant);
        SystemClock.sleep_until(instant).await;
    }
}
