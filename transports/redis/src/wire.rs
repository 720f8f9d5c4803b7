//! How a message lies in a stream: a field `body`, a field `content-type`, and one field for each header,
//! under the header's own name. A header that is itself called `body` or `content-type` gets `header.` in
//! front, and so does one that begins with `header.`; nothing is lost on the way. Each field costs the server
//! time, so an entry of ours has no `content-type` when it is JSON, as nearly all are; a dead letter has one,
//! for whoever looks at it.
//!
//! Somebody else's entry needs a `body` and nothing more; its other fields are headers.

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;
use punctual::jiff;
use punctual::model::Topic;
use punctual::wire::{Arrived, Received, Wire, receive};
use redis::Value;

use crate::streams::EntryId;

const BODY: &str = "body";
const CONTENT_TYPE: &str = "content-type";
const ESCAPE: &str = "header.";
/// The header by which an entry of ours is known.
const ID: &str = "punctual-id";
/// What the body of an entry of ours is that does not say it.
const CONTENT_TYPE_OURS: &str = "application/json";

/// The fields of an entry, names and values.
pub(crate) fn fields(wire: &Wire) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    let own = [(BODY, &wire.body[..]), (CONTENT_TYPE, wire.content_type.as_bytes())];
    let headers = wire.headers.iter();
    own.into_iter()
        .map(|(name, value)| (Cow::Borrowed(name), value))
        .chain(headers.map(|(name, value)| (escaped(name), value.as_bytes())))
}

/// The same without what an entry of ours need not say.
pub(crate) fn lean(wire: &Wire) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    let is_usual = wire.content_type == CONTENT_TYPE_OURS && wire.header(ID).is_some();
    fields(wire).filter(move |(name, _)| !(is_usual && name == CONTENT_TYPE))
}

/// An entry of a stream as the server gave it.
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) fields: Vec<Value>,
}

/// Reads the entries of several streams, each with its name.
pub(crate) fn streams(value: Value) -> Vec<(Vec<u8>, Vec<Entry>)> {
    let Value::Array(list) = value else { return Vec::new() };
    let stream = |value| {
        let Value::Array(parts) = value else { return None };
        let mut parts = parts.into_iter();
        let Some(Value::BulkString(key)) = parts.next() else { return None };
        Some((key, entries(parts.next()?)))
    };
    list.into_iter().filter_map(stream).collect()
}

/// Reads a list of entries; what has no id or no fields any more is left out.
pub(crate) fn entries(value: Value) -> Vec<Entry> {
    let Value::Array(list) = value else { return Vec::new() };
    list.into_iter().filter_map(entry).collect()
}

fn entry(value: Value) -> Option<Entry> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let Some(Value::BulkString(id)) = parts.next() else { return None };
    let Some(Value::Array(fields)) = parts.next() else { return None };
    Some(Entry { id: EntryId::parse(&id)?, fields })
}

/// Reads an entry. What cannot be read is poison and never an error.
pub(crate) fn read(entry: Entry, topic: &Topic, stream: &str, now: Timestamp) -> Received {
    let Entry { id, fields } = entry;
    let mut body = None;
    let mut content_type = None;
    let mut headers = Vec::with_capacity(fields.len() / 2);
    let mut trouble = None;
    let mut values = fields.into_iter();
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        let (Value::BulkString(name), Value::BulkString(value)) = (name, value) else {
            trouble = Some("the entry has a field that is no text".to_owned());
            continue;
        };
        if name == BODY.as_bytes() {
            body = Some(Bytes::from(value));
            continue;
        }
        match (String::from_utf8(name), String::from_utf8(value)) {
            (Ok(name), Ok(value)) if name == CONTENT_TYPE => content_type = Some(value),
            (Ok(name), Ok(value)) => headers.push((name, value)),
            (name, _) => {
                let name = name.unwrap_or_else(|error| error.to_string());
                trouble = Some(format!("the field {name:?} is not text in UTF-8"));
            }
        }
    }
    if content_type.is_none() && headers.iter().any(|(name, _)| name == ID) {
        content_type = Some(CONTENT_TYPE_OURS.to_owned());
    }
    if body.is_none() {
        trouble = Some(format!("the entry {id} of {stream} has no field {BODY:?}"));
    }
    let sent_at = i64::try_from(id.millisecond).ok();
    let sent_at = sent_at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(now);
    let arrived = Arrived {
        topic,
        body: body.unwrap_or_default(),
        content_type,
        key: None,
        place: format_args!("{stream}/{id}"),
        sent_at,
    };
    let named = headers
        .iter()
        .map(|(name, value)| (name.strip_prefix(ESCAPE).unwrap_or(name), value.as_str()));
    let mut received = receive(arrived, named);
    received.poison = trouble.or(received.poison);
    received
}

