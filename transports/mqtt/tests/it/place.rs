//! Where a test publishes: under a prefix of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::model::Topic;
use punctual::transport::{Consumer, Subscription};
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_conformance::own::{self, letters};
use punctual_mqtt::{MqttBuilder, MqttTransport};

/// Where the broker's address is.
pub(crate) const VARIABLE: &str = "PUNCTUAL_MQTT_URL";
/// How long nothing must come to believe that nothing will.
const QUIET: Duration = Duration::from_millis(700);

/// A prefix that nobody else has.
pub(crate) struct Place {
    pub(crate) address: String,
    pub(crate) prefix: String,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Place {
    pub(crate) fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let at = SystemClock.now().as_microsecond();
        let prefix = format!("it/{}-{at}-{number}", std::process::id());
        Self { address: own::address(VARIABLE), prefix }
    }

    pub(crate) fn builder(&self) -> MqttBuilder {
        self.builder_at(&self.address)
    }

    /// Sessions of tests do not stay on the broker, and nobody is waited for long.
    pub(crate) fn builder_at(&self, address: &str) -> MqttBuilder {
        MqttTransport::builder(address)
            .prefix(&self.prefix)
            .keep_for(Duration::from_secs(120))
            .patience(Duration::from_secs(1))
    }

    pub(crate) async fn open(&self) -> MqttTransport {
        self.builder().connect().await.unwrap()
    }

    /// The name of a topic on the broker.
    pub(crate) fn name(&self, topic: &str) -> String {
        format!("{}/topic/{topic}", self.prefix)
    }
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// Receives the topic `orders`.
pub(crate) async fn subscribe(transport: &MqttTransport, group: &str) -> Box<dyn Consumer> {
    letters::subscribe(transport, group, 50).await
}

pub(crate) async fn subscribe_to(
    transport: &MqttTransport,
    name: &str,
    group: &str,
) -> Box<dyn Consumer> {
    let subscription = Subscription { topic: topic(name), group: group.to_owned(), prefetch: 50 };
    transport.subscribe(subscription).await.unwrap()
}

/// Whether nothing comes for a while.
pub(crate) async fn is_quiet(consumer: &mut dyn Consumer) -> bool {
    letters::is_silent(consumer, QUIET).await
}
