//! Broker in memory that records how every delivery is settled. By default it can neither delay nor count
//! attempts; a test may enable either.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::{
    Acknowledge, AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Delivery, Ordering,
    OutgoingMessage, Receipt, Rejection, Subscription,
};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{Message, Topic};
use punctual::{Builder, Error, ManualClock, Result, Transport};
use tokio::sync::Notify;

use crate::harness::{Bench, Log, world};
use crate::test_handlers::Gate;

/// Largest body it accepts in bytes, whether its capabilities declare it or not.
const BODY_MAX: usize = 10_000;

pub(crate) struct Broker {
    state: Arc<BrokerState>,
    capabilities: Capabilities,
}

/// Starts a process with a transport named `post`, and returns its broker too.
pub(crate) async fn post(
    capabilities: Capabilities,
    build: impl FnOnce(Builder) -> Builder,
) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::new(&world.0, capabilities);
    let transport = broker.clone();
    let bench = Bench::start_in(world, |builder| build(builder.transport("post", transport))).await;
    (bench, broker)
}

/// State that the broker shares with its consumers and receipts.
struct BrokerState {
    clock: Arc<ManualClock>,
    counts: bool,
    groups: Mutex<Vec<String>>,
    waiting: Mutex<Vec<QueuedMessage>>,
    arrived: Notify,
    settlements: Log,
    batches: Mutex<Vec<usize>>,
    unsettled: Mutex<usize>,
    down: Mutex<Option<String>>,
    hanging: Mutex<Option<String>>,
    forbids: Mutex<bool>,
    broken: Mutex<bool>,
    confirming: Mutex<Option<Gate>>,
    settles_never: Mutex<bool>,
}

#[derive(Clone)]
struct QueuedMessage {
    message: Arc<Message>,
    group: String,
    attempt: u32,
    due_at: Timestamp,
    poison: Option<String>,
}

/// A broker that neither delays nor counts attempts.
pub(crate) const PLAIN: Capabilities = Capabilities {
    publish_delay: Delay::None,
    requeue_delay: Delay::None,
    dead_letter: true,
    ordering: Ordering::Total,
    fan_out: false,
    attempts: AttemptCount::None,
    acknowledge: AcknowledgeMode::Single,
    durable: false,
    payload_max: None,
};

impl Broker {
    /// Creates a broker with the one group "office".
    pub(crate) fn new(clock: &Arc<ManualClock>, capabilities: Capabilities) -> Arc<Self> {
        Self::with_groups(clock, capabilities, vec!["office".to_owned()])
    }

    /// Creates a broker that delivers a copy to each of these groups.
    pub(crate) fn with_groups(
        clock: &Arc<ManualClock>,
        capabilities: Capabilities,
        groups: Vec<String>,
    ) -> Arc<Self> {
        let state = BrokerState {
            clock: clock.clone(),
            counts: capabilities.attempts == AttemptCount::Counted,
            groups: Mutex::new(groups),
            waiting: Mutex::default(),
            arrived: Notify::new(),
            settlements: Log::default(),
            batches: Mutex::default(),
            unsettled: Mutex::default(),
            down: Mutex::default(),
            hanging: Mutex::default(),
            forbids: Mutex::default(),
            broken: Mutex::default(),
            confirming: Mutex::default(),
            settles_never: Mutex::default(),
        };
        Arc::new(Self { state: Arc::new(state), capabilities })
    }

    /// Returns how deliveries were settled, in order.
    pub(crate) fn settlements(&self) -> Vec<String> {
        self.state.settlements.lines()
    }

