//! Envelope checks for transports: a message is received unchanged in every envelope, and another client of
//! the broker can read the CloudEvent.

use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::backend::wire::Envelope;
use punctual::model::{Body, Key, Message};
use punctual::serde_json::{self, Value};
use punctual::{Clock as _, SystemClock, Transport};

use super::messaging::{ack, deadline, message, next, receipt, subscribe, with_timeout};

/// All envelopes.
pub const ENVELOPES: [Envelope; 3] =
    [Envelope::Own, Envelope::CloudEventsBinary, Envelope::CloudEventsStructured];

/// Body of [`full`].
pub const BODY: &str = r#"{"total":7.50}"#;

/// Returns a message with every field that an envelope carries.
pub fn full() -> Message {
    let mut full = Message {
        key: Some(Key::new("order-7").unwrap()),
        body: Body::raw(BODY, "application/json"),
        ..message("")
    };
    full.correlation.id = Some("story-1".into());
    full
}

/// Publishes a message, requeues it once after a delay, and asserts that it is received unchanged both times.
pub async fn assert_round_trip(
    transport: &dyn Transport,
    group: &str,
    sent: OutgoingMessage,
    delay: Duration,
) {
    let mut consumer = subscribe(transport, group, 10).await;
    with_timeout(transport.publish(vec![sent.clone()], SystemClock.now())).await.unwrap();
    for attempt in [sent.attempt + 1, sent.attempt + 2] {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.message, sent.message);
        assert_eq!((delivery.attempt, &delivery.poison), (attempt, &None));
        if attempt == sent.attempt + 1 {
            receipt(delivery).requeue(delay).await.unwrap();
        } else {
            ack(delivery).await;
        }
    }
    // A consumer that is only dropped could still receive the messages of the group's next consumer.
    consumer.close(deadline()).await.unwrap();
}

/// Asserts that the headers contain the event of a message from `/shop`; `prefix` is the broker's header prefix.
pub fn assert_binary_event(
    message: &Message,
    prefix: &str,
    header: impl Fn(&str) -> Option<String>,
) {
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", message.id.to_string().as_str()),
        ("source", "/shop"),
        ("type", "orders"),
        ("subject", "order-7"),
        ("punctualcorrelation", "story-1"),
    ] {
        assert_eq!(header(&format!("{prefix}{name}")).as_deref(), Some(value), "{name}");
    }
    assert_eq!(header("tenant").as_deref(), Some("acme"));
}

/// Asserts that a body contains the event of [`full`] from `/shop`.
pub fn assert_structured_event(content_type: Option<&str>, body: &[u8]) {
    assert_eq!(content_type, Some("application/cloudevents+json"));
    let object: Value = serde_json::from_slice(body).unwrap();
    for (name, value) in
        [("specversion", "1.0"), ("source", "/shop"), ("type", "orders"), ("subject", "order-7")]
    {
        assert_eq!(object[name], value, "{name}");
    }
    assert_eq!(object["data"]["total"], 7.5);
}
