//! One delivery of a subscription, from its beginning to its settlement, with what the subscription asks
//! for: acknowledged first, tried again on the spot, told to the breaker.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Control, Subscribed};
use crate::engine::attempt::{attempt, context};
use crate::engine::settle::{Extras, Settler, Started, in_time};
use crate::engine::{Process, Slots};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::policy::EffectiveHandlerOptions;
use crate::policy::{BreakerSignal, Verdict, is_tried_at_once};
use crate::storage::{SettleResult, Settlement};
use crate::transport::{Acknowledge, Delivery, LeaseReceipt, Receipt, Rejection};

/// What every delivery of a subscription is run with.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) process: Arc<Process>,
    pub(super) settler: Settler,
    pub(super) subscribed: Arc<Subscribed>,
    pub(super) control: Arc<Control>,
}

impl Runner {
    /// The slots its attempts take.
    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.control.slots
    }

    /// Counts a delivery in.
    pub(super) fn begin(
        &self,
        delivery: Delivery,
        handler_options: Arc<EffectiveHandlerOptions>,
    ) -> Started {
        let slots = self.slots();
        let context =
            context(&self.process, &delivery, &handler_options, slots, self.process.now());
        let entered = self.process.in_flight.enter(&delivery.receipt, &context);
        let registration = self.subscribed.registration.clone();
        let extras = Extras { registration, ..Extras::default() };
        Started { delivery, handler_options, context, entered, extras }
    }

    /// The same delivery as if it began now.
    pub(super) fn afresh(&self, started: Started) -> Started {
        let Started { delivery, handler_options, context: old, extras, entered } = started;
        let slots = self.slots();
        let new = context(&self.process, &delivery, &handler_options, slots, self.process.now());
        if let Some(until) = old.lease_until().filter(|_| new.lease_until().is_some()) {
            new.renewed(until);
        }
        // Counted in before it is counted out, so that shutdown never sees it gone.
        let anew = self.process.in_flight.enter(&delivery.receipt, &new);
        drop(entered);
        Started { delivery, handler_options, context: new, entered: anew, extras }
    }

    /// Runs a delivery to its settlement.
    pub(super) async fn run(self, mut started: Box<Started>) {
        let receiving = &self.subscribed.receiving;
        if receiving.acknowledge_first {
            match self.acknowledge(*started).await {
                Some(acknowledged) => started = Box::new(acknowledged),
                None => return,
            }
        }
        loop {
            let Some(report) = attempt(&self.process, &started).await else {
                let (message, topic) = (started.context.message_id(), started.context.topic());
                let topic = topic.clone();
                self.process.events.emit(Event::LeaseLost { message, topic });
                return;
            };
            self.control.ended(
                &self.process.events,
                BreakerSignal::of(&report),
                self.process.now(),
            );
            let again = started.extras.inline < receiving.inline_retries
                && !self.process.stop.is_requested()
                && started.context.cancel_cause().is_none()
                && is_tried_at_once(&report)
                && self.settler.again_at_once(&started, &report).await;
            if !again {
                return self.settler.settle(started, report).await;
            }
            started.delivery.attempt += 1;
            started.extras.inline += 1;
            *started = self.afresh(*started);
        }
    }

    /// Acknowledges before the handler is called. What cannot be acknowledged is not handled: it comes
    /// again, to us or to somebody else.
    async fn acknowledge(&self, started: Started) -> Option<Started> {
        let Started { delivery, handler_options, context, entered, mut extras } = started;
        let Delivery { message, attempt, poison, receipt } = delivery;
        let acknowledging = async {
            match receipt {
                Receipt::Broker(receipt) => receipt.ack().await,
                Receipt::Lease(receipt) => self.finish(*receipt).await,
            }
        };
        if let Err(error) = in_time(&self.process, message.id, acknowledging).await {
            self.process.events.emit(Event::ServiceFailed {
                service: format!("worker of {}", self.subscribed.name),
                error: error.to_string(),
                again_at: self.process.now(),
            });
            return None;
        }
        extras.acknowledged = true;
        let receipt = Receipt::Broker(Box::new(Acknowledged));
        let delivery = Delivery { message, attempt, poison, receipt };
        Some(self.afresh(Started { delivery, handler_options, context, entered, extras }))
    }

    /// Settles a claim as done before it is.
    async fn finish(&self, receipt: LeaseReceipt) -> Result<()> {
        let LeaseReceipt { claimed, storage } = receipt;
        let settlement = Settlement::new(claimed.lease_ref(), Verdict::Done, None);
        let answers = storage.settle(vec![settlement], self.process.now()).await?;
        match answers.first() {
            Some(SettleResult::Applied) => Ok(()),
            _ => Err(Error::conflict("the message belongs to somebody else by now")
                .with("message", claimed.message.id)),
        }
    }
}

/// What is left of a receipt that was used first: nothing to do, and no way back.
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

/// Handler options with at most so many attempts, the last ones kept: a handler's are the same for every message.
#[derive(Default)]
pub(super) struct Capped {
    last: Option<(Arc<EffectiveHandlerOptions>, Arc<EffectiveHandlerOptions>)>,
}

impl Capped {
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
