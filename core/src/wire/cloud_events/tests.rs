//! Tests of CloudEvents: our messages are decoded as they were sent, and foreign events are decoded and
//! forwarded unchanged.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::tests::{ENVELOPES, arrive, instant, message, outgoing, topic};
use super::super::{DecodedMessage, Envelope, RawMessage, Wire, receive};
use crate::model::{Body, Correlation, Headers, Key, Message, MessageId};

fn event(content_type: &str, headers: &[(&str, &str)], body: &str) -> DecodedMessage {
    let raw = RawMessage {
        topic: &topic(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        content_type: Some(content_type.to_owned()),
        key: None,
        place: format_args!("mail/0/1"),
        sent_at: instant(5),
    };
    receive(raw, headers.iter().copied())
}

fn sent(envelope: Envelope, message: Message) -> Wire {
    Wire::in_envelope(&outgoing(message), envelope).unwrap()
}

#[test]
fn a_binary_event_has_the_attributes_of_the_standard_and_the_body_as_it_is() {
    let wire = sent(Envelope::CloudEventsBinary, message());
    let id = message().id.to_string();
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", id.as_str()),
        ("ce-source", "urn:punctual"),
        ("ce-type", "mail"),
        ("ce-subject", "order-7"),
        ("ce-time", "1970-01-01T00:01:00Z"),
        ("ce-punctualcorrelation", "story"),
        ("tenant", "acme"),
    ] {
        assert_eq!(wire.header(name), Some(value), "{name}");
    }
    assert!(wire.headers.iter().all(|(name, _)| !name.starts_with("punctual-")));
    assert_eq!((&*wire.body, &*wire.content_type), (&b"\"hello\""[..], "application/json"));
}

#[test]
fn a_structured_event_is_one_object_with_the_data_as_it_was() {
    let body = Body::raw(r#"{"z":1.0,"a":[ 1,2 ],"z":2}"#, "application/json");
    let wire = sent(Envelope::CloudEventsStructured, Message { body: body.clone(), ..message() });
    assert_eq!(wire.content_type, "application/cloudevents+json");
    let object: serde_json::Value = serde_json::from_slice(&wire.body).unwrap();
    assert_eq!(object["type"], "mail");
    assert_eq!(object["subject"], "order-7");
    assert_eq!(object["datacontenttype"], "application/json");
    assert_eq!(object["data"]["a"][1], 2);
    let names = object.as_object().unwrap().keys();
    for name in names.filter(|name| *name != "data_base64") {
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
            "{name}"
        );
    }
    assert_eq!(arrive(&wire).message.body, body, "not even its spaces change");
}

#[test]
fn the_trace_context_is_sent_as_an_extension_and_decoded_as_a_header() {
    let mut headers = Headers::new();
    headers
        .insert("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .unwrap();
    headers.insert("tracestate", "a=1").unwrap();
    let traced = Message { headers, ..message() };
    for envelope in ENVELOPES {
        let wire = sent(envelope, traced.clone());
        assert_eq!(wire.header("traceparent").is_some(), envelope == Envelope::Own);
        assert_eq!(arrive(&wire).message.headers, traced.headers, "{envelope:?}");
    }
}

// As the specification's own example writes it.
#[test]
fn a_foreign_structured_event_is_read() {
    let text = r#"{
        "specversion" : "1.0",
        "type" : "com.example.someevent",
        "source" : "/mycontext",
        "subject": null,
        "id" : "C234-1234-1234",
        "time" : "2018-04-05T17:31:00+02:00",
        "comexampleextension1" : "value",
        "comexampleothervalue" : 5,
        "datacontenttype" : "text/xml",
        "data" : "<much wow=\"xml\"/>"
    }"#;
    let received = event("application/cloudevents+json; charset=UTF-8", &[("shard", "3")], text);
    assert_eq!(received.poison, None);
    let message = received.message;
    assert_eq!(message.body, Body::raw("<much wow=\"xml\"/>", "text/xml"));
    assert_eq!(message.created_at.to_string(), "2018-04-05T15:31:00Z");
    assert_eq!(message.due_at, message.created_at);
    let headers: Vec<_> = message.headers.iter().collect();
    assert_eq!(
        headers,
        [
            ("ce-id", "C234-1234-1234"),
            ("ce-source", "/mycontext"),
            ("ce-type", "com.example.someevent"),
            ("comexampleextension1", "value"),
            ("comexampleothervalue", "5"),
            ("shard", "3"),
        ]
    );
    let again = event("application/cloudevents+json", &[], text).message;
    assert_eq!(again.id, message.id, "the same event is the same message");
    let other = text.replace("C234", "C235");
    assert_ne!(event("application/cloudevents+json", &[], &other).message.id, message.id);
}

