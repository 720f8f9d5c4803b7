//! What is on the broker, how it is called, and declaring it. A topic is a fanout exchange; a group of it is
//! a queue that is bound there; beside the queue are one for its dead letters and one for what cannot be
//! read. A length of delay is an exchange and a queue of its own, shared by all groups, and vanishes when
//! it is not used.
//!
//! What was declared a short while ago is not declared again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::link::Link;
use crate::settings::{QueueKind, Settings};
use crate::wire::short;

/// How long something that was there is taken to be there still.
const FRESH_FOR: Duration = Duration::from_mins(5);
/// How long a queue of delays outlives the last message in it, at least; unused, it vanishes.
const DELAY_SPARE: Duration = Duration::from_mins(10);
/// How often a delay is asked for and used at first, and how long it is waited in between.
pub(crate) const DELAY_TRIES: u32 = 4;
pub(crate) const DELAY_PAUSE: Duration = Duration::from_millis(100);
/// The most names that are remembered.
const KNOWN_MAX: usize = 10_000;
/// No limit: whether a message is delivered again is decided by the engine, and the broker would drop it.
const DELIVERIES_MAX: i32 = i32::MAX;
/// How long a delivery may be in hand where a queue can say so (RabbitMQ 3.12 and newer): how long a handler
/// may take is decided by the engine.
const HELD_FOR: Duration = Duration::from_hours(7 * 24);

/// The names a group has on the broker.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// The exchange of the topic.
    pub(crate) exchange: ShortString,
    /// The queue of the group.
    pub(crate) queue: ShortString,
    /// The queue of its dead letters.
    pub(crate) dead: ShortString,
    /// The queue of what cannot be read.
    pub(crate) invalid: ShortString,
}

impl Names {
    pub(crate) fn new(prefix: &str, topic: &Topic, group: &str) -> Result<Self> {
        if group.is_empty() || group.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the group {group:?} must have at least one character, and printable ones only"
            )));
        }
        let queue = format!("{prefix}{topic}.{}", segment(group));
        Ok(Self {
            exchange: exchange(prefix, topic)?,
            dead: short(&format!("{queue}.dead"), "queue")?,
            invalid: short(&format!("{queue}.invalid"), "queue")?,
            queue: short(&queue, "queue")?,
        })
    }
}

/// The exchange of a topic.
pub(crate) fn exchange(prefix: &str, topic: &Topic) -> Result<ShortString> {
    short(&format!("{prefix}{topic}"), "exchange")
}

/// A group as the last part of a name: without dots, so that `a.b` of `c` is not `a` of `b.c`, and never
/// `dead` or `invalid`, which are other queues.
fn segment(group: &str) -> String {
    match group {
        "dead" => "%64ead".to_owned(),
        "invalid" => "%69nvalid".to_owned(),
        _ => group.replace('%', "%25").replace('.', "%2E"),
    }
}

/// Declares, and remembers what it has declared.
pub(crate) struct Topology {
    settings: Arc<Settings>,
    known: Mutex<HashMap<String, Timestamp>>,
    /// Held by whoever makes a delay. A broker that is asked by many at once for a queue that is not there
    /// yet ends the channels of some.
    delaying: tokio::sync::Mutex<()>,
}

