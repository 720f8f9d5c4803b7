//! Wire format: the body, as text where SQS allows its characters and as base64 otherwise, and three attributes:
//! `content-type`, `punctual-encoding` when the body is encoded, and `punctual-headers`, one JSON object,
//! because SQS allows no more than ten attributes and few characters in their names. The attributes of a
//! CloudEvent, at most seven, are SQS attributes of their own, so that other clients find them.
//!
//! This file encodes, `decode` decodes.

mod decode;

use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use punctual::backend::wire::Wire;
use punctual::{Error, Result};
use serde_json::Value;

pub(crate) use self::decode::{DecodedDelivery, decode};

const CONTENT_TYPE: &str = "content-type";
const ENCODING: &str = "punctual-encoding";
const HEADERS: &str = "punctual-headers";
const BASE64: &str = "base64";
const EMPTY: &str = "empty";
/// Headers that are SQS attributes of their own.
const ATTRIBUTE_HEADERS: [&str; 7] =
    ["ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time", "ce-subject", "ce-dataschema"];
/// Placeholder of an empty body, which SQS does not accept.
const EMPTY_BODY: &str = "-";
const TEXT: &str = "String";

/// Message in the encoding of SQS.
#[derive(Clone, Debug)]
pub(crate) struct EncodedMessage {
    body: String,
    encoding: Option<&'static str>,
    content_type: String,
    headers: String,
    /// Headers that are SQS attributes of their own.
    attributes: Vec<(String, String)>,
}

impl EncodedMessage {
    pub(crate) fn encode(wire: &Wire) -> Result<Self> {
        let (body, encoding) = match std::str::from_utf8(&wire.body) {
            Ok("") => (EMPTY_BODY.to_owned(), Some(EMPTY)),
            Ok(text) if text.chars().all(is_allowed) => (text.to_owned(), None),
            _ => (STANDARD.encode(&wire.body), Some(BASE64)),
        };
        let pairs = wire.headers.iter().map(|(name, value)| (name.to_string(), value.clone()));
        let (attributes, json_headers): (Vec<_>, Vec<_>) = pairs.partition(|(name, value)| {
            ATTRIBUTE_HEADERS.contains(&name.as_str())
                && !value.is_empty()
                && value.chars().all(is_allowed)
        });
        let headers: serde_json::Map<String, Value> =
            json_headers.into_iter().map(|(name, value)| (name, value.into())).collect();
        let headers = serde_json::to_string(&headers)
            .map_err(|error| Error::internal(format!("headers cannot be written: {error}")))?;
        let content_type = escaped(&wire.content_type);
        Ok(Self { body, encoding, content_type, headers: escaped(&headers), attributes })
    }

    /// Returns the size that SQS counts: the body, and name, type and value of each attribute.
    pub(crate) fn size(&self) -> usize {
        let attribute = |name: &str, value: &str| name.len() + TEXT.len() + value.len();
        self.body.len()
            + attribute(CONTENT_TYPE, &self.content_type)
            + attribute(HEADERS, &self.headers)
            + self.encoding.map_or(0, |encoding| attribute(ENCODING, encoding))
            + self.attributes.iter().map(|(name, value)| attribute(name, value)).sum::<usize>()
    }

    /// Returns the entry of a batch, with a number as its id.
    pub(crate) fn entry(self, number: usize, delay: i32) -> Result<SendMessageBatchRequestEntry> {
        let mut entry = SendMessageBatchRequestEntry::builder()
            .id(number.to_string())
            .message_body(self.body)
            .delay_seconds(delay)
            .message_attributes(CONTENT_TYPE, text(self.content_type)?)
            .message_attributes(HEADERS, text(self.headers)?);
        if let Some(encoding) = self.encoding {
            entry = entry.message_attributes(ENCODING, text(encoding.to_owned())?);
        }
        for (name, value) in self.attributes {
            entry = entry.message_attributes(name, text(value)?);
        }
        entry.build().map_err(|error| Error::internal(error.to_string()))
    }
}

fn text(value: String) -> Result<MessageAttributeValue> {
    let value = MessageAttributeValue::builder().data_type(TEXT).string_value(value);
    value.build().map_err(|error| Error::internal(error.to_string()))
}

/// Returns whether SQS allows a character: those of XML 1.0.
fn is_allowed(letter: char) -> bool {
    match letter {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        letter => letter >= ' ',
    }
}

/// Escapes the characters of JSON that SQS does not allow.
fn escaped(json: &str) -> String {
    if json.chars().all(is_allowed) {
        return json.to_owned();
    }
    json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use aws_sdk_sqs::types::{Message as Raw, MessageSystemAttributeName};
    use bytes::Bytes;
    use punctual::jiff::Timestamp;
    use punctual::model::Topic;

    use super::*;

    fn raw(entry: SendMessageBatchRequestEntry) -> Raw {
        let count = MessageSystemAttributeName::ApproximateReceiveCount;
        let sent = MessageSystemAttributeName::SentTimestamp;
        Raw::builder()
            .message_id("7c1")
            .body(entry.message_body)
            .set_message_attributes(entry.message_attributes)
            .attributes(count, "3")
            .attributes(sent, "1700000000000")
            .build()
    }

    fn read_raw(raw: Raw) -> DecodedDelivery {
        decode(raw, &Topic::new("orders").unwrap(), "p-orders-office", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn any_bodies_and_headers_read_back() {
        for body in
            [&b""[..], b"-", b"text \xc4\x85\r\n", b"\0\xff", b"bell \x07", "\u{ffff}".as_bytes()]
        {
            let wire = Wire {
                headers: vec![
                    (Cow::Borrowed("tenant"), "acme".to_owned()),
                    (Cow::Borrowed("zażółć"), "\u{1}\u{fffe}⏰ \"q\"".to_owned()),
                    (Cow::Borrowed(CONTENT_TYPE), "a header of this name".to_owned()),
                ],
                body: Bytes::copy_from_slice(body),
                content_type: Cow::Borrowed("image/png"),
            };
            let encoded = EncodedMessage::encode(&wire).unwrap();
            assert!(encoded.body.chars().chain(encoded.headers.chars()).all(is_allowed));
            assert!(!encoded.body.is_empty());
            let DecodedDelivery { received, count, .. } =
                read_raw(raw(encoded.entry(0, 0).unwrap()));
            assert_eq!((received.poison, count), (None, 3));
            assert_eq!(received.message.body.bytes, wire.body);
            assert_eq!(received.message.body.content_type, "image/png");
            assert_eq!(received.message.headers.get("tenant"), Some("acme"));
            assert_eq!(received.message.headers.get(CONTENT_TYPE), Some("a header of this name"));
        }
    }

    #[test]
    fn the_size_is_what_is_sent() {
        let (content_type, body) = (Cow::Borrowed("a/b"), Bytes::from_static(b"\0"));
        let wire = Wire { headers: Vec::new(), body, content_type };
        let encoded = EncodedMessage::encode(&wire).unwrap();
        let names = CONTENT_TYPE.len() + ENCODING.len() + HEADERS.len() + 3 * TEXT.len();
        assert_eq!(encoded.size(), names + "AA==".len() + "a/b".len() + BASE64.len() + "{}".len());
    }
}
