//! Tests of encoding and decoding: every message is decoded as it was sent, and any other input is decoded or
//! refused with the header's name.

use std::time::Duration;

use super::own_envelope::{
    ATTEMPT, CORRELATION, CREATED, DEAD_AT, DEAD_ATTEMPTS, DEAD_ERROR, DEAD_REASON, DEAD_TOPIC,
    DUE, ID, MORE,
};
use super::*;
use crate::model::reserved_headers::SNOOZES;
use crate::model::{DeadReason, ExecutionId, HandlerOptions, Relations};

pub(crate) const ENVELOPES: [Envelope; 3] =
    [Envelope::Own, Envelope::CloudEventsBinary, Envelope::CloudEventsStructured];

pub(crate) fn topic() -> Topic {
    Topic::new("mail").unwrap()
}

pub(crate) fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn message() -> Message {
    let mut headers = Headers::new();
    headers.insert("tenant", "acme").unwrap();
    Message {
        id: MessageId::from_uuid(Uuid::from_u128(7)),
        topic: topic(),
        queue: Queue::default(),
        priority: Priority::default(),
        due_at: instant(90),
        created_at: instant(60),
        source: Source::Published,
        key: Some(Key::new("order-7").unwrap()),
        dedupe: None,
        exclusive: false,
        body: Body::json("hello").unwrap(),
        headers,
        correlation: Correlation {
            id: Some(Arc::from("story")),
            causation: Some(ExecutionId::from_uuid(Uuid::from_u128(8))),
            sequence: 3,
        },
        occurrence: None,
        handler_options: None,
        relations: None,
        route: None,
    }
}

pub(crate) fn outgoing(message: Message) -> OutgoingMessage {
    OutgoingMessage { message: Arc::new(message), delay: Duration::ZERO, attempt: 0, group: None }
}

pub(crate) fn arrive(wire: &Wire) -> DecodedMessage {
    let raw = RawMessage {
        topic: &topic(),
        body: wire.body.clone(),
        content_type: Some(wire.content_type.to_string()),
        key: None,
        place: format_args!("mail/0/1"),
        sent_at: instant(1),
    };
    receive(raw, wire.headers.iter().map(|(name, value)| (&**name, value.as_str())))
}

fn foreign(place: &str, headers: &[(&str, &str)]) -> DecodedMessage {
    let raw = RawMessage {
        topic: &topic(),
        body: Bytes::from_static(b"{}"),
        content_type: None,
        key: Some("customer 9"),
        place: format_args!("{place}"),
        sent_at: instant(5),
    };
    receive(raw, headers.iter().copied())
}

#[test]
fn a_message_is_decoded_as_it_was_sent() {
    let plain = message();
    let bare = Message {
        key: None,
        due_at: plain.created_at,
        headers: Headers::new(),
        correlation: Correlation::default(),
        ..plain.clone()
    };
    let rich = Message {
        priority: Priority::HIGHEST,
        source: Source::Deferred,
        dedupe: Some(Key::composed("a@b".to_owned())),
        exclusive: true,
        handler_options: Some(Arc::new(HandlerOptions::new().crashes_max(2))),
        relations: Some(Arc::new(Relations::default())),
        body: Body::raw(vec![0xff, 0], "image/png"),
        ..plain.clone()
    };
    for sent in [plain, bare, rich] {
        for envelope in ENVELOPES {
            let wire = Wire::in_envelope(&outgoing(sent.clone()), envelope).unwrap();
            let received = arrive(&wire);
            assert_eq!(received.poison, None, "{envelope:?}");
            assert_eq!((received.attempt, received.group), (0, None));
            assert_eq!(received.message, sent, "{envelope:?}");
        }
    }
}

#[test]
fn the_attempt_count_and_the_group_are_sent() {
    let sent =
        OutgoingMessage { attempt: 4, group: Some("office".to_owned()), ..outgoing(message()) };
    for envelope in ENVELOPES {
        let received = arrive(&Wire::in_envelope(&sent, envelope).unwrap());
        assert_eq!(received.attempt, 4);
        assert!(received.is_for("office") && !received.is_for("archive"));
    }
    assert!(arrive(&Wire::of(&outgoing(message())).unwrap()).is_for("archive"));
}

