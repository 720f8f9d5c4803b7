//! Tests of the wire format: round trips, and messages of other clients.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use punctual::backend::transport::OutgoingMessage;
use punctual::backend::wire::{DecodedMessage, Wire};
use punctual::bytes::Bytes;
use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Correlation, Headers, IdSource as _, Ids, Message, MessageId, Priority, Queue, Source,
    Topic,
};

use super::{headers, receive, size};
use crate::origin::Origin;

fn message(own: &[(&str, &str)]) -> Message {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let mut headers = Headers::new();
    for (name, value) in own {
        headers.insert(*name, *value).unwrap();
    }
    Message {
        id: MessageId::from_uuid(Ids::seeded(7).next(now)),
        topic: Topic::new("orders").unwrap(),
        queue: Queue::default(),
        priority: Priority::default(),
        due_at: now,
        created_at: now,
        source: Source::Published,
        key: None,
        dedupe: None,
        exclusive: false,
        body: Body::raw(Bytes::from_static(b"\x00\xffbody"), "application/x-thing; v=1"),
        headers,
        correlation: Correlation::default(),
        occurrence: None,
        handler_options: None,
        relations: None,
        route: None,
    }
}

fn wire(message: &Message, attempt: u32) -> Wire {
    let message = Arc::new(message.clone());
    Wire::of(&OutgoingMessage { message, delay: Duration::ZERO, attempt, group: None }).unwrap()
}

fn decode(headers: Option<HeaderMap>, body: &'static [u8]) -> DecodedMessage {
    let message = async_nats::Message {
        subject: "punctual.orders".into(),
        reply: None,
        payload: Bytes::from_static(body),
        headers,
        status: None,
        description: None,
        length: 0,
    };
    let stored_at: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
    let origin = Origin { delivered: 1, sequence: 41, stored_at };
    receive(&Topic::new("orders").unwrap(), "punctual_orders", &message, origin)
}

// spec: D-25
#[test]
fn every_header_is_received_under_its_own_name() {
    let sent = message(&[
        ("tenant", "acme"),
        ("content-type", "not the body's"),
        ("Nats-Msg-Id", "not the broker's"),
        ("nats-ttl", "1s"),
        ("a name: with everything", "value"),
        ("żółw", "ślimak"),
        ("padded", "  two  "),
        ("empty", ""),
        ("percent", "100%25"),
    ]);
    let headers = headers(&wire(&sent, 3)).unwrap();
    assert!(headers.get("Nats-Msg-Id").is_none() && headers.get("nats-ttl").is_none());
    assert!(size(&headers) > 100);
    let received = decode(Some(headers), b"\x00\xffbody");
    assert_eq!(received.message, sent);
    assert_eq!((received.attempt, received.poison), (3, None));
}

#[test]
fn a_foreign_message_is_identified_by_its_position() {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", "punctual_orders");
    headers.insert("content-type", "text/plain");
    headers.insert("punctual-encoded-%zz", "%");
    let (one, other) = (decode(Some(headers), b"hi"), decode(None, b"hi"));
    assert_eq!(one.message.id, other.message.id);
    assert_eq!(&*one.message.body.content_type, "text/plain");
    assert_eq!(one.message.headers.iter().collect::<Vec<_>>(), [("%zz", "")]);
    assert_eq!(one.message.created_at.to_string(), "2026-02-03T04:05:06Z");
    assert_eq!(one.poison, None);
}

#[test]
fn a_damaged_punctual_header_makes_it_poison() {
    let mut headers = HeaderMap::new();
    headers.insert("punctual-id", "nonsense");
    let poison = decode(Some(headers), b"hi").poison.unwrap();
    assert!(poison.contains("punctual-id") && poison.contains("nonsense"), "{poison}");
}
