//! In-flight deliveries of a consumer, and the deliveries that may have been lost with its connection.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual::clock;
use punctual::jiff::Timestamp;

use crate::management::Lock;
use crate::wire::DecodedDelivery;

/// Duration of a lock when the broker does not state it.
const LOCK_DURATION: Duration = Duration::from_secs(30);
/// Time after the expiry of its lock within which a message may be delivered again.
const REDELIVERY_WINDOW: Duration = Duration::from_secs(60);
/// Most deliveries that are not counted; more than can be in flight.
const UNCOUNTED_MAX: usize = 4_096;
/// Most locks in one request.
const LOCKS_MAX: usize = 100;

/// Number of a delivery: that of its link, and its own on that link.
pub(crate) type DeliveryNumber = (u64, u32);

/// Lock of a delivery and the time of its renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRenewal {
    pub(crate) lock: Lock,
    renew_at: Timestamp,
}

/// Unsettled delivery.
#[derive(Clone, Copy, Debug)]
struct InFlightDelivery {
    /// None when the lock was lost or never known.
    renewal: Option<LockRenewal>,
    sequence: Option<i64>,
    /// Whether `receive` returned the delivery.
    is_returned: bool,
}

/// All unsettled deliveries of a consumer.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<HashMap<DeliveryNumber, InFlightDelivery>>);

impl InFlight {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<DeliveryNumber, InFlightDelivery>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn len(&self) -> usize {
        self.with(|in_flight| in_flight.len())
    }

    /// Adds a delivery.
    pub(crate) fn insert(&self, number: DeliveryNumber, decoded: &DecodedDelivery, now: Timestamp) {
        let until = decoded.locked_until.unwrap_or_else(|| clock::add(now, LOCK_DURATION));
        let renewal = decoded.lock.map(|lock| LockRenewal { lock, renew_at: halfway(now, until) });
        let delivery = InFlightDelivery { renewal, sequence: decoded.sequence, is_returned: false };
        self.with(|in_flight| in_flight.insert(number, delivery));
    }

    /// Records that `receive` returned a delivery.
    pub(crate) fn mark_returned(&self, number: DeliveryNumber) {
        self.with(|in_flight| {
            if let Some(delivery) = in_flight.get_mut(&number) {
                delivery.is_returned = true;
            }
        });
    }

    /// Removes a delivery; returns false when it was not in flight.
    pub(crate) fn remove(&self, number: DeliveryNumber) -> bool {
        self.with(|in_flight| in_flight.remove(&number).is_some())
    }

    /// Removes the deliveries that `receive` has not returned; returns the sequence numbers of the rest.
    pub(crate) fn retain_returned(&self) -> HashSet<i64> {
        self.with(|in_flight| {
            in_flight.retain(|_, delivery| delivery.is_returned);
            in_flight.values().filter_map(|delivery| delivery.sequence).collect()
        })
    }

    /// Returns deliveries whose locks are due for renewal, at most `LOCKS_MAX`.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(DeliveryNumber, LockRenewal)> {
        self.with(|in_flight| {
            let due = in_flight
                .iter()
                .filter_map(|(number, delivery)| Some((*number, delivery.renewal?)));
            due.filter(|(_, renewal)| renewal.renew_at <= now).take(LOCKS_MAX).collect()
        })
    }

    pub(crate) fn renewed(&self, number: DeliveryNumber, now: Timestamp, duration: Duration) {
        self.with(|in_flight| {
            if let Some(renewal) =
                in_flight.get_mut(&number).and_then(|delivery| delivery.renewal.as_mut())
            {
                renewal.renew_at = halfway(now, clock::add(now, duration));
            }
        });
    }

    /// Records that the lock of a delivery is lost; the delivery stays in flight until it is settled, which has
    /// no effect then.
    pub(crate) fn mark_lock_lost(&self, number: DeliveryNumber) {
        self.with(|in_flight| {
            if let Some(delivery) = in_flight.get_mut(&number) {
                delivery.renewal = None;
            }
        });
    }
}

/// Deliveries that a lost connection may have taken with it. The broker counts a delivery that was under way
/// when the connection broke, though no handler received it: it must not count as an attempt.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLoss {
    until: Option<Timestamp>,
    returned: HashSet<i64>,
    uncounted: HashSet<i64>,
}

