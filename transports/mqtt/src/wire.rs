//! Wire format: a message in an MQTT packet. In version 5 headers are user properties and the content type has its
//! own property. Version 3.1.1 has neither, so the message and both travel in one JSON envelope. So do messages in
//! version 5 whose headers contain characters that MQTT does not allow.
//!
//! An envelope is recognized by its first bytes and by having no content type. A structured CloudEvent in version
//! 3.1.1 is its bare JSON object, recognized by the required attributes. A message of another client is its payload
//! only.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use punctual::backend::wire::{DecodedMessage, RawMessage, Wire, receive};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::codec::{Publish, TEXT_MAX, Version};

/// CloudEvents attributes have no prefix in MQTT.
pub(crate) const ATTRIBUTE_PREFIX: &str = "";
/// Content type of a structured CloudEvent.
const CLOUDEVENT_JSON: &str = "application/cloudevents+json";
/// First bytes of every envelope.
const ENVELOPE_START: &[u8] = b"{\"punctual-envelope\":1,";

/// A message to publish.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    pub(crate) topic: Arc<str>,
    pub(crate) retained: bool,
    /// Whether publishing fails when no subscription matches.
    pub(crate) needs_subscriber: bool,
    pub(crate) content_type: Option<Cow<'static, str>>,
    pub(crate) headers: Vec<(Cow<'static, str>, String)>,
    pub(crate) payload: Bytes,
}

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "punctual-envelope")]
    version: u8,
    #[serde(rename = "content-type")]
    content_type: Cow<'a, str>,
    headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Publication {
    /// Encodes a message for a topic on the broker.
    pub(crate) fn new(topic: Arc<str>, wire: Wire, version: Version) -> Result<Self> {
        let is_plain = || {
            let headers = wire.headers.iter();
            is_plain(&wire.content_type)
                && headers.clone().all(|(name, value)| is_plain(name) && is_plain(value))
        };
        if version == Version::V5 && is_plain() {
            let Wire { headers, body, content_type } = wire;
            let content_type = Some(content_type);
            return Ok(Self {
                topic,
                retained: false,
                needs_subscriber: false,
                content_type,
                headers,
                payload: body,
            });
        }
        let payload = if version == Version::V311 && wire.content_type == CLOUDEVENT_JSON {
            wire.with_headers_inside()?.body
        } else {
            to_envelope(&wire)?
        };
        Ok(Self {
            topic,
            retained: false,
            needs_subscriber: false,
            content_type: None,
            headers: Vec::new(),
            payload,
        })
    }

    /// Returns a received message for another topic, unchanged.
    pub(crate) fn forwarded(topic: Arc<str>, publish: Publish) -> Self {
        let Publish { content_type, properties, payload, .. } = publish;
        let headers = properties.into_iter();
        Self {
            topic,
            retained: false,
            needs_subscriber: true,
            content_type: content_type.map(Cow::Owned),
            headers: headers.map(|(name, value)| (Cow::Owned(name), value)).collect(),
            payload,
        }
    }

    /// Returns a retained message, which stays on the broker until another one replaces it.
    pub(crate) fn retained(topic: &str, payload: &'static [u8]) -> Self {
        Self {
            topic: Arc::from(topic),
            retained: true,
            needs_subscriber: false,
            content_type: None,
            headers: Vec::new(),
            payload: Bytes::from_static(payload),
        }
    }
}

/// Reads a message. It never fails: an unreadable message is poison.
///
/// `position` is unique text: the identity of a message without one is derived from it.
pub(crate) fn read(
    publish: &Publish,
    topic: &Topic,
    position: std::fmt::Arguments<'_>,
    now: Timestamp,
) -> DecodedMessage {
    let arrived = |body, content_type| RawMessage {
        topic,
        body,
        content_type,
        key: None,
        place: position,
        sent_at: now,
    };
    let is_envelope = publish.content_type.is_none() && publish.payload.starts_with(ENVELOPE_START);
    if !is_envelope {
        let headers = publish.properties.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_str()));
        let is_event = publish.content_type.is_none() && is_event(&publish.payload);
        let content_type =
            publish.content_type.clone().or(is_event.then(|| CLOUDEVENT_JSON.to_owned()));
        return receive(arrived(publish.payload.clone(), content_type), headers);
    }
    match open_envelope(&publish.payload) {
        Ok((envelope, body)) => {
            let headers = envelope.headers.iter().map(|(name, value)| (&**name, &**value));
            receive(arrived(body, Some(envelope.content_type.clone().into_owned())), headers)
        }
        Err(why) => {
            let mut received = receive(arrived(publish.payload.clone(), None), []);
            received.poison = Some(format!("the envelope is invalid: {why}"));
            received
        }
    }
}

/// Whether a payload without a content type is a structured CloudEvent: an object with the required attributes.
fn is_event(payload: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        specversion: Cow<'a, str>,
        #[serde(rename = "id")]
        _id: String,
        #[serde(rename = "source")]
        _source: String,
        #[serde(rename = "type")]
        _kind: String,
    }
    let event = payload.first().filter(|first| **first == b'{');
    let event = event.and_then(|_| serde_json::from_slice::<Event<'_>>(payload).ok());
    event.is_some_and(|event| event.specversion.starts_with("1."))
}

