//! Envelopes: a message survives every envelope.

use std::time::Duration;

use punctual_conformance::cases;
use punctual_conformance::own::envelopes::{ENVELOPES, full, survives};
use punctual_conformance::own::letters::sent;

use crate::fixture::Fixture;

cases! {
    a_message_survives_every_envelope_and_the_way_back,
}

async fn a_message_survives_every_envelope_and_the_way_back() {
    let fixture = Fixture::new();
    for envelope in ENVELOPES {
        let transport =
            fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        survives(&transport, "office", sent(full()), Duration::ZERO).await;
    }
    fixture.remove().await;
}
