//! In-flight deliveries of a consumer: their locks, and whether `receive` returned them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::in_flight;
use punctual::clock;
use punctual::jiff::Timestamp;

use crate::management::Lock;
use crate::wire::DecodedDelivery;

/// Duration of a lock when the broker does not state it.
const LOCK_DURATION: Duration = Duration::from_secs(30);

/// Number of a delivery: that of its link, and its own on that link.
pub(crate) type DeliveryNumber = (u64, u32);

/// Unsettled delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightDelivery {
    /// None when the lock was lost or never known.
    pub(crate) lock: Option<Lock>,
    sequence: Option<i64>,
    /// Whether `receive` returned the delivery.
    is_returned: bool,
}

/// All unsettled deliveries of a consumer.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(pub(crate) Arc<in_flight::InFlight<DeliveryNumber, InFlightDelivery>>);

impl InFlight {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a delivery.
    pub(crate) fn insert(&self, number: DeliveryNumber, decoded: &DecodedDelivery, now: Timestamp) {
        let until = decoded.locked_until.unwrap_or_else(|| clock::add(now, LOCK_DURATION));
        let DecodedDelivery { lock, sequence, .. } = *decoded;
        let delivery = InFlightDelivery { lock, sequence, is_returned: false };
        self.0.insert(number, delivery, halfway(now, until));
    }

    /// Records that `receive` returned a delivery.
    pub(crate) fn mark_returned(&self, number: DeliveryNumber) {
        self.0.update(number, |delivery| delivery.is_returned = true);
    }

    /// Removes a delivery; returns false when it was not in flight.
    pub(crate) fn remove(&self, number: DeliveryNumber) -> bool {
        self.0.remove(number).is_some()
    }

    /// Removes the deliveries that `receive` has not returned; returns the sequence numbers of the rest.
    pub(crate) fn retain_returned(&self) -> HashSet<i64> {
        self.0.retain(|delivery| delivery.is_returned);
        self.0.deliveries().iter().filter_map(|delivery| delivery.sequence).collect()
    }

    pub(crate) fn renewed(&self, number: DeliveryNumber, now: Timestamp, duration: Duration) {
        self.0.set_renewal(number, halfway(now, clock::add(now, duration)));
    }

    /// Records that the lock of a delivery is lost; the delivery stays in flight until it is settled, which has
    /// no effect then.
    pub(crate) fn mark_lock_lost(&self, number: DeliveryNumber) {
        self.0.update(number, |delivery| delivery.lock = None);
    }
}

fn halfway(now: Timestamp, until: Timestamp) -> Timestamp {
    clock::add(now, clock::between(now, until) / 2)
}

#[cfg(test)]
pub(crate) mod tests {
    use punctual::model::Topic;

    use super::*;
    use crate::wire;

    pub(crate) fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    pub(crate) fn read(lock: Option<Lock>, sequence: i64, deliveries: u32) -> DecodedDelivery {
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
        let due = |now| {
            in_flight.0.due(now).into_iter().filter_map(|(_, delivery)| delivery.lock).count()
        };
        assert_eq!(due(at(14)), 0);
        assert_eq!(due(at(15)), 1, "a delivery without a lock cannot be renewed");
        in_flight.renewed((1, 1), at(15), Duration::from_secs(30));
        assert_eq!(due(at(29)), 0);
        assert_eq!(due(at(30)), 1);
        in_flight.mark_lock_lost((1, 1));
        assert_eq!(due(at(99)), 0);
        assert_eq!(in_flight.len(), 2);
        assert!(in_flight.remove((1, 1)) && !in_flight.remove((1, 1)));
    }
}
