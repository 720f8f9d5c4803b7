//! Publishing: confirmed, complete, refused when invalid, and deduplicated when repeated.

use std::time::Duration;

use punctual::ErrorKind;
use punctual::backend::transport::{Delay, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, ack_all, bodies, body, message, next, next_retrying, outgoing, pause, publish,
    receive_exactly, receives_nothing, subscribe,
};
use punctual_conformance::cases;

use crate::fixture::{A_WHILE, Fixture, now};

cases![
    a_batch_arrives_whole_and_in_order,
    a_message_is_received_as_it_was_sent,
    the_largest_body_passes_and_one_more_byte_does_not,
    headers_that_leave_no_room_are_refused,
    a_delay_is_refused_before_anything_is_sent,
    publishing_to_a_topic_without_a_group_is_refused,
    messages_without_a_subscriber_are_discarded_when_allowed,
    a_repeated_message_is_stored_twice_by_default,
    a_repeated_publish_is_recognised_and_a_requeued_copy_is_not,
    a_deleted_stream_is_created_again,
];

async fn a_batch_arrives_whole_and_in_order() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 500).await;
    let wanted: Vec<String> = (0..2_500).map(|number| number.to_string()).collect();
    let batch = wanted.iter().map(|text| outgoing(message(text))).collect();
    transport.publish(batch, now()).await.unwrap();
    assert_eq!(fixture.stored("orders").await.len(), 2_500);
    let mut got = Vec::new();
    while got.len() < wanted.len() {
        let deliveries = receive_exactly(&mut *consumer, 100).await;
        got.extend(bodies(&deliveries));
        ack_all(deliveries).await;
    }
    assert_eq!(got, wanted);
    fixture.remove().await;
}

// spec: D-25
async fn a_message_is_received_as_it_was_sent() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let mut whole = message("body");
    whole.headers.insert("Nats-Rollup", "all").unwrap();
    whole.headers.insert("Nats-Expected-Stream", "another").unwrap();
    whole.headers.insert("with space: and colon", " padded ").unwrap();
    whole.headers.insert("tenant", "żółw").unwrap();
    transport.publish(vec![outgoing(whole.clone())], now()).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!(*delivery.message, whole);
    assert_eq!((delivery.attempt, delivery.poison.as_deref()), (1, None));
    fixture.remove().await;
}

async fn the_largest_body_passes_and_one_more_byte_does_not() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let most = transport.capabilities().payload_max.unwrap();
    let error = transport
        .publish(vec![outgoing(message("small")), outgoing(message("x".repeat(most + 1)))], now())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let said = error.to_string();
    assert!(said.contains(&most.to_string()) && said.contains(&(most + 1).to_string()), "{said}");
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    transport.publish(vec![outgoing(message("x".repeat(most)))], now()).await.unwrap();
    assert_eq!(next(&mut *consumer).await.message.body.bytes.len(), most);
    fixture.remove().await;
}

async fn headers_that_leave_no_room_are_refused() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let most = transport.capabilities().payload_max.unwrap();
    let mut message = message("x".repeat(most));
    for number in 0..10 {
        message.headers.insert(format!("long-{number}"), "y".repeat(8_000)).unwrap();
    }
    let error = transport.publish(vec![outgoing(message)], now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("headers"), "{error}");
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    fixture.remove().await;
}

async fn a_delay_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    assert_eq!(transport.capabilities().publish_delay, Delay::None);
    let mut late = outgoing(message("late"));
    late.delay = Duration::from_secs(1);
    let batch = vec![outgoing(message("now")), late];
    let error = transport.publish(batch, now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    fixture.remove().await;
}

async fn publishing_to_a_topic_without_a_group_is_refused() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let message = outgoing(message("first"));
    let error = transport.publish(vec![message.clone()], now()).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("orders"), "{error}");
    let mut consumer = subscribe(&transport, "mail", 10).await;
    transport.publish(vec![message], now()).await.unwrap();
    assert_eq!(body(&next(&mut *consumer).await), "first");
    fixture.remove().await;
}

async fn messages_without_a_subscriber_are_discarded_when_allowed() {
    let fixture = Fixture::new();
    let transport = fixture.builder().allow_no_subscribers(true).connect().await.unwrap();
    publish(&transport, &["unheard"]).await;
    assert!(fixture.stored("orders").await.is_empty());
    fixture.remove().await;
}

async fn a_repeated_message_is_stored_twice_by_default() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let message = outgoing(message("again"));
    for _ in 0..2 {
        transport.publish(vec![message.clone()], now()).await.unwrap();
    }
    assert_eq!(bodies(&receive_exactly(&mut *consumer, 2).await), ["again", "again"]);
    fixture.remove().await;
}

async fn a_repeated_publish_is_recognised_and_a_requeued_copy_is_not() {
    let fixture = Fixture::new();
    let window = Duration::from_secs(60);
    let transport = fixture.builder().deduplicate(window).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let message = outgoing(message("once"));
    for _ in 0..3 {
        transport.publish(vec![message.clone()], now()).await.unwrap();
    }
    ack(next(&mut *consumer).await).await;
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    // Snoozed twice: the same id, the same attempt, the same group.
    let mut copy = message;
    copy.group = Some("mail".to_owned());
    for _ in 0..2 {
        transport.publish(vec![copy.clone()], now()).await.unwrap();
        ack(next(&mut *consumer).await).await;
    }
    fixture.remove().await;
}

async fn a_deleted_stream_is_created_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    publish(&transport, &["before"]).await;
    ack(next(&mut *consumer).await).await;
    let stream = format!("{}_orders", fixture.prefix);
    fixture.jetstream().await.delete_stream(stream).await.unwrap();
    let mut tries = 0;
    while transport.publish(vec![outgoing(message("after"))], now()).await.is_err() {
        tries += 1;
        assert!(tries < 100, "the consumer does not come back");
        // The consumer recovers by itself; meanwhile it returns errors.
        let _ = consumer.receive(1).await.map(|_| panic!("received from nowhere"));
        tokio::task::yield_now().await;
        pause().await;
    }
    assert_eq!(body(&next_retrying(&mut *consumer).await), "after");
    fixture.remove().await;
}
