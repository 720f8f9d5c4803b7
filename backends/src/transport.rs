//! Transports by address. `KINDS` lists the transports that can be opened: each is one line there, one feature
//! and one dependency of this crate.

use std::pin::Pin;
use std::sync::Arc;

use punctual::builtin::{GROUP_DEFAULT, LEASE_DURATION_DEFAULT};
use punctual::model::{IdSource, Ids, ProcessId, Queue, Topic};
use punctual::{Clock, Error, Result, StoredTransport, SystemClock, Transport};

use crate::address::Address;
use crate::opened_storage::{OpenedStorage, open_address};

/// A transport opened by its address.
pub struct OpenedTransport {
    /// The transport.
    pub transport: Arc<dyn Transport>,
    /// Its storage, when it is a transport over a storage.
    pub storage: Option<OpenedStorage>,
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<OpenedTransport>> + Send + 'a>>;

type Open = fn(&str) -> Opening<'_>;

/// Requirements of a transport on the storage that keeps the delays it cannot keep itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageNeed {
    /// Any storage: the transport keeps every delay itself, or loses messages at a restart as well.
    Any,
    /// The storage must be durable: messages survive a restart, and so must their delays.
    Durable,
    /// Depends on the broker's persistence; a durable storage always works.
    BrokerDecides,
}

/// A kind of transport that can be opened by its address.
struct Kind {
    schemes: &'static [&'static str],
    /// Form of an address, for errors and help.
    form: &'static str,
    /// The name of the product, for errors.
    product: &'static str,
    feature: &'static str,
    /// Requirement on the storage; equal to what its capabilities declare once it is connected.
    need: StorageNeed,
    /// None where its feature is off.
    open: Option<Open>,
}

macro_rules! kind {
    ($feature:literal, $product:literal, $schemes:expr, $form:literal, $need:ident, $open:expr) => {
        Kind {
            schemes: &$schemes,
            form: $form,
            product: $product,
            feature: $feature,
            need: StorageNeed::$need,
            #[cfg(feature = $feature)]
            open: Some($open),
            #[cfg(not(feature = $feature))]
            open: None,
        }
    };
}

const KINDS: &[Kind] = &[
    Kind {
        schemes: &["memory"],
        form: "memory:",
        product: "memory",
        feature: "",
        need: StorageNeed::Any,
        open: Some(stored),
    },
    kind!("sqlite", "SQLite", ["sqlite"], "sqlite:path/to/file.db", Any, stored),
    kind!(
        "postgres",
        "PostgreSQL",
        ["postgres", "postgresql"],
        "postgres://user@host/database",
        Any,
        stored
    ),
    kind!("kafka", "Kafka", ["kafka", "kafkas"], "kafka://host:9092", Durable, |address| broker(
        punctual_kafka::KafkaTransport::builder(address).connect()
    )),
    // Only code can make it durable.
    kind!("mqtt", "MQTT", ["mqtt", "mqtts"], "mqtt://host:1883", Any, |address| broker(
        punctual_mqtt::MqttTransport::builder(address).connect()
    )),
    kind!(
        "rabbitmq",
        "RabbitMQ",
        ["amqp", "amqps"],
        "amqp://user:password@host:5672/vhost",
        Durable,
        |address| { broker(punctual_rabbitmq::RabbitmqTransport::builder(address).connect()) }
    ),
    kind!("redis", "Redis", ["redis", "rediss"], "redis://host:6379", BrokerDecides, |address| {
        broker(punctual_redis::RedisTransport::builder(address).connect())
    }),
    kind!(
        "servicebus",
        "Service Bus",
        ["endpoint=sb"],
        "Endpoint=sb://namespace...;SharedAccessKey=...",
        Any,
        |address| { broker(punctual_servicebus::ServiceBusTransport::builder(address).connect()) }
    ),
    kind!("sqs", "SQS", ["sqs", "sqs+http", "sqs+https"], "sqs://region", Durable, |address| {
        broker(punctual_sqs::SqsTransport::builder(address).connect())
    }),
    kind!("nats", "NATS", ["nats", "tls"], "nats://host:4222", Durable, |address| broker(
        punctual_nats::NatsTransport::builder(address).connect()
    )),
];

/// Opens the transport at an address: a broker, or a storage that carries messages.
pub async fn open_transport(address: &str) -> Result<OpenedTransport> {
    let address = address.trim();
    opener(KINDS, address)?(address).await
}

