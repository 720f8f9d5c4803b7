//! How a message looks in AMQP 1.0: the body as data, its content type among the properties, every header
//! an application property. What the broker adds stands in annotations, and there it stays: no header of
//! a message comes from it.

use std::borrow::Cow;

use bytes::Bytes;
use fe2o3_amqp::types::definitions::Fields;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{
    ApplicationProperties, Body, Data, Header, Message as Amqp, MessageAnnotations, MessageId,
    Properties,
};
use fe2o3_amqp::types::primitives::{
    Binary, OrderedMap, SimpleValue, Symbol, Timestamp as Instant, Value,
};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::wire::{Arrived, Received, Wire, receive};
use punctual::{Error, Result};

use crate::manage::Lock;

const SCHEDULED: &str = "x-opt-scheduled-enqueue-time";
const ENQUEUED: &str = "x-opt-enqueued-time";
const SEQUENCE: &str = "x-opt-sequence-number";
const LOCKED_UNTIL: &str = "x-opt-locked-until";
const LOCK_TOKEN: &str = "x-opt-lock-token";
/// What CloudEvents has before its attributes in AMQP; the other form, with a colon, is not allowed everywhere.
pub(crate) const ATTRIBUTE_PREFIX: &str = "cloudEvents_";
/// How our own headers begin.
const OWN: &str = "punctual-";

/// A message on its way out, not before an instant when one is given.
///
/// The identity is one that no other sending has: an entity that looks for duplicates must not throw away
/// what is put back or sent again on purpose.
pub(crate) fn written(wire: Wire, id: String, due_at: Option<Timestamp>) -> Result<Amqp<Data>> {
    if !wire.content_type.is_ascii() {
        return Err(Error::invalid(format!(
            "the content type {:?} cannot be carried by AMQP; use ASCII characters only",
            wire.content_type
        )));
    }
    let scheduled = due_at.map(|due_at| {
        let time = Value::Timestamp(Instant::from_milliseconds(up_to_millisecond(due_at)));
        MessageAnnotations(OrderedMap::from_iter([(OwnedKey::from(SCHEDULED), time)]))
    });
    let properties = Properties {
        message_id: Some(MessageId::String(id)),
        content_type: Some(Symbol(wire.content_type.into_owned())),
        ..Properties::default()
    };
    let headers = wire.headers.into_iter();
    let headers = headers.map(|(name, value)| (name.into_owned(), SimpleValue::String(value)));
    Ok(Amqp {
        header: Some(Header { durable: true, ..Header::default() }),
        delivery_annotations: None,
        message_annotations: scheduled,
        properties: Some(properties),
        application_properties: Some(ApplicationProperties(headers.collect())),
        body: Data(Binary::from(wire.body.to_vec())),
        footer: None,
    })
}

/// Never early: what is between two milliseconds waits for the later one.
fn up_to_millisecond(instant: Timestamp) -> i64 {
    let whole = instant.as_millisecond();
    whole + i64::from(instant.as_nanosecond() > i128::from(whole) * 1_000_000)
}

/// Why a delivery is rejected, as the broker writes it on the dead letter: the reason, the error, and our
/// own headers.
pub(crate) fn rejected(letter: &Wire) -> Fields {
    let mut fields = Fields::with_capacity(letter.headers.len() + 2);
    let text = |value: &str| Value::String(value.to_owned());
    for (known, name) in [
        ("punctual-dead-reason", "DeadLetterReason"),
        ("punctual-dead-error", "DeadLetterErrorDescription"),
    ] {
        if let Some(value) = letter.header(known) {
            fields.insert(Symbol::from(name), text(value));
        }
    }
    for (name, value) in letter.headers.iter().filter(|(name, _)| name.starts_with(OWN)) {
        fields.insert(Symbol(name.clone().into_owned()), text(value));
    }
    fields
}

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
    use fe2o3_amqp::types::messaging::message::__private::Serializable;

    use super::*;

    #[test]
    fn a_tag_is_a_lock_with_three_numbers_turned_round() {
        let tag: Vec<u8> = (0..16).collect();
        let lock = lock_of(&tag).unwrap();
        assert_eq!(lock, [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(lock_of(&tag[..4]), None);
    }

    /// The bytes as part 1 and 3 of the standard want them, because a peer that is written with the same
    /// library would read anything that library writes.
    #[test]
    fn a_message_is_encoded_as_the_standard_has_it() {
        let headers = vec![("tenant".into(), "acme".to_owned())];
        let (body, content_type) = (Bytes::from_static(b"{}"), "text/plain".into());
        let due_at = Timestamp::from_millisecond(0x0102_0304_0506).unwrap();
        let wire = Wire { headers, body, content_type };
        let message = written(wire, "7".to_owned(), Some(due_at)).unwrap();
        let bytes = serde_amqp::to_vec(&Serializable(message)).unwrap();
        for part in [
            &b"\x00\x53\x70"[..],
            b"\x00\x53\x72",
            b"\xa3\x1cx-opt-scheduled-enqueue-time\x83\x00\x00\x01\x02\x03\x04\x05\x06",
            b"\x00\x53\x73",
            b"\xa3\x0atext/plain",
            b"\x00\x53\x74",
            b"\xa1\x06tenant\xa1\x04acme",
            b"\x00\x53\x75\xa0\x02{}",
        ] {
            let found = bytes.windows(part.len()).any(|window| window == part);
            assert!(found, "{} in {}", part.escape_ascii(), bytes.escape_ascii());
        }
    }

    #[test]
    fn nothing_is_due_early() {
        for (nanosecond, millisecond) in [(0, 0), (1, 1), (999_999, 1), (1_000_000, 1)] {
            let instant = Timestamp::from_nanosecond(nanosecond).unwrap();
            assert_eq!(up_to_millisecond(instant), millisecond, "{nanosecond}");
        }
    }

    #[test]
    fn a_content_type_that_amqp_cannot_carry_is_refused() {
        let (headers, body) = (Vec::new(), Bytes::new());
        let wire = Wire { headers, body, content_type: "text/zażółć".into() };
        let error = written(wire, "1".to_owned(), None).unwrap_err().to_string();
        assert!(error.contains("zażółć") && error.contains("ASCII"), "{error}");
    }
}
