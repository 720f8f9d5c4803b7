//! Attempt runner: runs a message from its start to its settlement, each in its own task. Queue workers and
//! subscriptions share it; a subscription adds options: acknowledge first, inline retries, circuit breaker.

use std::sync::Arc;

use jiff::Timestamp;

use super::attempt::{AttemptIdentity, attempt};
use super::receipt::ReceivedMessage;
use super::settle::{emit_lease_lost, within_settle_timeout};
use super::started_attempt::StartedAttempt;
use super::{Control, Process, Settler, SubscriptionSpec};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::Slots;
use crate::policy::{AttemptEnd, BreakerSignal, EffectiveHandlerOptions, allows_inline_retry};

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
        settler: Settler,
        spec: Arc<SubscriptionSpec>,
        control: Arc<Control>,
    ) -> Self {
        let slots = control.slots.clone();
        let subscription = Some(SubscriptionOptions { spec, control });
        Self { shared: Arc::new(Shared { settler, slots, subscription }) }
    }

    pub(super) fn process(&self) -> &Arc<Process> {
        self.shared.settler.process()
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.shared.slots
    }

    /// Builds the attempt of a message and adds it to those in flight, so that shutdown and the heartbeat see
    /// it from the first moment. Boxed, so that its task moves a pointer and not the whole message.
    pub(super) fn begin(
        &self,
        received: ReceivedMessage,
        handler_options: Arc<EffectiveHandlerOptions>,
    ) -> Box<StartedAttempt> {
        let subscription = self.shared.subscription.as_ref();
        let (process, identity) = (self.process(), self.identity());
        Box::new(StartedAttempt {
            registration: subscription.and_then(|of| of.spec.registration.clone()),
            ..StartedAttempt::new(process, received, handler_options, identity)
        })
    }

    /// Returns the same message as a new attempt that starts now.
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
        if let Some(SubscriptionOptions { spec, .. }) = subscription
            && spec.receive_options.acknowledge_first
        {
            // Boxed, as below, so that other attempts do not carry the space for it.
            match Box::pin(self.acknowledge(*started, spec)).await {
                Ok(acknowledged) => started = Box::new(acknowledged),
                Err(error) => return self.emit_failure(spec, &error),
            }
        }
        loop {
            let Some(report) = attempt(process, &started).await else {
                return emit_lease_lost(process, &started.context);
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
            started.received.attempt += 1;
            started.inline_retries += 1;
            *started = self.restart(*started);
        }
    }

    /// Returns whether the subscription allows another attempt within the same delivery.
    fn may_retry_inline(&self, started: &StartedAttempt, report: &AttemptEnd) -> bool {
        let Some(SubscriptionOptions { spec, .. }) = &self.shared.subscription else {
            return false;
        };
        started.inline_retries < spec.receive_options.inline_retries
            && !self.process().env.stop.is_requested()
            && started.context.cancel_cause().is_none()
            && allows_inline_retry(report)
    }

    /// Acknowledges before the handler is called. A message that cannot be acknowledged is not handled: it is
    /// delivered again, to this process or another.
    async fn acknowledge(
        &self,
        started: StartedAttempt,
        spec: &Arc<SubscriptionSpec>,
    ) -> Result<StartedAttempt> {
        let StartedAttempt { received, .. } = started;
        let id = received.message.id;
        let acknowledging = received.acknowledged(self.process(), spec);
        let received = within_settle_timeout(self.process(), id, acknowledging).await?;
        Ok(self.restart(StartedAttempt { received, ..started }))
    }

    /// Emits that a message of a subscription could not be acknowledged.
    fn emit_failure(&self, spec: &SubscriptionSpec, error: &Error) {
        self.process().env.events.emit(Event::ServiceFailed {
            service: format!("worker of {}", spec.name),
            error: error.to_string(),
            again_at: self.process().now(),
        });
    }
}
