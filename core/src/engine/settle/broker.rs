//! Settling what a broker delivered: acknowledge, put back, keep in the storage, or reject. A message
//! that is kept is stored first and acknowledged then, so that a crash between the two repeats it and
//! never loses it; when it is due, the relay sends it back to the one group it came from.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Extras;
use super::packed::{Return, apart, is_of_another, letter, packed};
use crate::clock::{Clock, add, between};
use crate::engine::given_up::GivenUp;
use crate::engine::{Process, backoff};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::{Execution, Message, MessageRecord, MessageState, TransportName};
use crate::policy::{
    AgainReason, AttemptDecision, DelayOptions, HoldDecision, Verdict, cannot_wait, hold, put_off,
};
use crate::storage::{BrokerRecord, EnqueueResult, Entry};
use crate::transport::{Acknowledge, AttemptCount, Rejection, Transport};

/// Settles a delivery of a broker.
pub(super) struct Broker<'a> {
    pub(super) process: &'a Process,
    pub(super) subscribed: Option<&'a SubscribedTo>,
    pub(super) message: Arc<Message>,
    /// Whether the attempt is kept as history; a dead letter always is.
    pub(super) recorded: bool,
    /// What follows it.
    pub(super) then: Vec<Arc<Message>>,
    /// What the subscription added.
    pub(super) extras: Extras,
    /// How long to wait for a place in the storage. Before the deadline of the settlement, so that the
    /// broker has time left.
    pub(super) storing_until: Timestamp,
}

/// Where a delivery came from, so that it can go back there and nowhere else.
pub(crate) struct SubscribedTo {
    pub(crate) transport: TransportName,
    pub(crate) group: String,
}

