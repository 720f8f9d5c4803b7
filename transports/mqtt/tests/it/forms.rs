//! How messages look to others: strangers with clients of their own, both versions of MQTT, large batches.

use punctual::Clock as _;
use punctual::model::Message;
use punctual::{SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::letters::{ack, body, message, next, publish, receipt, sent, some};
use punctual_mqtt::Version;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;

use crate::place::{Place, is_quiet, subscribe};
use crate::stranger;

cases! {
    a_stranger_reads_headers_as_user_properties,
    a_stranger_writes_headers_as_user_properties,
    a_stranger_may_send_without_confirmation,
    an_older_client_reads_and_writes_the_same_messages,
    header_text_that_mqtt_does_not_allow_arrives,
    large_batches_arrive_whole_and_in_order,
    publishing_that_is_given_up_leaves_room_for_others,
}

async fn a_stranger_reads_headers_as_user_properties() {
    let place = Place::new();
    let (client, mut events) = stranger::client(&place.address);
    client.subscribe(place.name("orders"), QoS::AtLeastOnce).await.unwrap();
    stranger::until(&mut events, |packet| matches!(packet, Packet::SubAck(_)).then_some(()))
        .await
        .unwrap();
    let transport = place.open().await;
    publish(&transport, &["hello"]).await;
    let publish = stranger::until(&mut events, |packet| match packet {
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

async fn a_stranger_writes_headers_as_user_properties() {
    let place = Place::new();
    let mut consumer = subscribe(&place.open().await, "billing").await;
    let headers = [("tenant", "acme")];
    stranger::publish(&place.address, &place.name("orders"), b"hello", &headers).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("hello", 1));
    assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
    ack(delivery).await;
}

async fn a_stranger_may_send_without_confirmation() {
    let place = Place::new();
    let mut consumer = subscribe(&place.open().await, "billing").await;
    let (client, mut events) = stranger::client(&place.address);
    client.publish(place.name("orders"), QoS::AtMostOnce, false, "21.5").await.unwrap();
    // Behind it, so that it is known to have been sent.
    client.publish(place.name("orders"), QoS::AtLeastOnce, false, "22").await.unwrap();
    stranger::until(&mut events, |packet| matches!(packet, Packet::PubAck(_)).then_some(()))
        .await
        .unwrap();
    let mut deliveries = some(&mut *consumer, 2).await;
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
    let place = Place::new();
    let older = place.builder().version(Version::V311).connect().await.unwrap();
    let newer = place.open().await;
    let mut at_older = subscribe(&older, "old").await;
    let mut at_newer = subscribe(&newer, "new").await;
    let message = message([0xff, 0, 0xfe]);
    older.publish(vec![sent(message.clone())], SystemClock.now()).await.unwrap();
    for consumer in [&mut at_older, &mut at_newer] {
        let delivery = next(&mut **consumer).await;
        assert_eq!(delivery.message.id, message.id);
        assert_eq!(delivery.message.body, message.body);
        assert_eq!(delivery.message.headers, message.headers);
        ack(delivery).await;
    }
    // The other way the broker leaves out what 3.1.1 has no place for: the body is all there is.
    newer.publish(vec![sent(message.clone())], SystemClock.now()).await.unwrap();
    let delivery = next(&mut *at_older).await;
    assert_eq!(delivery.message.body.bytes, message.body.bytes);
    assert!(delivery.message.headers.is_empty() && delivery.poison.is_none());
    ack(delivery).await;
}

async fn header_text_that_mqtt_does_not_allow_arrives() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    let mut message = message("hello");
    message.trail.correlation = Some(std::sync::Arc::from("two\nlines \u{fffe}"));
    transport.publish(vec![sent(message.clone())], SystemClock.now()).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.message.trail, message.trail);
    assert_eq!(delivery.message.headers, message.headers);
    ack(delivery).await;
}

async fn large_batches_arrive_whole_and_in_order() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    let count = 5_000;
    let messages = (0..count).map(|number| Message { ..message(number.to_string()) });
    let batch = messages.map(sent).collect();
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

async fn publishing_that_is_given_up_leaves_room_for_others() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    for _ in 0..300 {
        let batch = (0..50).map(|_| sent(message("given up"))).collect();
        let publish = transport.publish(batch, SystemClock.now());
        tokio::select! {
            biased;
            published = publish => published.unwrap(),
            () = tokio::task::yield_now() => {}
        }
    }
    // More of them than there would be room for, had any been lost.
    publish(&transport, &["kept"; 100]).await;
    let mut kept = 0;
    while kept < 100 {
        for delivery in some(&mut *consumer, 1).await {
            kept += usize::from(body(&delivery) == "kept");
            ack(delivery).await;
        }
    }
}