impl ConnectionLoss {
    /// Records a broken connection. Deliveries returned until then count, and locks last for `lock_duration`.
    pub(crate) fn record(
        &mut self,
        returned: HashSet<i64>,
        lock_duration: Duration,
        now: Timestamp,
    ) {
        if self.until.is_none_or(|until| until < now) {
            *self = Self::default();
        }
        self.returned.extend(returned);
        self.until = Some(clock::add(now, lock_duration + REDELIVERY_WINDOW));
    }

    /// Returns whether one delivery that the broker has counted was no attempt; true once for each message.
    pub(crate) fn is_uncounted(&mut self, decoded: &DecodedDelivery, now: Timestamp) -> bool {
        let is_recent = self.until.is_some_and(|until| now < until);
        let Some(sequence) = decoded.sequence.filter(|_| is_recent && decoded.deliveries > 0)
        else {
            return false;
        };
        !self.returned.contains(&sequence)
            && self.uncounted.len() < UNCOUNTED_MAX
            && self.uncounted.insert(sequence)
    }
}

/// Connection losses of all consumers, by source: a consumer that subscribes anew after its connection broke
/// needs to know of the loss.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLosses(Mutex<HashMap<String, ConnectionLoss>>);

impl ConnectionLosses {
    /// Runs `act` on the loss of one source, which is empty at first.
    pub(crate) fn of<T>(&self, source: &str, act: impl FnOnce(&mut ConnectionLoss) -> T) -> T {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match losses.get_mut(source) {
            Some(loss) => act(loss),
            None => act(losses.entry(source.to_owned()).or_default()),
        }
    }
}

fn halfway(now: Timestamp, until: Timestamp) -> Timestamp {
    clock::add(now, clock::between(now, until) / 2)
}

#[cfg(test)]
mod tests {
    use punctual::model::Topic;

    use super::*;
    use crate::wire;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn read(lock: Option<Lock>, sequence: i64, deliveries: u32) -> DecodedDelivery {
        let topic = Topic::new("mail").unwrap();
        let decoded = wire::undecodable("no", &[], (&topic, "mail"), at(0));
        DecodedDelivery {
            lock,
            locked_until: Some(at(30)),
            sequence: Some(sequence),
            deliveries,
            ..decoded
        }
    }

    #[test]
    fn a_lock_is_renewed_when_half_of_it_is_over() {
        let in_flight = InFlight::default();
        in_flight.insert((1, 1), &read(Some([7; 16]), 1, 0), at(0));
        in_flight.insert((1, 2), &read(None, 2, 0), at(0));
        assert!(in_flight.due(at(14)).is_empty());
        assert_eq!(in_flight.due(at(15)).len(), 1, "a delivery without a lock cannot be renewed");
        in_flight.renewed((1, 1), at(15), Duration::from_secs(30));
        assert!(in_flight.due(at(29)).is_empty());
        assert_eq!(in_flight.due(at(30)).len(), 1);
        in_flight.mark_lock_lost((1, 1));
        assert!(in_flight.due(at(99)).is_empty());
        assert_eq!(in_flight.len(), 2);
        assert!(in_flight.remove((1, 1)) && !in_flight.remove((1, 1)));
    }

    #[test]
    fn a_delivery_lost_with_its_connection_is_uncounted_once() {
        let in_flight = InFlight::default();
        in_flight.insert((1, 1), &read(None, 1, 0), at(0));
        in_flight.insert((1, 2), &read(None, 2, 0), at(0));
        in_flight.mark_returned((1, 1));
        let mut loss = ConnectionLoss::default();
        assert!(!loss.is_uncounted(&read(None, 3, 1), at(1)), "nothing was lost yet");
        loss.record(in_flight.retain_returned(), Duration::from_secs(30), at(10));
        assert_eq!(in_flight.len(), 1, "a returned delivery stays in flight");
        assert!(!loss.is_uncounted(&read(None, 1, 1), at(41)), "it was returned to a handler");
        assert!(!loss.is_uncounted(&read(None, 2, 0), at(41)), "nothing was counted");
        assert!(loss.is_uncounted(&read(None, 2, 1), at(41)));
        assert!(!loss.is_uncounted(&read(None, 2, 2), at(42)));
        assert!(!loss.is_uncounted(&read(None, 4, 1), at(100)), "too long ago");
    }
}
