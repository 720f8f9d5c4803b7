//! Settlement of a broker's delivery: acknowledges, requeues, stores or rejects it. A message that is stored for
//! later is stored first and acknowledged then, so that a crash between the two repeats it and never loses it;
//! when it is due, the relay sends it back to the one group it came from.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::broker::BrokerReceipt;
use crate::clock::Clock;
use crate::engine::dead_message::DeadMessage;
use crate::engine::held_message::{
    RedeliveryState, dead_letter, held_message, is_of_other_group, with_group_identity,
};
use crate::engine::{Process, SubscriptionName};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::time::{add, between};
use crate::model::{Execution, Message, MessageRecord, MessageState};
use crate::policy::{
    AgainReason, AttemptDecision, DelayOptions, DelayPlace, Verdict, backoff, delay_place,
    delay_unsupported, put_off,
};
use crate::storage::{BrokerRecord, EnqueueResult, Entry};
use crate::transport::{AttemptCount, Rejection, Transport};

/// Settles a delivery of a broker.
pub(super) struct BrokerSettlement<'a> {
    pub(super) process: &'a Process,
    pub(super) message: Arc<Message>,
    /// Whether the execution is recorded in the history; that of a dead letter always is.
    pub(super) is_recorded: bool,
    /// Messages that follow it.
    pub(super) then: Vec<Arc<Message>>,
    /// Number of inline retries before its last attempt.
    pub(super) inline_retries: u32,
    /// Until when to retry storing the message. Before the deadline of the settlement, so that time is left for
    /// the broker.
    pub(super) storing_until: Timestamp,
}

