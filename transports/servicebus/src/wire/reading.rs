//! Reading what was delivered: bodies and headers of any sender, and what the broker noted about them.

use std::borrow::Cow;

use bytes::Bytes;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{Body, Message as Amqp, MessageAnnotations};
use fe2o3_amqp::types::primitives::{SimpleValue, Timestamp as Instant, Value};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::wire::{Arrived, Received, receive};

use crate::manage::Lock;

const ENQUEUED: &str = "x-opt-enqueued-time";
const SEQUENCE: &str = "x-opt-sequence-number";
const LOCKED_UNTIL: &str = "x-opt-locked-until";
const LOCK_TOKEN: &str = "x-opt-lock-token";

/// What was read.
pub(crate) struct Read {
    pub(crate) received: Received,
    /// How often the broker has delivered it before.
    pub(crate) deliveries: u32,
    /// The right to it, as the broker knows it.
    pub(crate) lock: Option<Lock>,
    pub(crate) locked_until: Option<Timestamp>,
    /// Its number in the queue or subscription.
    pub(crate) sequence: Option<i64>,
}

/// What the broker noted about a message.
#[derive(Default)]
struct Notes {
    sequence: Option<i64>,
    enqueued: Option<Timestamp>,
    locked_until: Option<Timestamp>,
    lock: Option<Lock>,
}

impl Notes {
    fn read(annotations: Option<MessageAnnotations>) -> Self {
        let mut notes = Self::default();
        for (key, value) in annotations.into_iter().flat_map(|annotations| annotations.0) {
            let OwnedKey::Symbol(name) = key else { continue };
            match (name.as_str(), value) {
                (SEQUENCE, Value::Long(number)) => notes.sequence = Some(number),
                (ENQUEUED, Value::Timestamp(at)) => notes.enqueued = instant(at),
                (LOCKED_UNTIL, Value::Timestamp(at)) => notes.locked_until = instant(at),
                (LOCK_TOKEN, Value::Uuid(token)) => notes.lock = Some(token.into_inner()),
                _ => {}
            }
        }
        notes
    }
}

fn instant(at: Instant) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.milliseconds()).ok()
}

/// Reads a delivery. What cannot be read is poison and never an error.
pub(crate) fn read(
    message: Amqp<Body<Value>>,
    tag: &[u8],
    (topic, source): (&Topic, &str),
    now: Timestamp,
) -> Read {
    let notes = Notes::read(message.message_annotations);
    let (body, mut trouble) = body_of(message.body);
    let content_type = message.properties.and_then(|known| known.content_type);
    let lock = lock_of(tag).or(notes.lock);
    let place = match notes.sequence {
        Some(number) => format!("{source}/{number}"),
        None => format!("{source}/{tag:02x?}"),
    };
    let arrived = Arrived {
        topic,
        body,
        content_type: content_type.map(|name| name.0),
        key: None,
        place: format_args!("{place}"),
        sent_at: notes.enqueued.unwrap_or(now),
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
    received.poison = trouble.take().or(received.poison);
    let deliveries = message.header.map_or(0, |header| header.delivery_count);
    let Notes { locked_until, sequence, .. } = notes;
    Read { received, deliveries, lock, locked_until, sequence }
}

/// What could not be decoded at all.
pub(crate) fn unreadable(
    why: &str,
    tag: &[u8],
    (topic, source): (&Topic, &str),
    now: Timestamp,
) -> Read {
    let arrived = Arrived {
        topic,
        body: Bytes::new(),
        content_type: None,
        key: None,
        place: format_args!("{source}/{tag:02x?}"),
        sent_at: now,
    };
    let mut received = receive(arrived, []);
    received.poison = Some(format!("the message is not AMQP 1.0 as it should be: {why}"));
    Read { received, deliveries: 0, lock: lock_of(tag), locked_until: None, sequence: None }
}

/// The bytes of a body, and what is wrong with it.
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
                Some("the body is an AMQP value that is no text and no bytes".into()),
            ),
        },
        Body::Sequence(_) => (Bytes::new(), Some("the body is an AMQP sequence, not data".into())),
        Body::Empty => (Bytes::new(), None),
    }
}

/// A header's value as text; what has no plain text is left out.
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

/// The lock behind a delivery's tag: a GUID as Windows writes it, its first three numbers the wrong way
/// round.
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
    fn a_tag_is_a_lock_with_three_numbers_turned_round() {
        let tag: Vec<u8> = (0..16).collect();
        let lock = lock_of(&tag).unwrap();
        assert_eq!(lock, [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(lock_of(&tag[..4]), None);
    }
}