    /// Returns the number of messages of each publish call, in order.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.state.batches.lock().unwrap().clone()
    }

    /// Returns the number of messages that wait for delivery.
    pub(crate) fn waiting(&self) -> usize {
        self.state.waiting.lock().unwrap().len()
    }

    /// Returns the number of unsettled deliveries.
    pub(crate) fn unsettled(&self) -> usize {
        *self.state.unsettled.lock().unwrap()
    }

    /// Makes publishing and subscribing to a topic fail.
    pub(crate) fn refuse(&self, topic: Option<&str>) {
        *self.state.down.lock().unwrap() = topic.map(str::to_owned);
    }

    /// Makes subscribing fail permanently, as with a topology that differs.
    pub(crate) fn forbid(&self, forbids: bool) {
        *self.state.forbids.lock().unwrap() = forbids;
    }

    /// Breaks every connection; new ones fail while it is broken.
    pub(crate) fn break_off(&self, broken: bool) {
        *self.state.broken.lock().unwrap() = broken;
        self.state.arrived.notify_waiters();
    }

    /// Delivers a message with an attempt number to the office.
    pub(crate) fn deliver(&self, message: Arc<Message>, attempt: u32) {
        let (due_at, poison) = (self.state.clock.now(), None);
        self.state.put(QueuedMessage {
            message,
            group: "office".to_owned(),
            attempt,
            due_at,
            poison,
        });
    }

    /// Accepts messages of a topic, and never confirms them.
    pub(crate) fn hang(&self, topic: Option<&str>) {
        *self.state.hanging.lock().unwrap() = topic.map(str::to_owned);
    }

    /// Makes every ack, requeue and reject hang.
    pub(crate) fn hang_settlements(&self, hangs: bool) {
        *self.state.settles_never.lock().unwrap() = hangs;
    }

    /// Accepts messages immediately, but confirms them only when the gate opens.
    pub(crate) fn confirm_at(&self, gate: &Gate) {
        *self.state.confirming.lock().unwrap() = Some(gate.clone());
    }

    /// Delivers an unreadable message.
    pub(crate) fn garble(&self, message: Arc<Message>) {
        let due_at = self.state.clock.now();
        let poison = Some("not one of our envelopes".to_owned());
        self.state.put(QueuedMessage {
            message,
            group: "office".to_owned(),
            attempt: 1,
            due_at,
            poison,
        });
    }
}

impl BrokerState {
    fn put(&self, waiting: QueuedMessage) {
        self.waiting.lock().unwrap().push(waiting);
        self.arrived.notify_waiters();
    }

    fn check(&self, topic: &Topic) -> Result<()> {
        match &*self.down.lock().unwrap() {
            Some(down) if down == topic.as_str() => {
                Err(Error::unavailable(format!("the broker refuses {topic}")))
            }
            _ => Ok(()),
        }
    }

    fn check_connection(&self) -> Result<()> {
        if *self.broken.lock().unwrap() {
            return Err(Error::unavailable("the connection is broken"));
        }
        Ok(())
    }

    /// Removes and returns the due messages of a topic, oldest first.
    fn take(&self, topic: &Topic, group: &str, limit: usize) -> Vec<QueuedMessage> {
        let now = self.clock.now();
        let mut waiting = self.waiting.lock().unwrap();
        let mut taken = Vec::new();
        waiting.retain(|one| {
            let ours = one.message.topic == *topic && one.group == group;
            let fits = ours && taken.len() < limit && one.due_at <= now;
            if fits {
                taken.push(one.clone());
            }
            !fits
        });
        *self.unsettled.lock().unwrap() += taken.len();
        taken
    }

    fn next_due(&self) -> Timestamp {
        let now = self.clock.now();
        let waiting = self.waiting.lock().unwrap();
        let later = waiting.iter().map(|one| one.due_at).filter(|due_at| *due_at > now);
        later.min().unwrap_or(Timestamp::MAX)
    }
}

