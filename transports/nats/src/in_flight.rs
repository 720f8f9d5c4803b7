//! In-flight deliveries of a consumer: every delivery that the broker has sent and that is not settled, whether a
//! handler runs it or it waits here. The prefetch limits what is requested, and a delivery dropped unsettled is returned to
//! the broker. The set of the transport kit has the deliveries and their renewals; this file adds the limit and what a
//! dropped delivery leaves for the reader to send.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::Subject;
use bytes::Bytes;
use punctual::backend::transport::in_flight;
use punctual::jiff::Timestamp;
use tokio::sync::Notify;

/// Acknowledges a delivery.
pub(crate) const ACK: Bytes = Bytes::from_static(b"+ACK");
/// Requests immediate redelivery.
pub(crate) const NAK: Bytes = Bytes::from_static(b"-NAK");

/// The in-flight deliveries of one consumer.
pub(crate) struct InFlight {
    window: usize,
    /// Acknowledgement subject of each delivery, by its number. Changed under the lock of `state` only.
    pub(crate) replies: Arc<in_flight::InFlight<u64, Subject>>,
    state: Mutex<Contents>,
    /// Notifies the reader that it has work.
    notifier: Notify,
}

#[derive(Default)]
struct Contents {
    next: u64,
    /// Number of deliveries requested and not yet received.
    requested: usize,
    /// Whether a `receive` call waits for deliveries.
    receiving: bool,
    /// Acknowledgements to be sent by the reader, because they were caused in `drop`.
    unsent: Vec<(Subject, Bytes)>,
    closing: bool,
}

impl InFlight {
    pub(crate) fn new(window: usize) -> Arc<Self> {
        let (replies, state, notifier) = (Arc::default(), Mutex::default(), Notify::new());
        Arc::new(Self { window, replies, state, notifier })
    }

    /// Registers a delivery, whose acknowledgement timeout is renewed from `renew_at` on.
    pub(crate) fn add(self: &Arc<Self>, reply: Subject, renew_at: Timestamp) -> InFlightDelivery {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.requested = state.requested.saturating_sub(1);
        self.replies.insert(number, reply.clone(), renew_at);
        drop(state);
        InFlightDelivery { in_flight: Arc::clone(self), number, reply, settled: false }
    }

    /// Marks that a `receive` call waits, until the returned guard is dropped.
    pub(crate) fn begin_receive(&self) -> ReceiveGuard<'_> {
        let mut state = self.state();
        state.receiving = true;
        let needs_reader = self.request_size(&state) > 0;
        drop(state);
        if needs_reader {
            self.notifier.notify_one();
        }
        ReceiveGuard { in_flight: self }
    }

    /// Returns how many deliveries to request now, and counts them as requested.
    pub(crate) fn reserve_request(&self) -> Option<usize> {
        let mut state = self.state();
        let count = Some(self.request_size(&state)).filter(|count| *count > 0)?;
        state.requested += count;
        Some(count)
    }

    /// Records the end of a request with `count` deliveries missing; all of them without a count.
    pub(crate) fn request_ended(&self, count: Option<usize>) {
        let mut state = self.state();
        state.requested = count.map_or(0, |count| state.requested.saturating_sub(count));
    }

    /// Whether requested deliveries are outstanding.
    pub(crate) fn has_open_requests(&self) -> bool {
        self.state().requested > 0
    }

    /// Returns the acknowledgements to send.
    pub(crate) fn unsent(&self) -> Vec<(Subject, Bytes)> {
        std::mem::take(&mut self.state().unsent)
    }

    /// Stops requests; the reader ends when everything is settled.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        self.notifier.notify_one();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state().closing
    }

    /// Whether the reader has nothing left to do.
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.state();
        let is_idle = self.replies.is_empty() && state.requested == 0;
        state.closing && is_idle && state.unsent.is_empty()
    }

    /// Waits until the reader has work.
    pub(crate) async fn notified(&self) {
        self.notifier.notified().await;
    }

    fn release(&self, number: u64, acknowledgement: Option<(Subject, Bytes)>) {
        let mut state = self.state();
        self.replies.remove(number);
        state.unsent.extend(acknowledgement);
        let needs_reader =
            !state.unsent.is_empty() || state.closing || self.request_size(&state) > 0;
        drop(state);
        if needs_reader {
            self.notifier.notify_one();
        }
    }

    /// Returns how many deliveries are worth a request. Each request has a cost, so while one is open, another is
    /// sent only for half a window or more.
    fn request_size(&self, state: &Contents) -> usize {
        let room = self.window.saturating_sub(self.replies.len() + state.requested);
        let min = if state.requested == 0 { 1 } else { (self.window / 2).max(1) };
        if state.closing || !state.receiving || room < min { 0 } else { room }
    }

    fn state(&self) -> MutexGuard<'_, Contents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard: a `receive` call waits for deliveries while this lives.
