//! CloudEvents as an envelope: a message sent in any of them is received unchanged, and another NATS client that
//! reads the stream finds the event.

use std::time::Duration;

use punctual::backend::transport::Transport as _;
use punctual::backend::wire::Envelope;
use punctual_conformance::backend_tests::envelopes::{
    BODY, ENVELOPES, assert_binary_event, assert_round_trip, assert_structured_event, full,
};
use punctual_conformance::backend_tests::messaging::{close, outgoing, subscribe};
use punctual_conformance::cases;

use crate::fixture::{Fixture, now};

cases![a_message_survives_every_envelope_and_a_requeue, the_stream_has_the_event];

async fn a_message_survives_every_envelope_and_a_requeue() {
    for envelope in ENVELOPES {
        let fixture = Fixture::new();
        let transport =
            fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        assert_round_trip(&transport, "mail", outgoing(full()), Duration::ZERO).await;
        fixture.remove().await;
    }
}

async fn the_stream_has_the_event() {
    let fixture = Fixture::new();
    let message = full();
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", fixture.address);
    let by_address = fixture.builder_at(&url);
    let structured = Envelope::CloudEventsStructured.sent_by("/shop");
    let builders = [by_address, fixture.builder().envelope(structured)];
    let consumer = subscribe(&fixture.open().await, "mail", 1).await;
    for builder in builders {
        let transport = builder.connect().await.unwrap();
        transport.publish(vec![outgoing(message.clone())], now()).await.unwrap();
    }
    let stored = fixture.stored("orders").await;
    assert_eq!(stored.len(), 2);
    assert_binary_event(&message, "ce-", |name| {
        stored[0].headers.get(name).map(ToString::to_string)
    });
    assert_eq!(stored[0].payload, BODY);
    let kind = stored[1].headers.get("Content-Type").map(ToString::to_string);
    assert_structured_event(kind.as_deref(), &stored[1].payload);
    close(consumer).await;
    fixture.remove().await;
}
