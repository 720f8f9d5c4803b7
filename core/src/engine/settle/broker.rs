//! Settling what a broker delivered: acknowledge, put back, keep in the storage, or reject. A message
//! that is kept is stored first and acknowledged then, so that a crash between the two repeats it and
//! never loses it; when it is due, the relay sends it back to the one group it came from.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::{Clock, add, between};
use crate::engine::{Process, backoff};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::{Execution, Message, MessageRecord, Queue, State, TransportName};
use crate::policy::{Hold, Judged, Means, Verdict, Why, cannot_wait, hold};
use crate::storage::{BrokerRecord, Enqueued, Entry};
use crate::transport::{Acknowledge, AttemptCount, Outgoing, Rejection, Transport};

/// Settles a delivery of a broker.
pub(super) struct Broker<'a> {
    pub(super) process: &'a Process,
    pub(super) subscribed: Option<&'a SubscribedTo>,
    pub(super) message: Arc<Message>,
    /// Whether the attempt is kept as history; a dead letter always is.
    pub(super) recorded: bool,
    /// What follows it.
    pub(super) then: Vec<Arc<Message>>,
}

/// Where a delivery came from, so that it can go back there and nowhere else.
pub(crate) struct SubscribedTo {
    pub(crate) transport: TransportName,
    pub(crate) group: String,
}

/// A message on its way back: when it is due, with how many attempts spent, and whether the broker may
/// put it back by itself.
struct Return {
    due_at: Timestamp,
    attempt: u32,
    native: bool,
}

impl Broker<'_> {
    pub(super) async fn settle(
        &self,
        receipt: Box<dyn Acknowledge>,
        judged: &Judged,
        execution: Arc<Execution>,
        now: Timestamp,
    ) -> Result<()> {
        // Before the broker forgets the message: a crash in between repeats it and loses nothing.
        if !self.then.is_empty() {
            let entries = self.then.iter().cloned();
            let entries = entries.map(|message| Entry { message, replace: false }).collect();
            self.process.storage.enqueue(entries, now).await?;
        }
        match &judged.verdict {
            Verdict::Done | Verdict::Cancelled => {
                self.record(execution, None, now).await?;
                receipt.ack().await
            }
            Verdict::Again { due_at, attempt, why, .. } => {
                // A native requeue counts one more attempt where the broker counts, and forgets the
                // number where it does not; what a shutdown gives back must not go anywhere else.
                let counts = *attempt == execution.attempt && self.is_counted();
                let native = counts || *why == Why::Release || !self.process.holds;
                self.record(execution, None, now).await?;
                self.again(receipt, Return { due_at: *due_at, attempt: *attempt, native }, now)
                    .await
            }
            Verdict::Dead { reason, error } => {
                let mut letter = MessageRecord::new(self.message.clone());
                letter.state = State::Dead;
                letter.attempt = execution.attempt;
                letter.dead = Some(*reason);
                letter.error.clone_from(error);
                letter.ended_at = Some(now);
                let attempt = execution.attempt;
                self.record(execution, Some(Box::new(letter)), now).await?;
                self.process.events.emit(Event::MessageDead {
                    message: self.message.id,
                    topic: self.message.topic.clone(),
                    reason: *reason,
                    error: error.clone(),
                });
                self.process.hooks.exhausted(&self.message, *reason, error.as_deref());
                let (reason, error) = (*reason, error.clone());
                let rejection = Rejection { reason, error, attempt, at: now };
                receipt.reject(&rejection).await
            }
        }
    }

    async fn record(
        &self,
        execution: Arc<Execution>,
        dead: Option<Box<MessageRecord>>,
        now: Timestamp,
    ) -> Result<()> {
        if !self.recorded && dead.is_none() {
            return Ok(());
        }
        self.process.storage.record(vec![BrokerRecord { execution, dead }], now).await
    }

    /// Puts it back by the broker where that reaches, else stores it first and acknowledges then.
    async fn again(
        &self,
        receipt: Box<dyn Acknowledge>,
        back: Return,
        now: Timestamp,
    ) -> Result<()> {
        let Return { due_at, attempt, native: natively } = back;
        let Some((from, transport)) = self.from() else {
            return receipt.requeue(between(now, due_at)).await;
        };
        let (wanted, native) = (between(now, due_at), transport.capabilities().requeue_delay);
        match hold(wanted, Means { native, storage: self.process.holds, prefer_storage: false }) {
            Hold::Refuse => Err(cannot_wait(self.message.id, wanted, native)),
            Hold::Send if natively => receipt.requeue(Duration::ZERO).await,
            Hold::SendDelayed(delay) if natively => receipt.requeue(delay).await,
            _ => {
                self.keep(packed(&self.message, from, due_at, attempt)).await?;
                let (message, transport) = (self.message.id, from.transport.clone());
                self.process.events.emit(Event::MessageHeld { message, transport, due_at });
                receipt.ack().await
            }
        }
    }

    /// Where it came from, and by what.
    fn from(&self) -> Option<(&SubscribedTo, &Arc<dyn Transport>)> {
        let from = self.subscribed?;
        Some((from, self.process.transports.get(&from.transport)?))
    }

    fn is_counted(&self) -> bool {
        self.from().is_some_and(|(_, transport)| {
            transport.capabilities().attempts == AttemptCount::Counted
        })
    }

    /// Stores a held message; `Ok` only when it is there, because the broker's copy goes next.
    ///
    /// The relay may still be settling the copy it has just published under the same id. That takes a
    /// moment, and until then the storage answers "duplicate" although nothing will be left of it.
    async fn keep(&self, held: Message) -> Result<()> {
        let entry = Entry { message: Arc::new(held), replace: false };
        let give_up_at = add(self.process.now(), self.process.options.settle_patience);
        let mut tries = 0;
        loop {
            let now = self.process.now();
            let answers = self.process.storage.enqueue(vec![entry.clone()], now).await?;
            let Some(Enqueued::Duplicate(twin)) = answers.first() else { return Ok(()) };
            let stored = self.process.inspect.message(*twin).await?;
            if stored.is_some_and(|stored| stored.state == State::Pending) {
                return Ok(());
            }
            if now >= give_up_at {
                return Err(Error::conflict("the message is still being relayed")
                    .with("message", self.message.id));
            }
            tries += 1;
            self.process.clock.sleep_until(add(now, backoff(tries))).await;
        }
    }
}