impl Topology {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, known: Mutex::default(), delaying: tokio::sync::Mutex::default() }
    }

    /// The exchange of a topic is there, or it is said that it is not.
    pub(crate) async fn topic(&self, link: &Link, name: &ShortString) -> Result<()> {
        if self.knows(name) {
            return Ok(());
        }
        let channel = link.channel().await?;
        self.declare_exchange(&channel, name).await?;
        self.learn(name);
        Ok(())
    }

    /// The queue of a group is there and bound to its topic, so that nothing passes it by.
    pub(crate) async fn group(&self, link: &Link, names: &Names) -> Result<()> {
        if !self.settings.declare || self.knows(&names.queue) {
            return Ok(());
        }
        let channel = link.channel().await?;
        self.declare_group(&channel, names).await?;
        self.learn(&names.queue);
        Ok(())
    }

    /// A queue for messages that nobody consumes is there.
    pub(crate) async fn shelf(&self, link: &Link, name: &ShortString) -> Result<()> {
        if !self.settings.declare || self.knows(name) {
            return Ok(());
        }
        let channel = link.channel().await?;
        self.declare_queue(&channel, name, kept(self.settings.queues)).await?;
        self.learn(name);
        Ok(())
    }

    /// The exchange of a length of delay is there. What is published to it comes, when the delay is over,
    /// to the queue that its routing key names.
    pub(crate) async fn delay(&self, link: &Link, length_ms: u64) -> Result<ShortString> {
        // No topic begins with this letter.
        let name = short(&format!("{}~delay.{length_ms}", self.settings.prefix), "queue")?;
        if self.knows(&name) {
            return Ok(name);
        }
        let _alone = self.delaying.lock().await;
        let mut tries = 1;
        while !self.knows(&name) {
            match self.declare_delay(link, &name, length_ms).await {
                Ok(()) => self.learn(&name),
                // Another process may be making it at this moment.
                Err(error) if error.is_temporary() && tries < DELAY_TRIES => {
                    let clock = &self.settings.clock;
                    clock.sleep_until(add(clock.now(), DELAY_PAUSE)).await;
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(name)
    }

    async fn declare_delay(&self, link: &Link, name: &ShortString, length_ms: u64) -> Result<()> {
        let channel = link.channel().await?;
        self.declare_queue(&channel, name, delaying(length_ms)).await?;
        let options =
            ExchangeDeclareOptions { durable: true, auto_delete: true, ..Default::default() };
        self.declare_fanout(&channel, name, options).await?;
        self.bind(&channel, name, name).await
    }

    /// Exchange, queue and binding of a group, on a channel of the caller's; checks only, where declaring
    /// is not allowed.
    pub(crate) async fn declare_group(&self, channel: &Channel, names: &Names) -> Result<()> {
        self.declare_exchange(channel, &names.exchange).await?;
        self.declare_queue(channel, &names.queue, kept(self.settings.queues)).await?;
        if self.settings.declare {
            self.bind(channel, &names.queue, &names.exchange).await?;
        }
        Ok(())
    }

    /// Nothing is taken for granted any more: something was not where it should be.
    pub(crate) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn knows(&self, name: &ShortString) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name.as_str()).is_some_and(|at| self.settings.clock.now() < add(*at, FRESH_FOR))
    }

    fn learn(&self, name: &ShortString) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(name.to_string(), self.settings.clock.now());
    }

    async fn declare_exchange(&self, channel: &Channel, name: &ShortString) -> Result<()> {
        let passive = !self.settings.declare;
        let options = ExchangeDeclareOptions { durable: true, passive, ..Default::default() };
        self.declare_fanout(channel, name, options).await
    }

    async fn declare_fanout(
        &self,
        channel: &Channel,
        name: &ShortString,
        options: ExchangeDeclareOptions,
    ) -> Result<()> {
        let none = FieldTable::default();
        let declaring = channel.exchange_declare(name.clone(), ExchangeKind::Fanout, options, none);
        self.settings.talk(format!("declaring the exchange {name}"), declaring).await
    }

    async fn declare_queue(
        &self,
        channel: &Channel,
        name: &ShortString,
        arguments: FieldTable,
    ) -> Result<()> {
        let passive = !self.settings.declare;
        let options = QueueDeclareOptions { durable: true, passive, ..Default::default() };
        let declaring = channel.queue_declare(name.clone(), options, arguments);
        let declared = self.settings.talk(format!("declaring the queue {name}"), declaring).await;
        declared.map(|_| ())
    }

    async fn bind(
        &self,
        channel: &Channel,
        queue: &ShortString,
        exchange: &ShortString,
    ) -> Result<()> {
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        let binding = channel.queue_bind(queue.clone(), exchange.clone(), "".into(), options, none);
        self.settings.talk(format!("binding {queue} to {exchange}"), binding).await
    }
}

/// A queue that keeps messages until they are settled.
fn kept(kind: QueueKind) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-consumer-timeout".into(), milliseconds(HELD_FOR));
    if kind == QueueKind::Quorum {
        arguments.insert("x-queue-type".into(), word("quorum"));
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERIES_MAX));
    }
    arguments
}

/// A queue that keeps messages for a while and hands them on then, each to the queue in its routing key.
/// It lets go of one only when the other queue has it.
fn delaying(length_ms: u64) -> FieldTable {
    let length = Duration::from_millis(length_ms);
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), word("quorum"));
    arguments.insert("x-message-ttl".into(), milliseconds(length));
    arguments.insert("x-expires".into(), milliseconds(length.saturating_add(DELAY_SPARE)));
    arguments.insert("x-dead-letter-exchange".into(), word(""));
    arguments.insert("x-dead-letter-strategy".into(), word("at-least-once"));
    arguments.insert("x-overflow".into(), word("reject-publish"));
    arguments
}

fn word(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn milliseconds(length: Duration) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(length.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(topic: &str, group: &str) -> Names {
        Names::new("p.", &Topic::new(topic).unwrap(), group).unwrap()
    }

    #[test]
    fn no_two_things_share_a_name() {
        assert_eq!(queue("orders", "billing").queue.as_str(), "p.orders.billing");
        assert_ne!(queue("a.b", "c").queue, queue("a", "b.c").queue);
        assert_ne!(queue("a.b", "dead").queue, queue("a", "b").dead);
        assert_ne!(queue("a.b", "invalid").queue, queue("a", "b").invalid);
        assert_ne!(queue("a", "b.c").queue, queue("a", "b%2Ec").queue);
        assert_ne!(queue("a", "dead").queue, queue("a", "%64ead").queue);
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_with_its_length() {
        let topic = Topic::new("t".repeat(190)).unwrap();
        let error = Names::new("p.", &topic, &"g".repeat(60)).unwrap_err().to_string();
        assert!(error.contains("258 bytes") && error.contains("255"), "{error}");
        assert!(Names::new("p.", &topic, "").is_err());
        assert!(Names::new("p.", &topic, "a\nb").is_err());
    }
}