impl Broker<'_> {
    pub(super) async fn settle(
        &self,
        receipt: Box<dyn Acknowledge>,
        judged: &AttemptDecision,
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
                self.record(execution, now).await?;
                receipt.ack().await
            }
            Verdict::Again { due_at, attempt, snoozes, why, error, .. } => {
                let native = self.is_native(*attempt, *why, &execution);
                self.record(execution, now).await?;
                let unhandled = error.as_deref().map_or(Duration::ZERO, put_off);
                let (due_at, attempt, snoozes) = (*due_at, *attempt, *snoozes);
                let back = Return { due_at, attempt, snoozes, unhandled };
                self.again(receipt, &back, native, now).await
            }
            Verdict::Dead { reason, error } => {
                let rejection = Rejection {
                    reason: *reason,
                    error: error.clone(),
                    attempt: execution.attempt,
                    at: now,
                };
                self.bury(execution, &rejection).await?;
                receipt.reject(&rejection).await
            }
        }
    }

    /// Keeps it as a dead letter that a redrive sends back to where it came from.
    async fn bury(&self, execution: Arc<Execution>, rejection: &Rejection) -> Result<()> {
        let Rejection { reason, error, .. } = rejection;
        let kept = match self.subscribed {
            Some(from) => self.own_place(letter(&self.message, from)).await?,
            None => (*self.message).clone(),
        };
        self.keep_letter(&execution, Arc::new(kept), rejection).await?;
        self.process.tell_given_up(GivenUp {
            message: &self.message,
            attempts: execution.attempt,
            reason: *reason,
            error: error.clone(),
            log: execution.log.as_deref(),
        });
        Ok(())
    }

    /// Stores a letter. Of two groups that give the same message up at the same moment the storage keeps
    /// the first; the other's is stored again under an identity of its own.
    async fn keep_letter(
        &self,
        execution: &Arc<Execution>,
        message: Arc<Message>,
        rejection: &Rejection,
    ) -> Result<()> {
        let mut letter = MessageRecord::new(message);
        letter.state = MessageState::Dead;
        letter.attempt = rejection.attempt;
        letter.dead = Some(rejection.reason);
        letter.error.clone_from(&rejection.error);
        letter.ended_at = Some(rejection.at);
        let (storage, inspect) = (&self.process.storage, &self.process.inspect);
        let record = |letter: &MessageRecord| BrokerRecord {
            execution: execution.clone(),
            dead: Some(Box::new(letter.clone())),
        };
        storage.record(vec![record(&letter)], rejection.at).await?;
        let stored = inspect.message(letter.message.id).await?;
        if stored.is_some_and(|stored| is_of_another(&stored.message, &letter.message)) {
            letter.message = Arc::new(apart((*letter.message).clone()));
            storage.record(vec![record(&letter)], rejection.at).await?;
        }
        Ok(())
    }

    /// A message under the identity it can be stored under without getting in another group's way.
    /// Waits a moment while a relay still has the copy that it has just published.
    async fn own_place(&self, kept: Message) -> Result<Message> {
        let mut tries = 0;
        loop {
            let now = self.process.now();
            let stored = self.process.inspect.message(kept.id).await?;
            let Some(stored) = stored else { return Ok(kept) };
            if stored.state != MessageState::Done && is_of_another(&stored.message, &kept) {
                return Ok(apart(kept));
            }
            if stored.state != MessageState::Running {
                return Ok(kept);
            }
            if now >= self.storing_until {
                return Ok(apart(kept));
            }
            tries += 1;
            self.process.clock.sleep_until(add(now, backoff(tries))).await;
        }
    }

    async fn record(&self, execution: Arc<Execution>, now: Timestamp) -> Result<()> {
        if !self.recorded {
            return Ok(());
        }
        self.process.storage.record(vec![BrokerRecord { execution, dead: None }], now).await
    }

    /// Puts it back by the broker where that reaches, else stores it first and acknowledges then.
    async fn again(
        &self,
        receipt: Box<dyn Acknowledge>,
        back: &Return,
        natively: bool,
        now: Timestamp,
    ) -> Result<()> {
        let due_at = back.due_at;
        let Some((from, transport)) = self.from() else {
            return receipt.requeue(between(now, due_at)).await;
        };
        let (wanted, native) = (between(now, due_at), transport.capabilities().requeue_delay);
        let prefer_storage = self.process.outbound.prefers_storage(&from.transport);
        match hold(wanted, DelayOptions { native, storage: self.process.holds, prefer_storage }) {
            HoldDecision::Refuse => Err(cannot_wait(self.message.id, wanted, native)),
            HoldDecision::Send if natively => receipt.requeue(Duration::ZERO).await,
            HoldDecision::SendDelayed(delay) if natively => receipt.requeue(delay).await,
            _ => {
                self.keep(packed(&self.message, from, back)).await?;
                let (message, transport) = (self.message.id, from.transport.clone());
                self.process.events.emit(Event::MessageHeld { message, transport, due_at });
                receipt.ack().await
            }
        }
    }

    /// Whether the broker may put it back by itself. That counts one more attempt where it counts, and
    /// forgets the number where it does not; what a shutdown gives back must not go anywhere else, unless
    /// the broker would count it as one too many.
    fn is_native(&self, attempt: u32, why: AgainReason, execution: &Execution) -> bool {
        if self.extras.acknowledged || !self.process.holds {
            return !self.process.holds;
        }
        let counted = self.is_counted() && self.extras.inline == 0;
        let last = execution.attempts_max.is_some_and(|limit| execution.attempt >= limit);
        match why {
            AgainReason::Release => !(self.is_counted() && last),
            _ => counted && attempt == execution.attempt,
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
    async fn keep(&self, held: Message) -> Result<()> {
        let mut held = self.own_place(held).await?;
        let mut tries = 0;
        loop {
            let now = self.process.now();
            let entry = Entry { message: Arc::new(held.clone()), replace: false };
            let answers = self.process.storage.enqueue(vec![entry], now).await?;
            let Some(EnqueueResult::Duplicate(twin)) = answers.first() else { return Ok(()) };
            let stored = self.process.inspect.message(*twin).await?;
            let (is_foreign, is_waiting) = stored.map_or((false, false), |stored| {
                (is_of_another(&stored.message, &held), stored.state == MessageState::Pending)
            });
            if is_waiting && !is_foreign {
                return Ok(());
            }
            if now >= self.storing_until {
                return Err(Error::conflict("the message is still being relayed")
                    .with("message", self.message.id));
            }
            if is_foreign {
                held = apart(held);
            }
            tries += 1;
            self.process.clock.sleep_until(add(now, backoff(tries))).await;
        }
    }
}