#[async_trait]
impl Transport for Broker {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()> {
        for outgoing in &batch {
            self.state.check(&outgoing.message.topic)?;
            if !self.capabilities.publish_delay.supports(outgoing.delay) {
                return Err(Error::unsupported("this broker cannot delay"));
            }
            let length = outgoing.message.body.bytes.len();
            if length > BODY_MAX {
                return Err(Error::invalid(format!("a body of {length} bytes is too large")));
            }
        }
        let hangs = self.state.hanging.lock().unwrap().clone();
        if batch.iter().any(|one| hangs.as_deref() == Some(one.message.topic.as_str())) {
            std::future::pending::<()>().await;
        }
        self.state.batches.lock().unwrap().push(batch.len());
        for outgoing in batch {
            let OutgoingMessage { message, delay, attempt, group } = outgoing;
            let due_at = now + SignedDuration::try_from(delay).unwrap();
            let known = self.state.groups.lock().unwrap().clone();
            for to in known.into_iter().filter(|to| group.as_ref().is_none_or(|only| only == to)) {
                self.state.put(QueuedMessage {
                    message: message.clone(),
                    group: to,
                    attempt: attempt + 1,
                    due_at,
                    poison: None,
                });
            }
        }
        let gate = self.state.confirming.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.pass().await;
        }
        Ok(())
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        self.state.check(&subscription.topic)?;
        self.state.check_connection()?;
        if *self.state.forbids.lock().unwrap() {
            return Err(Error::invalid("the queue exists with other settings"));
        }
        Ok(Box::new(BrokerConsumer {
            state: self.state.clone(),
            topic: subscription.topic,
            group: subscription.group,
        }))
    }
}

struct BrokerConsumer {
    state: Arc<BrokerState>,
    topic: Topic,
    group: String,
}

#[async_trait]
impl Consumer for BrokerConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            let arrived = self.state.arrived.notified();
            self.state.check_connection()?;
            let taken = self.state.take(&self.topic, &self.group, limit);
            if !taken.is_empty() {
                return Ok(taken.into_iter().map(|one| delivery(&self.state, one)).collect());
            }
            tokio::select! {
                () = arrived => {}
                () = punctual::Clock::sleep_until(&*self.state.clock, self.state.next_due()) => {}
            }
        }
    }

    async fn close(&mut self, _until: Timestamp) -> Result<()> {
        let unsettled = *self.state.unsettled.lock().unwrap();
        self.state.settlements.push(format!("close with {unsettled} unsettled"));
        Ok(())
    }
}

fn delivery(state: &Arc<BrokerState>, waiting: QueuedMessage) -> Delivery {
    Delivery {
        message: waiting.message.clone(),
        attempt: waiting.attempt,
        poison: waiting.poison.clone(),
        receipt: Receipt::Broker(Box::new(BrokerReceipt {
            state: state.clone(),
            waiting: Some(waiting),
        })),
    }
}

/// Receipt that settles a delivery once. Dropped unsettled, it redelivers the message.
struct BrokerReceipt {
    state: Arc<BrokerState>,
    waiting: Option<QueuedMessage>,
}

impl BrokerReceipt {
    fn settle(&mut self, line: String) -> QueuedMessage {
        self.state.settlements.push(line);
        *self.state.unsettled.lock().unwrap() -= 1;
        self.waiting.take().expect("a delivery is settled once")
    }

    /// Hangs when settlements hang, otherwise returns.
    async fn hang_when_set(&self, line: &str) {
        let hangs = *self.state.settles_never.lock().unwrap();
        if hangs {
            self.state.settlements.push(format!("{line} hangs"));
            std::future::pending::<()>().await;
        }
    }

    fn redeliver(&mut self, line: String, delay: Duration) {
        let mut waiting = self.settle(line);
        waiting.attempt += u32::from(self.state.counts);
        waiting.due_at = self.state.clock.now() + SignedDuration::try_from(delay).unwrap();
        self.state.put(waiting);
    }
}

#[async_trait]
impl Acknowledge for BrokerReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.hang_when_set("ack").await;
        self.settle("ack".to_owned());
        Ok(())
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        self.hang_when_set("requeue").await;
        self.redeliver(format!("requeue {delay:?}"), delay);
        Ok(())
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        self.hang_when_set("reject").await;
        self.settle(format!("reject {}", rejection.reason.as_str()));
        Ok(())
    }
}

impl Drop for BrokerReceipt {
    fn drop(&mut self) {
        if self.waiting.is_some() {
            // A broker waits a moment before it redelivers.
            self.redeliver("redeliver".to_owned(), Duration::from_secs(1));
        }
    }
}
