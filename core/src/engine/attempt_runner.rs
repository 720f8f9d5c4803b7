//! Attempt runner: runs a delivery from its start to its settlement, each in its own task. Queue workers and
//! subscriptions share it; a subscription adds options: acknowledge first, inline retries, circuit breaker.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::attempt::{AttemptIdentity, attempt};
use super::settle::within_settle_timeout;
use super::started_attempt::{Extras, StartedAttempt};
use super::{Control, Process, Settler, SubscriptionSpec};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::Slots;
use crate::policy::{
    AttemptEnd, BreakerSignal, EffectiveHandlerOptions, Verdict, allows_inline_retry,
};
use crate::storage::{SettleResult, Settlement};
use crate::transport::{Acknowledge, Delivery, LeaseReceipt, Receipt, Rejection};

/// Runs the attempts of one queue or subscription. Every attempt has a copy, so a copy is only one reference
/// count.
#[derive(Clone)]
pub(super) struct AttemptRunner {
    shared: Arc<Shared>,
}

struct Shared {
    settler: Settler,
    slots: Arc<Slots>,
    subscription: Option<SubscriptionOptions>,
}

/// Options that a subscription adds to its attempts.
struct SubscriptionOptions {
    spec: Arc<SubscriptionSpec>,
    control: Arc<Control>,
}

impl AttemptRunner {
    /// Creates the runner of a queue worker.
    pub(super) fn of_queue(settler: Settler, slots: Arc<Slots>) -> Self {
        Self { shared: Arc::new(Shared { settler, slots, subscription: None }) }
    }

    /// Creates the runner of a subscription.
    pub(super) fn of_subscription(
        settler: &Settler,
        spec: Arc<SubscriptionSpec>,
        control: Arc<Control>,
    ) -> Self {
        let (settler, slots) = (settler.of(spec.origin()), control.slots.clone());
        let subscription = Some(SubscriptionOptions { spec, control });
        Self { shared: Arc::new(Shared { settler, slots, subscription }) }
    }

    pub(super) fn process(&self) -> &Arc<Process> {
        self.shared.settler.process()
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.shared.slots
    }

    /// Builds the attempt of a delivery and adds it to those in flight, so that shutdown and the heartbeat see
    /// it from the first moment. Boxed, so that its task moves a pointer and not the whole delivery.
    pub(super) fn begin(
        &self,
        delivery: Delivery,
        handler_options: Arc<EffectiveHandlerOptions>,
    ) -> Box<StartedAttempt> {
        let subscription = self.shared.subscription.as_ref();
        let registration =
            subscription.and_then(|subscription| subscription.spec.registration.clone());
        let extras = Extras { registration, ..Extras::default() };
        let (process, identity) = (self.process(), self.identity());
        Box::new(StartedAttempt::new(process, delivery, handler_options, identity, extras))
    }

    /// Returns the same delivery as a new attempt that starts now.
    pub(super) fn restart(&self, started: StartedAttempt) -> StartedAttempt {
        started.restarted(self.process(), self.identity())
    }

    /// Returns the identity of an attempt that starts now.
    fn identity(&self) -> AttemptIdentity {
        AttemptIdentity::local(self.process(), self.slots())
    }

    /// Runs an attempt in its own task, which takes a slot. The guard is dropped before the slot is released.
    pub(super) fn spawn(&self, started: Box<StartedAttempt>, guard: impl Send + 'static) {
        let (runner, slot) = (self.clone(), self.slots().take());
        if let Some(subscription) = &self.shared.subscription {
            subscription.control.attempt_started(self.process().now());
        }
        tokio::spawn(async move {
            // Held until the writer has the settlement: a storage that settles slower than it is claimed from
            // must slow the claims down.
            let _slot = slot;
            let _guard = guard;
            runner.run(started).await;
        });
    }

    /// Releases a message in its own task instead of running it; it is due at another instant.
    pub(super) fn spawn_release(&self, started: Box<StartedAttempt>, due_at: Timestamp) {
        let (runner, slot) = (self.clone(), self.slots().take());
        tokio::spawn(async move {
            let _slot = slot;
            runner.release(started, due_at).await;
        });
    }

    /// Releases a message that was not started.
    pub(super) async fn release(&self, started: Box<StartedAttempt>, due_at: Timestamp) {
        self.shared.settler.release(started, due_at).await;
    }

