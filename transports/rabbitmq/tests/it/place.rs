//! Where a test keeps its things on the broker: under a prefix of its own, with a client that knows nothing
//! of Punctual to look at them from outside and to take them away.

use std::sync::atomic::{AtomicU64, Ordering};

use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use punctual_conformance::own;
use punctual_rabbitmq::{RabbitmqBuilder, RabbitmqTransport};

/// Where the broker's address is.
pub(crate) const VARIABLE: &str = "PUNCTUAL_RABBITMQ_URL";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A prefix of its own on the broker.
pub(crate) struct Place {
    pub(crate) prefix: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("it-{}-{number}.", std::process::id());
        Self { prefix }
    }

    pub(crate) fn builder(&self) -> RabbitmqBuilder {
        self.builder_at(&own::address(VARIABLE))
    }

    pub(crate) fn builder_at(&self, address: &str) -> RabbitmqBuilder {
        RabbitmqTransport::builder(address).prefix(&self.prefix)
    }

    pub(crate) async fn open(&self) -> RabbitmqTransport {
        self.builder().connect().await.unwrap()
    }

    /// A name on the broker.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// A client that knows nothing of Punctual.
    pub(crate) async fn stranger(&self) -> Stranger {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(&own::address(VARIABLE), properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Stranger { channel, _connection: connection }
    }
}

pub(crate) struct Stranger {
    pub(crate) channel: Channel,
    _connection: Connection,
}

impl Stranger {
    pub(crate) async fn publish(&self, exchange: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let sent =
            self.channel.basic_publish(exchange.into(), "".into(), options, body, properties);
        sent.await.unwrap();
    }

    /// Takes a message out of a queue, when there is one.
    pub(crate) async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await.unwrap()
    }
}