#[test]
fn a_foreign_binary_event_is_read_under_the_names_of_every_broker() {
    for prefix in super::decode::PREFIXES {
        let named: Vec<(String, &str)> = [
            ("specversion", "1.0"),
            ("type", "mail"),
            ("source", "/shop"),
            ("id", "7"),
            ("subject", "order-7"),
            ("time", "2018-04-05T17:31:00Z"),
        ]
        .map(|(name, value)| (format!("{prefix}{name}"), value))
        .into();
        let mut headers: Vec<(&str, &str)> =
            named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        headers.push(("tenant", "acme"));
        let received = event("application/json", &headers, "{}");
        assert_eq!(received.poison, None, "{prefix:?}");
        assert_eq!(received.message.key, Some(Key::new("order-7").unwrap()), "{prefix:?}");
        let kept: Vec<_> = received.message.headers.iter().collect();
        assert_eq!(
            kept,
            [("ce-id", "7"), ("ce-source", "/shop"), ("tenant", "acme")],
            "{prefix:?}"
        );
    }
}

#[test]
fn a_foreign_event_that_is_forwarded_is_the_same_event() {
    let text = r#"{"specversion":"1.0","type":"sold","source":"/shop","id":"7","dataschema":"/s/1","data":1}"#;
    let first = event("application/cloudevents+json", &[], text).message;
    for envelope in [Envelope::CloudEventsBinary, Envelope::CloudEventsStructured] {
        let wire = sent(envelope, first.clone());
        let again = arrive(&wire).message;
        assert_eq!(again, first, "{envelope:?}");
    }
    let wire = sent(Envelope::CloudEventsBinary, first);
    assert_eq!((wire.header("ce-id"), wire.header("ce-source")), (Some("7"), Some("/shop")));
    assert_eq!(
        (wire.header("ce-type"), wire.header("ce-dataschema")),
        (Some("sold"), Some("/s/1"))
    );
}

#[test]
fn attributes_can_have_the_prefix_of_their_broker() {
    for prefix in super::decode::PREFIXES {
        let wire = sent(Envelope::CloudEventsBinary, message()).with_attribute_prefix(prefix);
        assert_eq!(wire.header(&format!("{prefix}specversion")), Some("1.0"));
        assert_eq!(arrive(&wire).message, message(), "{prefix:?}");
    }
}

#[test]
fn an_own_event_with_another_source_is_decoded_as_it_was_sent() {
    for envelope in [Envelope::CloudEventsBinary, Envelope::CloudEventsStructured] {
        let wire = envelope.sent_by("/orders").wire(&outgoing(message()), "ce_").unwrap();
        if envelope == Envelope::CloudEventsBinary {
            assert_eq!(wire.header("ce_source"), Some("/orders"));
        }
        assert_eq!(arrive(&wire).message, message(), "{envelope:?}");
    }
}

// spec: D-26
#[test]
fn a_count_beside_an_event_is_newer_than_the_one_in_it() {
    for envelope in ENVELOPES {
        let mut sent = outgoing(message());
        sent.attempt = 2;
        let mut wire = Wire::in_envelope(&sent, envelope).unwrap();
        wire.headers.retain(|(name, _)| name != "punctual-attempt");
        wire.headers.push(("punctual-attempt".into(), "5".to_owned()));
        assert_eq!(arrive(&wire).attempt, 5, "{envelope:?}");
    }
}

#[test]
fn a_header_that_would_be_read_as_an_attribute_is_refused() {
    for (prefix, name) in
        [("ce-", "ce-own"), ("ce_", "ce_own"), ("", "type"), ("ce-", "specversion")]
    {
        let mut taken = message();
        taken.headers.insert(name, "mine").unwrap();
        let sent = outgoing(taken.clone());
        let error = Envelope::CloudEventsBinary.sent_by("/a").wire(&sent, prefix).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        let wire = Envelope::CloudEventsStructured.sent_by("/a").wire(&sent, prefix).unwrap();
        assert_eq!(arrive(&wire).message, taken, "{name}");
    }
}

