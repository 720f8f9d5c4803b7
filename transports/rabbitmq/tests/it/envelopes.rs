//! Envelopes: a message survives every envelope, and a plain client of the broker finds the CloudEvent.

use std::time::Duration;

use lapin::types::AMQPValue;
use punctual::backend::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_conformance::backend_tests;
use punctual_conformance::backend_tests::envelopes::{
    BODY, ENVELOPES, assert_binary_event, assert_round_trip, assert_structured_event, full,
};
use punctual_conformance::backend_tests::messaging::{outgoing, subscribe, with_timeout};
use punctual_conformance::cases;

use crate::fixture::{Fixture, VARIABLE};

cases![a_message_survives_every_envelope_and_a_requeue, the_queue_has_the_event];

async fn a_message_survives_every_envelope_and_a_requeue() {
    let fixture = Fixture::new();
    for envelope in ENVELOPES {
        let transport =
            fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        assert_round_trip(&transport, "g", outgoing(full()), Duration::from_millis(1)).await;
    }
}

async fn the_queue_has_the_event() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    drop(subscribe(&transport, "g", 100).await);
    let queue = fixture.name("orders.g");
    let raw_client = fixture.raw_client().await;
    let message = full();
    let binary =
        format!("{}?envelope=cloudevents-binary&source=/shop", backend_tests::address(VARIABLE));
    let binary = fixture.builder_at(&binary);
    let structured = fixture.builder().envelope(Envelope::CloudEventsStructured.sent_by("/shop"));
    let mut found = Vec::new();
    for builder in [binary, structured] {
        let transport = builder.connect().await.unwrap();
        with_timeout(transport.publish(vec![outgoing(message.clone())], SystemClock.now()))
            .await
            .unwrap();
        found.push(raw_client.get(&queue).await.unwrap());
    }
    let header = |name: &str| match found[0].properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(value) => Some(value.to_string()),
        _ => None,
    };
    assert_binary_event(&message, "cloudEvents_", header);
    assert_eq!(found[0].data, BODY.as_bytes());
    let kind = found[1].properties.content_type().as_ref().map(ToString::to_string);
    assert_structured_event(kind.as_deref(), &found[1].data);
}
