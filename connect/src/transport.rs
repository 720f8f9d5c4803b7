//! Opens a transport by its address. `KINDS` is the one list of what can be opened: a transport is one
//! line there, one feature and one dependency of this crate.

use std::pin::Pin;
use std::sync::Arc;

use punctual::builtin::{GROUP_DEFAULT, LEASE_LENGTH_DEFAULT};
use punctual::model::{IdSource, Ids, ProcessId, Queue, Topic};
use punctual::{Clock, Error, Result, StoredTransport, SystemClock, Transport};

use crate::address::Address;
use crate::opened::{Opened, open_address};

/// A transport that was opened.
pub struct OpenedTransport {
    /// Carries messages.
    pub transport: Arc<dyn Transport>,
    /// The storage underneath, when it is one of ours.
    pub storage: Option<Opened>,
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<OpenedTransport>> + Send + 'a>>;

type Open = fn(&str) -> Opening<'_>;

/// What can be opened by its address.
struct Kind {
    schemes: &'static [&'static str],
    /// What an address looks like, for errors and help.
    form: &'static str,
    /// The name of the product, for errors.
    product: &'static str,
    feature: &'static str,
    /// None where its feature is off.
    open: Option<Open>,
}

macro_rules! kind {
    ($feature:literal, $product:literal, $schemes:expr, $form:literal, $open:expr) => {
        Kind {
            schemes: &$schemes,
            form: $form,
            product: $product,
            feature: $feature,
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
        open: Some(stored),
    },
    kind!("sqlite", "SQLite", ["sqlite"], "sqlite:path/to/file.db", stored),
    kind!(
        "postgres",
        "PostgreSQL",
        ["postgres", "postgresql"],
        "postgres://user@host/database",
        stored
    ),
    kind!("kafka", "Kafka", ["kafka", "kafkas"], "kafka://host:9092", |address| carried(
        punctual_kafka::KafkaTransport::builder(address).connect()
    )),
    kind!("mqtt", "MQTT", ["mqtt", "mqtts"], "mqtt://host:1883", |address| carried(
        punctual_mqtt::MqttTransport::builder(address).connect()
    )),
    kind!(
        "rabbitmq",
        "RabbitMQ",
        ["amqp", "amqps"],
        "amqp://user:password@host:5672/vhost",
        |address| { carried(punctual_rabbitmq::RabbitmqTransport::builder(address).connect()) }
    ),
    kind!("redis", "Redis", ["redis", "rediss"], "redis://host:6379", |address| carried(
        punctual_redis::RedisTransport::builder(address).connect()
    )),
    kind!(
        "servicebus",
        "Service Bus",
        ["endpoint=sb"],
        "Endpoint=sb://namespace...;SharedAccessKey=...",
        |address| { carried(punctual_servicebus::ServiceBusTransport::builder(address).connect()) }
    ),
    kind!("sqs", "SQS", ["sqs", "sqs+http", "sqs+https"], "sqs://region", |address| carried(
        punctual_sqs::SqsTransport::builder(address).connect()
    )),
    kind!("nats", "NATS", ["nats", "tls"], "nats://host:4222", |address| carried(
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

/// Returns the function that opens an address.
fn opener(kinds: &[Kind], address: &str) -> Result<Open> {
    let scheme = address.split_once(':').map_or(address, |(scheme, _)| scheme).to_ascii_lowercase();
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

/// Whether the feature `brokers` turns a kind on.
fn is_broker(kind: &Kind) -> bool {
    !matches!(kind.feature, "" | "sqlite" | "postgres")
}

/// What the address of a transport can look like, for errors and help.
pub fn transport_forms() -> String {
    let forms: Vec<&str> =
        KINDS.iter().filter(|kind| kind.open.is_some()).map(|kind| kind.form).collect();
    match forms.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::from("none: this program was built without any"),
    }
}

/// A broker.
#[cfg(any(
    feature = "kafka",
    feature = "mqtt",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis",
    feature = "servicebus",
    feature = "sqs"
))]
fn carried<'a, T: Transport>(
    connecting: impl Future<Output = Result<T>> + Send + 'a,
) -> Opening<'a> {
    Box::pin(async move {
        Ok(OpenedTransport { transport: Arc::new(connecting.await?), storage: None })
    })
}

/// A storage that carries messages.
fn stored(address: &str) -> Opening<'_> {
    Box::pin(async move {
        let opened = open_address(&Address::parse(address)?).await?;
        let owner = ProcessId::from_uuid(Ids::random().next(SystemClock.now()));
        let (storage, clock) = (opened.storage.clone(), Arc::new(SystemClock));
        let durable = storage.is_durable();
        let transport = StoredTransport::new(storage, clock, owner, LEASE_LENGTH_DEFAULT);
        let transport = Arc::new(transport.durable(durable));
        Ok(OpenedTransport { transport, storage: Some(opened) })
    })
}

impl OpenedTransport {
    /// The topics it knows of, in order. A storage knows those that somebody subscribed to, and those it
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

    /// Ends what is done in the background, where anything is.
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
mod tests {
    use super::*;

    async fn refused(address: &str) -> String {
        open_transport(address).await.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn what_cannot_be_opened_is_named_with_what_can() {
        for (address, words) in [
            ("", "is empty"),
            ("carrier-pigeon://ada:secret@coop", "\"carrier-pigeon\""),
            ("data.db", "sqlite:path/to/file.db"),
        ] {
            let error = refused(address).await;
            assert!(error.contains(words), "{error}");
            assert!(error.contains("memory:") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_broker_that_is_not_built_in_is_refused_with_the_feature_to_turn_on() {
        let none = KINDS.iter().map(|kind| Kind { open: None, ..*kind }).collect::<Vec<_>>();
        for (address, product, feature) in [
            ("kafka://host:9092", "Kafka", "kafka"),
            ("mqtts://host", "MQTT", "mqtt"),
            ("amqp://ada:secret@host", "RabbitMQ", "rabbitmq"),
            ("AMQPS://ada:secret@host", "RabbitMQ", "rabbitmq"),
            ("redis://:secret@host", "Redis", "redis"),
            ("Endpoint=sb://name;SharedAccessKey=secret", "Service Bus", "servicebus"),
            ("sqs://eu-central-1", "SQS", "sqs"),
            ("nats://host", "NATS", "nats"),
        ] {
            let error = opener(&none, address).err().unwrap();
            assert_eq!(error.kind(), punctual::ErrorKind::Unsupported);
            assert_eq!(
                error.to_string(),
                format!(
                    "this binary was built without {product}: rebuild with --features {feature} (or brokers for all)"
                )
            );
            // What this build really has: the same answer, or none.
            let built = KINDS.iter().any(|kind| kind.feature == feature && kind.open.is_some());
            assert_eq!(check_transport(address).is_ok(), built, "{address}");
        }
        let error = opener(&none, "sqlite:data.db").err().unwrap().to_string();
        assert_eq!(error, "this binary was built without SQLite: rebuild with --features sqlite");
    }

    #[test]
    fn a_line_of_a_group_gives_its_topic_away() {
        let topic = Topic::new("orders/eu").unwrap();
        assert_eq!(topic_of(&Queue::of_group(&topic, "office")), Some(topic));
        assert_eq!(topic_of(&Queue::default()), None);
    }
}
