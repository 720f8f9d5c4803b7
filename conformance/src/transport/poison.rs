//! Poison: what cannot be read goes to its own place at once, and never stops what can. What was sent
//! by strangers is read as far as it is a message at all.

use punctual::model::{Body, DeadReason, Message};

use super::Fixture;
use super::dead::check;
use super::fixture::{Act, QUIET, ack, id_of, pass, reject, rejection};

behaviours! {
    a_body_that_cannot_be_read_goes_to_the_invalid_place needs Letters,
    a_rejected_poison_delivery_is_kept_as_invalid needs Letters,
    messages_of_strangers_are_read needs Put,
    headers_of_strangers_are_read needs Put Headers,
    an_envelope_that_cannot_be_read_is_a_marked_delivery needs Put Headers,
    follow_ups_to_topics_of_the_server_are_a_marked_delivery needs Put Headers,
    what_cannot_be_read_does_not_stop_what_can needs Put,
    an_envelope_that_cannot_be_read_does_not_stop_what_can needs Put Headers,
}

// Brighter 4387: invalid and failed are told apart.
pub async fn a_body_that_cannot_be_read_goes_to_the_invalid_place(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Done).await;
    let body = Body::raw("{ not json", "application/json");
    let message = Message { body, ..f.message("") };
    f.publish(vec![message.clone()]).await;
    worker.send("hello").await;
    worker.called("hello", 1).await;
    let letters = if f.capabilities.dead_letter {
        f.invalid("office", 1).await
    } else {
        f.letters("office", 1).await
    };
    check(&letters[0], message.id, DeadReason::Poison, 1);
    assert_eq!(letters[0].body, message.body.bytes);
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 1, "its handler was never called");
    worker.stop().await;
}

pub async fn a_rejected_poison_delivery_is_kept_as_invalid(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let delivery = office.next().await;
    let why = rejection(&delivery, DeadReason::Poison, "cannot be read");
    reject(delivery, &why).await;
    office.is_quiet().await;
    if !f.capabilities.dead_letter {
        return f.refused("it declares no place for invalid messages; the storage keeps them");
    }
    let letters = f.invalid("office", 1).await;
    assert_eq!(letters.len(), 1);
    check(&letters[0], id, DeadReason::Poison, 1);
    assert!(f.dead("office", 0).await.is_empty(), "it did not fail, it could not be read");
}

pub async fn messages_of_strangers_are_read(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.put(b"\"hello\"", &[]).await;
    let delivery = office.next().await;
    assert_eq!(delivery.poison, None);
    assert_eq!((delivery.attempt, &delivery.message.body.bytes[..]), (1, &b"\"hello\""[..]));
    let id = id_of(&delivery);
    drop(delivery);
    office.dropped().await;
    let again = office.next().await;
    assert_eq!(id_of(&again), id, "a second delivery is known as the same message");
    ack(again).await;
    f.put(&[0xff, 0x00, 0xfe], &[]).await;
    let delivery = office.next().await;
    assert_eq!((&delivery.message.body.bytes[..], &delivery.poison), (&[0xff, 0, 0xfe][..], &None));
    assert_ne!(id_of(&delivery), id);
    ack(delivery).await;
    office.is_quiet().await;
}

pub async fn headers_of_strangers_are_read(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.put(b"\"hello\"", &[("tenant", "acme")]).await;
    let delivery = office.next().await;
    assert_eq!((&delivery.poison, &delivery.message.body.bytes[..]), (&None, &b"\"hello\""[..]));
    assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
    ack(delivery).await;
    office.is_quiet().await;
}

pub async fn an_envelope_that_cannot_be_read_is_a_marked_delivery(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.put(b"\"hello\"", &[("punctual-id", "not an identity"), ("tenant", "acme")]).await;
    let delivery = office.next().await;
    let poison = delivery.poison.clone().expect("it is marked");
    assert!(poison.contains("punctual-id"), "{poison}");
    assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
    ack(delivery).await;
    office.is_quiet().await;
}

// Finding F1 of the security review: whoever may send to a broker must not run programs of the server.
pub async fn follow_ups_to_topics_of_the_server_are_a_marked_delivery(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let more = r#"{"ties":{"then":[{"on":"success","topic":"punctual.command","queue":"default",
        "priority":5,"body":{"content_type":"application/json","text":"{}"}}]}}"#;
    f.put(b"\"hello\"", &[("punctual-more", &more.replace(['\n', ' '], ""))]).await;
    let delivery = office.next().await;
    let poison = delivery.poison.clone().expect("it is marked");
    assert!(poison.contains("punctual.command"), "{poison}");
    assert_eq!(delivery.message.relations, None);
    ack(delivery).await;
    office.is_quiet().await;
}

pub async fn what_cannot_be_read_does_not_stop_what_can(f: Fixture) {
    passes_by(f, b"{ not json", &[]).await;
}

pub async fn an_envelope_that_cannot_be_read_does_not_stop_what_can(f: Fixture) {
    passes_by(f, b"\"x\"", &[("punctual-created", "yesterday")]).await;
}

/// Handles one message behind ten that cannot be read.
async fn passes_by(f: Fixture, unreadable: &[u8], headers: &[(&str, &str)]) {
    let worker = f.worker("office").concurrency(1).start(|_| Act::Done).await;
    for _ in 0..10 {
        f.put(unreadable, headers).await;
    }
    f.put(b"\"hello\"", &[]).await;
    worker.called("hello", 1).await;
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 1);
    worker.stop().await;
}
