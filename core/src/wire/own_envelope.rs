//! Own envelope: headers of the application under their own names, fields of Punctual in headers that begin
//! with `punctual-`, and rarely used fields together in one of them, as JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{DecodedMessage, Wire};
use crate::error::{Error, Result};
use crate::model::{
    HandlerOptions, Key, Message, Occurrence, Priority, Relations, Source, reserved_headers,
};
use crate::transport::{OutgoingMessage, Rejection};

pub(in crate::wire) const ID: &str = "punctual-id";
pub(in crate::wire) const KEY: &str = "punctual-key";
pub(in crate::wire) const CREATED: &str = "punctual-created";
pub(in crate::wire) const DUE: &str = "punctual-due";
pub(in crate::wire) const CORRELATION: &str = "punctual-correlation";
pub(in crate::wire) const CAUSATION: &str = "punctual-causation";
pub(in crate::wire) const SEQUENCE: &str = "punctual-sequence";
pub(in crate::wire) const MORE: &str = "punctual-more";
pub(in crate::wire) const ATTEMPT: &str = "punctual-attempt";
pub(in crate::wire) const GROUP: &str = "punctual-group";
pub(in crate::wire) const DEAD_REASON: &str = "punctual-dead-reason";
pub(in crate::wire) const DEAD_ERROR: &str = "punctual-dead-error";
pub(in crate::wire) const DEAD_TOPIC: &str = "punctual-dead-topic";
pub(in crate::wire) const DEAD_ATTEMPTS: &str = "punctual-dead-attempts";
pub(in crate::wire) const DEAD_AT: &str = "punctual-dead-at";
pub(in crate::wire) const RESERVED: &str = "punctual-";

/// Largest size of the error in a dead letter in bytes.
const DEAD_ERROR_MAX: usize = 2_048;

/// Fields that few messages have. The aliases are the names in messages of earlier builds.
#[derive(Serialize, Deserialize)]
struct ExtraFields<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dedupe: Option<Cow<'a, Key>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    exclusive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    occurrence: Option<Cow<'a, Occurrence>>,
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "terms")]
    handler_options: Option<Cow<'a, HandlerOptions>>,
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "ties")]
    relations: Option<Cow<'a, Relations>>,
}

/// Encodes a message to send.
pub(in crate::wire) fn wire(outgoing: &OutgoingMessage) -> Result<Wire> {
    let message = &*outgoing.message;
    let mut wire = Wire {
        headers: Vec::with_capacity(message.headers.len() + 4),
        body: message.body.bytes.clone(),
        content_type: message.body.content_type.clone(),
    };
    let own = message.headers.all();
    wire.headers.extend(own.map(|(name, value)| (Cow::Owned(name.to_owned()), value.to_owned())));
    wire.set(ID, message.id);
    wire.set(CREATED, message.created_at);
    if message.due_at != message.created_at {
        wire.set(DUE, message.due_at);
    }
    wire.set_some(KEY, message.key.as_ref());
    wire.set_some(CORRELATION, message.correlation.id.as_ref());
    wire.set_some(CAUSATION, message.correlation.causation);
    wire.set_some(SEQUENCE, Some(message.correlation.sequence).filter(|sequence| *sequence > 0));
    wire.set_some(ATTEMPT, Some(outgoing.attempt).filter(|attempt| *attempt > 0));
    wire.set_some(GROUP, outgoing.group.as_ref());
    wire.set_some(MORE, extra_fields(message)?);
    Ok(wire)
}

/// Encodes a dead letter: with reason, topic, number of attempts and time.
pub(in crate::wire) fn dead(message: &Arc<Message>, rejection: &Rejection) -> Result<Wire> {
    let message = Arc::clone(message);
    let topic = message.topic.clone();
    let attempt = rejection.attempt;
    let outgoing =
        OutgoingMessage { message, delay: std::time::Duration::ZERO, attempt, group: None };
    let mut wire = wire(&outgoing)?;
    wire.set(DEAD_REASON, rejection.reason.as_str());
    wire.set(DEAD_TOPIC, topic);
    wire.set(DEAD_ATTEMPTS, rejection.attempt);
    wire.set(DEAD_AT, rejection.at);
    wire.set_some(DEAD_ERROR, rejection.error.as_deref().map(one_line));
    Ok(wire)
}

impl Wire {
    pub(in crate::wire) fn set(&mut self, name: &'static str, value: impl fmt::Display) {
        self.headers.push((Cow::Borrowed(name), value.to_string()));
    }

    fn set_some(&mut self, name: &'static str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }
}

/// Decoder of a message, header by header; the due time is set when all have been read.
pub(in crate::wire) struct Decoder {
    pub(in crate::wire) received: DecodedMessage,
    pub(in crate::wire) due_at: Option<Timestamp>,
}

impl Decoder {
    /// Reads one header; one that cannot be read makes the message poison.
    pub(in crate::wire) fn read_header(&mut self, name: &str, value: &str) {
        let read = self.apply_header(name, value);
        self.record_error(read);
    }

