//! The worker of one subscription: receives what may be received and starts it. Paced by deliveries, not
//! by turns, and it never sleeps while it could receive. A transport that is out of reach is tried again
//! for as long as the process runs, and health says so meanwhile.

use std::sync::Arc;

use jiff::Timestamp;

use super::delivery::{Capped, Runner};
use super::gate::{Gate, KeyHeld};
use super::{Control, Subscribed, subscribe};
use crate::clock::{Clock, add, within};
use crate::engine::settle::{Settler, Started};
use crate::engine::{Process, backoff, worker};
use crate::error::Error;
use crate::event::Event;
use crate::policy::BreakerDecision;
use crate::policy::EffectiveHandlerOptions;
use crate::storage::Wakeup;
use crate::transport::{Consumer, Delivery, Receipt};

/// After so many failures in a row a consumer is given up and the transport is subscribed to anew.
const FAILURES_MAX: u32 = 3;

/// Receives one subscription of a transport.
pub(crate) struct SubscriptionWorker {
    runner: Runner,
    consumer: Option<Box<dyn Consumer>>,
    name: String,
    gate: Gate,
    capped: Capped,
    /// How many came the last time.
    received_last: usize,
    /// How often receiving has failed in a row; one of a worker that has not begun counts as well.
    failures: u32,
    changed: Wakeup,
    freed: Wakeup,
}

impl SubscriptionWorker {
    /// A worker, with its consumer when the transport could be reached.
    pub(crate) fn new(
        process: Arc<Process>,
        settler: &Settler,
        subscribed: Arc<Subscribed>,
        control: Arc<Control>,
        consumer: Result<Box<dyn Consumer>, Error>,
    ) -> Self {
        let name = format!("worker of {}", subscribed.name);
        let gate = Gate::new(process.clone(), subscribed.clone());
        let (changed, freed) = (control.wakeup(), control.slots.wakeup());
        let settler = settler.of(subscribed.origin());
        let runner = Runner { process, settler, subscribed, control };
        let mut worker = Self {
            runner,
            consumer: None,
            name,
            gate,
            capped: Capped::default(),
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

    /// Receives until the process stops or the subscription is taken away, then hands back what was not
    /// started.
    pub(crate) async fn run(mut self) {
        if self.consumer.is_none() {
            self.rest().await;
        }
        while !self.is_ending() {
            self.runner.slots().gather(self.received_last).await;
            // From here on a slot that becomes free is heard by what waits for one.
            if self.gate.len() > 0 {
                self.runner.slots().hunger();
            }
            let now = self.process().now();
            let admits = self.runner.control.admits(&self.process().events, now);
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
                    Some(_) => self.gate.wake_at(),
                    None => None,
                };
                self.wait(until).await;
            }
        }
        self.end().await;
    }

    fn process(&self) -> &Arc<Process> {
        &self.runner.process
    }

    fn is_ending(&self) -> bool {
        self.process().stop.is_requested() || self.runner.control.is_closing()
    }

    /// How many more may be in hand. What waits for its key's turn takes no slot, so that others pass it.
    fn room(&self) -> usize {
        let receiving = &self.runner.subscribed.receiving;
        let slots = self.runner.slots();
        if receiving.is_limited_by_key() {
            return receiving.prefetch.saturating_sub(slots.used() + self.gate.len());
        }
        // A rate that is used up is used up for whatever comes.
        if self.gate.len() > 0 { 0 } else { slots.free() }
    }

    /// Whether there is room after all; if not, the next slot that becomes free is heard.
    fn has_room(&self, admitted: usize) -> bool {
        self.runner.slots().hunger();
        self.gate.len() == 0 && self.room().min(admitted) > 0
    }

    async fn wait(&mut self, until: Option<Timestamp>) {
        let process = self.runner.process.clone();
        tokio::select! {
            biased;
            () = process.stop.requested() => {}
            () = self.changed.notified() => {}
            () = self.freed.notified() => {}
            () = reached(&*process.clock, until) => {}
        }
    }