    /// Runs an attempt to its settlement.
    async fn run(&self, mut started: Box<StartedAttempt>) {
        let (process, settler) = (self.process(), &self.shared.settler);
        let subscription = self.shared.subscription.as_ref();
        if subscription.is_some_and(|of| of.spec.receive_options.acknowledge_first) {
            // Boxed, as below, so that other attempts do not carry the space for it.
            match Box::pin(self.acknowledge(*started)).await {
                Ok(acknowledged) => started = Box::new(acknowledged),
                Err(error) => return self.emit_failure(&error),
            }
        }
        loop {
            let Some(report) = attempt(process, &started).await else {
                return process.env.events.emit(Event::LeaseLost {
                    message: started.context.message_id(),
                    topic: started.context.topic().clone(),
                });
            };
            if let Some(subscription) = subscription {
                let (events, signal) = (&process.env.events, BreakerSignal::of(&report));
                subscription.control.attempt_ended(events, signal, process.now());
            }
            let is_retried = self.may_retry_inline(&started, &report)
                && Box::pin(settler.retry_inline(&started, &report)).await;
            if !is_retried {
                return settler.settle(started, report).await;
            }
            started.delivery.attempt += 1;
            started.extras.inline += 1;
            *started = self.restart(*started);
        }
    }

    /// Returns whether the subscription allows another attempt within the same delivery.
    fn may_retry_inline(&self, started: &StartedAttempt, report: &AttemptEnd) -> bool {
        let Some(SubscriptionOptions { spec, .. }) = &self.shared.subscription else {
            return false;
        };
        started.extras.inline < spec.receive_options.inline_retries
            && !self.process().env.stop.is_requested()
            && started.context.cancel_cause().is_none()
            && allows_inline_retry(report)
    }

    /// Acknowledges before the handler is called. A message that cannot be acknowledged is not handled: it is
    /// delivered again, to this process or another.
    async fn acknowledge(&self, started: StartedAttempt) -> Result<StartedAttempt> {
        let StartedAttempt { delivery, handler_options, context, in_flight_guard, mut extras } =
            started;
        let Delivery { message, attempt, poison, receipt } = delivery;
        let acknowledging = async {
            match receipt {
                Receipt::Broker(receipt) => receipt.ack().await,
                Receipt::Lease(receipt) => self.finish(*receipt).await,
            }
        };
        within_settle_timeout(self.process(), message.id, acknowledging).await?;
        extras.acknowledged = true;
        let receipt = Receipt::Broker(Box::new(Acknowledged));
        let delivery = Delivery { message, attempt, poison, receipt };
        Ok(self.restart(StartedAttempt {
            delivery,
            handler_options,
            context,
            in_flight_guard,
            extras,
        }))
    }

    /// Settles a claim as done before it is handled.
    async fn finish(&self, receipt: LeaseReceipt) -> Result<()> {
        let LeaseReceipt { claimed, storage } = receipt;
        let settlement = Settlement::new(claimed.lease_ref(), Verdict::Done, None);
        let answers = storage.settle(vec![settlement], self.process().now()).await?;
        match answers.first() {
            Some(SettleResult::Applied) => Ok(()),
            _ => {
                Err(Error::conflict("the lease was lost, so another process may have the message")
                    .with("message", claimed.message.id))
            }
        }
    }

    /// Emits that a message of a subscription could not be acknowledged.
    fn emit_failure(&self, error: &Error) {
        let Some(SubscriptionOptions { spec, .. }) = &self.shared.subscription else { return };
        self.process().env.events.emit(Event::ServiceFailed {
            service: format!("worker of {}", spec.name),
            error: error.to_string(),
            again_at: self.process().now(),
        });
    }
}

/// Receipt of a message that is acknowledged already: settling does nothing, and it cannot be requeued.
struct Acknowledged;

#[async_trait]
impl Acknowledge for Acknowledged {
    async fn ack(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    async fn requeue(self: Box<Self>, _delay: std::time::Duration) -> Result<()> {
        Err(Error::unsupported("the message was acknowledged before it was handled"))
    }

    async fn reject(self: Box<Self>, _rejection: &Rejection) -> Result<()> {
        Ok(())
    }
}
