//! A broker in memory that writes down how every delivery is settled. By itself it can neither
//! delay nor count, like the plainest of brokers; a test may give it either.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{Message, Topic};
use punctual::transport::{
    Acknowledge, AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Delivery, Ordering,
    Outgoing, Receipt, Rejection, Subscription,
};
use punctual::{Builder, Error, ManualClock, Result, Transport};
use tokio::sync::Notify;

use crate::acting::Gate;
use crate::harness::{Bench, Log, world};

/// What it takes at most, whether its capabilities say so or not.
const BODY_MAX: usize = 10_000;

pub(crate) struct Broker {
    desk: Arc<Desk>,
    capabilities: Capabilities,
}

/// A process with a transport named `post`, and the broker behind it.
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

/// What the broker and everything it hands out share.
struct Desk {
    clock: Arc<ManualClock>,
    counts: bool,
    groups: Mutex<Vec<String>>,
    waiting: Mutex<Vec<Waiting>>,
    arrived: Notify,
    story: Log,
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
struct Waiting {
    message: Arc<Message>,
    group: String,
    attempt: u32,
    due_at: Timestamp,
    poison: Option<String>,
}

/// No delay, nobody counts.
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
    /// A broker with the one group "office".
    pub(crate) fn new(clock: &Arc<ManualClock>, capabilities: Capabilities) -> Arc<Self> {
        Self::with_groups(clock, capabilities, vec!["office".to_owned()])
    }

    /// A broker that gives each of these groups its own copy.
    pub(crate) fn with_groups(
        clock: &Arc<ManualClock>,
        capabilities: Capabilities,
        groups: Vec<String>,
    ) -> Arc<Self> {
        let desk = Desk {
            clock: clock.clone(),
            counts: capabilities.attempts == AttemptCount::Counted,
            groups: Mutex::new(groups),
            waiting: Mutex::default(),
            arrived: Notify::new(),
            story: Log::default(),
            batches: Mutex::default(),
            unsettled: Mutex::default(),
            down: Mutex::default(),
            hanging: Mutex::default(),
            forbids: Mutex::default(),
            broken: Mutex::default(),
            confirming: Mutex::default(),
            settles_never: Mutex::default(),
        };
        Arc::new(Self { desk: Arc::new(desk), capabilities })
    }

    /// How deliveries were settled, in order.
    pub(crate) fn story(&self) -> Vec<String> {
        self.desk.story.lines()
    }

    /// How many messages came with each call, in order.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.desk.batches.lock().unwrap().clone()
    }

    /// How many messages lie here and wait.
    pub(crate) fn waiting(&self) -> usize {
        self.desk.waiting.lock().unwrap().len()
    }

    /// How many deliveries are out and not settled.
    pub(crate) fn unsettled(&self) -> usize {
        *self.desk.unsettled.lock().unwrap()
    }

    /// Refuses to take messages of a topic, and to subscribe to it.
    pub(crate) fn refuse(&self, topic: Option<&str>) {
        *self.desk.down.lock().unwrap() = topic.map(str::to_owned);
    }

    /// Refuses to be subscribed to for good, as a topology that is another.
    pub(crate) fn forbid(&self, forbids: bool) {
        *self.desk.forbids.lock().unwrap() = forbids;
    }

    /// Breaks every connection, and lets none be made while it is broken.
    pub(crate) fn break_off(&self, broken: bool) {
        *self.desk.broken.lock().unwrap() = broken;
        self.desk.arrived.notify_waiters();
    }

    /// Lets a message arrive for the office that was delivered so often before.
    pub(crate) fn deliver(&self, message: Arc<Message>, attempt: u32) {
        let (due_at, poison) = (self.desk.clock.now(), None);
        self.desk.put(Waiting { message, group: "office".to_owned(), attempt, due_at, poison });
    }

    /// Takes messages of a topic, and never confirms them.
    pub(crate) fn hang(&self, topic: Option<&str>) {
        *self.desk.hanging.lock().unwrap() = topic.map(str::to_owned);
    }

    /// Takes every ack, requeue and reject, and never returns from it.
    pub(crate) fn hang_settlements(&self, hangs: bool) {
        *self.desk.settles_never.lock().unwrap() = hangs;
    }

    /// Takes messages at once, but confirms them only when the gate opens.
    pub(crate) fn confirm_at(&self, gate: &Gate) {
        *self.desk.confirming.lock().unwrap() = Some(gate.clone());
    }

    /// Lets something unreadable arrive.
    pub(crate) fn garble(&self, message: Arc<Message>) {
        let due_at = self.desk.clock.now();
        let poison = Some("not one of our envelopes".to_owned());
        self.desk.put(Waiting { message, group: "office".to_owned(), attempt: 1, due_at, poison });
    }
}

