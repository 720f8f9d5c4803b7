//! Fixtures of these tests: messages, a consumer with timeouts, settling.

use std::time::Duration;

use punctual::backend::transport::{Consumer, Delivery, Receipt, Subscription};
use punctual::clock::{add, within};
use punctual::model::{Body, Headers, Key, Message, Topic};
use punctual::{Clock, Error, Result, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::{self, outgoing};
use punctual_kafka::KafkaTransport;

/// Timeout of a delivery that must come.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait before concluding that no delivery comes.
pub(crate) const QUIET: Duration = Duration::from_millis(1_500);

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

pub(crate) fn message(text: &str) -> Message {
    let (topic, body) = (topic("mail"), Body::json(text).unwrap());
    Message { topic, body, headers: Headers::new(), ..messaging::message("") }
}

pub(crate) fn keyed(key: &str, text: &str) -> Message {
    Message { key: Some(Key::new(key).unwrap()), ..message(text) }
}

pub(crate) async fn publish(to: &KafkaTransport, messages: Vec<Message>) -> Result<()> {
    to.publish(messages.into_iter().map(outgoing).collect(), SystemClock.now()).await
}

/// Publishes numbers as texts, in order.
pub(crate) async fn publish_texts(to: &KafkaTransport, texts: std::ops::Range<usize>) {
    publish(to, texts.map(|text| message(&text.to_string())).collect()).await.unwrap();
}

pub(crate) async fn subscribe(to: &KafkaTransport, group: &str, prefetch: usize) -> Receiving {
    let subscription = Subscription { topic: topic("mail"), group: group.to_owned(), prefetch };
    Receiving(to.subscribe(subscription).await.unwrap())
}

/// A consumer whose waits are bounded.
pub(crate) struct Receiving(pub(crate) Box<dyn Consumer>);

impl Receiving {
    /// Returns the next delivery within `timeout`. Temporary errors are retried.
    pub(crate) async fn next_within(&mut self, timeout: Duration) -> Option<Delivery> {
        let until = add(SystemClock.now(), timeout);
        loop {
            match within(&SystemClock, until, self.0.receive(1)).await? {
                Ok(mut deliveries) => return deliveries.pop(),
                Err(error) => assert!(error.is_temporary(), "{error}"),
            }
        }
    }

    pub(crate) async fn next(&mut self) -> Delivery {
        self.next_within(TIMEOUT).await.expect("a delivery in time")
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while deliveries.len() < count {
            deliveries.push(self.next().await);
        }
        deliveries
    }

    pub(crate) async fn is_quiet(&mut self) {
        let came = self.next_within(QUIET).await;
        assert!(came.is_none(), "{:?}", came.map(|delivery| delivery.message));
    }

    pub(crate) async fn close(mut self) {
        self.0.close(add(SystemClock.now(), TIMEOUT)).await.unwrap();
    }
}

pub(crate) async fn ack(delivery: Delivery) -> Result<(), Error> {
    match delivery.receipt {
        Receipt::Broker(receipt) => receipt.ack().await,
        Receipt::Lease(_) => panic!("a broker delivers no leases"),
    }
}

pub(crate) fn text_of(delivery: &Delivery) -> String {
    delivery.message.body.read().unwrap()
}
