//! CloudEvents 1.0 as an envelope, in binary and in structured mode. The identity, the topic, the key and
//! the time are attributes of the standard; the trace context travels under the names of its extension;
//! what else Punctual needs are extensions that begin with `punctual`, without dashes, because an
//! attribute has only letters and digits.
//!
//! An event of a stranger keeps what we have no place for in headers that begin with `ce-`, so that it
//! leaves again as the event it was. A batch of events in one message is not read.

mod reading;

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

pub(super) use self::reading::{prefix, read_binary, read_structured, structure};
use super::Wire;
use super::own::{CREATED, ID, KEY, RESERVED};
use crate::error::{Error, Result};
use crate::model::{Body, Key, Message};

/// What stands before the attributes of a binary event, unless a broker has a custom of its own.
pub const PREFIX_DEFAULT: &str = "ce-";

const STRUCTURED: &str = "application/cloudevents+json";
const SPEC_VERSION: &str = "1.0";
/// Who sends what was published here.
const SOURCE: &str = "urn:punctual";
/// What a stranger's event had and we have no place for.
const FOREIGN_ID: &str = "ce-id";
const FOREIGN_SOURCE: &str = "ce-source";
const FOREIGN_TYPE: &str = "ce-type";
const FOREIGN_SUBJECT: &str = "ce-subject";
const FOREIGN_SCHEMA: &str = "ce-dataschema";
/// The extension for distributed tracing has the names of the headers of W3C.
const TRACE: [&str; 2] = ["traceparent", "tracestate"];
type Pairs = Vec<(Cow<'static, str>, String)>;

/// The attributes beside the body.
pub(super) fn binary(wire: Wire, message: &Message) -> Wire {
    let Wire { headers, body, content_type } = wire;
    let (attributes, mut headers) = attributes(headers, message);
    let prefixed = |(name, value): (Cow<'static, str>, String)| {
        (Cow::Owned(format!("{PREFIX_DEFAULT}{name}")), value)
    };
    headers.extend(attributes.into_iter().map(prefixed));
    Wire { headers, body, content_type }
}

/// Everything in one object.
pub(super) fn structured(wire: Wire, message: &Message) -> Result<Wire> {
    let (attributes, headers) = attributes(wire.headers, message);
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
        // The data goes in as it is, byte by byte; written anew it could become another text.
        text.pop();
        text.extend([",\"", name, "\":", &data, "}"]);
    }
    Ok(Wire { headers, body: text.into(), content_type: Cow::Borrowed(STRUCTURED) })
}

/// Parts our own headers into attributes and what stays a header.
fn attributes(ours: Pairs, message: &Message) -> (Pairs, Pairs) {
    let kept = |name: &str| message.headers.get(name).map(str::to_owned);
    let foreign = kept(FOREIGN_ID).zip(kept(FOREIGN_SOURCE));
    let is_foreign = foreign.is_some();
    let (id, source) = foreign.unwrap_or_else(|| (message.id.to_string(), SOURCE.to_owned()));
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
            ID => !is_foreign,
            CREATED => true,
            // A key that only we could make has to come back as it was.
            KEY => Key::new(&value).is_ok_and(|read| read.to_string() == value),
            name => name.starts_with(PREFIX_DEFAULT),
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

/// A body as a member of the object: JSON as it is, text as text, everything else as base64.
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

/// Whether a text is JSON that comes out of an object as it went in: without space around it.
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
