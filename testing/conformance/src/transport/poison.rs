//! Poison: a message that cannot be read becomes an invalid message immediately, and never stops others. Foreign
//! messages are read as far as possible.

use punctual::model::{Body, DeadReason, Message};

use super::Fixture;
use super::dead::check;
use super::fixture::{Action, QUIET, ack, id_of, reject, rejection, sleep};

behaviours! {
    a_body_that_cannot_be_read_becomes_an_invalid_message needs DeadLetters,
    a_rejected_poison_delivery_is_kept_as_invalid needs DeadLetters,
    foreign_messages_are_read needs ForeignMessages,
    foreign_headers_are_read needs ForeignMessages ForeignHeaders,
    an_envelope_that_cannot_be_read_is_delivered_as_poison needs ForeignMessages ForeignHeaders,
    follow_ups_to_system_topics_are_delivered_as_poison needs ForeignMessages ForeignHeaders,
    a_body_that_cannot_be_read_does_not_stop_others needs ForeignMessages,
    an_envelope_that_cannot_be_read_does_not_stop_others needs ForeignMessages ForeignHeaders,
}

// Brighter 4387: invalid and failed messages are separate.
pub async fn a_body_that_cannot_be_read_becomes_an_invalid_message(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Done).await;
    let body = Body::raw("{ not json", "application/json");
    let message = Message { body, ..f.message("") };
    f.publish(vec![message.clone()]).await;
    worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    let letters = if f.capabilities.dead_letter {
        f.invalid("office", 1).await
    } else {
        f.dead_letters("office", 1).await
    };
    check(&letters[0], message.id, DeadReason::Poison, 1);
    assert_eq!(letters[0].body, message.body.bytes);
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 1, "its handler was never called");
    worker.stop().await;
}

pub async fn a_rejected_poison_delivery_is_kept_as_invalid(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let delivery = office.next().await;
    let why = rejection(&delivery, DeadReason::Poison, "cannot be read");
    reject(delivery, &why).await;
    office.expect_nothing().await;
    if !f.capabilities.dead_letter {
        return f.refused("it declares no invalid messages; the storage keeps them");
    }
    let letters = f.invalid("office", 1).await;
    assert_eq!(letters.len(), 1);
    check(&letters[0], id, DeadReason::Poison, 1);
    assert!(f.dead("office", 0).await.is_empty(), "it did not fail, it could not be read");
}

pub async fn foreign_messages_are_read(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish_foreign(b"\"hello\"", &[]).await;
    let delivery = office.next().await;
    assert_eq!(delivery.poison, None);
    assert_eq!((delivery.attempt, &delivery.message.body.bytes[..]), (1, &b"\"hello\""[..]));
    let id = id_of(&delivery);
    drop(delivery);
    office.release_dropped().await;
    let again = office.next().await;
    assert_eq!(id_of(&again), id, "a redelivery has the same message id");
    ack(again).await;
    f.publish_foreign(&[0xff, 0x00, 0xfe], &[]).await;
    let delivery = office.next().await;
    assert_eq!((&delivery.message.body.bytes[..], &delivery.poison), (&[0xff, 0, 0xfe][..], &None));
    assert_ne!(id_of(&delivery), id);
    ack(delivery).await;
    office.expect_nothing().await;
}

pub async fn foreign_headers_are_read(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish_foreign(b"\"hello\"", &[("tenant", "acme")]).await;
    let delivery = office.next().await;
    assert_eq!((&delivery.poison, &delivery.message.body.bytes[..]), (&None, &b"\"hello\""[..]));
    assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
    ack(delivery).await;
    office.expect_nothing().await;
}

pub async fn an_envelope_that_cannot_be_read_is_delivered_as_poison(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish_foreign(b"\"hello\"", &[("punctual-id", "not an identity"), ("tenant", "acme")])
        .await;
    let delivery = office.next().await;
    let poison = delivery.poison.clone().expect("it is marked");
    assert!(poison.contains("punctual-id"), "{poison}");
    assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
    ack(delivery).await;
    office.expect_nothing().await;
}

// Finding F1 of the security review: a client of the broker must not run programs of the server.
pub async fn follow_ups_to_system_topics_are_delivered_as_poison(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let more = r#"{"relations":{"then":[{"on":"success","topic":"punctual.command","queue":"default",
        "priority":5,"body":{"content_type":"application/json","text":"{}"}}]}}"#;
    f.publish_foreign(b"\"hello\"", &[("punctual-more", &more.replace(['\n', ' '], ""))]).await;
    let delivery = office.next().await;
    let poison = delivery.poison.clone().expect("it is marked");
    assert!(poison.contains("punctual.command"), "{poison}");
    assert_eq!(delivery.message.relations, None);
    ack(delivery).await;
    office.expect_nothing().await;
}

pub async fn a_body_that_cannot_be_read_does_not_stop_others(f: Fixture) {
    handles_others(f, b"{ not json", &[]).await;
}

pub async fn an_envelope_that_cannot_be_read_does_not_stop_others(f: Fixture) {
    handles_others(f, b"\"x\"", &[("punctual-created", "yesterday")]).await;
}

/// Asserts that one message after ten unreadable ones is handled.
async fn handles_others(f: Fixture, unreadable: &[u8], headers: &[(&str, &str)]) {
    let worker = f.worker("office").concurrency(1).start(|_| Action::Done).await;
    for _ in 0..10 {
        f.publish_foreign(unreadable, headers).await;
    }
    f.publish_foreign(b"\"hello\"", &[]).await;
    worker.wait_for_calls("hello", 1).await;
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 1);
    worker.stop().await;
}
