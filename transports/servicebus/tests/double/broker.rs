//! Broker of the double: queues, subscriptions, scheduled messages, locks and tokens.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Body, Header, Message, MessageAnnotations, Outcome,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Timestamp as Instant, Uuid, Value};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use tokio::sync::Notify;

pub(crate) type AmqpMessage = Message<Body<Value>>;

const SCHEDULED: &str = "x-opt-scheduled-enqueue-time";

/// Message in a queue or a subscription.
#[derive(Clone)]
struct Item {
    sequence: i64,
    message: AmqpMessage,
    deliveries: u32,
    enqueued_at: Timestamp,
}

/// Queue or subscription.
#[derive(Default)]
struct MessageQueue {
    ready: BTreeMap<i64, Item>,
    locked: HashMap<[u8; 16], (Item, Timestamp)>,
    dead: Vec<AmqpMessage>,
    wake: Arc<Notify>,
}

/// State that outlives a connection.
pub(crate) struct Broker {
    creates: bool,
    /// Whether entities require a token.
    pub(crate) requires_tokens: bool,
    /// Duration of a lock.
    pub(crate) lock_duration: Duration,
    /// Deliveries after which a message is dead-lettered.
    pub(crate) deliveries_max: u32,
    /// Valid tokens that were put, in order: entity and expiry.
    pub(crate) tokens: Vec<(String, i64)>,
    /// Number of locks that were renewed.
    pub(crate) renewals: usize,
    /// Number of deliveries that were settled by their lock and not on their link.
    pub(crate) settlements: usize,
    /// All messages that were sent, in order.
    pub(crate) sent: Vec<AmqpMessage>,
    topics: BTreeMap<String, Vec<String>>,
    queues: BTreeMap<String, MessageQueue>,
    scheduled: Vec<(i64, String, AmqpMessage)>,
    sequence: i64,
    locks: u128,
}

impl Broker {
    pub(super) fn new(creates: bool) -> Self {
        Self {
            creates,
            requires_tokens: true,
            lock_duration: Duration::from_secs(5),
            deliveries_max: 10,
            tokens: Vec::new(),
            renewals: 0,
            settlements: 0,
            sent: Vec::new(),
            topics: BTreeMap::new(),
            queues: BTreeMap::new(),
            scheduled: Vec::new(),
            sequence: 0,
            locks: 0,
        }
    }

    /// Creates a queue.
    pub(crate) fn create_queue(&mut self, name: &str) {
        self.queues.entry(name.to_owned()).or_default();
    }

    /// Creates a topic with a subscription.
    pub(crate) fn create_subscription(&mut self, topic: &str, name: &str) {
        let queue = format!("{topic}/Subscriptions/{name}");
        self.queues.entry(queue.clone()).or_default();
        let known = self.topics.entry(topic.to_owned()).or_default();
        if !known.contains(&queue) {
            known.push(queue);
        }
    }

    /// Returns whether an entity accepts messages.
    pub(super) fn accepts(&mut self, entity: &str) -> bool {
        if self.creates {
            self.topics.entry(entity.to_owned()).or_default();
        }
        self.topics.contains_key(entity) || self.queues.contains_key(entity)
    }

    /// Returns whether a source can be received from.
    pub(super) fn serves(&mut self, source: &str) -> bool {
        if let Some((topic, name)) = source.split_once("/Subscriptions/").filter(|_| self.creates) {
            let (topic, name) = (topic.to_owned(), name.to_owned());
            self.create_subscription(&topic, &name);
        }
        self.queues.contains_key(source)
    }

    /// Enqueues a message, now or at its scheduled time.
    pub(crate) fn publish(&mut self, entity: &str, message: AmqpMessage, now: Timestamp) {
        self.sent.push(message.clone());
        match note(&message, SCHEDULED) {
            Some(Value::Timestamp(at)) if at.milliseconds() > now.as_millisecond() => {
                self.scheduled.push((at.milliseconds(), entity.to_owned(), message));
            }
            _ => self.enqueue(entity, &message, now),
        }
    }

    fn enqueue(&mut self, entity: &str, message: &AmqpMessage, now: Timestamp) {
        let queues = match self.topics.get(entity) {
            Some(queues) => queues.clone(),
            None => vec![entity.to_owned()],
        };
        for name in queues {
            self.sequence += 1;
            let sequence = self.sequence;
            let Some(queue) = self.queues.get_mut(&name) else { continue };
            let message = message.clone();
            queue
                .ready
                .insert(sequence, Item { sequence, message, deliveries: 0, enqueued_at: now });
            queue.wake.notify_waiters();
        }
    }

    /// Returns what is notified when a source may have messages.
    pub(super) fn wake(&self, source: &str) -> Arc<Notify> {
        self.queues.get(source).map(|queue| queue.wake.clone()).unwrap_or_default()
    }

    /// Locks and returns the next message of a source.
    pub(super) fn lock(&mut self, source: &str, now: Timestamp) -> Option<([u8; 16], AmqpMessage)> {
        let until = add(now, self.lock_duration);
        let queue = self.queues.get_mut(source)?;
        let (_, item) = queue.ready.pop_first()?;
        self.locks += 1;
        let lock = self.locks.to_be_bytes();
        let letter = item.delivered(lock, until);
        queue.locked.insert(lock, (item, until));
        Some((lock, letter))
    }