/// Carries the attempts spent while a message is kept.
const ATTEMPT_HEADER: &str = "punctual-attempt";
/// Carries the group a kept message goes back to.
const GROUP_HEADER: &str = "punctual-group";

/// Carries when a kept message was first due: what proportional retries are measured by.
const DUE_HEADER: &str = "punctual-due";

/// A message as it waits in the storage for the relay: with what the transport would forget.
fn packed(message: &Message, from: &SubscribedTo, due_at: Timestamp, attempt: u32) -> Message {
    let mut packed = message.clone();
    packed.queue = Queue::of_relay(&from.transport);
    packed.due_at = due_at;
    // It was accepted once; another message that came under the same key since must not get in its
    // way, nor be replaced by it.
    packed.dedupe = None;
    packed.headers.note(ATTEMPT_HEADER, attempt.to_string());
    packed.headers.note(GROUP_HEADER, from.group.clone());
    packed.headers.note(DUE_HEADER, message.due_at.to_string());
    packed
}

/// A message as it leaves: what was packed moves from the headers to the envelope.
pub(crate) fn unpack(message: &Arc<Message>) -> Outgoing {
    let mut outgoing =
        Outgoing { message: message.clone(), delay: Duration::ZERO, attempt: 0, group: None };
    if message.headers.get(ATTEMPT_HEADER).is_some() {
        let Message { headers, due_at, .. } = Arc::make_mut(&mut outgoing.message);
        outgoing.attempt =
            headers.remove(ATTEMPT_HEADER).and_then(|text| text.parse().ok()).unwrap_or(0);
        outgoing.group = headers.remove(GROUP_HEADER);
        *due_at = headers.remove(DUE_HEADER).and_then(|text| text.parse().ok()).unwrap_or(*due_at);
    }
    outgoing
}