fn to_envelope(wire: &Wire) -> Result<Bytes> {
    let text = std::str::from_utf8(&wire.body).ok();
    let headers = wire.headers.iter();
    let envelope = Envelope {
        version: 1,
        content_type: Cow::Borrowed(&wire.content_type),
        headers: headers
            .map(|(name, value)| (Cow::Borrowed(&**name), Cow::Borrowed(value.as_str())))
            .collect(),
        text: text.map(Cow::Borrowed),
        base64: text.is_none().then(|| STANDARD.encode(&wire.body)),
    };
    let written = serde_json::to_vec(&envelope);
    let written = written.map_err(|error| {
        Error::internal(format!("a message cannot be encoded as an envelope: {error}"))
    })?;
    Ok(Bytes::from(written))
}

fn open_envelope(payload: &[u8]) -> std::result::Result<(Envelope<'_>, Bytes), String> {
    let envelope: Envelope<'_> = serde_json::from_slice(payload).map_err(|why| why.to_string())?;
    let body = match (&envelope.text, &envelope.base64) {
        (Some(text), None) => Bytes::from(text.as_bytes().to_vec()),
        (None, Some(base64)) => {
            Bytes::from(STANDARD.decode(base64).map_err(|why| why.to_string())?)
        }
        _ => return Err("it must have either text or base64".to_owned()),
    };
    Ok((envelope, body))
}

/// Whether MQTT allows a text in a packet. Brokers may disconnect a client that sends others.
fn is_plain(text: &str) -> bool {
    let is_forbidden = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{fdd0}'..='\u{fdef}')
            || u32::from(letter) & 0xfffe == 0xfffe
    };
    text.len() <= TEXT_MAX && !text.chars().any(is_forbidden)
}

#[cfg(test)]
mod tests {
    use punctual::backend::wire::CONTENT_TYPE_UNKNOWN;

    use super::*;

    fn wire(body: &'static [u8], header: &str) -> Wire {
        Wire {
            headers: vec![(Cow::Borrowed("tenant"), header.to_owned())],
            body: Bytes::from_static(body),
            content_type: Cow::Borrowed("image/png"),
        }
    }

    /// Returns the packet as another client receives it.
    fn arrived(publication: &Publication) -> Publish {
        let headers = publication.headers.iter();
        Publish {
            topic: publication.topic.to_string(),
            content_type: publication.content_type.as_deref().map(str::to_owned),
            properties: headers.map(|(name, value)| (name.to_string(), value.clone())).collect(),
            payload: publication.payload.clone(),
            ..Publish::default()
        }
    }

    fn received(publish: &Publish) -> DecodedMessage {
        let topic = Topic::new("commands").unwrap();
        read(publish, &topic, format_args!("here/1"), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_message_is_received_as_it_was_sent_in_both_versions() {
        for version in [Version::V5, Version::V311] {
            for body in [&b"{}"[..], b"", b"\0\xff\xfe", b"{\"punctual-envelope\":1,"] {
                for header in ["acme", "za\u{17c}\u{f3}\u{142}\u{107} \"quoted\""] {
                    let publication =
                        Publication::new("t".into(), wire(body, header), version).unwrap();
                    assert_eq!(publication.headers.is_empty(), version == Version::V311);
                    let received = received(&arrived(&publication));
                    assert_eq!(received.poison, None);
                    assert_eq!(received.message.body.bytes, body);
                    assert_eq!(received.message.body.content_type, "image/png");
                    assert_eq!(received.message.headers.get("tenant"), Some(header));
                }
            }
        }
    }

    #[test]
    fn text_that_mqtt_does_not_allow_travels_in_an_envelope() {
        let long = "x".repeat(TEXT_MAX + 1);
        for header in ["two\nlines", "\u{fffe}", "\u{fdd0}", long.as_str()] {
            let publication =
                Publication::new("t".into(), wire(b"{}", header), Version::V5).unwrap();
            assert!(
                publication.headers.is_empty() && publication.payload.starts_with(ENVELOPE_START)
            );
        }
    }

    #[test]
    fn a_message_of_another_client_is_its_payload() {
        let publish = Publish { payload: Bytes::from_static(b"21.5"), ..Publish::default() };
        let received = received(&publish);
        assert_eq!(received.poison, None);
        assert_eq!(received.message.body.bytes, &b"21.5"[..]);
        assert_eq!(received.message.body.content_type, CONTENT_TYPE_UNKNOWN);
    }

    // spec: D-28
    #[test]
    fn an_invalid_envelope_is_poison_with_its_reason() {
        for rest in ["", "}", "\"content-type\":\"a\",\"headers\":[]}"] {
            let payload = [ENVELOPE_START, rest.as_bytes()].concat();
            let publish = Publish { payload: payload.clone().into(), ..Publish::default() };
            let received = received(&publish);
            assert!(received.poison.unwrap().contains("envelope"));
            assert_eq!(received.message.body.bytes, payload);
        }
    }
}
