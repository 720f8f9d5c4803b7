//! Decoding of CloudEvents: the attributes from the headers of a binary event, or everything from the object of
//! a structured one. An event that cannot be decoded makes the message poison and leaves its body as it was
//! received.

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
use crate::model::{Body, JSON, Key, reserved_headers};
use crate::wire::id_of;
use crate::wire::own_envelope::{
    ATTEMPT, CAUSATION, CORRELATION, CREATED, DUE, Decoder, GROUP, ID, KEY, MORE, SEQUENCE, parsed,
};

/// Prefixes of attributes: HTTP and NATS, Kafka, AMQP twice, MQTT.
pub(super) const PREFIXES: [&str; 5] = [PREFIX_DEFAULT, "ce_", "cloudEvents:", "cloudEvents_", ""];
/// Our headers that are sent as extensions.
const OURS: [&str; 11] = [
    ID,
    KEY,
    CREATED,
    DUE,
    CORRELATION,
    CAUSATION,
    SEQUENCE,
    MORE,
    ATTEMPT,
    GROUP,
    reserved_headers::SNOOZES,
];

/// Format of a structured event.
pub(in crate::wire) enum Structure {
    /// One event in JSON.
    Json,
    /// A format that is not supported.
    Other(String),
}

/// Returns the format of a structured event by the content type; none when it is not one.
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

/// Returns the prefix of the attributes, if this header identifies a binary event.
pub(in crate::wire) fn prefix(header: &str) -> Option<&'static str> {
    let before = header.strip_suffix("specversion")?;
    PREFIXES.into_iter().find(|prefix| *prefix == before)
}

/// Attributes that identify an event.
#[derive(Default)]
struct Identity {
    id: Option<String>,
    source: Option<String>,
    kind: Option<String>,
    is_ours: bool,
}

/// Decodes a binary event: the attributes among the headers read so far.
pub(in crate::wire) fn decode_binary(decoder: &mut Decoder, prefix: &str) {
    let headers = &mut decoder.received.message.headers;
    let names: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.starts_with(prefix))
        .map(|(name, _)| name.to_owned())
        .collect();
    let attributes: Vec<(String, String)> = names
        .into_iter()
        .filter_map(|name| headers.remove(&name).map(|value| (name, value)))
        .collect();
    let mut identity = Identity::default();
    for (name, value) in &attributes {
        let result = read_attribute(decoder, &mut identity, &name[prefix.len()..], value);
        decoder.record_error(result);
    }
    let result = identify(decoder, identity);
    decoder.record_error(result);
}

/// Decodes a structured event: the object in the body.
pub(in crate::wire) fn decode_structured(decoder: &mut Decoder, structure: Structure) {
    let read = match structure {
        Structure::Json => read_object(decoder),
        Structure::Other(essence) => Err(Error::invalid(format!(
            "the CloudEvent has the format {essence:?}, which is not supported; use {STRUCTURED} or binary mode"
        ))),
    };
    decoder.record_error(read);
}

fn read_object(decoder: &mut Decoder) -> Result<()> {
    let bytes = decoder.received.message.body.bytes.clone();
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
            "data_base64" => base64 = Some(attribute_text(value)),
            "datacontenttype" => content_type = attribute_text(value),
            // An attribute that is null counts as missing.
            _ if value.get() == "null" => {}
            name => {
                let result = read_attribute(decoder, &mut identity, name, &attribute_text(value));
                decoder.record_error(result);
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
    identify(decoder, identity)?;
    // The body of an event that cannot be decoded stays as it was received.
    if decoder.received.poison.is_none() {
        let content_type =
            if content_type == JSON { Cow::Borrowed(JSON) } else { content_type.into() };
        decoder.received.message.body = Body::raw(bytes, content_type);
    }
    Ok(())
}

/// Returns the value of an attribute as text; numbers and booleans as in JSON.
fn attribute_text(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned())
}

fn read_attribute(
    decoder: &mut Decoder,
    identity: &mut Identity,
    name: &str,
    value: &str,
) -> Result<()> {
    let message = &mut decoder.received.message;
    let mut keep = |name: &str| drop(message.headers.insert(name, value));
    match name {
        "specversion" if value.starts_with("1.") => {}
        "specversion" => {
            return Err(Error::invalid(format!(
                "the CloudEvent has the version {value:?}, which is not supported; use {SPEC_VERSION}"
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
        // The broker's own content type is the same.
        "datacontenttype" => {}
        _ => match OURS
            .into_iter()
            .chain(reserved_headers::ALL)
            .find(|ours| ours.replace('-', "") == name)
        {
            Some(ours) => {
                identity.is_ours |= ours == ID;
                // A broker's copy of an event may have a newer count in a header beside it.
                let counted = decoder.received.attempt;
                decoder.read_header(ours, value);
                decoder.received.attempt = decoder.received.attempt.max(counted);
            }
            // Extensions of a dead letter are dropped; the others belong to the application.
            None if name.starts_with("punctual") => {}
            None => keep(name),
        },
    }
    Ok(())
}

/// Sets the id of the message from the identity of its event.
fn identify(decoder: &mut Decoder, identity: Identity) -> Result<()> {
    let Identity { id, source, kind, is_ours } = identity;
    let required = |value: Option<String>, name: &str| {
        value.filter(|value| !value.is_empty()).ok_or_else(|| {
            Error::invalid(format!("the CloudEvent has no {name:?}, which is required"))
        })
    };
    let (id, source) = (required(id, "id")?, required(source, "source")?);
    let kind = required(kind, "type")?;
    let message = &mut decoder.received.message;
    if source == SOURCE && !is_ours {
        message.id = parsed("id", &id)?;
        return Ok(());
    }
    // An event of ours with another source has the same id twice; a foreign one that we forwarded has two ids.
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
