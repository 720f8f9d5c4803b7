//! Envelopes: a message survives every envelope, and a plain client of the server finds the CloudEvent.

use std::collections::HashMap;
use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::backend::wire::Envelope;
use punctual::model::Message;
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_conformance::backend_tests::envelopes::{
    BODY, ENVELOPES, assert_binary_event, assert_round_trip, assert_structured_event, full,
};
use punctual_conformance::backend_tests::messaging::outgoing;
use punctual_conformance::cases;
use redis::cmd;

use crate::fixture::Fixture;

cases![
    a_message_survives_every_envelope_and_a_requeue,
    the_stream_has_the_event,
    an_address_names_the_envelope
];

async fn a_message_survives_every_envelope_and_a_requeue() {
    let fixture = Fixture::new().await;
    for envelope in ENVELOPES {
        let transport =
            fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        // With a count of its own, which the requeued copy must keep.
        let counted = OutgoingMessage { attempt: 2, ..outgoing(full()) };
        assert_round_trip(&transport, "billing", counted, Duration::ZERO).await;
    }
    fixture.remove().await;
}

/// Returns the fields of the only entry, as the server stores them.
async fn only_entry(fixture: &Fixture) -> HashMap<String, String> {
    let mut range = cmd("XRANGE");
    range.arg(fixture.key("orders")).arg("-").arg("+");
    let mut found: Vec<(String, HashMap<String, String>)> = fixture.command(&mut range).await;
    assert_eq!(found.len(), 1);
    found.remove(0).1
}

/// Publishes a message in an envelope, returns the fields of its entry and removes it.
async fn entry(
    fixture: &Fixture,
    envelope: Envelope,
    message: &Message,
) -> HashMap<String, String> {
    let transport = fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
    transport.publish(vec![outgoing(message.clone())], SystemClock.now()).await.unwrap();
    let found = only_entry(fixture).await;
    fixture.command::<()>(cmd("DEL").arg(fixture.key("orders"))).await;
    found
}

async fn the_stream_has_the_event() {
    let fixture = Fixture::new().await;
    let message = full();
    let binary = entry(&fixture, Envelope::CloudEventsBinary, &message).await;
    assert_binary_event(&message, "ce-", |name| binary.get(name).cloned());
    assert_eq!(binary["body"], BODY);
    let structured = entry(&fixture, Envelope::CloudEventsStructured, &message).await;
    let header = |name: &str| structured.get(name).map(String::as_str);
    assert_eq!(header("tenant"), Some("acme"));
    assert_structured_event(header("content-type"), structured["body"].as_bytes());
}

async fn an_address_names_the_envelope() {
    let fixture = Fixture::new().await;
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", fixture.address);
    let transport = fixture.builder_at(&url).connect().await.unwrap();
    transport.publish(vec![outgoing(full())], SystemClock.now()).await.unwrap();
    let found = only_entry(&fixture).await;
    assert_eq!(found.get("ce-source").map(String::as_str), Some("/shop"));
    let wrong = fixture.builder_at(&format!("{}?envelope=xml", fixture.address));
    let error = wrong.connect().await.err().unwrap().to_string();
    assert!(error.contains("envelope=xml"), "{error}");
    fixture.remove().await;
}