    /// Receives once, or until there is something else to do.
    async fn receive(&mut self, limit: usize) {
        let Some(consumer) = &mut self.consumer else { return self.connect().await };
        let (process, until) = (&self.runner.process, self.gate.wake_at());
        let received = tokio::select! {
            biased;
            () = process.stop.requested() => return,
            () = self.changed.notified() => return,
            () = self.freed.notified(), if self.gate.len() > 0 => return,
            received = consumer.receive(limit) => received,
            () = reached(&*process.clock, until) => return,
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

    /// Starts a delivery, or lets it wait for its turn.
    fn take(&mut self, delivery: Delivery) {
        let Runner { subscribed, process, settler, .. } = &self.runner;
        let receiving = &subscribed.receiving;
        let cap = subscribed.attempts_max();
        if !receiving.is_limited()
            && receiving.is_plain()
            && cap.is_none()
            && subscribed.registration.is_none()
        {
            return worker::start(settler, delivery, self.runner.slots().take());
        }
        let handler_options: Arc<EffectiveHandlerOptions> =
            subscribed.handler_options(process, &delivery.message);
        let handler_options = match cap {
            Some(attempts_max) => self.capped.cap(&handler_options, attempts_max),
            None => handler_options,
        };
        let limited = receiving.is_limited();
        let started = Box::new(self.runner.begin(delivery, handler_options));
        if limited {
            self.gate.push(started);
        } else {
            self.start(started, None);
        }
    }

    /// Starts what has waited and may start; answers how many.
    async fn start_waiting(&mut self, admitted: usize, now: Timestamp) -> usize {
        let room = self.runner.slots().free().min(admitted);
        if room == 0 || self.gate.len() == 0 {
            return 0;
        }
        let ready = self.gate.ready(room, now).await;
        let count = ready.len();
        for (started, held) in ready {
            let started = Box::new(self.runner.afresh(*started));
            self.start(started, held);
        }
        count
    }

    fn start(&self, started: Box<Started>, held: Option<KeyHeld>) {
        let (runner, slot) = (self.runner.clone(), self.runner.slots().take());
        runner.control.begun(self.process().now());
        tokio::spawn(async move {
            // Freed in the opposite order: the key is free when the slot says that there is room.
            let _slot = slot;
            let _held = held;
            runner.run(started).await;
        });
    }

    async fn connect(&mut self) {
        let Runner { process, subscribed, .. } = &self.runner;
        let answer = tokio::select! {
            biased;
            () = process.stop.requested() => return,
            answer = subscribe(process, subscribed) => answer,
        };
        match answer {
            Ok(consumer) => self.connected(consumer),
            Err(error) => {
                self.failed(&error);
                self.rest().await;
            }
        }
    }

    fn connected(&mut self, consumer: Box<dyn Consumer>) {
        self.consumer = Some(consumer);
        self.runner.control.set_connected(true);
        self.recovered();
    }

    async fn disconnect(&mut self) {
        self.runner.control.set_connected(false);
        if let Some(mut consumer) = self.consumer.take() {
            let until = add(self.process().now(), self.process().options.grace);
            // It is broken; what it says on its way out is of no use.
            let _ = within(&*self.process().clock, until, consumer.close(until)).await;
        }
    }

    fn recovered(&mut self) {
        self.failures = 0;
        self.process().turns.succeeded(&self.name, self.process().now());
    }

    fn failed(&mut self, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        let process = self.process();
        process.turns.failed(&self.name, error.to_string());
        process.events.emit(Event::ServiceFailed {
            service: self.name.clone(),
            error: error.to_string(),
            again_at: add(process.now(), backoff(self.failures)),
        });
    }

    /// Waits after a failure.
    async fn rest(&mut self) {
        let process = self.runner.process.clone();
        let again_at = add(process.now(), backoff(self.failures));
        tokio::select! {
            biased;
            () = process.stop.requested() => {}
            () = self.changed.notified() => {}
            () = process.clock.sleep_until(again_at) => {}
        }
    }

    async fn end(mut self) {
        let process = self.runner.process.clone();
        for started in self.gate.drain() {
            // A broker has it again when it is dropped; a lease would have to run out first.
            if matches!(started.delivery.receipt, Receipt::Lease(_)) {
                self.runner.settler.give_back(started, process.now()).await;
            }
        }
        // What is in hand is settled through the consumer, so it stays open until then: for as long as it
        // takes when only this subscription ends.
        tokio::select! {
            biased;
            () = self.runner.slots().idle() => {}
            () = process.stop.requested() => {
                let options = &process.options;
                let settled_by = add(process.now(), options.drain + options.grace * 2);
                let _ = within(&*process.clock, settled_by, process.in_flight.emptied()).await;
            }
        }
        self.runner.control.set_connected(false);
        let until = add(process.now(), process.options.grace);
        let Some(consumer) = &mut self.consumer else { return };
        // A consumer ends by then itself; one that does not is dropped.
        let dropped_at = add(until, process.options.grace);
        let closed = within(&*process.clock, dropped_at, consumer.close(until)).await;
        if let Some(Err(error)) = closed {
            process.events.emit(Event::ServiceFailed {
                service: self.name,
                error: error.to_string(),
                again_at: until,
            });
        }
    }
}

/// Waits for an instant; for ever when there is none.
async fn reached(clock: &dyn Clock, instant: Option<Timestamp>) {
    match instant {
        Some(instant) => clock.sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
