//! CloudEvents as an envelope: what is sent in any of them comes back as it was, and
//! whoever reads the stream with a client of his own finds the event.

use std::time::Duration;

use punctual::transport::Transport as _;
use punctual::wire::Envelope;
use punctual_conformance::cases;
use punctual_conformance::own::envelopes::{
    BODY, ENVELOPES, full, is_binary, is_structured, survives,
};
use punctual_conformance::own::letters::{close, sent, subscribe};

use crate::place::{Place, now};

cases![a_message_survives_every_envelope_and_the_way_back, the_stream_has_the_event];

async fn a_message_survives_every_envelope_and_the_way_back() {
    for envelope in ENVELOPES {
        let place = Place::new();
        let transport =
            place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        survives(&transport, "mail", sent(full()), Duration::ZERO).await;
        place.remove().await;
    }
}

async fn the_stream_has_the_event() {
    let place = Place::new();
    let message = full();
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", place.address);
    let by_address = place.builder_at(&url);
    let structured = Envelope::CloudEventsStructured.sent_by("/shop");
    let builders = [by_address, place.builder().envelope(structured)];
    let consumer = subscribe(&place.open().await, "mail", 1).await;
    for builder in builders {
        let transport = builder.connect().await.unwrap();
        transport.publish(vec![sent(message.clone())], now()).await.unwrap();
    }
    let stored = place.stored("orders").await;
    assert_eq!(stored.len(), 2);
    is_binary(&message, "ce-", |name| stored[0].headers.get(name).map(ToString::to_string));
    assert_eq!(stored[0].payload, BODY);
    let kind = stored[1].headers.get("Content-Type").map(ToString::to_string);
    is_structured(kind.as_deref(), &stored[1].payload);
    close(consumer).await;
    place.remove().await;
}
