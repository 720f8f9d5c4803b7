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

/// What can be opened by its address.
struct Kind {
    schemes: &'static [&'static str],
    /// What an address looks like, for errors and help.
    form: &'static str,
    feature: &'static str,
    /// None where its feature is off.
    open: Option<fn(&str) -> Opening<'_>>,
}

macro_rules! kind {
    ($feature:literal, $schemes:expr, $form:literal, $open:expr) => {
        Kind {
            schemes: &$schemes,
            form: $form,
            feature: $feature,
            #[cfg(feature = $feature)]
            open: Some($open),
            #[cfg(not(feature = $feature))]
            open: None,
        }
    };
}

const KINDS: &[Kind] = &[
    Kind { schemes: &["memory"], form: "memory:", feature: "", open: Some(stored) },
    kind!("sqlite", ["sqlite"], "sqlite:path/to/file.db", stored),
    kind!("postgres", ["postgres", "postgresql"], "postgres://user@host/database", stored),
    kind!("kafka", ["kafka", "kafkas"], "kafka://host:9092", |address| carried(
        punctual_kafka::KafkaTransport::builder(address).connect()
    )),
    kind!("mqtt", ["mqtt", "mqtts"], "mqtt://host:1883", |address| carried(
        punctual_mqtt::MqttTransport::builder(address).connect()
    )),
    kind!("rabbitmq", ["amqp", "amqps"], "amqp://user:password@host:5672/vhost", |address| {
        carried(punctual_rabbitmq::RabbitmqTransport::builder(address).connect())
    }),
    kind!("redis", ["redis", "rediss"], "redis://host:6379", |address| carried(
        punctual_redis::RedisTransport::builder(address).connect()
    )),
    kind!(
        "servicebus",
        ["endpoint=sb"],
        "Endpoint=sb://namespace...;SharedAccessKey=...",
        |address| { carried(punctual_servicebus::ServiceBusTransport::builder(address).connect()) }
    ),
    kind!("sqs", ["sqs", "sqs+http", "sqs+https"], "sqs://region", |address| carried(
        punctual_sqs::SqsTransport::builder(address).connect()
    )),
    kind!("nats", ["nats", "tls"], "nats://host:4222", |address| carried(
        punctual_nats::NatsTransport::builder(address).connect()
    )),
];

/// Opens the transport at an address: a broker, or a storage that carries messages.
pub async fn open_transport(address: &str) -> Result<OpenedTransport> {
    let address = address.trim();
    let scheme = address.split_once(':').map_or(address, |(scheme, _)| scheme).to_ascii_lowercase();
    if scheme.is_empty() {
        return Err(Error::invalid(format!(
            "the address of the transport is empty; give {}",
            transport_forms()
        )));
    }
    // The rest may hold a password and is not repeated.
    let Some(kind) = KINDS.iter().find(|kind| kind.schemes.contains(&&*scheme)) else {
        let scheme = if address.contains(':') { scheme } else { String::from("none") };
        return Err(Error::invalid(format!(
            "the scheme {scheme:?} of the transport's address is unknown; give {}",
            transport_forms()
        )));
    };
    match kind.open {
        Some(open) => open(address).await,
        None => Err(Error::unsupported(format!(
            "this program was built without the feature `{}`, which {scheme:?} needs",
            kind.feature
        ))),
    }
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
    Topic::new(topic).ok()
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
    fn a_line_of_a_group_gives_its_topic_away() {
        let topic = Topic::new("orders/eu").unwrap();
        assert_eq!(topic_of(&Queue::of_group(&topic, "office")), Some(topic));
        assert_eq!(topic_of(&Queue::default()), None);
    }
}
