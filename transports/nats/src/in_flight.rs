//! In-flight deliveries of a consumer: every delivery that the broker has sent and that is not settled, whether a
//! handler runs it or it waits here. The prefetch limits them, the reader extends them, and a delivery dropped
//! unsettled is returned to the broker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::Subject;
use bytes::Bytes;
use tokio::sync::{Notify, watch};

/// Acknowledges a delivery.
pub(crate) const ACK: Bytes = Bytes::from_static(b"+ACK");
/// Requests immediate redelivery.
pub(crate) const NAK: Bytes = Bytes::from_static(b"-NAK");

/// The in-flight deliveries of one consumer.
pub(crate) struct InFlight {
    window: usize,
    state: Mutex<Contents>,
    /// Notifies the reader that it has work.
    notifier: Notify,
    /// Whether extensions are being sent at this moment.
    extending: watch::Sender<bool>,
}

#[derive(Default)]
struct Contents {
    next: u64,
    /// Counts the rounds of extensions.
    round: u64,
    deliveries: HashMap<u64, Entry>,
    /// Number of deliveries requested and not yet received.
    requested: usize,
    /// Whether a `receive` call waits for deliveries.
    receiving: bool,
    /// Acknowledgements to be sent by the reader, because they were caused in `drop`.
    unsent: Vec<(Subject, Bytes)>,
    closing: bool,
}

struct Entry {
    reply: Subject,
    /// The round it was received in; deliveries of the current round need not be extended yet.
    since: u64,
}

impl InFlight {
    pub(crate) fn new(window: usize) -> Arc<Self> {
        let (extending, _) = watch::channel(false);
        let (state, notifier) = (Mutex::default(), Notify::new());
        Arc::new(Self { window, state, notifier, extending })
    }

    /// Registers a delivery.
    pub(crate) fn add(self: &Arc<Self>, reply: Subject) -> InFlightDelivery {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.requested = state.requested.saturating_sub(1);
        let since = state.round;
        state.deliveries.insert(number, Entry { reply: reply.clone(), since });
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

    /// Starts a round of extensions: for the deliveries in flight since before the last round.
    pub(crate) fn begin_round(&self) -> ExtensionRound<'_> {
        let mut state = self.state();
        let round = state.round;
        state.round += 1;
        self.extending.send_replace(true);
        let old = state.deliveries.values().filter(|entry| entry.since < round);
        ExtensionRound { replies: old.map(|entry| entry.reply.clone()).collect(), in_flight: self }
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
        let is_idle = state.deliveries.is_empty() && state.requested == 0;
        state.closing && is_idle && state.unsent.is_empty()
    }

    /// Waits until the reader has work.
    pub(crate) async fn notified(&self) {
        self.notifier.notified().await;
    }

    fn release(&self, number: u64, acknowledgement: Option<(Subject, Bytes)>) {
        let mut state = self.state();
        state.deliveries.remove(&number);
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
        let room = self.window.saturating_sub(state.deliveries.len() + state.requested);
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

/// A round of extensions; it ends when this is dropped.
pub(crate) struct ExtensionRound<'a> {
    /// Acknowledgement subject of each delivery to extend.
    pub(crate) replies: Vec<Subject>,
    in_flight: &'a InFlight,
}

impl Drop for ExtensionRound<'_> {
    fn drop(&mut self) {
        self.in_flight.extending.send_replace(false);
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

    /// Removes the delivery so that no further extension is sent for it. An extension after a negative
    /// acknowledgement with a delay of an hour would replace that delay by `ack_wait`.
    pub(crate) async fn detach(mut self) -> Subject {
        self.settled = true;
        let mut extending = self.in_flight.extending.subscribe();
        self.in_flight.release(self.number, None);
        // The sender lives in the in-flight set, so this ends with the round.
        let _ = extending.wait_for(|extending| !extending).await;
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
            (0..4).map(|n| in_flight.add(format!("r.{n}").into())).collect();
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
        drop(in_flight.add("r.1".into()));
        in_flight.add("r.2".into()).skip();
        in_flight.add("r.3".into()).settle();
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
    fn only_deliveries_in_flight_for_a_round_are_extended() {
        let in_flight = InFlight::new(4);
        let old = in_flight.add("r.1".into());
        assert!(in_flight.begin_round().replies.is_empty());
        let _young = in_flight.add("r.2".into());
        assert_eq!(in_flight.begin_round().replies, ["r.1".into()]);
        assert_eq!(in_flight.begin_round().replies.len(), 2);
        old.settle();
        assert_eq!(in_flight.begin_round().replies, ["r.2".into()]);
    }
}
