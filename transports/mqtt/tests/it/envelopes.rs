//! CloudEvents as an envelope: a message sent in any of them is received unchanged, in both versions of MQTT.

use std::time::Duration;

use punctual::backend::wire::Envelope;
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::envelopes::{
    BODY, ENVELOPES, assert_binary_event, assert_round_trip, full,
};
use punctual_conformance::backend_tests::messaging::{ack, next, outgoing};
use punctual_conformance::cases;
use punctual_mqtt::Version;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;

use crate::fixture::{Fixture, subscribe};
use crate::foreign_client;

cases! {
    a_message_survives_every_envelope_and_a_requeue,
    another_client_finds_the_event,
    an_older_client_sends_structured_events,
}

async fn a_message_survives_every_envelope_and_a_requeue() {
    for envelope in ENVELOPES {
        let fixture = Fixture::new();
        let transport =
            fixture.builder().envelope(envelope.sent_by("/shop")).connect().await.unwrap();
        assert_round_trip(&transport, "billing", outgoing(full()), Duration::ZERO).await;
    }
}

async fn another_client_finds_the_event() {
    let fixture = Fixture::new();
    let (client, mut events) = foreign_client::client(&fixture.address);
    client.subscribe(fixture.name("orders"), QoS::AtLeastOnce).await.unwrap();
    foreign_client::wait_until(&mut events, |packet| {
        matches!(packet, Packet::SubAck(_)).then_some(())
    })
    .await
    .unwrap();
    let url = format!("{}?envelope=cloudevents-binary&source=/shop", fixture.address);
    let transport = fixture.builder_at(&url).connect().await.unwrap();
    let message = full();
    transport.publish(vec![outgoing(message.clone())], SystemClock.now()).await.unwrap();
    let publish = foreign_client::wait_until(&mut events, |packet| match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    });
    let publish = publish.await.unwrap();
    let properties = publish.properties.unwrap();
    assert_binary_event(&message, "", |wanted| {
        let mut named = properties.user_properties.iter();
        named.find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    });
    assert_eq!(publish.payload, BODY);
    let mut taken = message;
    taken.headers.insert("type", "mine").unwrap();
    let error = transport.publish(vec![outgoing(taken)], SystemClock.now()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("type"), "{error}");
}

async fn an_older_client_sends_structured_events() {
    let fixture = Fixture::new();
    let older = || fixture.builder().version(Version::V311);
    let binary = older().envelope(Envelope::CloudEventsBinary).connect().await;
    assert_eq!(binary.err().unwrap().kind(), ErrorKind::Unsupported);
    let structured = Envelope::CloudEventsStructured.sent_by("/shop");
    let transport = older().envelope(structured).connect().await.unwrap();
    let mut at_older = subscribe(&transport, "old").await;
    let mut at_newer = subscribe(&fixture.open().await, "new").await;
    let mut message = full();
    transport.publish(vec![outgoing(message.clone())], SystemClock.now()).await.unwrap();
    for consumer in [&mut at_older, &mut at_newer] {
        let delivery = next(&mut **consumer).await;
        assert_eq!((&*delivery.message, &delivery.poison), (&message, &None));
        ack(delivery).await;
    }
    message.headers.insert("No-Attribute", "1").unwrap();
    let error = transport.publish(vec![outgoing(message)], SystemClock.now()).await.unwrap_err();
    assert!(error.to_string().contains("No-Attribute"), "{error}");
}
