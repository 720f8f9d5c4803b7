//! Broker between the nodes: supports no delays; duplicates, delays and reorders deliveries and loses
//! acknowledgements. A message that is not acknowledged in time is delivered again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::{
    Acknowledge, AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Delivery, Ordering,
    OutgoingMessage, Receipt, Rejection, Subscription,
};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Clock, Error, Message, Result, Transport};
use tokio::sync::Notify;

use super::faults::Fault;
use super::machine::Machine;
use super::shared::{Shared, lock};

/// Visibility timeout of an unsettled delivery; unlimited in a seed without faults.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(300);

/// Broker, which outlives every process.
pub(crate) struct Broker {
    shared: Arc<Shared>,
    messages: Mutex<BTreeMap<u64, QueuedMessage>>,
    next: Mutex<u64>,
    arrived: Notify,
}

/// Copy of a message in the broker.
#[derive(Clone)]
struct QueuedMessage {
    message: Arc<Message>,
    attempt: u32,
    visible_at: Timestamp,
}

impl Broker {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            messages: Mutex::default(),
            next: Mutex::new(0),
            arrived: Notify::new(),
        })
    }

    pub(crate) fn contains(&self, id: MessageId) -> bool {
        lock(&self.messages).values().any(|queued| queued.message.id == id)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.messages).len()
    }

    fn enqueue(&self, outgoing: &OutgoingMessage) {
        let late = self.shared.occurs(Fault::DeliveryLate);
        let wait =
            if late { self.shared.draw(|random| random.seconds(1, 600)) } else { Duration::ZERO };
        let visible_at = add(self.shared.now(), wait);
        let queued = QueuedMessage {
            message: outgoing.message.clone(),
            attempt: outgoing.attempt,
            visible_at,
        };
        let mut next = lock(&self.next);
        *next += 1;
        lock(&self.messages).insert(*next, queued);
        self.arrived.notify_waiters();
    }

    /// Takes visible messages and hides them until they are settled.
    fn take_visible(&self, topic: &str, limit: usize) -> Vec<(u64, QueuedMessage)> {
        let now = self.shared.now();
        let mut messages = lock(&self.messages);
        let visible = messages.iter().filter(|(_, queued)| {
            queued.visible_at <= now && queued.message.topic.as_str() == topic
        });
        let mut numbers: Vec<u64> = visible.map(|(number, _)| *number).collect();
        if numbers.len() > 1 && self.shared.occurs(Fault::DeliveryReordered) {
            let rotation = self.shared.draw(|random| random.between(1, numbers.len() as u64 - 1));
            numbers.rotate_left(usize::try_from(rotation).unwrap_or(1));
        }
        numbers.truncate(limit);
        let mut taken = Vec::new();
        for number in numbers {
            if let Some(queued) = messages.get_mut(&number) {
                queued.visible_at = if self.shared.fault_free {
                    Timestamp::MAX
                } else {
                    add(now, VISIBILITY_TIMEOUT)
                };
                taken.push((number, queued.clone()));
            }
        }
        taken
    }

    fn next_visible(&self) -> Timestamp {
        lock(&self.messages)
            .values()
            .map(|queued| queued.visible_at)
            .min()
            .unwrap_or(Timestamp::MAX)
    }

    fn redeliver_at(&self, number: u64, at: Timestamp) {
        if let Some(queued) = lock(&self.messages).get_mut(&number) {
            queued.visible_at = at;
        }
        self.arrived.notify_waiters();
    }
}

/// Connection of one process to the broker.
pub(crate) struct BrokerConnection {
    pub(crate) broker: Arc<Broker>,
    pub(crate) machine: Arc<Machine>,
}

#[async_trait]
impl Transport for BrokerConnection {
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

    async fn publish(&self, batch: Vec<OutgoingMessage>, _now: Timestamp) -> Result<()> {
        self.machine.wait_until_running().await;
        let shared = &self.broker.shared;
        shared.record_activity();
        if shared.occurs(Fault::PublishRefused) {
            return Err(Error::unavailable("the simulated broker refused the message"));
        }
        for outgoing in &batch {
            if !outgoing.delay.is_zero() {
                shared.ledger().record_violation(
                    "no transport gets a delay that it does not support",
                    format!("{outgoing:?}"),
                );
            }
            shared.note(|| {
                format!("broker takes {} attempt {}", outgoing.message.id, outgoing.attempt)
            });
            shared.ledger().carried(outgoing.message.id);
            self.broker.enqueue(outgoing);
            if shared.occurs(Fault::DeliveryDuplicated) {
                self.broker.enqueue(outgoing);
            }
        }
        if shared.occurs(Fault::PublishUnconfirmed) {
            return Err(Error::unavailable("the simulated broker's confirmation was lost"));
        }
        Ok(())
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let topic = subscription.topic.as_str().to_owned();
        Ok(Box::new(BrokerConsumer {
            topic,
            broker: self.broker.clone(),
            machine: self.machine.clone(),
        }))
    }
}

struct BrokerConsumer {
    topic: String,
    broker: Arc<Broker>,
    machine: Arc<Machine>,
}

#[async_trait]
impl Consumer for BrokerConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            self.machine.wait_until_running().await;
            let taken = self.broker.take_visible(&self.topic, limit);
            if !taken.is_empty() {
                self.broker.shared.record_activity();
                return Ok(taken
                    .into_iter()
                    .map(|(number, queued)| self.delivery(number, &queued))
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

impl BrokerConsumer {
    fn delivery(&self, number: u64, queued: &QueuedMessage) -> Delivery {
        let receipt = DeliveryReceipt {
            number,
            broker: self.broker.clone(),
            machine: self.machine.clone(),
            settled: false,
        };
        Delivery {
            message: queued.message.clone(),
            attempt: queued.attempt + 1,
            poison: None,
            receipt: Receipt::Broker(Box::new(receipt)),
        }
    }
}

/// Unsettled delivery; delivered again soon when a live process drops it.
struct DeliveryReceipt {
    number: u64,
    broker: Arc<Broker>,
    machine: Arc<Machine>,
    settled: bool,
}

#[async_trait]
impl Acknowledge for DeliveryReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.machine.wait_until_running().await;
        self.settled = true;
        let shared = &self.broker.shared;
        shared.record_activity();
        if shared.occurs(Fault::AckLost) {
            shared.note(|| format!("broker loses the ack of delivery {}", self.number));
            self.broker.redeliver_at(self.number, add(shared.now(), Duration::from_secs(30)));
            let is_reported = shared.draw(|random| random.percent(50));
            let lost = || Error::unavailable("the simulated acknowledgement was lost");
            return if is_reported { Ok(()) } else { Err(lost()) };
        }
        lock(&self.broker.messages).remove(&self.number);
        Ok(())
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        self.machine.wait_until_running().await;
        self.settled = true;
        let shared = &self.broker.shared;
        if !delay.is_zero() {
            shared.ledger().record_violation(
                "no transport gets a delay that it does not support",
                format!("{delay:?}"),
            );
        }
        self.broker.redeliver_at(self.number, shared.now());
        Ok(())
    }

    async fn reject(self: Box<Self>, _rejection: &Rejection) -> Result<()> {
        self.ack().await
    }
}

impl Drop for DeliveryReceipt {
    fn drop(&mut self) {
        if !self.settled && !self.machine.is_dead() {
            self.broker
                .redeliver_at(self.number, add(self.broker.shared.now(), Duration::from_secs(5)));
        }
    }
}
