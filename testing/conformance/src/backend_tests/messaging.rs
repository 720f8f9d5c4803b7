//! Messaging helpers: publish, receive and settle messages of the topic `orders` on one transport.
//!
//! Every wait has a timeout. A test that expects a broken connection uses [`next_retrying`]; elsewhere an
//! error of a consumer fails the test.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use punctual::backend::transport::{
    Acknowledge, Consumer, Delivery, OutgoingMessage, Receipt, Rejection, Subscription,
};
use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::model::{Body, DeadReason, Ids, Message, Topic};
use punctual::{Clock, Result, SystemClock, Transport};

use crate::message::plain;

/// Longest wait for an expected event.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

static IDS: LazyLock<Ids> = LazyLock::new(Ids::random);

/// Returns the topic `orders`, used by most tests.
pub fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

/// Returns a message to the topic `orders` with one header.
pub fn message(body: impl AsRef<[u8]>) -> Message {
    let body = Body::raw(body.as_ref().to_vec(), "text/plain");
    let mut message = plain(&IDS, "orders", body, SystemClock.now());
    message.headers.insert("tenant", "acme").unwrap();
    message
}

/// Returns a message to be published to all groups without delay.
pub fn outgoing(message: Message) -> OutgoingMessage {
    OutgoingMessage { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

/// Publishes messages with these bodies in one batch, which must be confirmed.
pub async fn publish(transport: &dyn Transport, bodies: &[&str]) {
    try_publish(transport, bodies).await.unwrap();
}

/// Publishes messages with these bodies in one batch; returns the error when the batch is refused.
pub async fn try_publish(transport: &dyn Transport, bodies: &[&str]) -> Result<()> {
    let batch = bodies.iter().map(|body| outgoing(message(body))).collect();
    with_timeout(transport.publish(batch, SystemClock.now())).await
}

/// Returns the subscription of a group to the topic `orders`.
pub fn subscription(group: &str, prefetch: usize) -> Subscription {
    Subscription { topic: topic(), group: group.to_owned(), prefetch }
}

/// Subscribes a group to the topic `orders`.
pub async fn subscribe(
    transport: &dyn Transport,
    group: &str,
    prefetch: usize,
) -> Box<dyn Consumer> {
    transport.subscribe(subscription(group, prefetch)).await.unwrap()
}

/// Returns the next delivery; panics when none arrives in time.
pub async fn next(consumer: &mut dyn Consumer) -> Delivery {
    receive_exactly(consumer, 1).await.remove(0)
}

/// Returns the next delivery; panics when none arrives in time. Retries temporary errors after a pause, as the
/// engine does.
pub async fn next_retrying(consumer: &mut dyn Consumer) -> Delivery {
    let until = deadline();
    loop {
        let received = within(&SystemClock, until, consumer.receive(1)).await;
        match received.expect("a delivery must come") {
            Ok(mut deliveries) => return deliveries.remove(0),
            Err(error) => assert!(error.is_temporary() && SystemClock.now() < until, "{error}"),
        }
        pause().await;
    }
}

/// Returns exactly `count` deliveries; panics when they do not arrive in time.
pub async fn receive_exactly(consumer: &mut dyn Consumer, count: usize) -> Vec<Delivery> {
    let mut received = Vec::new();
    let until = deadline();
    while received.len() < count {
        let more = within(&SystemClock, until, consumer.receive(count - received.len())).await;
        received.extend(more.expect("a delivery must come").unwrap());
    }
    assert_eq!(received.len(), count);
    received
}

/// Acknowledges the next delivery and returns its body.
pub async fn ack_next(consumer: &mut dyn Consumer) -> String {
    let delivery = next(consumer).await;
    let body = body(&delivery);
    ack(delivery).await;
    body
}

/// Returns whether no delivery arrives for this duration. A temporary error is no delivery.
pub async fn receives_nothing(consumer: &mut dyn Consumer, duration: Duration) -> bool {
    let until = add(SystemClock.now(), duration);
    loop {
        match within(&SystemClock, until, consumer.receive(1)).await {
            None => return true,
            Some(Ok(_)) => return false,
            Some(Err(error)) => assert!(error.is_temporary(), "{error}"),
        }
        if SystemClock.now() >= until {
            return true;
        }
        pause().await;
    }
}

/// Closes a consumer.
pub async fn close(mut consumer: Box<dyn Consumer>) {
    consumer.close(deadline()).await.unwrap();
}

/// Returns the receipt of a broker's delivery.
pub fn receipt(delivery: Delivery) -> Box<dyn Acknowledge> {
    match delivery.receipt {
        Receipt::Broker(receipt) => receipt,
        Receipt::Lease(_) => panic!("a broker has no leases"),
    }
}

/// Acknowledges a delivery.
pub async fn ack(delivery: Delivery) {
    receipt(delivery).ack().await.unwrap();
}

/// Acknowledges deliveries.
pub async fn ack_all(deliveries: Vec<Delivery>) {
    for delivery in deliveries {
        ack(delivery).await;
    }
}

/// Returns the body of a delivery as text.
pub fn body(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.body.bytes.to_vec()).unwrap()
}

/// Returns the bodies of deliveries as text, in their order.
pub fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(body).collect()
}

/// Returns a rejection after three attempts, with an error of two lines.
pub fn rejection(reason: DeadReason) -> Rejection {
    let error = Some(Arc::from("no such\ncustomer"));
    Rejection { reason, error, attempt: 3, at: "2026-01-02T03:04:05Z".parse().unwrap() }
}

/// Returns the instant at which a wait that starts now fails.
pub fn deadline() -> Timestamp {
    add(SystemClock.now(), TIMEOUT)
}

/// Returns the output of a future; panics when it does not complete in time.
pub async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    within(&SystemClock, deadline(), work).await.expect("the call timed out")
}

/// Waits until the condition is true; panics when it stays false.
pub async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = deadline();
    while !condition() {
        assert!(SystemClock.now() < deadline, "{what} did not happen within {TIMEOUT:?}");
        pause().await;
    }
}

/// Sleeps between two attempts.
pub async fn pause() {
    SystemClock.sleep_until(add(SystemClock.now(), RETRY_INTERVAL)).await;
}
