//! Wire format: a field `body`, a field `content-type`, and one field for each header under the header's name. A
//! header called `body` or `content-type`, or beginning with `header.`, gets the prefix `header.`, so that none
//! is lost. Each field costs the server time, so an entry of Punctual has no `content-type` when it is JSON, as
//! nearly all are; a dead letter always has one, for its readers.
//!
//! A foreign entry needs a `body` and nothing more; its other fields are headers.

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;
use punctual::backend::wire::{DecodedMessage, RawMessage, Wire, receive};
use punctual::jiff;
use punctual::model::Topic;
use redis::Value;

use crate::names::EntryId;

const BODY: &str = "body";
const CONTENT_TYPE: &str = "content-type";
const ESCAPE: &str = "header.";
/// Header that marks an entry of Punctual.
const ID: &str = "punctual-id";
/// Content type of an entry of Punctual without `content-type`.
const CONTENT_TYPE_DEFAULT: &str = "application/json";

/// Returns the fields of an entry, names and values.
pub(crate) fn fields(wire: &Wire) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    let own = [(BODY, &wire.body[..]), (CONTENT_TYPE, wire.content_type.as_bytes())];
    let headers = wire.headers.iter();
    own.into_iter()
        .map(|(name, value)| (Cow::Borrowed(name), value))
        .chain(headers.map(|(name, value)| (escaped(name), value.as_bytes())))
}

/// Returns the fields of an entry, without `content-type` where Punctual does not need it.
pub(crate) fn compact_fields(wire: &Wire) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    let is_usual = wire.content_type == CONTENT_TYPE_DEFAULT && wire.header(ID).is_some();
    fields(wire).filter(move |(name, _)| !(is_usual && name == CONTENT_TYPE))
}

/// Entry of a stream as the server returned it.
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

/// Reads a list of entries; an entry without id or fields is left out.
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

/// Decodes an entry. An unreadable entry is poison and never an error.
pub(crate) fn decode(entry: Entry, topic: &Topic, stream: &str, now: Timestamp) -> DecodedMessage {
    let Entry { id, fields } = entry;
    let mut body = None;
    let mut content_type = None;
    let mut headers = Vec::with_capacity(fields.len() / 2);
    let mut poison = None;
    let mut values = fields.into_iter();
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        let (Value::BulkString(name), Value::BulkString(value)) = (name, value) else {
            poison = Some("the entry has a field that is not text".to_owned());
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
                poison = Some(format!("the field {name:?} is not text in UTF-8"));
            }
        }
    }
    if content_type.is_none() && headers.iter().any(|(name, _)| name == ID) {
        content_type = Some(CONTENT_TYPE_DEFAULT.to_owned());
    }
    if body.is_none() {
        poison = Some(format!("the entry {id} of {stream} has no field {BODY:?}"));
    }
    let sent_at = i64::try_from(id.millisecond).ok();
    let sent_at = sent_at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(now);
    let arrived = RawMessage {
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
    received.poison = poison.or(received.poison);
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
    use punctual::backend::wire::CONTENT_TYPE_UNKNOWN;

    use super::*;

    fn text(text: impl AsRef<[u8]>) -> Value {
        Value::BulkString(text.as_ref().to_vec())
    }

    fn id() -> EntryId {
        EntryId { millisecond: 1_700_000_000_000, sequence: 3 }
    }

    fn read_fields(fields: Vec<Value>) -> DecodedMessage {
        let topic = Topic::new("orders").unwrap();
        decode(Entry { id: id(), fields }, &topic, "p:orders", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn headers_with_any_name_are_received_under_their_own_names() {
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
    fn json_of_punctual_needs_no_content_type() {
        let id = (Cow::Borrowed(ID), "01a2ce5a-63c0-7000-9eaf-0e6085ba7837".to_owned());
        for (content_type, headers, count) in [
            (CONTENT_TYPE_DEFAULT, vec![id.clone()], 2),
            (CONTENT_TYPE_DEFAULT, vec![], 2),
            (CONTENT_TYPE_UNKNOWN, vec![id], 3),
        ] {
            let (body, content_type) = (Bytes::from_static(b"{}"), Cow::Borrowed(content_type));
            let wire = Wire { headers, body, content_type };
            let written = compact_fields(&wire);
            let written = written.flat_map(|(name, value)| [text(name.as_bytes()), text(value)]);
            let written: Vec<Value> = written.collect();
            assert_eq!(written.len(), 2 * count, "{written:?}");
            assert_eq!(read_fields(written).message.body.content_type, wire.content_type);
        }
    }

    #[test]
    fn a_foreign_entry_is_read() {
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
    fn a_message_that_cannot_be_read_is_poison_with_its_reason() {
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
    fn replies_of_another_shape_have_no_entries() {
        assert!(entries(Value::Nil).is_empty() && streams(Value::Nil).is_empty());
        let gone = Value::Array(vec![Value::Nil, Value::Array(vec![text("1-1"), Value::Nil])]);
        assert!(entries(gone).is_empty());
    }
}
