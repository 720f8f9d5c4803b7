//! What lies in the broker, and what becomes of it.

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

pub(crate) type Letter = Message<Body<Value>>;

const SCHEDULED: &str = "x-opt-scheduled-enqueue-time";

/// A message in a queue or a subscription.
#[derive(Clone)]
struct Item {
    sequence: i64,
    message: Letter,
    deliveries: u32,
    enqueued_at: Timestamp,
}

/// A queue or a subscription.
#[derive(Default)]
struct Line {
    ready: BTreeMap<i64, Item>,
    locked: HashMap<[u8; 16], (Item, Timestamp)>,
    dead: Vec<Letter>,
    wake: Arc<Notify>,
}

/// Everything that outlives a connection.
pub(crate) struct Broker {
    creates: bool,
    /// Whether nothing opens without a token.
    pub(crate) asks_tokens: bool,
    /// How long a lock lasts.
    pub(crate) lock_length: Duration,
    /// How many deliveries there are before a message is buried.
    pub(crate) deliveries_max: u32,
    /// Tokens that were put and were good, in their order: what they open and until when.
    pub(crate) tokens: Vec<(String, i64)>,
    /// Locks that were renewed.
    pub(crate) renewals: usize,
    /// Deliveries that were settled by their lock and not by their link.
    pub(crate) settlements: usize,
    /// The annotations of everything that was sent, in order.
    pub(crate) sent: Vec<Letter>,
    topics: BTreeMap<String, Vec<String>>,
    lines: BTreeMap<String, Line>,
    scheduled: Vec<(i64, String, Letter)>,
    sequence: i64,
    locks: u128,
}

impl Broker {
    pub(super) fn new(creates: bool) -> Self {
        Self {
            creates,
            asks_tokens: true,
            lock_length: Duration::from_secs(5),
            deliveries_max: 10,
            tokens: Vec::new(),
            renewals: 0,
            settlements: 0,
            sent: Vec::new(),
            topics: BTreeMap::new(),
            lines: BTreeMap::new(),
            scheduled: Vec::new(),
            sequence: 0,
            locks: 0,
        }
    }

    /// Creates a queue.
    pub(crate) fn create_queue(&mut self, name: &str) {
        self.lines.entry(name.to_owned()).or_default();
    }

    /// Creates a topic with a subscription.
    pub(crate) fn create_subscription(&mut self, topic: &str, name: &str) {
        let line = format!("{topic}/Subscriptions/{name}");
        self.lines.entry(line.clone()).or_default();
        let known = self.topics.entry(topic.to_owned()).or_default();
        if !known.contains(&line) {
            known.push(line);
        }
    }

    /// Whether one may send here.
    pub(super) fn takes(&mut self, entity: &str) -> bool {
        if self.creates {
            self.topics.entry(entity.to_owned()).or_default();
        }
        self.topics.contains_key(entity) || self.lines.contains_key(entity)
    }

    /// Whether one may receive here.
    pub(super) fn gives(&mut self, source: &str) -> bool {
        if let Some((topic, name)) = source.split_once("/Subscriptions/").filter(|_| self.creates) {
            let (topic, name) = (topic.to_owned(), name.to_owned());
            self.create_subscription(&topic, &name);
        }
        self.lines.contains_key(source)
    }

    /// Takes a message in, now or when its time has come.
    pub(crate) fn publish(&mut self, entity: &str, message: Letter, now: Timestamp) {
        self.sent.push(message.clone());
        match note(&message, SCHEDULED) {
            Some(Value::Timestamp(at)) if at.milliseconds() > now.as_millisecond() => {
                self.scheduled.push((at.milliseconds(), entity.to_owned(), message));
            }
            _ => self.enqueue(entity, &message, now),
        }
    }

    fn enqueue(&mut self, entity: &str, message: &Letter, now: Timestamp) {
        let lines = match self.topics.get(entity) {
            Some(lines) => lines.clone(),
            None => vec![entity.to_owned()],
        };
        for name in lines {
            self.sequence += 1;
            let sequence = self.sequence;
            let Some(line) = self.lines.get_mut(&name) else { continue };
            let message = message.clone();
            line.ready
                .insert(sequence, Item { sequence, message, deliveries: 0, enqueued_at: now });
            line.wake.notify_waiters();
        }
    }

    /// What rings when there may be more to receive.
    pub(super) fn wake(&self, source: &str) -> Arc<Notify> {
        self.lines.get(source).map(|line| line.wake.clone()).unwrap_or_default()
    }

