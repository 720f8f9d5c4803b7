//! Settling: the count survives every requeue, dead letters go to their queues, and what SQS cannot do is
//! refused by name.

use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::clock::add;
use punctual::model::{Body, DeadReason, Message};
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, body, close, deadline, message, next, outgoing, publish, receipt, receives_nothing,
    rejection, subscribe,
};
use punctual_conformance::cases;

use crate::fixture::Fixture;
use crate::raw;

cases! {
    the_count_survives_every_requeue,
    unreturned_deliveries_are_requeued_without_an_attempt,
    dead_letters_have_their_reason_and_the_original_is_gone,
    a_foreign_message_that_cannot_be_read_is_stored_unchanged,
    delays_beyond_what_sqs_supports_are_refused_before_anything_is_sent,
    a_message_that_is_too_large_when_encoded_is_refused,
    a_large_batch_is_split_and_arrives_whole,
}

// Brighter 4341: the handled count is lost with a change of visibility there.
// spec: D-26
async fn the_count_survives_every_requeue() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 1).await;
    let back = OutgoingMessage {
        attempt: 2,
        group: Some("office".to_owned()),
        ..outgoing(message("hello"))
    };
    transport.publish(vec![back], SystemClock.now()).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.attempt, 3, "the sender counted two");
    let not_before = add(SystemClock.now(), Duration::from_millis(1_980));
    receipt(delivery).requeue(Duration::from_millis(1_500)).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert!(SystemClock.now() >= not_before, "whole seconds, and never early");
    assert_eq!(delivery.attempt, 4, "requeued with a delay");
    receipt(delivery).requeue(Duration::ZERO).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.attempt, 5, "requeued at once");
    drop(delivery);
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.attempt, 6, "dropped");
    ack(delivery).await;
    fixture.remove().await;
}

async fn unreturned_deliveries_are_requeued_without_an_attempt() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 10).await;
    publish(&transport, &["one", "two", "three"]).await;
    // The others are prefetched, and the consumer is closed before `receive` returns them.
    let first = next(&mut *consumer).await;
    let returned = body(&first);
    consumer.close(deadline()).await.unwrap();
    ack(first).await;
    let mut other = subscribe(&transport, "office", 10).await;
    for _ in 0..2 {
        let delivery = next(&mut *other).await;
        assert_ne!(body(&delivery), returned);
        assert_eq!(delivery.attempt, 1);
        assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
        ack(delivery).await;
    }
    assert!(receives_nothing(&mut *other, Duration::from_secs(1)).await);
    fixture.remove().await;
}

// spec: D-27, D-28
async fn dead_letters_have_their_reason_and_the_original_is_gone() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 10).await;
    for (reason, queue) in [
        (DeadReason::AttemptsSpent, "orders-office-dead"),
        (DeadReason::Poison, "orders-office-invalid"),
    ] {
        publish(&transport, &["hello"]).await;
        let delivery = next(&mut *consumer).await;
        let id = delivery.message.id.to_string();
        receipt(delivery).reject(&rejection(reason)).await.unwrap();
        let queue = raw::queue(&fixture.client, &fixture.name(queue)).await;
        let letters = raw::letters(&fixture.client, &queue).await;
        assert_eq!(letters.len(), 1);
        let letter = &letters[0];
        assert_eq!((&letter.body[..], &*letter.content_type), (&b"hello"[..], "text/plain"));
        for (name, value) in [
            ("punctual-id", id.as_str()),
            ("punctual-dead-reason", reason.as_str()),
            ("punctual-dead-topic", "orders"),
            ("punctual-dead-attempts", "3"),
            ("tenant", "acme"),
        ] {
            assert_eq!(letter.header(name), Some(value), "{name}");
        }
    }
    assert!(receives_nothing(&mut *consumer, Duration::from_secs(1)).await);
    close(consumer).await;
    fixture.remove().await;
}

// spec: D-28
async fn a_foreign_message_that_cannot_be_read_is_stored_unchanged() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 10).await;
    let queue = raw::queue(&fixture.client, &fixture.name("orders-office")).await;
    let headers = [("punctual-headers", "[1]"), ("tenant", "acme")];
    raw::put(&fixture.client, &queue, b"<order/>", &headers).await;
    let delivery = next(&mut *consumer).await;
    let poison = delivery.poison.clone().expect("it is marked");
    assert!(poison.contains("punctual-headers"), "{poison}");
    receipt(delivery).reject(&rejection(DeadReason::Poison)).await.unwrap();
    let invalid = raw::queue(&fixture.client, &fixture.name("orders-office-invalid")).await;
    let letters = raw::letters(&fixture.client, &invalid).await;
    assert_eq!((letters.len(), &letters[0].body[..]), (1, &b"<order/>"[..]));
    assert_eq!(letters[0].header("tenant"), Some("acme"));
    fixture.remove().await;
}

// spec: D-21
async fn delays_beyond_what_sqs_supports_are_refused_before_anything_is_sent() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 1).await;
    let far = OutgoingMessage { delay: Duration::from_secs(901), ..outgoing(message("far")) };
    let batch = vec![outgoing(message("near")), far];
    let refused = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("901s"), "{refused}");
    assert!(receives_nothing(&mut *consumer, Duration::from_secs(1)).await, "nothing was sent");
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    let refused = receipt(delivery).requeue(Duration::from_hours(13)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    let again = next(&mut *consumer).await;
    assert_eq!(body(&again), "hello", "and nothing is lost");
    ack(again).await;
    fixture.remove().await;
}

async fn a_message_that_is_too_large_when_encoded_is_refused() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 1).await;
    // Bodies that are not text grow by a third.
    let body = Body::raw(vec![0xff; 200 * 1024], "application/octet-stream");
    let large = Message { body, ..message("") };
    let id = large.id.to_string();
    let refused = transport.publish(vec![outgoing(large)], SystemClock.now()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&id) && text.contains("258048"), "{text}");
    let text = "x".repeat(230 * 1024);
    publish(&transport, &[&text]).await;
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.message.body.bytes.len(), text.len());
    ack(delivery).await;
    fixture.remove().await;
}

async fn a_large_batch_is_split_and_arrives_whole() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 50).await;
    // More than ten messages, and more bytes than one call allows.
    let padding = "x".repeat(60 * 1024);
    let bodies: Vec<String> = (0..25).map(|number| format!("{number} {padding}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    publish(&transport, &bodies).await;
    let mut numbers = Vec::new();
    for _ in 0..25 {
        let delivery = next(&mut *consumer).await;
        let text = body(&delivery);
        let (number, rest) = text.split_once(' ').unwrap();
        assert_eq!(rest, padding);
        numbers.push(number.parse::<u32>().unwrap());
        ack(delivery).await;
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..25));
    fixture.remove().await;
}
