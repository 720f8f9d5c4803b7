//! Renewal of a consumer's locks while their deliveries are in flight, and of tokens while the connection is open.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::renewal::Renew;
use punctual::jiff::Timestamp;

use crate::connection::Tokens;
use crate::in_flight::{DeliveryNumber, InFlight, InFlightDelivery};
use crate::management::{Lock, Management};
use crate::settings::Settings;

/// Interval between two checks; the shortest lock that can be configured is five seconds.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Most locks in one request.
const LOCKS_MAX: usize = 100;

/// Renews locks and tokens of one connection.
pub(crate) struct LockRenewer {
    pub(crate) settings: Arc<Settings>,
    pub(crate) in_flight: InFlight,
    pub(crate) tokens: Tokens,
    pub(crate) management: Arc<Management>,
    /// Duration of the broker's locks, as last reported.
    pub(crate) lock_duration: Arc<Mutex<Duration>>,
}

type LockedDelivery = (DeliveryNumber, Lock);

#[async_trait]
impl Renew<DeliveryNumber, InFlightDelivery> for LockRenewer {
    async fn renew(
        &mut self,
        due: Vec<(DeliveryNumber, InFlightDelivery)>,
        now: Timestamp,
    ) -> Result<()> {
        if now >= self.tokens.renew_at() {
            let settings = self.settings.clone();
            settings.within_timeout(self.tokens.renew()).await?;
        }
        let due = due.into_iter().filter_map(|(number, delivery)| Some((number, delivery.lock?)));
        let due: Vec<LockedDelivery> = due.take(LOCKS_MAX).collect();
        if due.is_empty() || self.renew_locks(&due, now).await? {
            return Ok(());
        }
        // One of the locks is lost, and the broker does not report which.
        for one in due {
            if !self.renew_locks(&[one], now).await? {
                let source = &self.management.source;
                tracing::warn!(source, "a lock expired before it was renewed");
                self.in_flight.mark_lock_lost(one.0);
            }
        }
        Ok(())
    }
}

impl LockRenewer {
    async fn renew_locks(&self, due: &[LockedDelivery], now: Timestamp) -> Result<bool> {
        let is_renewed = self.management.renew(due.iter().map(|(_, lock)| *lock)).await?;
        if is_renewed {
            let duration = *self.lock_duration.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, _) in due {
                self.in_flight.renewed(*number, now, duration);
            }
        }
        Ok(is_renewed)
    }
}