    /// Unlocks a message that could not be sent for lack of credit, without counting a delivery.
    pub(super) fn unlock(&mut self, source: &str, lock: [u8; 16]) {
        let Some(queue) = self.queues.get_mut(source) else { return };
        if let Some((item, _)) = queue.locked.remove(&lock) {
            queue.ready.insert(item.sequence, item);
            queue.wake.notify_waiters();
        }
    }

    /// Settles a delivery whose lock is still valid.
    pub(super) fn settle(&mut self, source: &str, lock: [u8; 16], outcome: Outcome) {
        let most = self.deliveries_max;
        let Some(queue) = self.queues.get_mut(source) else { return };
        let Some((mut item, _)) = queue.locked.remove(&lock) else { return };
        match outcome {
            Outcome::Accepted(_) => {}
            Outcome::Released(_) => queue.requeue(item, most),
            Outcome::Modified(_) => {
                item.deliveries += 1;
                queue.requeue(item, most);
            }
            Outcome::Rejected(rejected) => {
                let fields = rejected.error.and_then(|error| error.info);
                let known = item.message.application_properties.get_or_insert_default();
                for (name, value) in fields.into_iter().flat_map(|fields| *fields) {
                    if let Value::String(text) = value {
                        known.0.insert(name.0, SimpleValue::String(text));
                    }
                }
                queue.dead.push(item.message);
            }
        }
    }

    /// Returns whether a lock is valid.
    pub(super) fn is_locked(&self, source: &str, lock: [u8; 16]) -> bool {
        self.queues.get(source).is_some_and(|queue| queue.locked.contains_key(&lock))
    }

    /// Renews locks, all or none.
    pub(super) fn renew(&mut self, source: &str, locks: &[[u8; 16]], now: Timestamp) -> bool {
        let until = add(now, self.lock_duration);
        let Some(queue) = self.queues.get_mut(source) else { return false };
        if !locks.iter().all(|lock| queue.locked.contains_key(lock)) {
            return false;
        }
        for lock in locks {
            if let Some(lock) = queue.locked.get_mut(lock) {
                lock.1 = until;
            }
        }
        self.renewals += locks.len();
        true
    }

    /// Expires locks and enqueues scheduled messages that are due.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let most = self.deliveries_max;
        for queue in self.queues.values_mut() {
            let expired = queue.locked.extract_if(|_, (_, until)| *until <= now);
            let expired: Vec<Item> = expired.map(|(_, (item, _))| item).collect();
            for mut item in expired {
                item.deliveries += 1;
                queue.requeue(item, most);
            }
        }
        let due = self.scheduled.extract_if(.., |(at, ..)| *at <= now.as_millisecond());
        let due: Vec<_> = due.collect();
        for (_, entity, message) in due {
            self.enqueue(&entity, &message, now);
        }
    }

    /// Returns the dead letters of a source, oldest first.
    pub(crate) fn dead(&self, source: &str) -> Vec<AmqpMessage> {
        self.queues.get(source).map(|queue| queue.dead.clone()).unwrap_or_default()
    }

    /// Returns how many messages wait at a source, are locked, and are scheduled for any entity.
    pub(crate) fn counts(&self, source: &str) -> (usize, usize, usize) {
        let queue = self.queues.get(source);
        let (ready, locked) = queue.map_or((0, 0), |queue| (queue.ready.len(), queue.locked.len()));
        (ready, locked, self.scheduled.len())
    }
}

impl MessageQueue {
    fn requeue(&mut self, item: Item, deliveries_max: u32) {
        if item.deliveries >= deliveries_max {
            self.dead.push(item.message);
            return;
        }
        self.ready.insert(item.sequence, item);
        self.wake.notify_waiters();
    }
}

impl Item {
    /// Returns the message with the header and annotations of a delivery.
    fn delivered(&self, lock: [u8; 16], until: Timestamp) -> AmqpMessage {
        let mut letter = self.message.clone();
        let header = letter.header.get_or_insert_with(Header::default);
        header.delivery_count = self.deliveries;
        let notes = letter.message_annotations.get_or_insert_with(MessageAnnotations::default);
        let time =
            |at: Timestamp| Value::Timestamp(Instant::from_milliseconds(at.as_millisecond()));
        for (name, value) in [
            ("x-opt-sequence-number", Value::Long(self.sequence)),
            ("x-opt-enqueued-time", time(self.enqueued_at)),
            ("x-opt-locked-until", time(until)),
            ("x-opt-lock-token", Value::Uuid(Uuid::from(lock))),
        ] {
            notes.0.insert(OwnedKey::from(name), value);
        }
        letter
    }
}

/// Returns an annotation of a message.
pub(crate) fn note(message: &AmqpMessage, name: &str) -> Option<Value> {
    let notes = message.message_annotations.as_ref()?;
    notes.0.iter().find(|(key, _)| **key == OwnedKey::from(name)).map(|(_, value)| value.clone())
}

/// Returns the application properties of a message, as text.
pub(crate) fn properties(known: Option<&ApplicationProperties>) -> Vec<(String, String)> {
    let known = known.into_iter().flat_map(|known| known.0.iter());
    let text = known.filter_map(|(name, value)| match value {
        SimpleValue::String(text) => Some((name.clone(), text.clone())),
        _ => None,
    });
    text.collect()
}
