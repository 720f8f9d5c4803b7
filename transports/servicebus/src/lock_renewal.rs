//! Lock renewal of a consumer: renews locks while their deliveries are in flight, and tokens while the
//! connection is open.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::{Result, clock};

use crate::connection::{Settings, Tokens};
use crate::in_flight::{DeliveryNumber, InFlight, LockRenewal};
use crate::management::Management;

/// Interval between two checks; the shortest lock that can be configured is five seconds.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Renews locks and tokens of one connection.
pub(crate) struct LockRenewer {
    pub(crate) settings: Arc<Settings>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) tokens: Tokens,
    pub(crate) management: Arc<Management>,
    /// Duration of the broker's locks, as last reported.
    pub(crate) lock_duration: Arc<Mutex<Duration>>,
}

impl LockRenewer {
    /// Runs until it is aborted.
    pub(crate) async fn run(mut self) {
        let clock = self.settings.clock.clone();
        loop {
            clock.sleep_until(clock::add(clock.now(), CHECK_INTERVAL)).await;
            if let Err(error) = self.renew_due(clock.now()).await {
                tracing::warn!(source = self.management.source, %error, "locks or tokens could not be renewed");
            }
        }
    }

    async fn renew_due(&mut self, now: Timestamp) -> Result<()> {
        if now >= self.tokens.renew_at() {
            let settings = self.settings.clone();
            settings.within_timeout(self.tokens.renew()).await?;
        }
        let due = self.in_flight.due(now);
        if due.is_empty() {
            return Ok(());
        }
        if self.renew(&due, now).await? {
            return Ok(());
        }
        // One of the locks is lost, and the broker does not report which.
        for one in due {
            if !self.renew(&[one], now).await? {
                let source = &self.management.source;
                tracing::warn!(source, "a lock expired before it was renewed");
                self.in_flight.mark_lock_lost(one.0);
            }
        }
        Ok(())
    }

    async fn renew(&self, due: &[(DeliveryNumber, LockRenewal)], now: Timestamp) -> Result<bool> {
        let is_renewed = self.management.renew(due.iter().map(|(_, renewal)| renewal.lock)).await?;
        if is_renewed {
            let duration = *self.lock_duration.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, _) in due {
                self.in_flight.renewed(*number, now, duration);
            }
        }
        Ok(is_renewed)
    }
}
