//! What every transport with envelopes must show: a message comes back as it was in any of them, and
//! whoever reads with a client of his own finds the event.

use std::time::Duration;

use punctual::model::{Body, Key, Message};
use punctual::serde_json::{self, Value};
use punctual::transport::Outgoing;
use punctual::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport};

use super::letters::{ack, in_time, message, next, receipt, soon, subscribe};

/// Every envelope there is.
pub const ENVELOPES: [Envelope; 3] =
    [Envelope::Own, Envelope::CloudEventsBinary, Envelope::CloudEventsStructured];

/// The body of [`full`].
pub const BODY: &str = r#"{"total":7.50}"#;

/// A message with all that an envelope has to carry.
pub fn full() -> Message {
    let mut full = Message {
        key: Some(Key::new("order-7").unwrap()),
        body: Body::raw(BODY, "application/json"),
        ..message("")
    };
    full.correlation.id = Some("story-1".into());
    full
}

/// Sends something, puts it back once after a delay, and demands that it comes as it was both times.
pub async fn survives(transport: &dyn Transport, group: &str, sent: Outgoing, delay: Duration) {
    let mut consumer = subscribe(transport, group, 10).await;
    in_time(transport.publish(vec![sent.clone()], SystemClock.now())).await.unwrap();
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
    // One that is only dropped may still take what the next consumer of the group waits for.
    consumer.close(soon()).await.unwrap();
}

/// Demands the event of a message in its headers, which begin in the broker's way, sent by `/shop`.
pub fn is_binary(message: &Message, prefix: &str, header: impl Fn(&str) -> Option<String>) {
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

/// Demands the event of [`full`] in a body, sent by `/shop`.
pub fn is_structured(content_type: Option<&str>, body: &[u8]) {
    assert_eq!(content_type, Some("application/cloudevents+json"));
    let object: Value = serde_json::from_slice(body).unwrap();
    for (name, value) in
        [("specversion", "1.0"), ("source", "/shop"), ("type", "orders"), ("subject", "order-7")]
    {
        assert_eq!(object[name], value, "{name}");
    }
    assert_eq!(object["data"]["total"], 7.5);
}
