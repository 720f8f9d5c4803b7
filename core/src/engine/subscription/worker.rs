//! Worker of one subscription: receives messages within its limits and starts them. It is driven by
//! deliveries, not by turns, and never sleeps while it could receive. A transport that is unreachable is tried
//! again for as long as the process runs, and health reports it meanwhile.

use std::sync::Arc;

use jiff::Timestamp;

use super::capped_options::CappedOptions;
use super::limiter::Limiter;
use super::{Control, SubscriptionSpec, subscribe};
use crate::clock::{Clock, within};
use crate::engine::attempt_runner::AttemptRunner;
use crate::engine::receipt::ReceivedMessage;
use crate::engine::{Process, Settler};
use crate::error::Error;
use crate::event::Event;
use crate::model::time::add;
use crate::policy::{BreakerDecision, backoff};
use crate::storage::Wakeup;
use crate::transport::{Consumer, Delivery};

/// Number of failures in a row after which the consumer is closed and the transport is subscribed to again.
const FAILURES_MAX: u32 = 3;

/// Receives one subscription of a transport.
pub(crate) struct SubscriptionWorker {
    process: Arc<Process>,
    spec: Arc<SubscriptionSpec>,
    control: Arc<Control>,
    runner: AttemptRunner,
    consumer: Option<Box<dyn Consumer>>,
    name: String,
    limiter: Limiter,
    capped: CappedOptions,
    /// Number of messages received the last time.
    received_last: usize,
    /// Number of failures in a row, including a failed subscribe before the worker started.
    failures: u32,
    changed: Wakeup,
    freed: Wakeup,
}

impl SubscriptionWorker {
    /// Creates a worker, with its consumer when the transport could be reached.
    pub(crate) fn new(
        process: Arc<Process>,
        settler: &Settler,
        spec: Arc<SubscriptionSpec>,
        control: Arc<Control>,
        consumer: Result<Box<dyn Consumer>, Error>,
    ) -> Self {
        let name = format!("worker of {}", spec.name);
        let limiter = Limiter::new(process.clone(), spec.clone());
        let (changed, freed) = (control.wakeup(), control.slots.wakeup());
        let runner = AttemptRunner::of_subscription(settler.clone(), spec.clone(), control.clone());
        let mut worker = Self {
            process,
            spec,
            control,
            runner,
            consumer: None,
            name,
            limiter,
            capped: CappedOptions::default(),
            received_last: 0,
            failures: 0,
            changed,
            freed,
        };
        match consumer {
            Ok(consumer) => worker.connected(consumer),
            Err(error) => worker.failed(&error),
        }
        worker
    }

    /// Receives until the process stops or the subscription is removed, then releases messages that were not
    /// started.
    pub(crate) async fn run(mut self) {
        if self.consumer.is_none() {
            self.rest().await;
        }
        while !self.is_ending() {
            self.runner.slots().yield_for_slots(self.received_last).await;
            // From here on a released slot notifies this worker.
            if self.limiter.len() > 0 {
                self.runner.slots().notify_on_release();
            }
            let now = self.process.now();
            let admits = self.control.admits(&self.process.env.events, now);
            let admitted = match admits {
                Some(BreakerDecision::All) => usize::MAX,
                Some(BreakerDecision::One) => 1,
                Some(BreakerDecision::NotBefore(_)) | None => 0,
            };
            let started = self.start_waiting(admitted, now).await;
            let limit = self.room().min(admitted.saturating_sub(started));
            if limit > 0 {
                self.receive(limit).await;
            } else if !self.has_room(admitted) {
                let until = match admits {
                    Some(BreakerDecision::NotBefore(until)) => Some(until),
                    Some(_) => self.limiter.wake_at(),
                    None => None,
                };
                self.wait(until).await;
            }
        }
        self.end().await;
    }

    fn is_ending(&self) -> bool {
        self.process.env.stop.is_requested() || self.control.is_closing()
    }

    /// Returns how many more messages may be received. A message that waits for its key takes no slot, so that
    /// others pass it.
    fn room(&self) -> usize {
        let receive_options = &self.spec.receive_options;
        let slots = self.runner.slots();
        if receive_options.is_limited_by_key() {
            return receive_options.prefetch.saturating_sub(slots.used() + self.limiter.len());
        }
        // A rate that is used up delays every further message.
        if self.limiter.len() > 0 { 0 } else { slots.free() }
    }

    /// Returns whether there is room after all; if not, the next released slot notifies this worker.
    fn has_room(&self, admitted: usize) -> bool {
        self.runner.slots().notify_on_release();
        self.limiter.len() == 0 && self.room().min(admitted) > 0
    }

    async fn wait(&mut self, until: Option<Timestamp>) {
        let process = self.process.clone();
        tokio::select! {
            biased;
            () = process.env.stop.requested() => {}
            () = self.changed.notified() => {}
            () = self.freed.notified() => {}
            () = reached(&*process.env.clock, until) => {}
        }
    }

