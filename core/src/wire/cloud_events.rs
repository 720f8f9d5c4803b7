//! CloudEvents 1.0 as an envelope, in binary and in structured mode. Id, topic, key and time are attributes of
//! the standard; the trace context has the names of its extension; other fields of Punctual are extensions that
//! begin with `punctual`, without dashes, because an attribute has only letters and digits.
//!
//! Attributes of a foreign event for which a message has no field are kept in headers that begin with `ce-`, so
//! that the event is forwarded unchanged. A batch of events in one message is not supported.

mod decode;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

pub(super) use self::decode::{decode_binary, decode_structured, prefix, structure};
use super::Wire;
use super::own_envelope::{CREATED, ID, KEY, RESERVED};
use crate::error::{Error, Result};
use crate::model::{Body, Key, Message};

/// Prefix of the attributes of a binary event, unless the protocol of a broker prescribes another one.
pub const PREFIX_DEFAULT: &str = "ce-";

const STRUCTURED: &str = "application/cloudevents+json";
/// Prefix of our extensions.
const OURS: &str = "punctual";
const SPEC_VERSION: &str = "1.0";
/// Source of events published here, unless the sender sets another one.
pub(super) const SOURCE: &str = "urn:punctual";
/// Headers for attributes of a foreign event for which a message has no field.
const FOREIGN_ID: &str = "ce-id";
const FOREIGN_SOURCE: &str = "ce-source";
const FOREIGN_TYPE: &str = "ce-type";
const FOREIGN_SUBJECT: &str = "ce-subject";
const FOREIGN_SCHEMA: &str = "ce-dataschema";
const FOREIGN: [&str; 5] =
    [FOREIGN_ID, FOREIGN_SOURCE, FOREIGN_TYPE, FOREIGN_SUBJECT, FOREIGN_SCHEMA];
