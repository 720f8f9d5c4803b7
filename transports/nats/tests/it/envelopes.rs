//! CloudEvents as an envelope: what is sent in any of them comes back as it was, and
//! whoever reads the stream with a client of his own finds the event.

use punctual::model::{Body, Key, Message};
use punctual::serde_json::{self, Value};
use punctual::transport::Transport as _;
use punctual::wire::Envelope;

use crate::cases;
use crate::place::{Place, now, out, receipt, receive_one, subscribe};

cases![a_message_survives_every_envelope_and_the_way_back, the_stream_has_the_event];

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
    for envelope in ENVELOPES {
        let place = Place::new();
        let transport =
            place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        let mut consumer = subscribe(&transport, "mail", 10).await;
        let message = full(place.message(""));
        transport.publish(vec![out(message.clone())], now()).await.unwrap();
        for attempt in 1..=2 {
            let delivery = receive_one(&mut consumer).await;
            assert_eq!(*delivery.message, message, "{envelope:?}");
            assert_eq!((delivery.attempt, &delivery.poison), (attempt, &None), "{envelope:?}");
            match attempt {
                1 => receipt(delivery).requeue(std::time::Duration::ZERO).await.unwrap(),
                _ => receipt(delivery).ack().await.unwrap(),
            }
        }
        place.remove().await;
    }
}

async fn the_stream_has_the_event() {
    let place = Place::new();
    let message = full(place.message(""));
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", place.url);
    let by_address = punctual_nats::NatsTransport::builder(url).prefix(&place.prefix);
    let structured = Envelope::CloudEventsStructured.sent_by("/shop");
    let builders = [by_address, place.builder().envelope(structured)];
    let mut consumer = subscribe(&place.transport().await, "mail", 1).await;
    for builder in builders {
        let transport = builder.connect().await.unwrap();
        transport.publish(vec![out(message.clone())], now()).await.unwrap();
    }
    let stored = place.stored("orders").await;
    assert_eq!(stored.len(), 2);
    let header = |name: &str| stored[0].headers.get(name).map(ToString::to_string);
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", message.id.to_string().as_str()),
        ("ce-source", "/shop"),
        ("ce-type", "orders"),
        ("ce-subject", "order-7"),
        ("ce-punctualcorrelation", "story-1"),
        ("tenant", "acme"),
    ] {
        assert_eq!(header(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(stored[0].payload, r#"{"total":7.50}"#);
    let kind = stored[1].headers.get("Content-Type").map(ToString::to_string);
    assert_eq!(kind.as_deref(), Some("application/cloudevents+json"));
    let object: Value = serde_json::from_slice(&stored[1].payload).unwrap();
    for (name, value) in
        [("specversion", "1.0"), ("source", "/shop"), ("type", "orders"), ("subject", "order-7")]
    {
        assert_eq!(object[name], value, "{name}");
    }
    assert_eq!(object["data"]["total"], 7.5);
    crate::place::close(&mut consumer).await;
    place.remove().await;
}