    /// Receives once; returns early when something else has to be done.
    async fn receive(&mut self, limit: usize) {
        let Some(consumer) = &mut self.consumer else { return self.connect().await };
        let (process, until) = (&self.process, self.limiter.wake_at());
        let received = tokio::select! {
            biased;
            () = process.env.stop.requested() => return,
            () = self.changed.notified() => return,
            () = self.freed.notified(), if self.limiter.len() > 0 => return,
            received = consumer.receive(limit) => received,
            () = reached(&*process.env.clock, until) => return,
        };
        match received {
            Ok(deliveries) => {
                if self.failures > 0 {
                    self.recovered();
                }
                self.received_last = deliveries.len();
                for delivery in deliveries {
                    self.take(delivery);
                }
            }
            Err(error) => {
                self.failed(&error);
                if self.failures.is_multiple_of(FAILURES_MAX) {
                    self.disconnect().await;
                }
                self.rest().await;
            }
        }
    }

    /// Starts a delivery, or passes it to the limiter.
    fn take(&mut self, delivery: Delivery) {
        let mut handler_options = self.spec.handler_options(&self.process, &delivery.message);
        if let Some(attempts_max) = self.spec.attempts_max() {
            handler_options = self.capped.cap(&handler_options, attempts_max);
        }
        let received = ReceivedMessage::delivered(delivery, &self.spec);
        let started = self.runner.begin(received, handler_options);
        if self.spec.receive_options.is_limited() {
            self.limiter.push(started);
        } else {
            self.runner.spawn(started, ());
        }
    }

    /// Starts waiting messages that may start; returns how many.
    async fn start_waiting(&mut self, admitted: usize, now: Timestamp) -> usize {
        let room = self.runner.slots().free().min(admitted);
        if room == 0 || self.limiter.len() == 0 {
            return 0;
        }
        let ready = self.limiter.ready(room, now).await;
        let count = ready.len();
        for (started, key_guard) in ready {
            self.runner.spawn(Box::new(self.runner.restart(*started)), key_guard);
        }
        count
    }

    async fn connect(&mut self) {
        let (process, spec) = (&self.process, &self.spec);
        let result = tokio::select! {
            biased;
            () = process.env.stop.requested() => return,
            result = subscribe(process, spec) => result,
        };
        match result {
            Ok(consumer) => self.connected(consumer),
            Err(error) => {
                self.failed(&error);
                self.rest().await;
            }
        }
    }

    fn connected(&mut self, consumer: Box<dyn Consumer>) {
        self.consumer = Some(consumer);
        self.control.set_connected(true);
        self.recovered();
    }

    async fn disconnect(&mut self) {
        self.control.set_connected(false);
        if let Some(mut consumer) = self.consumer.take() {
            let until = add(self.process.now(), self.process.env.options.cancel_timeout);
            // The consumer is broken; an error of its close is of no use.
            let _ = within(&*self.process.env.clock, until, consumer.close(until)).await;
        }
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.process.turns.succeeded(&self.name, self.process.now());
    }

    fn failed(&mut self, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        let process = &self.process;
        process.turns.failed(&self.name, error.to_string());
        process.env.events.emit(Event::ServiceFailed {
            service: self.name.clone(),
            error: error.to_string(),
            again_at: add(process.now(), backoff(self.failures)),
        });
    }

    /// Waits after a failure.
    async fn rest(&mut self) {
        let process = self.process.clone();
        let again_at = add(process.now(), backoff(self.failures));
        tokio::select! {
            biased;
            () = process.env.stop.requested() => {}
            () = self.changed.notified() => {}
            () = process.env.clock.sleep_until(again_at) => {}
        }
    }

    async fn end(mut self) {
        let process = self.process.clone();
        for started in self.limiter.drain() {
            self.runner.release(started, process.now()).await;
        }
        // Deliveries in flight are settled through the consumer, so it stays open until then: for as long as
        // it takes when only this subscription ends.
        tokio::select! {
            biased;
            () = self.runner.slots().idle() => {}
            () = process.env.stop.requested() => {
                let options = &process.env.options;
                let settled_by = add(process.now(), options.drain_timeout + options.cancel_timeout * 2);
                let _ = within(&*process.env.clock, settled_by, process.runner.in_flight.emptied()).await;
            }
        }
        self.control.set_connected(false);
        let until = add(process.now(), process.env.options.cancel_timeout);
        let Some(consumer) = &mut self.consumer else { return };
        // A consumer ends by then itself; one that does not is dropped.
        let dropped_at = add(until, process.env.options.cancel_timeout);
        let closed = within(&*process.env.clock, dropped_at, consumer.close(until)).await;
        if let Some(Err(error)) = closed {
            process.env.events.emit(Event::ServiceFailed {
                service: self.name,
                error: error.to_string(),
                again_at: until,
            });
        }
    }
}

/// Waits until an instant; for ever when there is none.
async fn reached(clock: &dyn Clock, instant: Option<Timestamp>) {
    match instant {
        Some(instant) => clock.sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