#[test]
fn the_number_of_snoozes_is_sent() {
    let mut sent = message();
    sent.headers.set_reserved(SNOOZES, "3".to_owned());
    let wire = Wire::of(&outgoing(sent.clone())).unwrap();
    assert_eq!(arrive(&wire).message.headers, sent.headers);
    assert!(foreign("x", &[(SNOOZES, "many")]).poison.is_some());
}

/// Returns a link as JSON, as a sender writes it into the header.
fn following(topic: &str, queue: &str, then: &str) -> String {
    let body = r#"{"content_type":"application/json","text":"{}"}"#;
    format!(
        r#"{{"on":"success","topic":"{topic}","queue":"{queue}","priority":5,"body":{body},"then":[{then}]}}"#
    )
}

// Finding F1 of the security review: the handlers of these topics run programs and use secrets.
#[test]
fn a_sender_cannot_let_messages_of_the_server_follow() {
    let allowed = following("mail", "default", "");
    let outer = |inner: &str| format!(r#"{{"relations":{{"then":[{inner}]}}}}"#);
    let earlier = |inner: &str| format!(r#"{{"ties":{{"then":[{inner}]}}}}"#);
    for more in [outer(&allowed), earlier(&allowed)] {
        let received = foreign("x", &[(MORE, &more)]);
        assert_eq!(received.poison, None);
        let links = received.message.relations.unwrap().then.len();
        assert_eq!(links, 1, "links to other topics are decoded: {more}");
    }
    for refused in [
        following("punctual.command", "default", ""),
        following("mail", "default", &following("punctual.http", "default", "")),
        following("mail", "~relay/broker", ""),
    ] {
        let received = foreign("x", &[(MORE, &outer(&refused))]);
        let poison = received.poison.expect("it is refused");
        assert!(poison.contains("would follow"), "{poison}");
        assert_eq!(received.message.relations, None, "nothing follows the dead letter either");
        assert!(
            foreign("x", &[(MORE, &earlier(&refused))]).poison.is_some(),
            "by its old name too"
        );
        let binary =
            [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-punctualmore", &outer(&refused))];
        assert!(foreign("x", &binary).poison.is_some(), "in an envelope of CloudEvents too");
    }
}

#[test]
fn a_dead_letter_has_reason_topic_attempts_and_time_and_can_be_sent_again() {
    let rejection = Rejection {
        reason: DeadReason::AttemptsSpent,
        error: Some(Arc::from("no\nanswer")),
        attempt: 5,
        at: instant(100),
    };
    let wire = Wire::dead(&Arc::new(message()), &rejection).unwrap();
    assert_eq!(wire.header(DEAD_REASON), Some("attempts spent"));
    assert_eq!(wire.header(DEAD_ERROR), Some("no answer"));
    assert_eq!(wire.header(DEAD_TOPIC), Some("mail"));
    assert_eq!(wire.header(DEAD_ATTEMPTS), Some("5"));
    assert_eq!(wire.header(DEAD_AT), Some("1970-01-01T00:01:40Z"));
    assert_eq!(arrive(&wire).message, message());
    for envelope in ENVELOPES {
        let wire = Wire::dead_in_envelope(&Arc::new(message()), &rejection, envelope).unwrap();
        assert_eq!(arrive(&wire).message, message(), "{envelope:?}");
    }
}

#[test]
fn a_foreign_message_is_read_and_recognized_again() {
    let received = foreign("mail/0/1", &[("tenant", "acme"), ("note", "two\nlines")]);
    assert_eq!(received.poison, None);
    assert_eq!(received.message.key, Some(Key::new("customer 9").unwrap()));
    assert_eq!(received.message.headers.iter().collect::<Vec<_>>(), [("tenant", "acme")]);
    assert_eq!(received.message.due_at, instant(5));
    assert_eq!(received.message.body.content_type, CONTENT_TYPE_UNKNOWN);
    assert_eq!(received.message.id, foreign("mail/0/1", &[]).message.id);
    assert_ne!(received.message.id, foreign("mail/0/2", &[]).message.id);
}

#[test]
fn a_header_that_cannot_be_read_is_poison_with_its_name() {
    for (name, value) in
        [(ID, "seven"), (CREATED, "yesterday"), (DUE, "soon"), (ATTEMPT, "-1"), (MORE, "{")]
    {
        let received = foreign("mail/0/1", &[(name, value), (CORRELATION, "story")]);
        let poison = received.poison.unwrap();
        assert!(poison.contains(name) && poison.contains(value), "{poison}");
        assert_eq!(received.message.correlation.id.as_deref(), Some("story"));
    }
}
