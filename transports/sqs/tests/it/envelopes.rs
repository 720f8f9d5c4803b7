//! CloudEvents as an envelope: what is sent in any of them comes back as it was.

use punctual::model::{Body, Key, Message};
use punctual::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport as _};

use crate::place::{Place, next, receipt, sent, subscribe};

crate::cases! {
    a_message_survives_every_envelope_and_the_way_back,
}

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
        let mut consumer = subscribe(&transport, "office", 1).await;
        let message = full(place.message(""));
        transport.publish(vec![sent(message.clone())], SystemClock.now()).await.unwrap();
        for attempt in 1..=2 {
            let delivery = next(&mut *consumer).await;
            assert_eq!(*delivery.message, message, "{envelope:?}");
            assert_eq!((delivery.attempt, &delivery.poison), (attempt, &None), "{envelope:?}");
            match attempt {
                1 => receipt(delivery).requeue(std::time::Duration::ZERO).await.unwrap(),
                _ => receipt(delivery).ack().await.unwrap(),
            }
        }
    }
    place.remove().await;
}
