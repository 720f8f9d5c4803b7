//! Fixture of a test: a prefix of its own on the broker, and a plain client that reads and removes what is
//! there.

use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, BasicPublishOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use punctual_conformance::backend_tests;
use punctual_rabbitmq::{RabbitmqBuilder, RabbitmqTransport};

/// Environment variable with the broker's address.
pub(crate) const VARIABLE: &str = "PUNCTUAL_RABBITMQ_URL";

/// Prefix of one test on the broker.
pub(crate) struct Fixture {
    pub(crate) prefix: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let prefix = format!("it-{}.", backend_tests::unique_name());
        Self { prefix }
    }

    pub(crate) fn builder(&self) -> RabbitmqBuilder {
        self.builder_at(&backend_tests::address(VARIABLE))
    }

    pub(crate) fn builder_at(&self, address: &str) -> RabbitmqBuilder {
        RabbitmqTransport::builder(address).prefix(&self.prefix)
    }

    pub(crate) async fn open(&self) -> RabbitmqTransport {
        self.builder().connect().await.unwrap()
    }

    /// Returns a name on the broker.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// Connects a client without Punctual.
    pub(crate) async fn raw_client(&self) -> RawClient {
        let properties = ConnectionProperties::default();
        let connection =
            Connection::connect(&backend_tests::address(VARIABLE), properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        RawClient { channel, _connection: connection }
    }
}

pub(crate) struct RawClient {
    pub(crate) channel: Channel,
    _connection: Connection,
}

impl RawClient {
    pub(crate) async fn publish(&self, exchange: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let sent =
            self.channel.basic_publish(exchange.into(), "".into(), options, body, properties);
        sent.await.unwrap();
    }

    /// Removes a message from a queue, if there is one.
    pub(crate) async fn get(&self, queue: &str) -> Option<BasicGetMessage> {
        let options = BasicGetOptions { no_ack: true };
        self.channel.basic_get(queue.into(), options).await.unwrap()
    }
}