    /// The next message of a source, under a lock.
    pub(super) fn lock(&mut self, source: &str, now: Timestamp) -> Option<([u8; 16], Letter)> {
        let until = add(now, self.lock_length);
        let line = self.lines.get_mut(source)?;
        let (_, item) = line.ready.pop_first()?;
        self.locks += 1;
        let lock = self.locks.to_be_bytes();
        let letter = item.delivered(lock, until);
        line.locked.insert(lock, (item, until));
        Some((lock, letter))
    }

    /// Puts back what could not be sent for want of credit, as if it had never been taken.
    pub(super) fn unlock(&mut self, source: &str, lock: [u8; 16]) {
        let Some(line) = self.lines.get_mut(source) else { return };
        if let Some((item, _)) = line.locked.remove(&lock) {
            line.ready.insert(item.sequence, item);
            line.wake.notify_waiters();
        }
    }

    /// Settles a delivery whose lock is still good.
    pub(super) fn settle(&mut self, source: &str, lock: [u8; 16], outcome: Outcome) {
        let most = self.deliveries_max;
        let Some(line) = self.lines.get_mut(source) else { return };
        let Some((mut item, _)) = line.locked.remove(&lock) else { return };
        match outcome {
            Outcome::Accepted(_) => {}
            Outcome::Released(_) => line.back(item, most),
            Outcome::Modified(_) => {
                item.deliveries += 1;
                line.back(item, most);
            }
            Outcome::Rejected(rejected) => {
                let fields = rejected.error.and_then(|error| error.info);
                let known = item.message.application_properties.get_or_insert_default();
                for (name, value) in fields.into_iter().flat_map(|fields| *fields) {
                    if let Value::String(text) = value {
                        known.0.insert(name.0, SimpleValue::String(text));
                    }
                }
                line.dead.push(item.message);
            }
        }
    }

    /// Whether a lock is good.
    pub(super) fn holds(&self, source: &str, lock: [u8; 16]) -> bool {
        self.lines.get(source).is_some_and(|line| line.locked.contains_key(&lock))
    }

    /// Renews locks, all or none.
    pub(super) fn renew(&mut self, source: &str, locks: &[[u8; 16]], now: Timestamp) -> bool {
        let until = add(now, self.lock_length);
        let Some(line) = self.lines.get_mut(source) else { return false };
        if !locks.iter().all(|lock| line.locked.contains_key(lock)) {
            return false;
        }
        for lock in locks {
            if let Some(held) = line.locked.get_mut(lock) {
                held.1 = until;
            }
        }
        self.renewals += locks.len();
        true
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let most = self.deliveries_max;
        for line in self.lines.values_mut() {
            let expired = line.locked.extract_if(|_, (_, until)| *until <= now);
            let expired: Vec<Item> = expired.map(|(_, (item, _))| item).collect();
            for mut item in expired {
                item.deliveries += 1;
                line.back(item, most);
            }
        }
        let due = self.scheduled.extract_if(.., |(at, ..)| *at <= now.as_millisecond());
        let due: Vec<_> = due.collect();
        for (_, entity, message) in due {
            self.enqueue(&entity, &message, now);
        }
    }

    /// The dead letters of a source, oldest first.
    pub(crate) fn dead(&self, source: &str) -> Vec<Letter> {
        self.lines.get(source).map(|line| line.dead.clone()).unwrap_or_default()
    }

    /// How many messages wait for a source, are under a lock, and are scheduled anywhere.
    pub(crate) fn counts(&self, source: &str) -> (usize, usize, usize) {
        let line = self.lines.get(source);
        let (ready, locked) = line.map_or((0, 0), |line| (line.ready.len(), line.locked.len()));
        (ready, locked, self.scheduled.len())
    }
}

impl Line {
    fn back(&mut self, item: Item, deliveries_max: u32) {
        if item.deliveries >= deliveries_max {
            self.dead.push(item.message);
            return;
        }
        self.ready.insert(item.sequence, item);
        self.wake.notify_waiters();
    }
}

impl Item {
    /// The message as it is delivered.
    fn delivered(&self, lock: [u8; 16], until: Timestamp) -> Letter {
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

/// An annotation of a message.
pub(crate) fn note(message: &Letter, name: &str) -> Option<Value> {
    let notes = message.message_annotations.as_ref()?;
    notes.0.iter().find(|(key, _)| **key == OwnedKey::from(name)).map(|(_, value)| value.clone())
}

/// The application properties of a message, as text.
pub(crate) fn properties(known: Option<&ApplicationProperties>) -> Vec<(String, String)> {
    let known = known.into_iter().flat_map(|known| known.0.iter());
    let text = known.filter_map(|(name, value)| match value {
        SimpleValue::String(text) => Some((name.clone(), text.clone())),
        _ => None,
    });
    text.collect()
}
