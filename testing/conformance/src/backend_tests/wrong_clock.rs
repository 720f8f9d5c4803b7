//! Wrong clock: the machine's clock, ahead or behind by a constant, as on a machine without time synchronization.

use async_trait::async_trait;
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::{Clock, SystemClock};

/// The machine's clock, wrong by a constant.
#[derive(Debug)]
pub struct WrongClock(pub SignedDuration);

impl WrongClock {
    /// Clocks an hour ahead and an hour behind.
    pub const BY_AN_HOUR: [Self; 2] =
        [Self(SignedDuration::from_hours(1)), Self(SignedDuration::from_hours(-1))];
}

#[async_trait]
impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        // Beyond the range of timestamps the clock is right.
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
