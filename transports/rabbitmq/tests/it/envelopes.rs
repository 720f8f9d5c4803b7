//! CloudEvents as an envelope: what is sent in any of them comes back as it was, and
//! whoever reads the queue with a client of his own finds the event.

use lapin::types::AMQPValue;
use punctual::model::{Body, Key, Message};
use punctual::serde_json::{self, Value};
use punctual::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport as _};

use crate::cases;
use crate::place::{Place, next, receipt, soon, to_all, url};

cases![a_message_survives_every_envelope_and_the_way_back, the_queue_has_the_event];

const ENVELOPES: [Envelope; 3] =
    [Envelope::Own, Envelope::CloudEventsBinary, Envelope::CloudEventsStructured];

/// A message with all that an envelope has to carry.
fn full(message: Message) -> Message {
    let mut full = Message {
        key: Some(Key::new("order-7").unwrap()),
        body: Body::raw(r#"{"total":7.50}"#, "application/json"),
        ..message
    };
    full.headers.insert("tenant", "acme").unwrap();
    full.trail.correlation = Some("story-1".into());
    full
}

async fn a_message_survives_every_envelope_and_the_way_back() {
    let place = Place::new();
    for envelope in ENVELOPES {
        let transport =
            place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        let mut consumer = place.subscribe(&transport, "g").await;
        let message = full(place.message(""));
        soon(transport.publish(vec![to_all(message.clone())], SystemClock.now())).await.unwrap();
        for attempt in 1..=2 {
            let delivery = next(&mut consumer).await;
            assert_eq!(*delivery.message, message, "{envelope:?}");
            assert_eq!((delivery.attempt, &delivery.poison), (attempt, &None), "{envelope:?}");
            match attempt {
                1 => receipt(delivery).requeue(std::time::Duration::from_millis(1)).await.unwrap(),
                _ => receipt(delivery).ack().await.unwrap(),
            }
        }
    }
}

async fn the_queue_has_the_event() {
    let place = Place::new();
    let transport = place.open().await;
    drop(place.subscribe(&transport, "g").await);
    let queue = place.name("orders.g");
    let stranger = place.stranger().await;
    let message = full(place.message(""));
    let binary = format!("{}?envelope=cloudevents-binary&source=/shop", url().unwrap());
    let binary = punctual_rabbitmq::RabbitmqTransport::builder(&binary).prefix(&place.prefix);
    let structured = place.builder().envelope(Envelope::CloudEventsStructured.sent_by("/shop"));
    let mut found = Vec::new();
    for builder in [binary, structured] {
        let transport = builder.connect().await.unwrap();
        soon(transport.publish(vec![to_all(message.clone())], SystemClock.now())).await.unwrap();
        found.push(stranger.get(&queue).await.unwrap());
    }
    let header = |name: &str| match found[0].properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(value) => Some(value.to_string()),
        _ => None,
    };
    for (name, value) in [
        ("cloudEvents_specversion", "1.0"),
        ("cloudEvents_id", message.id.to_string().as_str()),
        ("cloudEvents_source", "/shop"),
        ("cloudEvents_type", "orders"),
        ("cloudEvents_subject", "order-7"),
        ("cloudEvents_punctualcorrelation", "story-1"),
        ("tenant", "acme"),
    ] {
        assert_eq!(header(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(found[0].data, br#"{"total":7.50}"#);
    let kind = found[1].properties.content_type().as_ref().map(ToString::to_string);
    assert_eq!(kind.as_deref(), Some("application/cloudevents+json"));
    let object: Value = serde_json::from_slice(&found[1].data).unwrap();
    for (name, value) in
        [("specversion", "1.0"), ("source", "/shop"), ("type", "orders"), ("subject", "order-7")]
    {
        assert_eq!(object[name], value, "{name}");
    }
    assert_eq!(object["data"]["total"], 7.5);
}
