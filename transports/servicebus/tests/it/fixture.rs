//! Fixture of a test: a double with the entities of the suite.

use punctual::backend::transport::Consumer;
use punctual_conformance::backend_tests::messaging;
use punctual_servicebus::{ServiceBusBuilder, ServiceBusTransport};

use crate::double::Double;

/// Source of the group `office`.
pub(crate) const OFFICE: &str = "orders/Subscriptions/office";

/// Starts a broker with the topic `orders` and its subscriptions `office` and `archive`.
pub(crate) async fn double() -> Double {
    let double = Double::start(false).await.unwrap();
    double.broker().create_subscription("orders", "office");
    double.broker().create_subscription("orders", "archive");
    double
}

pub(crate) fn builder(double: &Double) -> ServiceBusBuilder {
    ServiceBusTransport::builder(double.address())
}

pub(crate) async fn open(double: &Double) -> ServiceBusTransport {
    builder(double).connect().await.unwrap()
}

pub(crate) async fn subscribe(transport: &ServiceBusTransport, group: &str) -> Box<dyn Consumer> {
    messaging::subscribe(transport, group, 10).await
}
