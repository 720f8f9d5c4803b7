//! Delivery of a subscription, from its start to its settlement, with the subscription's options: acknowledge
//! first, inline retries, circuit breaker.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Control, SubscriptionSpec};
use crate::engine::Process;
use crate::engine::attempt::{attempt, context};
use crate::engine::settle::{Extras, Settler, StartedAttempt, within_settle_timeout};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::Slots;
use crate::policy::{BreakerSignal, EffectiveHandlerOptions, Verdict, allows_inline_retry};
use crate::storage::{SettleResult, Settlement};
use crate::transport::{Acknowledge, Delivery, LeaseReceipt, Receipt, Rejection};

/// State that every delivery of a subscription is run with.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) process: Arc<Process>,
    pub(super) settler: Settler,
    pub(super) spec: Arc<SubscriptionSpec>,
    pub(super) control: Arc<Control>,
}

impl Runner {
    /// Returns the slots of its attempts.
    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.control.slots
    }

    /// Builds the attempt of a delivery and adds it to those in flight.
    pub(super) fn begin(
        &self,
        delivery: Delivery,
        handler_options: Arc<EffectiveHandlerOptions>,
    ) -> StartedAttempt {
        let slots = self.slots();
        let context =
            context(&self.process, &delivery, &handler_options, slots, self.process.now());
        let in_flight_guard = self.process.runner.in_flight.enter(&delivery.receipt, &context);
        let registration = self.spec.registration.clone();
        let extras = Extras { registration, ..Extras::default() };
        StartedAttempt { delivery, handler_options, context, in_flight_guard, extras }
    }

    /// Returns the same delivery as a new attempt that starts now.
    pub(super) fn restart(&self, started: StartedAttempt) -> StartedAttempt {
        let StartedAttempt { delivery, handler_options, context: old, extras, in_flight_guard } =
            started;
        let slots = self.slots();
        let new = context(&self.process, &delivery, &handler_options, slots, self.process.now());
        if let Some(until) = old.lease_until().filter(|_| new.lease_until().is_some()) {
            new.set_lease_until(until);
        }
        // The new guard is taken before the old one is dropped, so that shutdown always sees the delivery.
        let guard = self.process.runner.in_flight.enter(&delivery.receipt, &new);
        drop(in_flight_guard);
        StartedAttempt { delivery, handler_options, context: new, in_flight_guard: guard, extras }
    }

    /// Runs a delivery to its settlement.
    pub(super) async fn run(self, mut started: Box<StartedAttempt>) {
        let receive_options = &self.spec.receive_options;
        if receive_options.acknowledge_first {
            match self.acknowledge(*started).await {
                Some(acknowledged) => started = Box::new(acknowledged),
                None => return,
            }
        }
        loop {
            let Some(report) = attempt(&self.process, &started).await else {
                let (message, topic) = (started.context.message_id(), started.context.topic());
                let topic = topic.clone();
                self.process.env.events.emit(Event::LeaseLost { message, topic });
                return;
            };
            self.control.attempt_ended(
                &self.process.env.events,
                BreakerSignal::of(&report),
                self.process.now(),
            );
            let is_retried = started.extras.inline < receive_options.inline_retries
                && !self.process.env.stop.is_requested()
                && started.context.cancel_cause().is_none()
                && allows_inline_retry(&report)
                && self.settler.retry_inline(&started, &report).await;
            if !is_retried {
                return self.settler.settle(started, report).await;
            }
            started.delivery.attempt += 1;
            started.extras.inline += 1;
            *started = self.restart(*started);
        }
    }

    /// Acknowledges before the handler is called. A message that cannot be acknowledged is not handled: it is
    /// delivered again, to this process or another.
    async fn acknowledge(&self, started: StartedAttempt) -> Option<StartedAttempt> {
        let StartedAttempt { delivery, handler_options, context, in_flight_guard, mut extras } =
            started;
        let Delivery { message, attempt, poison, receipt } = delivery;
        let acknowledging = async {
            match receipt {
                Receipt::Broker(receipt) => receipt.ack().await,
                Receipt::Lease(receipt) => self.finish(*receipt).await,
            }
        };
        if let Err(error) = within_settle_timeout(&self.process, message.id, acknowledging).await {
            self.process.env.events.emit(Event::ServiceFailed {
                service: format!("worker of {}", self.spec.name),
                error: error.to_string(),
                again_at: self.process.now(),
            });
            return None;
        }
        extras.acknowledged = true;
        let receipt = Receipt::Broker(Box::new(Acknowledged));
        let delivery = Delivery { message, attempt, poison, receipt };
        Some(self.restart(StartedAttempt {
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
        let answers = storage.settle(vec![settlement], self.process.now()).await?;
        match answers.first() {
            Some(SettleResult::Applied) => Ok(()),
            _ => {
                Err(Error::conflict("the lease was lost, so another process may have the message")
                    .with("message", claimed.message.id))
            }
        }
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

/// Cache of handler options with a limit of attempts: a handler's options are the same for every message.
#[derive(Default)]
pub(super) struct CappedOptions {
    last: Option<(Arc<EffectiveHandlerOptions>, Arc<EffectiveHandlerOptions>)>,
}

impl CappedOptions {
    pub(super) fn cap(
        &mut self,
        handler_options: &Arc<EffectiveHandlerOptions>,
        attempts_max: u32,
    ) -> Arc<EffectiveHandlerOptions> {
        if handler_options.retry.attempts_max.is_some_and(|count| count <= attempts_max) {
            return handler_options.clone();
        }
        if let Some((of, capped)) = &self.last
            && Arc::ptr_eq(of, handler_options)
        {
            return capped.clone();
        }
        let mut capped = (**handler_options).clone();
        capped.retry.attempts_max = Some(attempts_max);
        let capped = Arc::new(capped);
        self.last = Some((handler_options.clone(), capped.clone()));
        capped
    }
}
