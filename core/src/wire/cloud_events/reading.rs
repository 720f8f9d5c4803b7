//! Reading CloudEvents: the attributes out of the headers of a binary event, or everything out of the
//! object of a structured one. What cannot be read makes the message poison and leaves its body as it came.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::value::RawValue;

use super::{
    FOREIGN_ID, FOREIGN_SCHEMA, FOREIGN_SOURCE, FOREIGN_SUBJECT, FOREIGN_TYPE, PREFIX_DEFAULT,
    SOURCE, SPEC_VERSION, STRUCTURED, essence, is_json,
};
use crate::error::{Error, Result};
use crate::model::{Body, JSON, Key, noted};
use crate::wire::id_of;
use crate::wire::own::{
    ATTEMPT, CAUSATION, CORRELATION, CREATED, DUE, GROUP, ID, KEY, MORE, Reading, SEQUENCE, parsed,
};

/// What may stand before them: HTTP and NATS, Kafka, AMQP twice, MQTT.
pub(super) const PREFIXES: [&str; 5] = [PREFIX_DEFAULT, "ce_", "cloudEvents:", "cloudEvents_", ""];
/// Our headers that come back as extensions.
const OURS: [&str; 11] =
    [ID, KEY, CREATED, DUE, CORRELATION, CAUSATION, SEQUENCE, MORE, ATTEMPT, GROUP, noted::SNOOZES];

/// What a structured event is written in.
pub(in crate::wire) enum Structure {
    /// One event as JSON.
    Json,
    /// Something that is not read.
    Other(String),
}

/// What a content type says about a structured event; none when it is none.
pub(in crate::wire) fn structure(content_type: &str) -> Option<Structure> {
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
pub(in crate::wire) fn prefix(header: &str) -> Option<&'static str> {
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
pub(in crate::wire) fn read_binary(reading: &mut Reading, prefix: &str) {
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
pub(in crate::wire) fn read_structured(reading: &mut Reading, structure: Structure) {
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
                // A broker's copy of an event has the newer count in a header beside it.
                let counted = reading.received.attempt;
                reading.take(ours, value);
                reading.received.attempt = reading.received.attempt.max(counted);
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
    // One of ours that names another source has the same identity twice; a stranger's that was sent on
    // by us has two.
    if is_ours && message.id.to_string() == id {
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