    /// Stores the first error as the reason for which the message is poison.
    pub(in crate::wire) fn record_error(&mut self, read: Result<()>) {
        if let Err(error) = read {
            self.received.poison.get_or_insert_with(|| error.to_string());
        }
    }

    fn apply_header(&mut self, name: &str, value: &str) -> Result<()> {
        let received = &mut self.received;
        let message = &mut received.message;
        match name {
            ID => message.id = parsed(name, value)?,
            KEY => message.key = Some(Key::stored(value)),
            CREATED => message.created_at = parsed(name, value)?,
            DUE => self.due_at = Some(parsed(name, value)?),
            CORRELATION => message.correlation.id = Some(Arc::from(value)),
            CAUSATION => message.correlation.causation = Some(parsed(name, value)?),
            SEQUENCE => message.correlation.sequence = parsed(name, value)?,
            ATTEMPT => received.attempt = parsed(name, value)?,
            GROUP => received.group = Some(value.to_owned()),
            MORE => apply_extra(message, value)?,
            // The engine's own count, which is among the headers of the message.
            reserved_headers::SNOOZES => {
                message.headers.set_reserved(
                    reserved_headers::SNOOZES,
                    parsed::<u32>(name, value)?.to_string(),
                );
            }
            _ if name.starts_with(RESERVED) => {
                // Reserved headers of the message are restored; the others belong to a dead letter and are
                // dropped when the message is sent again.
                if let Some(name) = reserved_headers::ALL.iter().find(|known| **known == name) {
                    message.headers.set_reserved(name, value.to_owned());
                }
            }
            _ => drop(message.headers.insert(name, value)),
        }
        Ok(())
    }

    /// Returns the message as it was sent.
    pub(in crate::wire) fn finish(mut self) -> DecodedMessage {
        let message = &mut self.received.message;
        message.due_at = self.due_at.unwrap_or(message.created_at);
        self.received
    }
}

fn apply_extra(message: &mut Message, text: &str) -> Result<()> {
    let extra: ExtraFields<'static> =
        serde_json::from_str(text).map_err(|error| unreadable(MORE, text, &error))?;
    message.priority = extra.priority.unwrap_or_default();
    message.source = extra.source.unwrap_or(Source::Published);
    message.dedupe = extra.dedupe.map(Cow::into_owned);
    message.exclusive = extra.exclusive;
    message.occurrence = extra.occurrence.map(Cow::into_owned);
    message.handler_options =
        extra.handler_options.map(|handler_options| Arc::new(handler_options.into_owned()));
    // Refused relations are dropped: they would also follow the dead letter that the message becomes.
    let Some(relations) = extra.relations else { return Ok(()) };
    relations.check_received().map_err(|error| unreadable(MORE, text, &error))?;
    message.relations = Some(Arc::new(relations.into_owned()));
    Ok(())
}

/// Returns the rarely used fields of a message as JSON; none for most messages.
fn extra_fields(message: &Message) -> Result<Option<String>> {
    let extra = ExtraFields {
        priority: (message.priority != Priority::default()).then_some(message.priority),
        source: (message.source != Source::Published).then_some(message.source),
        dedupe: message.dedupe.as_ref().map(Cow::Borrowed),
        exclusive: message.exclusive,
        occurrence: message.occurrence.as_ref().map(Cow::Borrowed),
        handler_options: message.handler_options.as_deref().map(Cow::Borrowed),
        relations: message.relations.as_deref().map(Cow::Borrowed),
    };
    let ExtraFields { priority, source, dedupe, exclusive, occurrence, handler_options, relations } =
        &extra;
    if priority.is_none()
        && source.is_none()
        && dedupe.is_none()
        && !exclusive
        && occurrence.is_none()
        && handler_options.is_none()
        && relations.is_none()
    {
        return Ok(None);
    }
    let text = serde_json::to_string(&extra).map_err(|error| {
        Error::internal(format!("the message {} cannot be written: {error}", message.id))
    })?;
    Ok(Some(text))
}

pub(in crate::wire) fn parsed<T: FromStr<Err: fmt::Display>>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|error| unreadable(name, value, &error))
}

pub(in crate::wire) fn unreadable(name: &str, value: &str, error: &dyn fmt::Display) -> Error {
    Error::invalid(format!("the header {name:?} with {value:?} cannot be read: {error}"))
}

/// Returns an error as one line, as a header can carry it.
fn one_line(error: &str) -> String {
    let mut line: String =
        error.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if line.len() > DEAD_ERROR_MAX {
        line.truncate(line.floor_char_boundary(DEAD_ERROR_MAX));
    }
    line
}
