//! Tests with the real Service Bus, if there is one: `PUNCTUAL_SERVICEBUS_URL` holds a connection string with
//! the rights to send and listen, to a namespace with a topic `punctual-test` and its subscription `office`,
//! both empty.

use std::time::Duration;

use punctual::backend::transport::{Consumer, OutgoingMessage, Subscription};
use punctual::clock::{add, between};
use punctual::model::{DeadReason, Message, Topic};
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_conformance::backend_tests;
use punctual_conformance::backend_tests::messaging::{
    ack, body, deadline, message, next_retrying, outgoing, receipt, rejection, subscription,
};
use punctual_conformance::cases;
use punctual_servicebus::ServiceBusTransport;

cases! {
    messages_arrive_and_are_settled,
    delays_are_kept_by_the_broker,
}

/// Environment variable with the connection string.
pub(crate) const VARIABLE: &str = "PUNCTUAL_SERVICEBUS_URL";
const TOPIC: &str = "punctual-test";

async fn start() -> (ServiceBusTransport, Box<dyn Consumer>) {
    let transport =
        ServiceBusTransport::builder(backend_tests::address(VARIABLE)).connect().await.unwrap();
    let office = Subscription { topic: topic(), ..subscription("office", 10) };
    let consumer = transport.subscribe(office).await.unwrap();
    (transport, consumer)
}

fn topic() -> Topic {
    Topic::new(TOPIC).unwrap()
}

fn outgoing_text(text: &str) -> OutgoingMessage {
    outgoing(Message { topic: topic(), ..message(text) })
}

async fn messages_arrive_and_are_settled() {
    let (transport, mut office) = start().await;
    let batch = vec![outgoing_text("ack"), outgoing_text("requeue"), outgoing_text("reject")];
    transport.publish(batch, SystemClock.now()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let delivery = next_retrying(&mut *office).await;
        let text = body(&delivery);
        seen.push((text.clone(), delivery.attempt));
        let receipt = receipt(delivery);
        match (text.as_str(), seen.iter().filter(|(known, _)| *known == text).count()) {
            ("requeue", 1) => receipt.requeue(Duration::ZERO).await.unwrap(),
            ("reject", _) => receipt.reject(&rejection(DeadReason::Discarded)).await.unwrap(),
            _ => receipt.ack().await.unwrap(),
        }
    }
    assert!(seen.contains(&("requeue".to_owned(), 2)), "{seen:?}");
    office.close(deadline()).await.unwrap();
}

async fn delays_are_kept_by_the_broker() {
    let (transport, mut office) = start().await;
    let delay = Duration::from_secs(5);
    let sent_at = SystemClock.now();
    let later = OutgoingMessage { delay, ..outgoing_text("later") };
    transport.publish(vec![later], sent_at).await.unwrap();
    let delivery = next_retrying(&mut *office).await;
    let waited = between(sent_at, SystemClock.now());
    // The clocks of two machines differ a little.
    assert!(waited >= Duration::from_secs(4), "{waited:?}");
    let again_at = add(SystemClock.now(), Duration::from_secs(4));
    receipt(delivery).requeue(delay).await.unwrap();
    let delivery = next_retrying(&mut *office).await;
    assert!(SystemClock.now() >= again_at);
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("later", 2));
    ack(delivery).await;
    office.close(deadline()).await.unwrap();
}
