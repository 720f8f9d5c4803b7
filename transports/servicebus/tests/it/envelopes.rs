//! CloudEvents as an envelope: what is sent in any of them comes back as it was, and
//! the broker has the event, but for copies that are put back.

use std::time::Duration;

use punctual::model::{Body, Key, Message};
use punctual::wire::Envelope;
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_servicebus::ServiceBusTransport;

use crate::cases;
use crate::double::properties;
use crate::place::{builder, double, message, next, receipt, sent, subscribe};

cases! {
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
    for envelope in ENVELOPES {
        let double = double().await;
        let transport = match envelope {
            Envelope::CloudEventsBinary => {
                let address =
                    format!("{};Envelope=cloudevents-binary;Source=/shop", double.address());
                ServiceBusTransport::builder(address)
            }
            other => builder(&double).envelope(other.sent_by("/shop")),
        };
        let transport = transport.connect().await.unwrap();
        let mut office = subscribe(&transport, "office").await;
        let message = full(message(""));
        transport.publish(vec![sent(message.clone())], SystemClock.now()).await.unwrap();
        for attempt in 1..=2 {
            let delivery = next(&mut *office).await;
            assert_eq!(*delivery.message, message, "{envelope:?}");
            assert_eq!((delivery.attempt, &delivery.poison), (attempt, &None), "{envelope:?}");
            match attempt {
                1 => receipt(delivery).requeue(Duration::from_millis(100)).await.unwrap(),
                _ => receipt(delivery).ack().await.unwrap(),
            }
        }
        let broker = double.broker();
        let events = broker.sent.iter().map(|letter| {
            let known = properties(letter.application_properties.as_ref());
            known.iter().any(|(name, _)| name == "cloudEvents_source")
        });
        let events: Vec<bool> = events.collect();
        assert_eq!(events, [envelope == Envelope::CloudEventsBinary, false], "{envelope:?}");
    }
}
