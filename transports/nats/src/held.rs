//! What this consumer holds: every delivery that the broker has given it and that is not settled, whether
//! a handler has it or it still waits here. The prefetch bounds it, the pump extends it, and whatever is
//! dropped unsettled goes back to the broker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::Subject;
use bytes::Bytes;
use tokio::sync::{Notify, watch};

/// Done with it.
pub(crate) const ACK: Bytes = Bytes::from_static(b"+ACK");
/// Deliver it again, at once.
pub(crate) const NAK: Bytes = Bytes::from_static(b"-NAK");

/// The deliveries of one consumer.
pub(crate) struct Held {
    window: usize,
    state: Mutex<State>,
    /// Rings when the pump has something to do.
    bell: Notify,
    /// Whether extensions are being sent at this moment.
    extending: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Counts the rounds of extensions.
    round: u64,
    holds: HashMap<u64, Kept>,
    /// Asked for and not yet delivered.
    requested: usize,
    /// Whether somebody waits for deliveries.
    wanted: bool,
    /// To be sent by the pump, because whoever caused it could not wait.
    unsent: Vec<(Subject, Bytes)>,
    closing: bool,
}

struct Kept {
    reply: Subject,
    /// The round it came in; what came in the present one need not be extended yet.
    since: u64,
}

impl Held {
    pub(crate) fn new(window: usize) -> Arc<Self> {
        let (extending, _) = watch::channel(false);
        let (state, bell) = (Mutex::default(), Notify::new());
        Arc::new(Self { window, state, bell, extending })
    }

    /// Takes a delivery in.
    pub(crate) fn take(self: &Arc<Self>, reply: Subject) -> Hold {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.requested = state.requested.saturating_sub(1);
        let since = state.round;
        state.holds.insert(number, Kept { reply: reply.clone(), since });
        drop(state);
        Hold { held: Arc::clone(self), number, reply, settled: false }
    }

    /// Says that somebody waits for deliveries, for as long as the answer lives.
    pub(crate) fn want(&self) -> Wanting<'_> {
        let mut state = self.state();
        state.wanted = true;
        let is_due = self.worth(&state) > 0;
        drop(state);
        if is_due {
            self.bell.notify_one();
        }
        Wanting { held: self }
    }

    /// How many to ask the broker for now, noted as asked for.
    pub(crate) fn ask(&self) -> Option<usize> {
        let mut state = self.state();
        let count = Some(self.worth(&state)).filter(|count| *count > 0)?;
        state.requested += count;
        Some(count)
    }

    /// A request has ended with this many deliveries missing; all of them when it does not say.
    pub(crate) fn missed(&self, count: Option<usize>) {
        let mut state = self.state();
        state.requested = count.map_or(0, |count| state.requested.saturating_sub(count));
    }

    /// Whether the broker still owes something.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state().requested > 0
    }

    /// What to send for those who could not wait.
    pub(crate) fn unsent(&self) -> Vec<(Subject, Bytes)> {
        std::mem::take(&mut self.state().unsent)
    }

    /// Begins a round of extensions: what has been held since before the last one.
    pub(crate) fn begin_round(&self) -> Round<'_> {
        let mut state = self.state();
        let round = state.round;
        state.round += 1;
        self.extending.send_replace(true);
        let old = state.holds.values().filter(|kept| kept.since < round);
        Round { replies: old.map(|kept| kept.reply.clone()).collect(), held: self }
    }

    /// Nothing more is asked for; the pump ends when everything is settled.
    pub(crate) fn close(&self) {
        self.state().closing = true;
        self.bell.notify_one();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state().closing
    }

    /// Whether the pump has nothing left to do.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state();
        let is_idle = state.holds.is_empty() && state.requested == 0;
        state.closing && is_idle && state.unsent.is_empty()
    }

    /// Waits until the pump has something to do.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    fn release(&self, number: u64, then: Option<(Subject, Bytes)>) {
        let mut state = self.state();
        state.holds.remove(&number);
        state.unsent.extend(then);
        let is_due = !state.unsent.is_empty() || state.closing || self.worth(&state) > 0;
        drop(state);
        if is_due {
            self.bell.notify_one();
        }
    }

    /// How many are worth asking for. Few at a time would cost a request each, so beside an open request
    /// only half a window is worth another.
    fn worth(&self, state: &State) -> usize {
        let room = self.window.saturating_sub(state.holds.len() + state.requested);
        let least = if state.requested == 0 { 1 } else { (self.window / 2).max(1) };
        if state.closing || !state.wanted || room < least { 0 } else { room }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody waits for deliveries while this lives.
pub(crate) struct Wanting<'a> {
    held: &'a Held,
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.held.state().wanted = false;
    }
}

