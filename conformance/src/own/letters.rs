//! Short ways to say the usual things about messages, deliveries and receipts of one transport.
//!
//! Everything here is of the topic `orders`. What must come is waited for with a bound, and a test that
//! expects a break says so with [`next_again`]; anywhere else an error of a consumer is a failure.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use punctual::clock::{add, within};
use punctual::jiff::Timestamp;
use punctual::model::{Body, DeadReason, Ids, Message, Topic};
use punctual::transport::{
    Acknowledge, Consumer, Delivery, Outgoing, Receipt, Rejection, Subscription,
};
use punctual::{Clock, Result, SystemClock, Transport};

use crate::message::plain;

/// The longest wait for what must come.
pub const SOON: Duration = Duration::from_secs(30);
/// Between two tries.
const MOMENT: Duration = Duration::from_millis(50);

static IDS: LazyLock<Ids> = LazyLock::new(Ids::random);

/// The topic of most tests.
pub fn topic() -> Topic {
    Topic::new("orders").unwrap()
}

/// A message to the topic `orders` with one header.
pub fn message(body: impl AsRef<[u8]>) -> Message {
    let body = Body::raw(body.as_ref().to_vec(), "text/plain");
    let mut message = plain(&IDS, "orders", body, SystemClock.now());
    message.headers.insert("tenant", "acme").unwrap();
    message
}

/// A message as it leaves for everybody, at once.
pub fn sent(message: Message) -> Outgoing {
    Outgoing { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

/// Publishes messages with these bodies in one batch, which must be confirmed.
pub async fn publish(transport: &dyn Transport, bodies: &[&str]) {
    try_publish(transport, bodies).await.unwrap();
}

/// The same of a batch that may be refused, but soon.
pub async fn try_publish(transport: &dyn Transport, bodies: &[&str]) -> Result<()> {
    let batch = bodies.iter().map(|body| sent(message(body))).collect();
    in_time(transport.publish(batch, SystemClock.now())).await
}

/// What a group of the topic `orders` asks for.
pub fn subscription(group: &str, prefetch: usize) -> Subscription {
    Subscription { topic: topic(), group: group.to_owned(), prefetch }
}

/// Receives the topic `orders` for a group.
pub async fn subscribe(
    transport: &dyn Transport,
    group: &str,
    prefetch: usize,
) -> Box<dyn Consumer> {
    transport.subscribe(subscription(group, prefetch)).await.unwrap()
}

/// The next delivery, which must come.
pub async fn next(consumer: &mut dyn Consumer) -> Delivery {
    some(consumer, 1).await.remove(0)
}

/// The next delivery, which must come. What only failed for now is tried again after a rest, as the
/// engine does.
pub async fn next_again(consumer: &mut dyn Consumer) -> Delivery {
    let until = soon();
    loop {
        let received = within(&SystemClock, until, consumer.receive(1)).await;
        match received.expect("a delivery must come") {
            Ok(mut deliveries) => return deliveries.remove(0),
            Err(error) => assert!(error.is_temporary() && SystemClock.now() < until, "{error}"),
        }
        rest().await;
    }
}

/// Exactly so many deliveries, which must come.
pub async fn some(consumer: &mut dyn Consumer, count: usize) -> Vec<Delivery> {
    let mut received = Vec::new();
    let until = soon();
    while received.len() < count {
        let more = within(&SystemClock, until, consumer.receive(count - received.len())).await;
        received.extend(more.expect("a delivery must come").unwrap());
    }
    assert_eq!(received.len(), count);
    received
}

/// What the next delivery says, which is acknowledged: one that is dropped would come again.
pub async fn taken(consumer: &mut dyn Consumer) -> String {
    let delivery = next(consumer).await;
    let body = body(&delivery);
    ack(delivery).await;
    body
}

/// Whether nothing comes for so long. A connection that breaks meanwhile has brought nothing either.
pub async fn is_silent(consumer: &mut dyn Consumer, length: Duration) -> bool {
    let until = add(SystemClock.now(), length);
    loop {
        match within(&SystemClock, until, consumer.receive(1)).await {
            None => return true,
            Some(Ok(_)) => return false,
            Some(Err(error)) => assert!(error.is_temporary(), "{error}"),
        }
        if SystemClock.now() >= until {
            return true;
        }
        rest().await;
    }
}

/// Stops receiving.
pub async fn close(mut consumer: Box<dyn Consumer>) {
    consumer.close(soon()).await.unwrap();
}

/// The receipt of a delivery of a broker.
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

/// What a delivery says.
pub fn body(delivery: &Delivery) -> String {
    String::from_utf8(delivery.message.body.bytes.to_vec()).unwrap()
}

/// What deliveries say, in their order.
pub fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(body).collect()
}

/// Why a delivery is given up after three attempts, with an error of two lines.
pub fn rejection(reason: DeadReason) -> Rejection {
    let error = Some(Arc::from("no such\ncustomer"));
    Rejection { reason, error, attempt: 3, at: "2026-01-02T03:04:05Z".parse().unwrap() }
}

/// When what must come should have come.
pub fn soon() -> Timestamp {
    add(SystemClock.now(), SOON)
}

/// What comes of something that must end soon.
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    within(&SystemClock, soon(), work).await.expect("it did not happen in time")
}

/// Waits until something is so, which it must become.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up_at = soon();
    while !is_so() {
        assert!(SystemClock.now() < give_up_at, "{what} did not come");
        rest().await;
    }
}

/// Lets a moment pass between two tries.
pub async fn rest() {
    SystemClock.sleep_until(add(SystemClock.now(), MOMENT)).await;
}
