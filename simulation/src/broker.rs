//! A broker between the nodes: it cannot delay anything, and it duplicates, delays and reorders what
//! it carries and loses acknowledgements. What is not acknowledged in time is delivered again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::transport::{
    Acknowledge, AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Delivery, Ordering,
    Outgoing, Receipt, Rejection, Subscription,
};
use punctual::{Clock, Error, Message, Result, Transport};
use tokio::sync::Notify;

use super::faults::Fault;
use super::machine::Machine;
use super::shared::{Shared, lock};

/// How long a delivery may stay unsettled before it is delivered again; without faults for ever.
const VISIBILITY: Duration = Duration::from_secs(300);

/// The broker itself; outlives every process.
pub(crate) struct Broker {
    shared: Arc<Shared>,
    letters: Mutex<BTreeMap<u64, Letter>>,
    next: Mutex<u64>,
    arrived: Notify,
}

/// A copy of a message in the broker.
#[derive(Clone)]
struct Letter {
    message: Arc<Message>,
    attempt: u32,
    visible_at: Timestamp,
}

impl Broker {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            letters: Mutex::default(),
            next: Mutex::new(0),
            arrived: Notify::new(),
        })
    }

    pub(crate) fn holds(&self, id: MessageId) -> bool {
        lock(&self.letters).values().any(|letter| letter.message.id == id)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.letters).len()
    }

    fn put(&self, outgoing: &Outgoing) {
        let late = self.shared.strikes(Fault::DeliveryLate);
        let wait =
            if late { self.shared.draw(|random| random.seconds(1, 600)) } else { Duration::ZERO };
        let visible_at = add(self.shared.now(), wait);
        let letter =
            Letter { message: outgoing.message.clone(), attempt: outgoing.attempt, visible_at };
        let mut next = lock(&self.next);
        *next += 1;
        lock(&self.letters).insert(*next, letter);
        self.arrived.notify_waiters();
    }

    /// Takes what is visible; it stays here, out of sight, until it is settled.
    fn take(&self, topic: &str, limit: usize) -> Vec<(u64, Letter)> {
        let now = self.shared.now();
        let mut letters = lock(&self.letters);
        let visible = letters.iter().filter(|(_, letter)| {
            letter.visible_at <= now && letter.message.topic.as_str() == topic
        });
        let mut numbers: Vec<u64> = visible.map(|(number, _)| *number).collect();
        if numbers.len() > 1 && self.shared.strikes(Fault::DeliveryReordered) {
            let turn = self.shared.draw(|random| random.between(1, numbers.len() as u64 - 1));
            numbers.rotate_left(usize::try_from(turn).unwrap_or(1));
        }
        numbers.truncate(limit);
        let mut taken = Vec::new();
        for number in numbers {
            if let Some(letter) = letters.get_mut(&number) {
                letter.visible_at =
                    if self.shared.calm { Timestamp::MAX } else { add(now, VISIBILITY) };
                taken.push((number, letter.clone()));
            }
        }
        taken
    }

    fn next_visible(&self) -> Timestamp {
        lock(&self.letters).values().map(|letter| letter.visible_at).min().unwrap_or(Timestamp::MAX)
    }

    fn show(&self, number: u64, at: Timestamp) {
        if let Some(letter) = lock(&self.letters).get_mut(&number) {
            letter.visible_at = at;
        }
        self.arrived.notify_waiters();
    }
}

/// The broker as one process reaches it.
pub(crate) struct BrokerLink {
    pub(crate) broker: Arc<Broker>,
    pub(crate) machine: Arc<Machine>,
}

#[async_trait]
impl Transport for BrokerLink {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::None,
            dead_letter: false,
            ordering: Ordering::None,
            fan_out: false,
            attempts: AttemptCount::None,
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: None,
        }
    }

    async fn publish(&self, batch: Vec<Outgoing>, _now: Timestamp) -> Result<()> {
        self.machine.pass().await;
        let shared = &self.broker.shared;
        shared.stir();
        if shared.strikes(Fault::PublishRefused) {
            return Err(Error::unavailable("the simulated broker did not take the message"));
        }
        for outgoing in &batch {
            if !outgoing.delay.is_zero() {
                shared.ledger().broken(
                    "no transport is asked for a delay it did not declare",
                    format!("{outgoing:?}"),
                );
            }
            shared.note(|| {
                format!("broker takes {} attempt {}", outgoing.message.id, outgoing.attempt)
            });
            shared.ledger().carried(outgoing.message.id);
            self.broker.put(outgoing);
            if shared.strikes(Fault::DeliveryDuplicated) {
                self.broker.put(outgoing);
            }
        }
        if shared.strikes(Fault::PublishUnconfirmed) {
            return Err(Error::unavailable("the simulated broker's confirmation was lost"));
        }
        Ok(())
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let topic = subscription.topic.as_str().to_owned();
        Ok(Box::new(Inbox { topic, broker: self.broker.clone(), machine: self.machine.clone() }))
    }
}

struct Inbox {
    topic: String,
    broker: Arc<Broker>,
    machine: Arc<Machine>,
}

#[async_trait]
impl Consumer for Inbox {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            self.machine.pass().await;
            let taken = self.broker.take(&self.topic, limit);
            if !taken.is_empty() {
                self.broker.shared.stir();
                return Ok(taken
                    .into_iter()
                    .map(|(number, letter)| self.delivery(number, &letter))
                    .collect());
            }
            tokio::select! {
                biased;
                () = self.broker.arrived.notified() => {}
                () = self.broker.shared.clock.sleep_until(self.broker.next_visible()) => {}
            }
        }
    }

    async fn close(&mut self, _until: Timestamp) -> Result<()> {
        Ok(())
    }
}

impl Inbox {
    fn delivery(&self, number: u64, letter: &Letter) -> Delivery {
        let ticket = Ticket {
            number,
            broker: self.broker.clone(),
            machine: self.machine.clone(),
            settled: false,
        };
        Delivery {
            message: letter.message.clone(),
            attempt: letter.attempt + 1,
            poison: None,
            receipt: Receipt::Broker(Box::new(ticket)),
        }
    }
}

/// A delivery not settled yet. Dropped by a living process it is delivered again soon.
struct Ticket {
    number: u64,
    broker: Arc<Broker>,
    machine: Arc<Machine>,
    settled: bool,
}

#[async_trait]
impl Acknowledge for Ticket {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.machine.pass().await;
        self.settled = true;
        let shared = &self.broker.shared;
        shared.stir();
        if shared.strikes(Fault::AckLost) {
            shared.note(|| format!("broker loses the ack of delivery {}", self.number));
            self.broker.show(self.number, add(shared.now(), Duration::from_secs(30)));
            let told = shared.draw(|random| random.percent(50));
            let lost = || Error::unavailable("the simulated acknowledgement was lost");
            return if told { Ok(()) } else { Err(lost()) };
        }
        lock(&self.broker.letters).remove(&self.number);
        Ok(())
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        self.machine.pass().await;
        self.settled = true;
        let shared = &self.broker.shared;
        if !delay.is_zero() {
            shared.ledger().broken(
                "no transport is asked for a delay it did not declare",
                format!("{delay:?}"),
            );
        }
        self.broker.show(self.number, shared.now());
        Ok(())
    }

    async fn reject(self: Box<Self>, _rejection: &Rejection) -> Result<()> {
        self.ack().await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.settled && !self.machine.is_dead() {
            self.broker.show(self.number, add(self.broker.shared.now(), Duration::from_secs(5)));
        }
    }
}