fn escaped(name: &str) -> Cow<'_, str> {
    if name == BODY || name == CONTENT_TYPE || name.starts_with(ESCAPE) {
        return Cow::Owned(format!("{ESCAPE}{name}"));
    }
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use punctual::wire::CONTENT_TYPE_UNKNOWN;

    use super::*;

    fn text(text: impl AsRef<[u8]>) -> Value {
        Value::BulkString(text.as_ref().to_vec())
    }

    fn id() -> EntryId {
        EntryId { millisecond: 1_700_000_000_000, sequence: 3 }
    }

    fn read_fields(fields: Vec<Value>) -> Received {
        let topic = Topic::new("orders").unwrap();
        read(Entry { id: id(), fields }, &topic, "p:orders", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn headers_come_back_under_their_own_names_whatever_they_are_called() {
        let wire = Wire {
            headers: ["tenant", "body", "content-type", "header.x", "header.header.body"]
                .map(|name| (Cow::Borrowed(name), format!("the {name}")))
                .into(),
            body: Bytes::from_static(b"\0\xff"),
            content_type: Cow::Borrowed("image/png"),
        };
        let written = fields(&wire);
        let written = written.flat_map(|(name, value)| [text(name.as_bytes()), text(value)]);
        let received = read_fields(written.collect());
        assert_eq!(received.poison, None);
        assert_eq!(received.message.body.bytes, wire.body);
        assert_eq!(received.message.body.content_type, "image/png");
        for (name, value) in &wire.headers {
            assert_eq!(received.message.headers.get(name), Some(value.as_str()), "{name}");
        }
    }

    #[test]
    fn json_of_ours_needs_no_content_type() {
        let id = (Cow::Borrowed(ID), "01a2ce5a-63c0-7000-9eaf-0e6085ba7837".to_owned());
        for (content_type, headers, count) in [
            (CONTENT_TYPE_OURS, vec![id.clone()], 2),
            (CONTENT_TYPE_OURS, vec![], 2),
            (CONTENT_TYPE_UNKNOWN, vec![id], 3),
        ] {
            let (body, content_type) = (Bytes::from_static(b"{}"), Cow::Borrowed(content_type));
            let wire = Wire { headers, body, content_type };
            let written = lean(&wire);
            let written = written.flat_map(|(name, value)| [text(name.as_bytes()), text(value)]);
            let written: Vec<Value> = written.collect();
            assert_eq!(written.len(), 2 * count, "{written:?}");
            assert_eq!(read_fields(written).message.body.content_type, wire.content_type);
        }
    }

    #[test]
    fn an_entry_of_a_stranger_is_read() {
        let received = read_fields(vec![text("tenant"), text("acme"), text("body"), text("{}")]);
        assert_eq!(received.poison, None);
        assert_eq!(received.message.headers.get("tenant"), Some("acme"));
        assert_eq!(received.message.body.content_type, CONTENT_TYPE_UNKNOWN);
        assert_eq!(received.message.created_at.as_millisecond(), 1_700_000_000_000);
        let again = read_fields(vec![text("body"), text("{}")]);
        assert_eq!(again.message.id, received.message.id);
    }

    // spec: D-28
    #[test]
    fn what_cannot_be_read_is_poison_with_its_reason() {
        for (fields, reason) in [
            (vec![text("payload"), text("{}")], "no field \"body\""),
            (vec![text("body"), text("{}"), text("tenant"), text(b"\xff")], "\"tenant\""),
            (vec![text("body"), text("{}"), text("punctual-id"), text("seven")], "punctual-id"),
        ] {
            let poison = read_fields(fields).poison.unwrap();
            assert!(poison.contains(reason), "{poison}");
        }
    }

    #[test]
    fn answers_of_another_shape_hold_no_entries() {
        assert!(entries(Value::Nil).is_empty() && streams(Value::Nil).is_empty());
        let gone = Value::Array(vec![Value::Nil, Value::Array(vec![text("1-1"), Value::Nil])]);
        assert!(entries(gone).is_empty());
    }
}
