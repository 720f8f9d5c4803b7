//! CloudEvents 1.0 as an envelope, in binary and in structured mode. The identity, the topic, the key and
//! the time are attributes of the standard; the trace context travels under the names of its extension;
//! what else Punctual needs are extensions that begin with `punctual`, without dashes, because an
//! attribute has only letters and digits.
//!
//! An event of a stranger keeps what we have no place for in headers that begin with `ce-`, so that it
//! leaves again as the event it was. A batch of events in one message is not read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::value::RawValue;

use super::own::{
    ATTEMPT, CAUSATION, CORRELATION, CREATED, DUE, GROUP, ID, KEY, MORE, RESERVED, Reading,
    SEQUENCE, parsed,
};
use super::{Wire, id_of};
use crate::error::{Error, Result};
use crate::model::{Body, JSON, Key, Message, noted};

/// What stands before the attributes of a binary event, unless a broker has a custom of its own.
pub const PREFIX_DEFAULT: &str = "ce-";

/// What may stand before them: HTTP and NATS, Kafka, AMQP twice, MQTT.
const PREFIXES: [&str; 5] = [PREFIX_DEFAULT, "ce_", "cloudEvents:", "cloudEvents_", ""];
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
/// Our headers that come back as extensions.
const OURS: [&str; 10] =
    [ID, KEY, CREATED, DUE, CORRELATION, CAUSATION, SEQUENCE, MORE, ATTEMPT, GROUP];

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
        text.push_str(&format!(",\"{name}\":{data}}}"));
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

/// What a structured event is written in.
pub(super) enum Structure {
    /// One event as JSON.
    Json,
    /// Something that is not read.
    Other(String),
}

/// What a content type says about a structured event; none when it is none.
pub(super) fn structure(content_type: &str) -> Option<Structure> {
    let essence = essence(content_type);
    if essence.eq_ignore_ascii_case(STRUCTURED) {
        return Some(Structure::Json);
    }
    let start = essence.get(.."application/cloudevents".len())?;
    start
        .eq_ignore_ascii_case("application/cloudevents")
        .then(|| Structure::Other(essence.to_owned()))
}

/// The prefix of the attributes, if this header gives a binary event away.
pub(super) fn prefix(header: &str) -> Option<&'static str> {
    let before = header.strip_suffix("specversion")?;
    PREFIXES.into_iter().find(|prefix| *prefix == before)
}

/// What identifies an event.
#[derive(Default)]
struct Identity {
    id: Option<String>,
    source: Option<String>,
    kind: Option<String>,
    is_ours: bool,
}

/// Reads the attributes out of the headers that were taken in.
pub(super) fn read_binary(reading: &mut Reading, prefix: &str) {
    let headers = &mut reading.received.message.headers;
    let names: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, _)| name.to_owned())
        .collect();
    let lifted: Vec<(String, String)> = names
        .into_iter()
        .filter_map(|name| headers.remove(&name).map(|value| (name, value)))
        .collect();
    let mut identity = Identity::default();
    for (name, value) in &lifted {
        let taken = attribute(reading, &mut identity, &name[prefix.len()..], value);
        reading.blame(taken);
    }
    let identified = identify(reading, identity);
    reading.blame(identified);
}

/// Reads the object in the body, and puts what is in it in its place.
pub(super) fn read_structured(reading: &mut Reading, structure: Structure) {
    let read = match structure {
        Structure::Json => read_object(reading),
        Structure::Other(essence) => Err(Error::invalid(format!(
            "the CloudEvent is written as {essence:?}, which is not read; send {STRUCTURED} or binary mode"
        ))),
    };
    reading.blame(read);
}

fn read_object(reading: &mut Reading) -> Result<()> {
    let bytes = reading.received.message.body.bytes.clone();
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::invalid(format!("the CloudEvent cannot be read: {error}"))
    };
    let object: BTreeMap<String, &RawValue> =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
    let mut identity = Identity::default();
    let (mut inside, mut base64) = (None, None);
    let mut content_type = JSON.to_owned();
    for (name, value) in object {
        match name.as_str() {
            "data" => inside = Some(value.get()),
            "data_base64" => base64 = Some(plain(value)),
            "datacontenttype" => content_type = plain(value),
            // An attribute that is null is one that is not there.
            _ if value.get() == "null" => {}
            name => {
                let taken = attribute(reading, &mut identity, name, &plain(value));
                reading.blame(taken);
            }
        }
    }
    let bytes = match (inside, base64) {
        (_, Some(base64)) => BASE64.decode(base64).map_err(|error| unreadable(&error))?,
        (Some(json), None) if is_json(&content_type) => json.as_bytes().to_vec(),
        (Some(json), None) => {
            serde_json::from_str(json).map_or_else(|_| json.as_bytes().to_vec(), String::into_bytes)
        }
        (None, None) => Vec::new(),
    };
    identify(reading, identity)?;
    // Of an event that cannot be read, what came is kept as it came.
    if reading.received.poison.is_none() {
        let content_type =
            if content_type == JSON { Cow::Borrowed(JSON) } else { content_type.into() };
        reading.received.message.body = Body::raw(bytes, content_type);
    }
    Ok(())
}

/// The value of an attribute as text; numbers and truth values are written as JSON writes them.
fn plain(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

fn attribute(
    reading: &mut Reading,
    identity: &mut Identity,
    name: &str,
    value: &str,
) -> Result<()> {
    let message = &mut reading.received.message;
    let mut keep = |name: &str| drop(message.headers.insert(name, value));
    match name {
        "specversion" if value.starts_with("1.") => {}
        "specversion" => {
            return Err(Error::invalid(format!(
                "the CloudEvent is of the version {value:?}; {SPEC_VERSION} is read"
            )));
        }
        "id" => identity.id = Some(value.to_owned()),
        "source" => identity.source = Some(value.to_owned()),
        "type" => identity.kind = Some(value.to_owned()),
        "time" => message.created_at = parsed("time", value)?,
        "subject" => match Key::new(value) {
            Ok(key) => message.key = Some(key),
            Err(_) => keep(FOREIGN_SUBJECT),
        },
        "dataschema" => keep(FOREIGN_SCHEMA),
        // The broker's own content type says it already.
        "datacontenttype" => {}
        _ => match OURS.into_iter().chain(noted::ALL).find(|ours| ours.replace('-', "") == name) {
            Some(ours) => {
                identity.is_ours |= ours == ID;
                reading.take(ours, value);
            }
            // What only a dead letter has is history; the rest is the application's.
            None if name.starts_with("punctual") => {}
            None => keep(name),
        },
    }
    Ok(())
}

/// Gives the message the identity of its event.
fn identify(reading: &mut Reading, identity: Identity) -> Result<()> {
    let Identity { id, source, kind, is_ours } = identity;
    let needed = |value: Option<String>, name: &str| {
        value.filter(|value| !value.is_empty()).ok_or_else(|| {
            Error::invalid(format!("the CloudEvent has no {name:?}, which every event needs"))
        })
    };
    let (id, source) = (needed(id, "id")?, needed(source, "source")?);
    let kind = needed(kind, "type")?;
    let message = &mut reading.received.message;
    if source == SOURCE && !is_ours {
        message.id = parsed("id", &id)?;
        return Ok(());
    }
    if !is_ours {
        message.id = id_of(format_args!("{source} {id}"));
    }
    if kind != message.topic.as_str() {
        drop(message.headers.insert(FOREIGN_TYPE, kind));
    }
    drop(message.headers.insert(FOREIGN_ID, id));
    drop(message.headers.insert(FOREIGN_SOURCE, source));
    Ok(())
}

#[cfg(test)]
mod tests;