pub(crate) struct ReceiveGuard<'a> {
    in_flight: &'a InFlight,
}

impl Drop for ReceiveGuard<'_> {
    fn drop(&mut self) {
        self.in_flight.state().receiving = false;
    }
}

/// A delivery in flight. Dropped unsettled, it is returned to the broker.
pub(crate) struct InFlightDelivery {
    in_flight: Arc<InFlight>,
    number: u64,
    reply: Subject,
    settled: bool,
}

impl InFlightDelivery {
    /// Returns the acknowledgement subject.
    pub(crate) fn reply(&self) -> &Subject {
        &self.reply
    }

    /// Marks the delivery as settled.
    pub(crate) fn settle(mut self) {
        self.settled = true;
        self.in_flight.release(self.number, None);
    }

    /// Acknowledges a delivery for another group, through the reader.
    pub(crate) fn skip(mut self) {
        self.settled = true;
        self.in_flight.release(self.number, Some((self.reply.clone(), ACK)));
    }

    /// Removes the delivery so that it is not renewed any more. A renewal after a negative acknowledgement with a delay of
    /// an hour would replace that delay by `ack_wait`.
    pub(crate) async fn detach(mut self) -> Subject {
        self.settled = true;
        self.in_flight.release(self.number, None);
        self.in_flight.replies.renewal_ended().await;
        self.reply.clone()
    }
}

impl Drop for InFlightDelivery {
    fn drop(&mut self) {
        if !self.settled {
            self.in_flight.release(self.number, Some((self.reply.clone(), NAK)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_requested_than_fits() {
        let in_flight = InFlight::new(4);
        assert_eq!(in_flight.reserve_request(), None, "no receive call waits");
        let receiving = in_flight.begin_receive();
        assert_eq!(in_flight.reserve_request(), Some(4));
        assert_eq!(in_flight.reserve_request(), None);
        let mut deliveries: Vec<InFlightDelivery> =
            (0..4).map(|n| in_flight.add(format!("r.{n}").into(), Timestamp::MIN)).collect();
        assert_eq!(in_flight.reserve_request(), None);
        deliveries.pop().unwrap().settle();
        assert_eq!(in_flight.reserve_request(), Some(1));
        deliveries.pop().unwrap().settle();
        assert_eq!(
            in_flight.reserve_request(),
            None,
            "a request is open and one more is not worth another"
        );
        deliveries.pop().unwrap().settle();
        assert_eq!(in_flight.reserve_request(), Some(2));
        in_flight.request_ended(None);
        assert!(!in_flight.has_open_requests());
        drop(receiving);
        assert_eq!(in_flight.reserve_request(), None, "no receive call waits any more");
    }

    #[test]
    fn dropped_deliveries_are_returned_and_skipped_ones_acknowledged() {
        let in_flight = InFlight::new(4);
        drop(in_flight.add("r.1".into(), Timestamp::MIN));
        in_flight.add("r.2".into(), Timestamp::MIN).skip();
        in_flight.add("r.3".into(), Timestamp::MIN).settle();
        let unsent = in_flight.unsent();
        assert_eq!(unsent, [("r.1".into(), NAK), ("r.2".into(), ACK)]);
        let _receiving = in_flight.begin_receive();
        assert_eq!(in_flight.reserve_request(), Some(4));
        in_flight.close();
        assert!(!in_flight.is_finished(), "the broker may still send");
        in_flight.request_ended(None);
        assert!(in_flight.is_finished() && in_flight.reserve_request().is_none());
    }

    #[test]
    fn only_deliveries_in_flight_for_a_third_of_the_timeout_are_renewed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let replies = |in_flight: &InFlight, now| {
            let mut due = in_flight.replies.due(at(now));
            due.sort_by_key(|(number, _)| *number);
            due.into_iter().map(|(_, reply)| reply).collect::<Vec<Subject>>()
        };
        let in_flight = InFlight::new(4);
        let old = in_flight.add("r.1".into(), at(10));
        assert!(replies(&in_flight, 9).is_empty());
        let _young = in_flight.add("r.2".into(), at(15));
        assert_eq!(replies(&in_flight, 14), ["r.1".into()]);
        assert_eq!(replies(&in_flight, 20), ["r.1".into(), "r.2".into()]);
        old.settle();
        assert_eq!(replies(&in_flight, 20), ["r.2".into()]);
    }
}
