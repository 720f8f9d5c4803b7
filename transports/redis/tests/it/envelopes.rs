//! CloudEvents as an envelope: what is sent in any of them comes back as it was, and
//! whoever reads the stream with a client of his own finds the event.

use std::collections::HashMap;

use punctual::model::{Body, Key, Message};
use punctual::serde_json::{self, Value};
use punctual::transport::Outgoing;
use punctual::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport as _};
use redis::cmd;

use crate::cases;
use crate::place::{Place, next, receipt, sent, subscribe};

cases![
    a_message_survives_every_envelope_and_the_way_back,
    the_stream_has_the_event,
    an_address_says_it
];

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
    let place = Place::new().await;
    for envelope in ENVELOPES {
        let transport =
            place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        let mut consumer = subscribe(&transport, "billing", 10).await;
        let message = full(place.message(""));
        // With a count of its own, which the copy that is put back must not fall behind.
        let counted = Outgoing { attempt: 2, ..sent(message.clone()) };
        transport.publish(vec![counted], SystemClock.now()).await.unwrap();
        for attempt in 3..=4 {
            let delivery = next(&mut *consumer).await;
            assert_eq!(*delivery.message, message, "{envelope:?}");
            assert_eq!((delivery.attempt, &delivery.poison), (attempt, &None), "{envelope:?}");
            match attempt {
                3 => receipt(delivery).requeue(std::time::Duration::ZERO).await.unwrap(),
                _ => receipt(delivery).ack().await.unwrap(),
            }
        }
    }
    place.remove().await;
}

/// The fields of the only entry, as the server has them.
async fn only_entry(place: &Place) -> HashMap<String, String> {
    let mut range = cmd("XRANGE");
    range.arg(place.key("orders")).arg("-").arg("+");
    let mut found: Vec<(String, HashMap<String, String>)> = place.ask(&mut range).await;
    assert_eq!(found.len(), 1);
    found.remove(0).1
}

/// The same of a message that is sent in an envelope, and then removed.
async fn entry(place: &Place, envelope: Envelope, message: &Message) -> HashMap<String, String> {
    let transport = place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
    transport.publish(vec![sent(message.clone())], SystemClock.now()).await.unwrap();
    let found = only_entry(place).await;
    place.ask::<()>(cmd("DEL").arg(place.key("orders"))).await;
    found
}

async fn the_stream_has_the_event() {
    let place = Place::new().await;
    let message = full(place.message(""));
    let binary = entry(&place, Envelope::CloudEventsBinary, &message).await;
    let header = |name: &str| binary.get(name).map(String::as_str);
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", message.id.to_string().as_str()),
        ("ce-source", "/shop"),
        ("ce-type", "orders"),
        ("ce-subject", "order-7"),
        ("ce-punctualcorrelation", "story-1"),
        ("tenant", "acme"),
    ] {
        assert_eq!(header(name), Some(value), "{name}");
    }
    assert_eq!(header("body"), Some(r#"{"total":7.50}"#));
    let structured = entry(&place, Envelope::CloudEventsStructured, &message).await;
    let header = |name: &str| structured.get(name).map(String::as_str);
    assert_eq!(header("content-type"), Some("application/cloudevents+json"));
    assert_eq!(header("tenant"), Some("acme"));
    let object: Value = serde_json::from_str(header("body").unwrap()).unwrap();
    for (name, value) in
        [("specversion", "1.0"), ("source", "/shop"), ("type", "orders"), ("subject", "order-7")]
    {
        assert_eq!(object[name], value, "{name}");
    }
    assert_eq!(object["data"]["total"], 7.5);
}

async fn an_address_says_it() {
    let place = Place::new().await;
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", place.url);
    let transport = place.builder_at(&url).connect().await.unwrap();
    let message = full(place.message(""));
    transport.publish(vec![sent(message)], SystemClock.now()).await.unwrap();
    let found = only_entry(&place).await;
    assert_eq!(found.get("ce-source").map(String::as_str), Some("/shop"));
    let wrong = place.builder_at(&format!("{}?envelope=xml", place.url));
    let error = wrong.connect().await.err().unwrap().to_string();
    assert!(error.contains("envelope=xml"), "{error}");
    place.remove().await;
}