#[test]
fn headers_are_moved_into_the_object_for_brokers_without_headers() {
    let wire = sent(Envelope::CloudEventsStructured, message()).with_headers_inside().unwrap();
    assert!(wire.headers.is_empty());
    assert_eq!(arrive(&wire).message, message());
    let mut long = message();
    long.headers.insert("X-Tenant", "a").unwrap();
    let error = sent(Envelope::CloudEventsStructured, long).with_headers_inside().unwrap_err();
    assert!(error.to_string().contains("X-Tenant"), "{error}");
}

#[test]
fn an_invalid_event_is_poison_with_the_reason() {
    for (content_type, text, words) in [
        ("application/cloudevents+json", "{", "the CloudEvent cannot be read"),
        (
            "application/cloudevents+json",
            r#"{"specversion":"1.0","id":"1","type":"a"}"#,
            "\"source\"",
        ),
        (
            "application/cloudevents+json",
            r#"{"specversion":"0.3","id":"1","type":"a","source":"b"}"#,
            "\"0.3\"",
        ),
        (
            "application/cloudevents+json",
            r#"{"specversion":"1.0","id":"1","type":"a","source":"b","data_base64":"%"}"#,
            "cannot be read",
        ),
        ("application/cloudevents-batch+json", "[]", "application/cloudevents-batch+json"),
    ] {
        let received = event(content_type, &[], text);
        let poison = received.poison.unwrap();
        assert!(poison.contains(words), "{poison}");
        assert_eq!(received.message.body.bytes, text.as_bytes(), "the body is unchanged");
    }
    let late = event("application/json", &[("ce-specversion", "1.0"), ("ce-time", "soon")], "{}");
    assert!(late.poison.unwrap().contains("\"soon\""));
}

fn bodies() -> impl Strategy<Value = Body> {
    let types = prop::sample::select(vec![
        "application/json",
        "application/vnd.shop+json",
        "text/plain",
        "text/plain; charset=utf-8",
        "application/octet-stream",
    ]);
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        "\\PC{0,20}".prop_map(String::into_bytes),
        any::<(i64, f64, String)>()
            .prop_map(|(number, float, text)| serde_json::json!([number, float, text, null]))
            .prop_map(|value| value.to_string().into_bytes()),
    ];
    (bytes, types).prop_map(|(bytes, content_type)| Body::raw(bytes, content_type))
}

fn messages() -> impl Strategy<Value = Message> {
    let headers = prop::collection::btree_map("[a-z][a-z0-9-]{0,12}", "\\PC{0,20}", 0..5);
    let times = (0..4_000_000_000_i64, 0..1_000_i64);
    (any::<u128>(), bodies(), headers, times, prop::option::of("\\PC{1,20}"), any::<u32>())
        .prop_map(|(id, body, pairs, (created, later), key, sequence)| {
            let mut headers = Headers::new();
            // A message of ours does not have the headers of a foreign event.
            for (name, value) in pairs.into_iter().filter(|(name, _)| !name.starts_with("ce-")) {
                let _ = headers.insert(name, value);
            }
            Message {
                id: MessageId::from_uuid(uuid::Uuid::from_u128(id)),
                body,
                headers,
                created_at: instant(created),
                due_at: instant(created + later),
                key: key.and_then(|key| Key::new(key).ok()),
                correlation: Correlation {
                    id: Some(Arc::from("story")),
                    causation: None,
                    sequence,
                },
                ..message()
            }
        })
}

proptest! {
    #[test]
    fn every_message_survives_every_envelope(sent_message in messages()) {
        for envelope in ENVELOPES {
            let received = arrive(&sent(envelope, sent_message.clone()));
            prop_assert_eq!(&received.poison, &None);
            prop_assert_eq!(&received.message, &sent_message);
        }
    }

    #[test]
    fn no_input_breaks_the_decoder(
        content_type in prop::sample::select(vec![
            "application/cloudevents+json", "application/cloudevents", "application/json", "",
        ]),
        headers in prop::collection::vec(
            ("(ce[-_]|cloudEvents:)?(specversion|id|type|time|subject|punctualmore|x)", "\\PC{0,9}"), 0..8),
        text in "\\{?(\"(data|id|specversion|data_base64)\":(\"[a-z0-9=]{0,5}\"|[0-9]{1,3}),?){0,4}\\}?",
    ) {
        let pairs: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let received = event(content_type, &pairs, &text);
        prop_assert_eq!(&received.message.topic, &topic());
    }
}