impl BrokerSettlement<'_> {
    pub(super) async fn settle(
        &self,
        receipt: BrokerReceipt,
        decision: &AttemptDecision,
        execution: Arc<Execution>,
        now: Timestamp,
    ) -> Result<()> {
        // Before the broker forgets the message: a crash in between repeats it and loses nothing.
        if !self.then.is_empty() {
            let entries = self.then.iter().cloned();
            let entries = entries.map(|message| Entry { message, replace: false }).collect();
            self.process.env.storage.enqueue(entries, now).await?;
        }
        match &decision.verdict {
            Verdict::Done | Verdict::Cancelled => {
                self.record(execution, now).await?;
                receipt.ack().await
            }
            Verdict::Again { due_at, attempt, snoozes, why, error, .. } => {
                let native = self.may_requeue(&receipt, (*attempt, *why), &execution);
                self.record(execution, now).await?;
                let unhandled = error.as_deref().map_or(Duration::ZERO, put_off);
                let (due_at, attempt, snoozes) = (*due_at, *attempt, *snoozes);
                let redelivery = RedeliveryState { due_at, attempt, snoozes, unhandled };
                self.requeue_or_store(receipt, &redelivery, native, now).await
            }
            Verdict::Dead { reason, error } => {
                let rejection = Rejection {
                    reason: *reason,
                    error: error.clone(),
                    attempt: execution.attempt,
                    at: now,
                };
                self.store_dead_letter(&receipt.spec.name, execution, &rejection).await?;
                receipt.reject(&rejection).await
            }
        }
    }

    /// Stores it as a dead letter that a redrive sends back to its transport and group.
    async fn store_dead_letter(
        &self,
        origin: &SubscriptionName,
        execution: Arc<Execution>,
        rejection: &Rejection,
    ) -> Result<()> {
        let Rejection { reason, error, .. } = rejection;
        let message = self.with_free_identity(dead_letter(&self.message, origin)).await?;
        self.record_dead_letter(&execution, Arc::new(message), rejection).await?;
        self.process.report_dead_message(DeadMessage {
            message: &self.message,
            attempts: execution.attempt,
            reason: *reason,
            error: error.clone(),
            log: execution.log.as_deref(),
        });
        Ok(())
    }

    /// Records a dead letter. When two groups give the same message up at the same moment, the storage keeps
    /// the first; the other is stored again under an identity of its own.
    async fn record_dead_letter(
        &self,
        execution: &Arc<Execution>,
        message: Arc<Message>,
        rejection: &Rejection,
    ) -> Result<()> {
        let mut dead_letter = MessageRecord::new(message);
        dead_letter.state = MessageState::Dead;
        dead_letter.attempt = rejection.attempt;
        dead_letter.dead = Some(rejection.reason);
        dead_letter.error.clone_from(&rejection.error);
        dead_letter.ended_at = Some(rejection.at);
        let (storage, inspect) = (&self.process.env.storage, &self.process.env.inspect);
        let record = |dead_letter: &MessageRecord| BrokerRecord {
            execution: execution.clone(),
            dead: Some(Box::new(dead_letter.clone())),
        };
        storage.record(vec![record(&dead_letter)], rejection.at).await?;
        let stored = inspect.message(dead_letter.message.id).await?;
        if stored.is_some_and(|stored| is_of_other_group(&stored.message, &dead_letter.message)) {
            dead_letter.message = Arc::new(with_group_identity((*dead_letter.message).clone()));
            storage.record(vec![record(&dead_letter)], rejection.at).await?;
        }
        Ok(())
    }

    /// Returns a message with an identity that does not collide with another group's copy. Waits while a relay
    /// still has the copy that it has just published.
    async fn with_free_identity(&self, message: Message) -> Result<Message> {
        let mut tries = 0;
        loop {
            let now = self.process.now();
            let stored = self.process.env.inspect.message(message.id).await?;
            let Some(stored) = stored else { return Ok(message) };
            if stored.state != MessageState::Done && is_of_other_group(&stored.message, &message) {
                return Ok(with_group_identity(message));
            }
            if stored.state != MessageState::Running {
                return Ok(message);
            }
            if now >= self.storing_until {
                return Ok(with_group_identity(message));
            }
            tries += 1;
            self.process.env.clock.sleep_until(add(now, backoff(tries))).await;
        }
    }

    async fn record(&self, execution: Arc<Execution>, now: Timestamp) -> Result<()> {
        if !self.is_recorded {
            return Ok(());
        }
        self.process.env.storage.record(vec![BrokerRecord { execution, dead: None }], now).await
    }

    /// Requeues it at the broker where that is possible, else stores it first and acknowledges then.
    async fn requeue_or_store(
        &self,
        receipt: BrokerReceipt,
        redelivery: &RedeliveryState,
        at_broker: bool,
        now: Timestamp,
    ) -> Result<()> {
        let due_at = redelivery.due_at;
        let origin = &receipt.spec.name;
        let Some(transport) = self.transport(origin) else {
            return receipt.requeue(between(now, due_at)).await;
        };
        let (wanted, native) = (between(now, due_at), transport.capabilities().requeue_delay);
        let prefer_storage = self.process.sender.outbound.prefers_storage(&origin.transport);
        match delay_place(
            wanted,
            DelayOptions { native, storage: self.process.env.has_storage, prefer_storage },
        ) {
            DelayPlace::Unsupported => Err(delay_unsupported(self.message.id, wanted, native)),
            DelayPlace::NoDelay if at_broker => receipt.requeue(Duration::ZERO).await,
            DelayPlace::Transport(delay) if at_broker => receipt.requeue(delay).await,
            _ => {
                self.store(held_message(&self.message, origin, redelivery)).await?;
                let (message, transport) = (self.message.id, origin.transport.clone());
                self.process.env.events.emit(Event::MessageHeld { message, transport, due_at });
                receipt.ack().await
            }
        }
    }

    /// Returns whether the broker may requeue it. A broker that counts deliveries then counts one more attempt,
    /// and any other loses the number; a message released by a shutdown must go back to the broker, unless the
    /// broker would count one attempt too many.
    fn may_requeue(
        &self,
        receipt: &BrokerReceipt,
        (attempt, why): (u32, AgainReason),
        execution: &Execution,
    ) -> bool {
        if receipt.acknowledge.is_none() || !self.process.env.has_storage {
            return !self.process.env.has_storage;
        }
        let is_counted = self
            .transport(&receipt.spec.name)
            .is_some_and(|transport| transport.capabilities().attempts == AttemptCount::Counted);
        let counted = is_counted && self.inline_retries == 0;
        let last = execution.attempts_max.is_some_and(|limit| execution.attempt >= limit);
        match why {
            AgainReason::Release => !(is_counted && last),
            _ => counted && attempt == execution.attempt,
        }
    }

    /// Returns the transport that it came from.
    fn transport(&self, origin: &SubscriptionName) -> Option<&Arc<dyn Transport>> {
        self.process.sender.transports.get(&origin.transport)
    }

    /// Stores a delayed message; `Ok` only when it is stored, because the broker's copy is acknowledged next.
    async fn store(&self, delayed: Message) -> Result<()> {
        let mut delayed = self.with_free_identity(delayed).await?;
        let mut tries = 0;
        loop {
            let now = self.process.now();
            let entry = Entry { message: Arc::new(delayed.clone()), replace: false };
            let results = self.process.env.storage.enqueue(vec![entry], now).await?;
            let Some(EnqueueResult::Duplicate(twin)) = results.first() else { return Ok(()) };
            let stored = self.process.env.inspect.message(*twin).await?;
            let (is_foreign, is_waiting) = stored.map_or((false, false), |stored| {
                (
                    is_of_other_group(&stored.message, &delayed),
                    stored.state == MessageState::Pending,
                )
            });
            if is_waiting && !is_foreign {
                return Ok(());
            }
            if now >= self.storing_until {
                return Err(Error::conflict("the message is still being relayed")
                    .with("message", self.message.id));
            }
            if is_foreign {
                delayed = with_group_identity(delayed);
            }
            tries += 1;
            self.process.env.clock.sleep_until(add(now, backoff(tries))).await;
        }
    }
}
