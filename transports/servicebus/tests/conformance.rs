//! Conformance suite of all transports, against the test double: each case has a broker of its own.

// Each test uses a part of it.
#[allow(dead_code, unused_imports)]
#[path = "double/mod.rs"]
mod double;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use double::{AmqpMessage, Double, properties};
use fe2o3_amqp::types::messaging::{ApplicationProperties, Body, Data, Message};
use fe2o3_amqp::types::primitives::{Binary, SimpleValue};
use punctual::backend::wire::Wire;
use punctual::bytes::Bytes;
use punctual::clock::add;
use punctual::model::Topic;
use punctual::{Clock as _, Result, SystemClock, Transport};
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::transport::{self, Backend, Environment};
use punctual_servicebus::ServiceBusTransport;

/// Duration of a restart.
const RESTART_DURATION: Duration = Duration::from_millis(300);

struct BrokerFixture {
    double: Double,
    proxy: Proxy,
}

impl BrokerFixture {
    fn dead_letters(&self, topic: &Topic, group: &str, invalid: bool) -> Vec<Wire> {
        let dead = self.double.broker().dead(&format!("{topic}/Subscriptions/{group}"));
        let letters = dead.into_iter().map(wire);
        let is_invalid = |wire: &Wire| wire.header("punctual-dead-reason") == Some("poison");
        letters.filter(|wire| is_invalid(wire) == invalid).collect()
    }
}

/// Returns a dead letter as a foreign client reads it.
fn wire(letter: AmqpMessage) -> Wire {
    let headers = properties(letter.application_properties.as_ref()).into_iter();
    let body = match letter.body {
        Body::Data(data) => data.into_iter().flat_map(|piece| piece.0.into_vec()).collect(),
        _ => Vec::new(),
    };
    let content_type = letter.properties.and_then(|known| known.content_type);
    Wire {
        headers: headers.map(|(name, value)| (name.into(), value)).collect(),
        body: Bytes::from(body),
        content_type: content_type.map(|name| name.0).unwrap_or_default().into(),
    }
}

#[async_trait::async_trait]
impl Environment for BrokerFixture {
    async fn open(&self) -> Result<Arc<dyn Transport>> {
        let builder = ServiceBusTransport::builder(Double::address_at(self.proxy.address()));
        Ok(Arc::new(builder.connect().await?))
    }

    async fn publish_foreign(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let known = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), SimpleValue::String((*value).to_owned())));
        let message = Message::builder()
            .application_properties(ApplicationProperties(known.collect()))
            .body(Body::Data(vec![Data(Binary::from(body.to_vec()))].into()))
            .build();
        self.double.broker().publish(topic.as_str(), message, SystemClock.now());
        Ok(())
    }

    async fn dead(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        Ok(self.dead_letters(topic, group, false))
    }

    async fn invalid(&self, topic: &Topic, group: &str) -> Result<Vec<Wire>> {
        Ok(self.dead_letters(topic, group, true))
    }

    async fn restart(&self) -> Result<()> {
        self.double.stop().await;
        SystemClock.sleep_until(add(SystemClock.now(), RESTART_DURATION)).await;
        self.double.serve().await
    }

    async fn cut(&self) -> Result<()> {
        self.double.cut();
        Ok(())
    }

    fn proxy(&self) -> Option<&Proxy> {
        Some(&self.proxy)
    }
}

fn main() -> ExitCode {
    let backend = Backend::local(|| async {
        let double = Double::start(true).await?;
        let proxy = Proxy::to(&format!("127.0.0.1:{}", double.port())).await;
        Ok(BrokerFixture { double, proxy })
    });
    transport::run("servicebus", backend)
}