/// Checks that this build can open an address: the scheme is known and its feature is on. Connects to nothing.
pub fn check_transport(address: &str) -> Result<()> {
    opener(KINDS, address.trim()).map(|_| ())
}

/// Returns what the transport at an address needs of the storage; nothing for an address that cannot be opened. Connects
/// to nothing.
pub fn storage_need(address: &str) -> Option<StorageNeed> {
    let scheme = scheme(address.trim());
    let kind = KINDS.iter().find(|kind| kind.schemes.contains(&&*scheme))?;
    kind.open.map(|_| kind.need)
}

/// Returns the scheme of an address, in lower case.
fn scheme(address: &str) -> String {
    address.split_once(':').map_or(address, |(scheme, _)| scheme).to_ascii_lowercase()
}

/// Returns the function that opens an address.
fn opener(kinds: &[Kind], address: &str) -> Result<Open> {
    let scheme = scheme(address);
    if scheme.is_empty() {
        return Err(Error::invalid(format!(
            "the address of the transport is empty; give {}",
            transport_forms()
        )));
    }
    // The rest may hold a password and is not repeated.
    let Some(kind) = kinds.iter().find(|kind| kind.schemes.contains(&&*scheme)) else {
        let forms = transport_forms();
        return Err(Error::invalid(if address.contains(':') {
            format!("the scheme {scheme:?} of the transport's address is unknown; give {forms}")
        } else {
            format!("the address of the transport has no scheme; give {forms}")
        }));
    };
    kind.open.ok_or_else(|| {
        let Kind { product, feature, .. } = kind;
        let all = if is_broker(kind) { " (or brokers for all)" } else { "" };
        Error::unsupported(format!(
            "this binary was built without {product}: rebuild with --features {feature}{all}"
        ))
    })
}

/// Returns whether the feature `brokers` turns a kind on.
fn is_broker(kind: &Kind) -> bool {
    !matches!(kind.feature, "" | "sqlite" | "postgres")
}

/// Forms of the address of a transport, for errors and help.
pub fn transport_forms() -> String {
    let forms: Vec<&str> =
        KINDS.iter().filter(|kind| kind.open.is_some()).map(|kind| kind.form).collect();
    match forms.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::from("none: this program was built without any"),
    }
}

/// Opens a broker.
#[cfg(any(
    feature = "kafka",
    feature = "mqtt",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis",
    feature = "servicebus",
    feature = "sqs"
))]
fn broker<'a, T: Transport>(
    connecting: impl Future<Output = Result<T>> + Send + 'a,
) -> Opening<'a> {
    Box::pin(async move {
        Ok(OpenedTransport { transport: Arc::new(connecting.await?), storage: None })
    })
}

/// Opens a transport over a storage.
fn stored(address: &str) -> Opening<'_> {
    Box::pin(async move {
        let opened = open_address(&Address::parse(address)?).await?;
        let owner = ProcessId::from_uuid(Ids::random().next(SystemClock.now()));
        let (storage, clock) = (opened.storage.clone(), Arc::new(SystemClock));
        let durable = storage.is_durable();
        let transport = StoredTransport::new(storage, clock, owner, LEASE_DURATION_DEFAULT);
        let transport = Arc::new(transport.durable(durable));
        Ok(OpenedTransport { transport, storage: Some(opened) })
    })
}

impl OpenedTransport {
    /// Returns its topics, in order. A storage has those with a subscription, and those it
    /// has messages of.
    pub async fn topics(&self) -> Result<Vec<Topic>> {
        let mut topics = self.transport.topics().await?;
        if let Some(opened) = &self.storage {
            let counts = opened.inspect.counts(SystemClock.now()).await?;
            topics.extend(counts.messages.keys().filter_map(|(queue, _)| topic_of(queue)));
            topics.sort();
            topics.dedup();
        }
        Ok(topics)
    }

    /// Stops the background tasks, if any.
    pub async fn close(&self) -> Result<()> {
        match &self.storage {
            Some(opened) => opened.close().await,
            None => Ok(()),
        }
    }
}

/// The topic whose copies for one group a line keeps.
fn topic_of(queue: &Queue) -> Option<Topic> {
    // As the stored transport itself names a line, so that no spelling is repeated here.
    let marked = Topic::new("x").ok().map(|topic| Queue::of_group(&topic, GROUP_DEFAULT))?;
    let (prefix, _) = marked.as_str().split_once("x/")?;
    let (topic, _group) = queue.as_str().strip_prefix(prefix)?.rsplit_once('/')?;
    Topic::stored(topic).ok()
}

#[cfg(test)]
mod tests;
