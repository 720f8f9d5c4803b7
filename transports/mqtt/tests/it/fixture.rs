//! Test fixture: a prefix of its own on the broker.

use std::time::Duration;

use punctual::Transport as _;
use punctual::backend::transport::{Consumer, Subscription};
use punctual::model::Topic;
use punctual_conformance::backend_tests::{self, messaging};
use punctual_mqtt::{MqttBuilder, MqttTransport};

/// Environment variable with the broker's address.
pub(crate) const VARIABLE: &str = "PUNCTUAL_MQTT_URL";
/// How long to wait before concluding that no delivery comes.
const QUIET: Duration = Duration::from_millis(700);

/// A prefix that no other test uses.
pub(crate) struct Fixture {
    pub(crate) address: String,
    pub(crate) prefix: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let prefix = format!("it/{}", backend_tests::unique_name());
        Self { address: backend_tests::address(VARIABLE), prefix }
    }

    pub(crate) fn builder(&self) -> MqttBuilder {
        self.builder_at(&self.address)
    }

    /// With a short retention and a short reconnect timeout, so that sessions of tests do not stay on the broker.
    pub(crate) fn builder_at(&self, address: &str) -> MqttBuilder {
        MqttTransport::builder(address)
            .prefix(&self.prefix)
            .session_retention(Duration::from_secs(120))
            .reconnect_timeout(Duration::from_secs(1))
    }

    pub(crate) async fn open(&self) -> MqttTransport {
        self.builder().connect().await.unwrap()
    }

    /// Returns the name of a topic on the broker.
    pub(crate) fn name(&self, topic: &str) -> String {
        format!("{}/topic/{topic}", self.prefix)
    }
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// Subscribes to the topic `orders`.
pub(crate) async fn subscribe(transport: &MqttTransport, group: &str) -> Box<dyn Consumer> {
    messaging::subscribe(transport, group, 50).await
}

pub(crate) async fn subscribe_to(
    transport: &MqttTransport,
    name: &str,
    group: &str,
) -> Box<dyn Consumer> {
    let subscription = Subscription { topic: topic(name), group: group.to_owned(), prefetch: 50 };
    transport.subscribe(subscription).await.unwrap()
}

/// Whether no delivery comes for a while.
pub(crate) async fn is_quiet(consumer: &mut dyn Consumer) -> bool {
    messaging::receives_nothing(consumer, QUIET).await
}