impl Desk {
    fn put(&self, waiting: Waiting) {
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

    /// Takes what is due for a topic, oldest first.
    fn take(&self, topic: &Topic, group: &str, limit: usize) -> Vec<Waiting> {
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

    async fn publish(&self, batch: Vec<Outgoing>, now: Timestamp) -> Result<()> {
        for outgoing in &batch {
            self.desk.check(&outgoing.message.topic)?;
            if !self.capabilities.publish_delay.reaches(outgoing.delay) {
                return Err(Error::unsupported("this broker cannot delay"));
            }
            let length = outgoing.message.body.bytes.len();
            if length > BODY_MAX {
                return Err(Error::invalid(format!("a body of {length} bytes is too large")));
            }
        }
        let hangs = self.desk.hanging.lock().unwrap().clone();
        if batch.iter().any(|one| hangs.as_deref() == Some(one.message.topic.as_str())) {
            std::future::pending::<()>().await;
        }
        self.desk.batches.lock().unwrap().push(batch.len());
        for outgoing in batch {
            let Outgoing { message, delay, attempt, group } = outgoing;
            let due_at = now + SignedDuration::try_from(delay).unwrap();
            let known = self.desk.groups.lock().unwrap().clone();
            for to in known.into_iter().filter(|to| group.as_ref().is_none_or(|only| only == to)) {
                self.desk.put(Waiting {
                    message: message.clone(),
                    group: to,
                    attempt: attempt + 1,
                    due_at,
                    poison: None,
                });
            }
        }
        let gate = self.desk.confirming.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.pass().await;
        }
        Ok(())
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        self.desk.check(&subscription.topic)?;
        self.desk.check_connection()?;
        if *self.desk.forbids.lock().unwrap() {
            return Err(Error::invalid("the queue exists with other settings"));
        }
        Ok(Box::new(Receiving {
            desk: self.desk.clone(),
            topic: subscription.topic,
            group: subscription.group,
        }))
    }
}

struct Receiving {
    desk: Arc<Desk>,
    topic: Topic,
    group: String,
}

#[async_trait]
impl Consumer for Receiving {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            let arrived = self.desk.arrived.notified();
            self.desk.check_connection()?;
            let taken = self.desk.take(&self.topic, &self.group, limit);
            if !taken.is_empty() {
                return Ok(taken.into_iter().map(|one| delivery(&self.desk, one)).collect());
            }
            tokio::select! {
                () = arrived => {}
                () = punctual::Clock::sleep_until(&*self.desk.clock, self.desk.next_due()) => {}
            }
        }
    }

    async fn close(&mut self, _until: Timestamp) -> Result<()> {
        let unsettled = *self.desk.unsettled.lock().unwrap();
        self.desk.story.push(format!("close with {unsettled} unsettled"));
        Ok(())
    }
}

fn delivery(desk: &Arc<Desk>, waiting: Waiting) -> Delivery {
    Delivery {
        message: waiting.message.clone(),
        attempt: waiting.attempt,
        poison: waiting.poison.clone(),
        receipt: Receipt::Broker(Box::new(Stub { desk: desk.clone(), waiting: Some(waiting) })),
    }
}

/// The right to settle a delivery once. Dropped unsettled, the message comes again.
struct Stub {
    desk: Arc<Desk>,
    waiting: Option<Waiting>,
}

impl Stub {
    fn settle(&mut self, line: String) -> Waiting {
        self.desk.story.push(line);
        *self.desk.unsettled.lock().unwrap() -= 1;
        self.waiting.take().expect("a delivery is settled once")
    }

    /// Returns unless settlements hang.
    async fn asked(&self, line: &str) {
        let hangs = *self.desk.settles_never.lock().unwrap();
        if hangs {
            self.desk.story.push(format!("{line} hangs"));
            std::future::pending::<()>().await;
        }
    }

    fn again(&mut self, line: String, delay: Duration) {
        let mut waiting = self.settle(line);
        waiting.attempt += u32::from(self.desk.counts);
        waiting.due_at = self.desk.clock.now() + SignedDuration::try_from(delay).unwrap();
        self.desk.put(waiting);
    }
}

#[async_trait]
impl Acknowledge for Stub {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.asked("ack").await;
        self.settle("ack".to_owned());
        Ok(())
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        self.asked("requeue").await;
        self.again(format!("requeue {delay:?}"), delay);
        Ok(())
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        self.asked("reject").await;
        self.settle(format!("reject {}", rejection.reason.as_str()));
        Ok(())
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        if self.waiting.is_some() {
            // A broker gives the others a moment before it delivers again.
            self.again("redeliver".to_owned(), Duration::from_secs(1));
        }
    }
}
