//! CloudEvents as an envelope: what is sent in any of them comes back as it was.

use std::time::Duration;

use punctual_conformance::cases;
use punctual_conformance::own::envelopes::{ENVELOPES, full, survives};
use punctual_conformance::own::letters::sent;

use crate::place::Place;

cases! {
    a_message_survives_every_envelope_and_the_way_back,
}

async fn a_message_survives_every_envelope_and_the_way_back() {
    let place = Place::new();
    for envelope in ENVELOPES {
        let transport =
            place.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        survives(&transport, "office", sent(full()), Duration::ZERO).await;
    }
    place.remove().await;
}