/// A round of extensions; it is over when this is dropped.
pub(crate) struct Round<'a> {
    /// Where the broker hears about each.
    pub(crate) replies: Vec<Subject>,
    held: &'a Held,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.held.extending.send_replace(false);
    }
}

/// The hold on one delivery. Dropped unsettled, it gives it back to the broker.
pub(crate) struct Hold {
    held: Arc<Held>,
    number: u64,
    reply: Subject,
    settled: bool,
}

impl Hold {
    /// Where the broker hears about it.
    pub(crate) fn reply(&self) -> &Subject {
        &self.reply
    }

    /// It is settled; nothing more is owed.
    pub(crate) fn settle(mut self) {
        self.settled = true;
        self.held.release(self.number, None);
    }

    /// It is for another group: acknowledged by the pump.
    pub(crate) fn pass_over(mut self) {
        self.settled = true;
        self.held.release(self.number, Some((self.reply.clone(), ACK)));
    }

    /// Ends the hold so that no extension is sent for it any more. One that came after "not before an hour"
    /// would make it "now plus what an extension gives".
    pub(crate) async fn let_go(mut self) -> Subject {
        self.settled = true;
        let mut extending = self.held.extending.subscribe();
        self.held.release(self.number, None);
        // The sender lives in what is held here, so this ends when the round does.
        let _ = extending.wait_for(|extending| !extending).await;
        self.reply.clone()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.settled {
            self.held.release(self.number, Some((self.reply.clone(), NAK)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_asked_for_than_fits() {
        let held = Held::new(4);
        assert_eq!(held.ask(), None, "nobody waits for anything");
        let wanting = held.want();
        assert_eq!(held.ask(), Some(4));
        assert_eq!(held.ask(), None);
        let mut holds: Vec<Hold> = (0..4).map(|n| held.take(format!("r.{n}").into())).collect();
        assert_eq!(held.ask(), None);
        holds.pop().unwrap().settle();
        assert_eq!(held.ask(), Some(1));
        holds.pop().unwrap().settle();
        assert_eq!(held.ask(), None, "a request is open and one more is not worth another");
        holds.pop().unwrap().settle();
        assert_eq!(held.ask(), Some(2));
        held.missed(None);
        assert!(!held.is_waiting());
        drop(wanting);
        assert_eq!(held.ask(), None, "nobody waits any more");
    }

    #[test]
    fn what_is_dropped_goes_back_and_what_is_passed_over_is_acknowledged() {
        let held = Held::new(4);
        drop(held.take("r.1".into()));
        held.take("r.2".into()).pass_over();
        held.take("r.3".into()).settle();
        let unsent = held.unsent();
        assert_eq!(unsent, [("r.1".into(), NAK), ("r.2".into(), ACK)]);
        let _wanting = held.want();
        assert_eq!(held.ask(), Some(4));
        held.close();
        assert!(!held.is_over(), "the broker may still send");
        held.missed(None);
        assert!(held.is_over() && held.ask().is_none());
    }

    #[test]
    fn only_what_has_been_held_for_a_round_is_extended() {
        let held = Held::new(4);
        let old = held.take("r.1".into());
        assert!(held.begin_round().replies.is_empty());
        let _young = held.take("r.2".into());
        assert_eq!(held.begin_round().replies, ["r.1".into()]);
        assert_eq!(held.begin_round().replies.len(), 2);
        old.settle();
        assert_eq!(held.begin_round().replies, ["r.2".into()]);
    }
}
