//! Topology on the broker, and its declaration. A topic is a fanout exchange; a group is a queue bound to it,
//! with one queue for dead letters and one for unreadable messages. Each delay has an exchange and a queue,
//! shared by all groups, that expire when unused.
//!
//! What was declared recently is not declared again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use punctual::Result;
use punctual::clock::add;
use punctual::jiff::Timestamp;

use crate::connection::BrokerConnection;
use crate::names::Names;
use crate::settings::{QueueKind, Settings};
use crate::wire::short_string;

/// Duration for which a declared exchange or queue is assumed to exist.
const DECLARED_TTL: Duration = Duration::from_mins(5);
/// Expiry of an unused delay queue, beyond its TTL: it outlives its last message by at least this.
const DELAY_QUEUE_EXPIRY_MARGIN: Duration = Duration::from_mins(10);
/// Most names that are remembered.
const DECLARED_MAX: usize = 10_000;
/// No limit: the engine decides whether a message is delivered again, and the broker would drop it.
const DELIVERIES_MAX: i32 = i32::MAX;
/// Time a delivery may stay unsettled, for brokers that let a queue set it (RabbitMQ 3.12 and newer); the engine
/// decides how long a handler may take.
const CONSUMER_TIMEOUT: Duration = Duration::from_hours(7 * 24);

/// Declares exchanges and queues, and remembers what it has declared.
pub(crate) struct Topology {
    settings: Arc<Settings>,
    declared: Mutex<HashMap<String, Timestamp>>,
    /// Locked while a delay queue is declared. When many callers declare a queue that does not exist yet, the
    /// broker closes the channels of some.
    delay_lock: tokio::sync::Mutex<()>,
}

impl Topology {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, declared: Mutex::default(), delay_lock: tokio::sync::Mutex::default() }
    }

    /// Ensures that the exchange of a topic exists.
    pub(crate) async fn ensure_topic(
        &self,
        connection: &BrokerConnection,
        name: &ShortString,
    ) -> Result<()> {
        if self.is_declared(name) {
            return Ok(());
        }
        let channel = connection.channel().await?;
        self.declare_exchange(&channel, name).await?;
        self.remember(name);
        Ok(())
    }

    /// Ensures that the queue of a group exists and is bound to its topic, so that it misses no message.
    pub(crate) async fn ensure_group(
        &self,
        connection: &BrokerConnection,
        names: &Names,
    ) -> Result<()> {
        if !self.settings.declare || self.is_declared(&names.queue) {
            return Ok(());
        }
        let channel = connection.channel().await?;
        self.declare_group(&channel, names).await?;
        self.remember(&names.queue);
        Ok(())
    }

    /// Ensures that a queue for dead letters or unreadable messages exists.
    pub(crate) async fn ensure_dead_letters(
        &self,
        connection: &BrokerConnection,
        name: &ShortString,
    ) -> Result<()> {
        if !self.settings.declare || self.is_declared(name) {
            return Ok(());
        }
        let channel = connection.channel().await?;
        self.declare_queue(&channel, name, queue_arguments(self.settings.queues)).await?;
        self.remember(name);
        Ok(())
    }

    /// Ensures that the exchange and queue of a delay exist. When the delay is over, a message published to the
    /// exchange moves to the queue that its routing key names.
    pub(crate) async fn ensure_delay(
        &self,
        connection: &BrokerConnection,
        delay_ms: u64,
    ) -> Result<ShortString> {
        // No topic begins with `~`.
        let name = short_string(&format!("{}~delay.{delay_ms}", self.settings.prefix), "queue")?;
        if self.is_declared(&name) {
            return Ok(name);
        }
        let _guard = self.delay_lock.lock().await;
        if !self.is_declared(&name) {
            let declare = || self.declare_delay(connection, &name, delay_ms);
            connection.retry_while_declared(declare).await?;
            self.remember(&name);
        }
        Ok(name)
    }

    async fn declare_delay(
        &self,
        connection: &BrokerConnection,
        name: &ShortString,
        delay_ms: u64,
    ) -> Result<()> {
        let channel = connection.channel().await?;
        self.declare_queue(&channel, name, delay_queue_arguments(delay_ms)).await?;
        let options =
            ExchangeDeclareOptions { durable: true, auto_delete: true, ..Default::default() };
        self.declare_fanout(&channel, name, options).await?;
        self.bind(&channel, name, name).await
    }

    /// Declares exchange, queue and binding of a group on the given channel; only checks them where `declare` is
    /// off.
    pub(crate) async fn declare_group(&self, channel: &Channel, names: &Names) -> Result<()> {
        self.declare_exchange(channel, &names.exchange).await?;
        self.declare_queue(channel, &names.queue, queue_arguments(self.settings.queues)).await?;
        if self.settings.declare {
            self.bind(channel, &names.queue, &names.exchange).await?;
        }
        Ok(())
    }

    /// Clears the remembered names: an exchange or a queue may be missing.
    pub(crate) fn forget_declared(&self) {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn is_declared(&self, name: &ShortString) -> bool {
        let declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        declared
            .get(name.as_str())
            .is_some_and(|at| self.settings.clock.now() < add(*at, DECLARED_TTL))
    }

    fn remember(&self, name: &ShortString) {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        if declared.len() >= DECLARED_MAX {
            declared.clear();
        }
        declared.insert(name.to_string(), self.settings.clock.now());
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
        self.settings.call(format!("declaring the exchange {name}"), declaring).await
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
        let declared = self.settings.call(format!("declaring the queue {name}"), declaring).await;
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
        self.settings.call(format!("binding {queue} to {exchange}"), binding).await
    }
}

/// Returns the arguments of a queue that stores messages until they are settled.
fn queue_arguments(kind: QueueKind) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-consumer-timeout".into(), milliseconds(CONSUMER_TIMEOUT));
    if kind == QueueKind::Quorum {
        arguments.insert("x-queue-type".into(), text("quorum"));
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(DELIVERIES_MAX));
    }
    arguments
}

/// Returns the arguments of a queue that delays messages and then moves each to the queue in its routing key. It
/// deletes a message only when the other queue has it.
fn delay_queue_arguments(delay_ms: u64) -> FieldTable {
    let ttl = Duration::from_millis(delay_ms);
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-message-ttl".into(), milliseconds(ttl));
    arguments
        .insert("x-expires".into(), milliseconds(ttl.saturating_add(DELAY_QUEUE_EXPIRY_MARGIN)));
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    arguments.insert("x-overflow".into(), text("reject-publish"));
    arguments
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn milliseconds(duration: Duration) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}