/// Names of the standard's attributes, those of the data included.
const STANDARD: [&str; 10] = [
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "subject",
    "dataschema",
    "datacontenttype",
    "data",
    "data_base64",
];
/// Extension for distributed tracing, with the names of the W3C headers.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];
type Pairs = Vec<(Cow<'static, str>, String)>;

/// Encodes a binary event: the attributes beside the body.
pub(super) fn binary(wire: Wire, message: &Message, from: &str, prefix: &str) -> Result<Wire> {
    let Wire { headers, body, content_type } = wire;
    let (attributes, mut headers) = attributes(headers, message, from);
    if let Some((name, _)) = headers.iter().find(|(name, _)| is_read_as_attribute(name, prefix)) {
        return Err(Error::invalid(format!(
            "the header {name:?} of the message {} would be read as an attribute of the CloudEvent; rename \
             it, or send structured CloudEvents",
            message.id
        )));
    }
    let prefixed =
        |(name, value): (Cow<'static, str>, String)| (Cow::Owned(format!("{prefix}{name}")), value);
    headers.extend(attributes.into_iter().map(prefixed));
    Ok(Wire { headers, body, content_type })
}

/// Returns whether a decoder of a binary event would read a header of the application as an attribute.
fn is_read_as_attribute(header: &str, prefix: &str) -> bool {
    if decode::prefix(header).is_some() {
        return true;
    }
    match header.strip_prefix(prefix) {
        Some(name) if prefix.is_empty() => STANDARD.contains(&name) || name.starts_with(OURS),
        rest => rest.is_some(),
    }
}

/// Encodes a structured event: everything in one object.
pub(super) fn structured(wire: Wire, message: &Message, from: &str) -> Result<Wire> {
    let (attributes, headers) = attributes(wire.headers, message, from);
    let mut object = serde_json::Map::new();
    for (name, value) in attributes {
        object.insert(name.into_owned(), value.into());
    }
    object.insert("datacontenttype".to_owned(), (*message.body.content_type).into());
    let (name, data) = data(&message.body);
    let mut text = serde_json::to_string(&object).map_err(|error| {
        Error::internal(format!("the message {} cannot be written: {error}", message.id))
    })?;
    if let Some(data) = data {
        // The data is inserted byte by byte; serialized again it could become another text.
        text.pop();
        text.extend([",\"", name, "\":", &data, "}"]);
    }
    Ok(Wire { headers, body: text.into(), content_type: Cow::Borrowed(STRUCTURED) })
}

/// Moves the headers beside a structured event into the object, as extensions.
pub(super) fn headers_inside(wire: Wire) -> Result<Wire> {
    let Wire { headers, body, content_type } = wire;
    let Some(rest) = body.strip_prefix(b"{").filter(|_| !headers.is_empty()) else {
        return Ok(Wire { headers, body, content_type });
    };
    let mut text = b"{".to_vec();
    for (name, value) in headers {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_free = !STANDARD.contains(&&*name) && !name.starts_with(OURS);
        if name.is_empty() || !name.bytes().all(is_plain) || !is_free {
            return Err(Error::invalid(format!(
                "the header {name:?} cannot be an extension of a CloudEvent, and this broker has no headers \
                 beside it; rename it to lower-case letters and digits, or use the envelope own"
            )));
        }
        text.extend(format!("\"{name}\":{},", serde_json::Value::from(value)).bytes());
    }
    text.extend_from_slice(rest);
    Ok(Wire { headers: Vec::new(), body: text.into(), content_type })
}

/// Splits our own headers into attributes and remaining headers.
fn attributes(ours: Pairs, message: &Message, from: &str) -> (Pairs, Pairs) {
    let kept = |name: &str| message.headers.get(name).map(str::to_owned);
    let foreign = kept(FOREIGN_ID).zip(kept(FOREIGN_SOURCE));
    let is_foreign = foreign.is_some();
    let (id, source) = foreign.unwrap_or_else(|| (message.id.to_string(), from.to_owned()));
    // Decoders recognize an event of ours by its source; with another source the id has an extension of its
    // own.
    let is_plain = !is_foreign && source == SOURCE;
    let mut attributes: Pairs = vec![
        ("specversion".into(), SPEC_VERSION.to_owned()),
        ("id".into(), id),
        ("source".into(), source),
        ("type".into(), kept(FOREIGN_TYPE).unwrap_or_else(|| message.topic.to_string())),
        ("time".into(), message.created_at.to_string()),
    ];
    let key = message.key.as_ref().map(ToString::to_string);
    if let Some(subject) = key.clone().or_else(|| kept(FOREIGN_SUBJECT)) {
        attributes.push(("subject".into(), subject));
    }
    if let Some(schema) = kept(FOREIGN_SCHEMA) {
        attributes.push(("dataschema".into(), schema));
    }
    let mut headers = Vec::new();
    for (name, value) in ours {
        let is_known = match &*name {
            ID => is_plain,
            CREATED => true,
            // A composed key must be decoded unchanged, so it has a header of its own.
            KEY => Key::new(&value).is_ok_and(|read| read.to_string() == value),
            name => FOREIGN.contains(&name),
        };
        if is_known {
            continue;
        }
        if name.starts_with(RESERVED) {
            attributes.push((Cow::Owned(name.replace('-', "")), value));
        } else if TRACE.contains(&&*name) {
            attributes.push((name, value));
        } else {
            headers.push((name, value));
        }
    }
    (attributes, headers)
}

/// Returns a body as a member of the object: JSON as it is, text as text, everything else as base64.
fn data(body: &Body) -> (&'static str, Option<String>) {
    let text = std::str::from_utf8(&body.bytes).ok();
    match text {
        Some("") => ("data", None),
        Some(text) if is_json(&body.content_type) && is_one_value(text) => {
            ("data", Some(text.to_owned()))
        }
        Some(text) if body.content_type.starts_with("text/") => {
            ("data", Some(serde_json::Value::from(text).to_string()))
        }
        _ => ("data_base64", Some(format!("\"{}\"", BASE64.encode(&body.bytes)))),
    }
}

/// Returns whether a text is JSON that stays the same inside an object: without space around it.
fn is_one_value(text: &str) -> bool {
    text.trim().len() == text.len() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn is_json(content_type: &str) -> bool {
    let essence = essence(content_type).to_ascii_lowercase();
    essence.ends_with("/json") || essence.ends_with("+json")
}

#[cfg(test)]
mod tests;
