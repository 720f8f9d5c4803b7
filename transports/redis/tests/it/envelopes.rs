//! CloudEvents as an envelope: what is sent in any of them comes back as it was, and
//! whoever reads the stream with a client of his own finds the event.

use std::collections::HashMap;
use std::time::Duration;

use punctual::model::Message;
use punctual::transport::Outgoing;
use punctual::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::envelopes::{
    BODY, ENVELOPES, full, is_binary, is_structured, survives,
};
use punctual_conformance::own::letters::sent;
use redis::cmd;

use crate::place::Place;

cases![
    a_message_survives_every_envelope_and_the_way_back,
    the_stream_has_the_event,
    an_address_says_it
];

async fn a_message_survives_every_envelope_and_the_way_back() {
    let place = Place::new().await;
    for envelope in ENVELOPES {
        let transport =
            place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        // With a count of its own, which the copy that is put back must not fall behind.
        let counted = Outgoing { attempt: 2, ..sent(full()) };
        survives(&transport, "billing", counted, Duration::ZERO).await;
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
    let message = full();
    let binary = entry(&place, Envelope::CloudEventsBinary, &message).await;
    is_binary(&message, "ce-", |name| binary.get(name).cloned());
    assert_eq!(binary["body"], BODY);
    let structured = entry(&place, Envelope::CloudEventsStructured, &message).await;
    let header = |name: &str| structured.get(name).map(String::as_str);
    assert_eq!(header("tenant"), Some("acme"));
    is_structured(header("content-type"), structured["body"].as_bytes());
}

async fn an_address_says_it() {
    let place = Place::new().await;
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", place.address);
    let transport = place.builder_at(&url).connect().await.unwrap();
    transport.publish(vec![sent(full())], SystemClock.now()).await.unwrap();
    let found = only_entry(&place).await;
    assert_eq!(found.get("ce-source").map(String::as_str), Some("/shop"));
    let wrong = place.builder_at(&format!("{}?envelope=xml", place.address));
    let error = wrong.connect().await.err().unwrap().to_string();
    assert!(error.contains("envelope=xml"), "{error}");
    place.remove().await;
}
