//! Decoding of deliveries. A foreign message needs nothing but a body; its text attributes are headers.

use aws_sdk_sqs::types::{Message as Raw, MessageSystemAttributeName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use punctual::backend::wire::{DecodedMessage, RawMessage, receive};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use serde_json::Value;

use super::{BASE64, CONTENT_TYPE, EMPTY, ENCODING, HEADERS};

/// Decoded delivery.
pub(crate) struct DecodedDelivery {
    pub(crate) received: DecodedMessage,
    /// How often the message was received, this time included.
    pub(crate) count: u32,
    /// Time of the first delivery.
    pub(crate) first_at: Option<Timestamp>,
    /// Id of SQS.
    pub(crate) id: String,
}

/// Decodes a message. An unreadable message is poison and never an error.
pub(crate) fn decode(raw: Raw, topic: &Topic, queue: &str, now: Timestamp) -> DecodedDelivery {
    let number = |name: MessageSystemAttributeName| {
        raw.attributes().and_then(|known| known.get(&name)).and_then(|text| text.parse().ok())
    };
    let count: Option<u32> = number(MessageSystemAttributeName::ApproximateReceiveCount)
        .and_then(|count: i64| u32::try_from(count).ok());
    let instant = |name| number(name).and_then(|at| Timestamp::from_millisecond(at).ok());
    let sent_at = instant(MessageSystemAttributeName::SentTimestamp).unwrap_or(now);
    let first_at = instant(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp);
    let id = raw.message_id.unwrap_or_default();
    let mut poison = None;
    let (mut content_type, mut encoding) = (None, None);
    let mut headers = Vec::new();
    for (name, value) in raw.message_attributes.unwrap_or_default() {
        // An attribute that is not text is not a header either.
        let Some(value) = value.string_value else { continue };
        match name.as_str() {
            CONTENT_TYPE => content_type = Some(value),
            ENCODING => encoding = Some(value),
            HEADERS => match pairs(&value) {
                Some(pairs) => headers.extend(pairs),
                None => poison = Some(format!("{HEADERS} is not a JSON object of strings")),
            },
            _ => headers.push((name, value)),
        }
    }
    let text = raw.body.unwrap_or_default();
    let body = decode_body(text, encoding.as_deref()).unwrap_or_else(|(text, why)| {
        poison = Some(why);
        Bytes::from(text)
    });
    let place = format_args!("{queue}/{id}");
    let arrived = RawMessage { topic, body, content_type, key: None, place, sent_at };
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut received = receive(arrived, headers);
    received.poison = poison.or(received.poison);
    DecodedDelivery { received, count: count.unwrap_or(1).max(1), first_at, id }
}

/// Returns the bytes of a body, or the text and why it cannot be decoded.
fn decode_body(
    text: String,
    encoding: Option<&str>,
) -> std::result::Result<Bytes, (String, String)> {
    match encoding {
        None => Ok(Bytes::from(text)),
        Some(EMPTY) => Ok(Bytes::new()),
        Some(BASE64) => match STANDARD.decode(&text) {
            Ok(bytes) => Ok(Bytes::from(bytes)),
            Err(error) => Err((text, format!("the body is not valid base64: {error}"))),
        },
        Some(other) => {
            Err((text, format!("{ENCODING} {other:?} is unknown; expected {EMPTY} or {BASE64}")))
        }
    }
}

fn pairs(headers: &str) -> Option<Vec<(String, String)>> {
    let Ok(Value::Object(headers)) = serde_json::from_str(headers) else { return None };
    let pair = |(name, value)| match value {
        Value::String(value) => Some((name, value)),
        _ => None,
    };
    headers.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use punctual::backend::wire::CONTENT_TYPE_UNKNOWN;

    use super::super::text;
    use super::*;

    fn read_raw(raw: Raw) -> DecodedDelivery {
        decode(raw, &Topic::new("orders").unwrap(), "p-orders-office", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_foreign_message_is_read() {
        let tenant = text("acme".to_owned()).unwrap();
        let foreign = || {
            Raw::builder().message_id("8").body("{}").message_attributes("tenant", tenant.clone())
        };
        let DecodedDelivery { received, count, .. } = read_raw(foreign().build());
        assert_eq!((received.poison, count), (None, 1));
        assert_eq!(received.message.headers.get("tenant"), Some("acme"));
        assert_eq!(received.message.body.content_type, CONTENT_TYPE_UNKNOWN);
        let again = read_raw(foreign().build()).received;
        assert_eq!(again.message.id, received.message.id);
        let other = read_raw(foreign().message_id("9").build()).received;
        assert_ne!(other.message.id, received.message.id);
    }

    // spec: D-28
    #[test]
    fn a_message_that_cannot_be_read_is_poison_with_its_reason() {
        for (name, value, reason) in [
            (ENCODING, "base64", "base64"),
            (ENCODING, "rot13", "rot13"),
            (HEADERS, "[1]", HEADERS),
            (HEADERS, "{\"a\":1}", HEADERS),
            ("punctual-id", "seven", "punctual-id"),
        ] {
            let attribute = text(value.to_owned()).unwrap();
            let raw = Raw::builder().body("not base64!").message_attributes(name, attribute);
            let received = read_raw(raw.build()).received;
            let poison = received.poison.unwrap();
            assert!(poison.contains(reason), "{poison}");
            assert_eq!(&received.message.body.bytes[..], b"not base64!");
        }
    }
}
