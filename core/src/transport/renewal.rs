//! Renewal of visibility timeouts and locks: one timer loop that renews them while deliveries are in flight. When the
//! process ends, the loop ends, and the broker delivers to another consumer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::task::AbortHandle;

use super::in_flight::InFlight;
use crate::clock::{Clock, add};
use crate::error::Result;

/// Rounds per visibility timeout. Two may fail before the broker delivers to another consumer.
pub const RENEWALS_PER_TIMEOUT: u32 = 3;

/// Renewal of visibility timeouts or locks by calls to a broker.
#[async_trait]
pub trait Renew<K, D>: Send + 'static {
    /// Renews the timeouts or locks of the deliveries that are due. Called in every round, also when none is due. An
    /// error is logged, and what is still in flight is due again in the next round.
    async fn renew(&mut self, due: Vec<(K, D)>, now: Timestamp) -> Result<()>;
}

/// Task that renews the timeouts or locks of the deliveries of an in-flight set. It ends when this or the set is
/// dropped.
#[derive(Debug)]
pub struct VisibilityRenewal(AbortHandle);

impl VisibilityRenewal {
    /// Starts the task, with a round after each interval. The interval is at most half of the shortest timeout;
    /// where all are equally long, it is a [third](RENEWALS_PER_TIMEOUT) of that.
    pub fn start<K, D>(
        in_flight: &Arc<InFlight<K, D>>,
        clock: Arc<dyn Clock>,
        interval: Duration,
        renew: impl Renew<K, D>,
    ) -> Self
    where
        K: Copy + Eq + std::hash::Hash + Send + 'static,
        D: Clone + Send + 'static,
    {
        let task = run(Arc::downgrade(in_flight), clock, interval, renew);
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for VisibilityRenewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run<K, D>(
    in_flight: Weak<InFlight<K, D>>,
    clock: Arc<dyn Clock>,
    interval: Duration,
    mut renew: impl Renew<K, D>,
) where
    K: Copy + Eq + std::hash::Hash + Send + 'static,
    D: Clone + Send + 'static,
{
    loop {
        clock.sleep_until(add(clock.now(), interval)).await;
        let Some(in_flight) = in_flight.upgrade() else { return };
        let now = clock.now();
        let (round, due) = in_flight.begin_renewal(now);
        let count = due.len();
        let renewed = renew.renew(due, now).await;
        drop(round);
        if let Err(error) = renewed {
            tracing::warn!(%error, count, "the timeouts or locks of deliveries in flight were not renewed");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::builtin::ManualClock;

    struct Recorder(mpsc::UnboundedSender<Vec<u8>>);

    #[async_trait]
    impl Renew<u8, ()> for Recorder {
        async fn renew(&mut self, due: Vec<(u8, ())>, _now: Timestamp) -> Result<()> {
            let _ = self.0.send(due.into_iter().map(|(key, ())| key).collect());
            Err(crate::Error::unavailable("away"))
        }
    }

    #[tokio::test]
    async fn what_is_in_flight_is_renewed_in_every_round_until_the_owner_is_gone() {
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        let in_flight = Arc::new(InFlight::default());
        let (sender, mut rounds) = mpsc::unbounded_channel();
        let interval = Duration::from_secs(10);
        let renewal =
            VisibilityRenewal::start(&in_flight, clock.clone(), interval, Recorder(sender));
        in_flight.insert(1, (), clock.now());
        for due in [vec![1], vec![1], vec![]] {
            if due.is_empty() {
                in_flight.remove(1);
            }
            while clock.sleepers() == 0 {
                tokio::task::yield_now().await;
            }
            clock.advance(interval);
            assert_eq!(rounds.recv().await, Some(due), "also after an error");
        }
        drop(renewal);
        assert_eq!(rounds.recv().await, None);
    }
}
