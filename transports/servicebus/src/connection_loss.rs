//! Loss of a connection: the deliveries that it may have taken with it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual::clock;
use punctual::jiff::Timestamp;

use crate::wire::DecodedDelivery;

/// Time after the expiry of its lock within which a message may be delivered again.
const REDELIVERY_WINDOW: Duration = Duration::from_secs(60);
/// Most deliveries that are not counted; more than can be in flight.
const UNCOUNTED_MAX: usize = 4_096;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::InFlight;
    use crate::in_flight::tests::{at, read};

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
