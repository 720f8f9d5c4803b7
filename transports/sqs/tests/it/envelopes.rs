//! Envelopes: a message survives every envelope.

use std::time::Duration;

use punctual_conformance::backend_tests::envelopes::{ENVELOPES, assert_round_trip, full};
use punctual_conformance::backend_tests::messaging::outgoing;
use punctual_conformance::cases;

use crate::fixture::Fixture;

cases! {
    a_message_survives_every_envelope_and_a_requeue,
}

async fn a_message_survives_every_envelope_and_a_requeue() {
    let fixture = Fixture::new();
    for envelope in ENVELOPES {
        let transport =
            fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        assert_round_trip(&transport, "office", outgoing(full()), Duration::ZERO).await;
    }
    fixture.remove().await;
}
