//! Decoding of deliveries: bodies and headers of any sender, and the annotations of the broker.

use std::borrow::Cow;

use bytes::Bytes;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{Body, Message as Amqp, MessageAnnotations};
use fe2o3_amqp::types::primitives::{SimpleValue, Timestamp as Instant, Value};
use punctual::backend::wire::{DecodedMessage, RawMessage, receive};
use punctual::jiff::Timestamp;
use punctual::model::Topic;

use crate::management::Lock;

const ENQUEUED: &str = "x-opt-enqueued-time";
const SEQUENCE: &str = "x-opt-sequence-number";
const LOCKED_UNTIL: &str = "x-opt-locked-until";
const LOCK_TOKEN: &str = "x-opt-lock-token";

/// Decoded delivery.
pub(crate) struct DecodedDelivery {
    pub(crate) received: DecodedMessage,
    /// How often the broker delivered the message before.
    pub(crate) deliveries: u32,
    /// Lock of the delivery.
    pub(crate) lock: Option<Lock>,
    pub(crate) locked_until: Option<Timestamp>,
    /// Sequence number in the queue or subscription.
    pub(crate) sequence: Option<i64>,
}

/// Annotations of the broker.
#[derive(Default)]
struct BrokerAnnotations {
    sequence: Option<i64>,
    enqueued: Option<Timestamp>,
    locked_until: Option<Timestamp>,
    lock: Option<Lock>,
}

impl BrokerAnnotations {
    fn from_annotations(annotations: Option<MessageAnnotations>) -> Self {
        let mut broker_annotations = Self::default();
        for (key, value) in annotations.into_iter().flat_map(|annotations| annotations.0) {
            let OwnedKey::Symbol(name) = key else { continue };
            match (name.as_str(), value) {
                (SEQUENCE, Value::Long(number)) => broker_annotations.sequence = Some(number),
                (ENQUEUED, Value::Timestamp(at)) => broker_annotations.enqueued = instant(at),
                (LOCKED_UNTIL, Value::Timestamp(at)) => {
                    broker_annotations.locked_until = instant(at);
                }
                (LOCK_TOKEN, Value::Uuid(token)) => {
                    broker_annotations.lock = Some(token.into_inner());
                }
                _ => {}
            }
        }
        broker_annotations
    }
}

fn instant(at: Instant) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.milliseconds()).ok()
}

/// Decodes a delivery. An unreadable message is poison and never an error.
pub(crate) fn decode(
    message: Amqp<Body<Value>>,
    tag: &[u8],
    (topic, source): (&Topic, &str),
    now: Timestamp,
) -> DecodedDelivery {
    let broker_annotations = BrokerAnnotations::from_annotations(message.message_annotations);
    let (body, mut poison) = body_of(message.body);
    let content_type = message.properties.and_then(|known| known.content_type);
    let lock = lock_of(tag).or(broker_annotations.lock);
    let place = match broker_annotations.sequence {
        Some(number) => format!("{source}/{number}"),
        None => format!("{source}/{tag:02x?}"),
    };
    let arrived = RawMessage {
        topic,
        body,
        content_type: content_type.map(|name| name.0),
        key: None,
        place: format_args!("{place}"),
        sent_at: broker_annotations.enqueued.unwrap_or(now),
    };
    let headers: Vec<(String, Cow<'_, str>)> = match &message.application_properties {
        Some(known) => known
            .0
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), text_of(value)?)))
            .collect(),
        None => Vec::new(),
    };
    let mut received =
        receive(arrived, headers.iter().map(|(name, value)| (name.as_str(), value.as_ref())));
    received.poison = poison.take().or(received.poison);
    let deliveries = message.header.map_or(0, |header| header.delivery_count);
    let BrokerAnnotations { locked_until, sequence, .. } = broker_annotations;
    DecodedDelivery { received, deliveries, lock, locked_until, sequence }
}

/// Returns a delivery whose message could not be decoded at all, as poison.
pub(crate) fn undecodable(
    why: &str,
    tag: &[u8],
    (topic, source): (&Topic, &str),
    now: Timestamp,
) -> DecodedDelivery {
    let arrived = RawMessage {
        topic,
        body: Bytes::new(),
        content_type: None,
        key: None,
        place: format_args!("{source}/{tag:02x?}"),
        sent_at: now,
    };
    let mut received = receive(arrived, []);
    received.poison = Some(format!("the message is not valid AMQP 1.0: {why}"));
    DecodedDelivery {
        received,
        deliveries: 0,
        lock: lock_of(tag),
        locked_until: None,
        sequence: None,
    }
}

/// Returns the bytes of a body, or why it has none.
fn body_of(body: Body<Value>) -> (Bytes, Option<String>) {
    match body {
        Body::Data(data) => {
            let mut pieces = data.into_iter().map(|piece| piece.0.into_vec());
            let mut bytes = pieces.next().unwrap_or_default();
            pieces.for_each(|piece| bytes.extend_from_slice(&piece));
            (bytes.into(), None)
        }
        Body::Value(value) => match value.0 {
            Value::String(text) => (text.into(), None),
            Value::Binary(bytes) => (bytes.into_vec().into(), None),
            Value::Null => (Bytes::new(), None),
            _ => (
                Bytes::new(),
                Some("the body is an AMQP value that is neither text nor bytes".into()),
            ),
        },
        Body::Sequence(_) => (Bytes::new(), Some("the body is an AMQP sequence, not data".into())),
        Body::Empty => (Bytes::new(), None),
    }
}

/// Returns a header's value as text; none for types without a plain text.
fn text_of(value: &SimpleValue) -> Option<Cow<'_, str>> {
    Some(match value {
        SimpleValue::String(text) => Cow::Borrowed(text),
        SimpleValue::Symbol(text) => Cow::Borrowed(text.as_str()),
        SimpleValue::Bool(value) => Cow::Owned(value.to_string()),
        SimpleValue::Ubyte(value) => Cow::Owned(value.to_string()),
        SimpleValue::Ushort(value) => Cow::Owned(value.to_string()),
        SimpleValue::Uint(value) => Cow::Owned(value.to_string()),
        SimpleValue::Ulong(value) => Cow::Owned(value.to_string()),
        SimpleValue::Byte(value) => Cow::Owned(value.to_string()),
        SimpleValue::Short(value) => Cow::Owned(value.to_string()),
        SimpleValue::Int(value) => Cow::Owned(value.to_string()),
        SimpleValue::Long(value) => Cow::Owned(value.to_string()),
        SimpleValue::Float(value) => Cow::Owned(value.to_string()),
        SimpleValue::Double(value) => Cow::Owned(value.to_string()),
        SimpleValue::Char(value) => Cow::Owned(value.to_string()),
        SimpleValue::Timestamp(value) => Cow::Owned(instant(value.clone())?.to_string()),
        _ => return None,
    })
}

/// Returns the lock of a delivery tag: a GUID as Windows writes it, with its first three numbers in
/// little-endian order.
fn lock_of(tag: &[u8]) -> Option<Lock> {
    let mut lock: Lock = tag.try_into().ok()?;
    lock[..4].reverse();
    lock[4..6].reverse();
    lock[6..8].reverse();
    Some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_a_lock_with_three_little_endian_numbers() {
        let tag: Vec<u8> = (0..16).collect();
        let lock = lock_of(&tag).unwrap();
        assert_eq!(lock, [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(lock_of(&tag[..4]), None);
    }
}
