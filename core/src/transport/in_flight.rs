//! In-flight set: the deliveries of a consumer that are not settled, each with what the broker needs to renew its
//! visibility timeout, lock or acknowledgement timeout, and when.
//!
//! A renewal that overtook a settlement could undo it, such as the delay of a requeue. What settles a delivery removes
//! it first, and, where a late renewal would undo the settlement, waits with [`InFlight::renewal_ended`] for the round
//! that may still contain it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

/// Unsettled deliveries of one consumer, by a key such as a number.
#[derive(Debug)]
pub struct InFlight<K, D> {
    deliveries: Mutex<HashMap<K, TrackedDelivery<D>>>,
    /// Whether a round of renewals runs.
    is_renewing: watch::Sender<bool>,
}

#[derive(Debug)]
struct TrackedDelivery<D> {
    delivery: D,
    renew_at: Timestamp,
}

impl<K, D> Default for InFlight<K, D> {
    fn default() -> Self {
        Self { deliveries: Mutex::default(), is_renewing: watch::Sender::new(false) }
    }
}

impl<K: Copy + Eq + Hash, D: Clone> InFlight<K, D> {
    /// Adds a delivery. From `renew_at` on it is in every round of renewals, until
    /// [`InFlight::set_renewal`] names a later time.
    pub fn insert(&self, key: K, delivery: D, renew_at: Timestamp) {
        self.lock().insert(key, TrackedDelivery { delivery, renew_at });
    }

    /// Removes a delivery and returns it, if it was in flight.
    pub fn remove(&self, key: K) -> Option<D> {
        self.lock().remove(&key).map(|tracked| tracked.delivery)
    }

    /// Removes the deliveries for which `is_kept` is false.
    pub fn retain(&self, is_kept: impl Fn(&D) -> bool) {
        self.lock().retain(|_, tracked| is_kept(&tracked.delivery));
    }

    /// Returns whether a delivery is in flight.
    pub fn contains(&self, key: K) -> bool {
        self.lock().contains_key(&key)
    }

    /// Returns the number of deliveries in flight.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all deliveries in flight.
    pub fn deliveries(&self) -> Vec<D> {
        self.lock().values().map(|tracked| tracked.delivery.clone()).collect()
    }

    /// Changes a delivery, if it is in flight.
    pub fn update(&self, key: K, change: impl FnOnce(&mut D)) {
        if let Some(tracked) = self.lock().get_mut(&key) {
            change(&mut tracked.delivery);
        }
    }

    /// Sets when a delivery is to be renewed next, if it is in flight; [`Timestamp::MAX`] for never.
    pub fn set_renewal(&self, key: K, renew_at: Timestamp) {
        if let Some(tracked) = self.lock().get_mut(&key) {
            tracked.renew_at = renew_at;
        }
    }

    /// Returns the deliveries that are due for renewal.
    pub fn due(&self, now: Timestamp) -> Vec<(K, D)> {
        let deliveries = self.lock();
        let due = deliveries.iter().filter(|(_, tracked)| tracked.renew_at <= now);
        due.map(|(key, tracked)| (*key, tracked.delivery.clone())).collect()
    }

    /// Waits until no round of renewals runs. A delivery that was removed before is in none that begins later.
    pub async fn renewal_ended(&self) {
        // The sender lives as long as this set.
        let _ = self.is_renewing.subscribe().wait_for(|is_renewing| !is_renewing).await;
    }

    /// Begins a round of renewals, which ends when the guard is dropped.
    pub(super) fn begin_renewal(&self, now: Timestamp) -> (RenewalRound<'_>, Vec<(K, D)>) {
        self.is_renewing.send_replace(true);
        (RenewalRound { is_renewing: &self.is_renewing }, self.due(now))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, TrackedDelivery<D>>> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Round of renewals, until it is dropped.
pub(super) struct RenewalRound<'a> {
    is_renewing: &'a watch::Sender<bool>,
}

impl Drop for RenewalRound<'_> {
    fn drop(&mut self) {
        self.is_renewing.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_delivery_is_due_from_its_time_until_it_is_settled() {
        let in_flight = InFlight::default();
        in_flight.insert(1, "one", at(10));
        in_flight.insert(2, "two", at(20));
        assert!(in_flight.due(at(9)).is_empty());
        assert_eq!(in_flight.due(at(10)), [(1, "one")]);
        assert_eq!(in_flight.due(at(11)), [(1, "one")], "in every round");
        in_flight.set_renewal(1, at(30));
        in_flight.update(2, |delivery| *delivery = "changed");
        assert_eq!(in_flight.due(at(29)), [(2, "changed")]);
        in_flight.retain(|delivery| *delivery == "one");
        assert_eq!((in_flight.len(), in_flight.contains(2)), (1, false));
        assert_eq!((in_flight.remove(1), in_flight.remove(1)), (Some("one"), None));
        assert!(in_flight.is_empty());
    }

    #[tokio::test]
    async fn a_settlement_waits_for_the_round_that_may_contain_its_delivery() {
        let in_flight = InFlight::default();
        in_flight.insert(1, "one", at(0));
        in_flight.renewal_ended().await;
        let (round, due) = in_flight.begin_renewal(at(1));
        assert_eq!(due.len(), 1);
        in_flight.remove(1);
        assert!(in_flight.renewal_ended().now_or_never().is_none());
        drop(round);
        in_flight.renewal_ended().await;
        assert!(in_flight.begin_renewal(at(1)).1.is_empty());
    }
}
