//! Tests of the wire format: round trips, and records of other producers.

use std::sync::Arc;
use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::model::{
    Body, Correlation, Headers as Own, Key, Message, MessageId, Priority, Queue, Source, Topic,
};
use punctual::uuid::Uuid;

use super::*;

fn topic() -> Topic {
    Topic::new("mail").unwrap()
}

fn envelope<'a>(key: Option<&'static [u8]>, topic: &'a Topic) -> Envelope<'a> {
    let body = Bytes::from_static(b"\"hello\"");
    Envelope { topic, key, body, partition: 3, offset: 41, sent_at: Timestamp::UNIX_EPOCH }
}

fn message() -> Message {
    let now: Timestamp = "2026-03-04T05:06:07.890123Z".parse().unwrap();
    let mut headers = Own::new();
    headers.insert("tenant", "zażółć").unwrap();
    headers.insert("content-type", "the application's own").unwrap();
    Message {
        id: MessageId::from_uuid(Uuid::from_u64_pair(7, 9)),
        topic: topic(),
        queue: Queue::default(),
        priority: Priority::NORMAL,
        due_at: now,
        created_at: now,
        source: Source::Published,
        key: Some(Key::new("customer/9").unwrap()),
        dedupe: None,
        exclusive: false,
        body: Body::json("hello").unwrap(),
        headers,
        correlation: Correlation { id: Some(Arc::from("order-7")), causation: None, sequence: 3 },
        occurrence: None,
        handler_options: None,
        relations: None,
        route: None,
    }
}

// spec: D-18
#[test]
fn a_message_is_received_as_it_was_sent() {
    let message = Arc::new(message());
    let group = Some("office".to_owned());
    let outgoing =
        OutgoingMessage { message: message.clone(), delay: Duration::ZERO, attempt: 2, group };
    let headers = headers(&Wire::of(&outgoing).unwrap());
    let pairs: Vec<_> = headers.iter().map(|header| (header.key, header.value)).collect();
    let received = read_pairs(envelope(Some(b"customer/9"), &topic()), &pairs);
    assert_eq!(received.poison, None);
    assert_eq!(received.message, *message);
    assert_eq!((received.attempt, received.is_for("office")), (2, true));
    assert!(!received.is_for("archive"));
}

#[test]
fn a_foreign_record_is_identified_by_its_position() {
    let topic = topic();
    let first = read_pairs(envelope(Some(b"k"), &topic), &[("tenant", Some(b"acme"))]);
    assert_eq!((first.poison, first.attempt), (None, 0));
    assert_eq!(first.message.key, Some(Key::new("k").unwrap()));
    assert_eq!(first.message.headers.get("tenant"), Some("acme"));
    let again = read_pairs(envelope(None, &topic), &[]);
    assert_eq!(first.message.id, again.message.id);
    let other = read_pairs(Envelope { offset: 42, ..envelope(None, &topic) }, &[]);
    assert_ne!(first.message.id, other.message.id);
}

#[test]
fn header_bytes_that_are_not_utf8_are_dropped_or_poison() {
    let topic = topic();
    let headers = [("odd", Some(&[0xff_u8][..])), ("none", None), ("tenant", Some(&b"acme"[..]))];
    let received = read_pairs(envelope(Some(&[0xff]), &topic), &headers);
    assert_eq!((received.poison, received.message.headers.len()), (None, 1));
    assert_eq!(received.message.key, None);
    let received = read_pairs(envelope(None, &topic), &[("punctual-id", Some(&[0xff]))]);
    assert!(received.poison.unwrap().contains("punctual-id"));
}
