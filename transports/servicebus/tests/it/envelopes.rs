//! Envelopes: a message survives every envelope, and the broker has the CloudEvent, except for requeued copies.

use std::time::Duration;

use punctual::backend::wire::Envelope;
use punctual_conformance::backend_tests::envelopes::{ENVELOPES, assert_round_trip, full};
use punctual_conformance::backend_tests::messaging::outgoing;
use punctual_conformance::cases;
use punctual_servicebus::ServiceBusTransport;

use crate::double::properties;
use crate::fixture::{builder, double};

cases! {
    a_message_survives_every_envelope_and_a_requeue,
}

async fn a_message_survives_every_envelope_and_a_requeue() {
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
        assert_round_trip(&transport, "office", outgoing(full()), Duration::from_millis(100)).await;
        let broker = double.broker();
        let events = broker.sent.iter().map(|letter| {
            let known = properties(letter.application_properties.as_ref());
            known.iter().any(|(name, _)| name == "cloudEvents_source")
        });
        let events: Vec<bool> = events.collect();
        assert_eq!(events, [envelope == Envelope::CloudEventsBinary, false], "{envelope:?}");
    }
}
