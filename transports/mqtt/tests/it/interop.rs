//! Interoperability: other clients, both versions of MQTT, large batches.

use punctual::Clock as _;
use punctual::model::Message;
use punctual::{SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, body, message, next, outgoing, publish, receipt, receive_exactly,
};
use punctual_conformance::cases;
use punctual_mqtt::Version;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;

use crate::fixture::{Fixture, is_quiet, subscribe};
use crate::foreign_client;

cases! {
    another_client_reads_headers_as_user_properties,
    another_client_writes_headers_as_user_properties,
    another_client_may_publish_with_qos_0,
    an_older_client_reads_and_writes_the_same_messages,
    header_text_that_mqtt_forbids_is_transmitted,
    large_batches_are_received_whole_and_in_order,
    a_cancelled_publish_frees_its_permits,
}

async fn another_client_reads_headers_as_user_properties() {
    let fixture = Fixture::new();
    let (client, mut events) = foreign_client::client(&fixture.address);
    client.subscribe(fixture.name("orders"), QoS::AtLeastOnce).await.unwrap();
    foreign_client::wait_until(&mut events, |packet| {
        matches!(packet, Packet::SubAck(_)).then_some(())
    })
    .await
    .unwrap();
    let transport = fixture.open().await;
    publish(&transport, &["hello"]).await;
    let publish = foreign_client::wait_until(&mut events, |packet| match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    });
    let publish = publish.await.unwrap();
    assert_eq!(publish.payload, "hello");
    let properties = publish.properties.unwrap();
    assert_eq!(properties.content_type.as_deref(), Some("text/plain"));
    let tenant = ("tenant".to_owned(), "acme".to_owned());
    assert!(properties.user_properties.contains(&tenant), "{properties:?}");
}

async fn another_client_writes_headers_as_user_properties() {
    let fixture = Fixture::new();
    let mut consumer = subscribe(&fixture.open().await, "billing").await;
    let headers = [("tenant", "acme")];
    foreign_client::publish(&fixture.address, &fixture.name("orders"), b"hello", &headers)
        .await
        .unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("hello", 1));
    assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
    ack(delivery).await;
}

async fn another_client_may_publish_with_qos_0() {
    let fixture = Fixture::new();
    let mut consumer = subscribe(&fixture.open().await, "billing").await;
    let (client, mut events) = foreign_client::client(&fixture.address);
    client.publish(fixture.name("orders"), QoS::AtMostOnce, false, "21.5").await.unwrap();
    // Sent after it, so that the first one is known to have been sent.
    client.publish(fixture.name("orders"), QoS::AtLeastOnce, false, "22").await.unwrap();
    foreign_client::wait_until(&mut events, |packet| {
        matches!(packet, Packet::PubAck(_)).then_some(())
    })
    .await
    .unwrap();
    let mut deliveries = receive_exactly(&mut *consumer, 2).await;
    deliveries.sort_by_key(body);
    assert_eq!(deliveries.iter().map(body).collect::<Vec<_>>(), ["21.5", "22"]);
    assert!(deliveries.iter().all(|delivery| delivery.attempt == 1));
    ack(deliveries.remove(1)).await;
    receipt(deliveries.remove(0)).requeue(std::time::Duration::ZERO).await.unwrap();
    let again = next(&mut *consumer).await;
    assert_eq!((body(&again).as_str(), again.attempt), ("21.5", 2));
    ack(again).await;
    assert!(is_quiet(&mut *consumer).await);
}

async fn an_older_client_reads_and_writes_the_same_messages() {
    let fixture = Fixture::new();
    let older = fixture.builder().version(Version::V311).connect().await.unwrap();
    let newer = fixture.open().await;
    let mut at_older = subscribe(&older, "old").await;
    let mut at_newer = subscribe(&newer, "new").await;
    let message = message([0xff, 0, 0xfe]);
    older.publish(vec![outgoing(message.clone())], SystemClock.now()).await.unwrap();
    for consumer in [&mut at_older, &mut at_newer] {
        let delivery = next(&mut **consumer).await;
        assert_eq!(delivery.message.id, message.id);
        assert_eq!(delivery.message.body, message.body);
        assert_eq!(delivery.message.headers, message.headers);
        ack(delivery).await;
    }
    // In the other direction the broker drops what 3.1.1 does not support: only the body remains.
    newer.publish(vec![outgoing(message.clone())], SystemClock.now()).await.unwrap();
    let delivery = next(&mut *at_older).await;
    assert_eq!(delivery.message.body.bytes, message.body.bytes);
    assert!(delivery.message.headers.is_empty() && delivery.poison.is_none());
    ack(delivery).await;
}

async fn header_text_that_mqtt_forbids_is_transmitted() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    let mut message = message("hello");
    message.correlation.id = Some(std::sync::Arc::from("two\nlines \u{fffe}"));
    transport.publish(vec![outgoing(message.clone())], SystemClock.now()).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.message.correlation, message.correlation);
    assert_eq!(delivery.message.headers, message.headers);
    ack(delivery).await;
}

async fn large_batches_are_received_whole_and_in_order() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    let count = 5_000;
    let messages = (0..count).map(|number| Message { ..message(number.to_string()) });
    let batch = messages.map(outgoing).collect();
    let publish = transport.publish(batch, SystemClock.now());
    let receive = async {
        for expected in 0..count {
            let delivery = next(&mut *consumer).await;
            assert_eq!(body(&delivery), expected.to_string());
            ack(delivery).await;
        }
    };
    let (published, ()) = tokio::join!(publish, receive);
    published.unwrap();
    assert!(is_quiet(&mut *consumer).await);
}

async fn a_cancelled_publish_frees_its_permits() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    for _ in 0..300 {
        let batch = (0..50).map(|_| outgoing(message("cancelled"))).collect();
        let publish = transport.publish(batch, SystemClock.now());
        tokio::select! {
            biased;
            published = publish => published.unwrap(),
            () = tokio::task::yield_now() => {}
        }
    }
    // More than the window, so this would hang if any permit had been lost.
    publish(&transport, &["kept"; 100]).await;
    let mut received = 0;
    while received < 100 {
        for delivery in receive_exactly(&mut *consumer, 1).await {
            received += usize::from(body(&delivery) == "kept");
            ack(delivery).await;
        }
    }
}
