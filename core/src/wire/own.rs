//! Our own envelope: what an application put into the headers travels under its own name, what Punctual
//! needs in headers that begin with `punctual-`, and what a message rarely has together in one of them,
//! as JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{DecodedMessage, Wire};
use crate::error::{Error, Result};
use crate::model::{HandlerOptions, Key, Message, Occurrence, Priority, Relations, Source, noted};
use crate::transport::{Outgoing, Rejection};

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

/// The most bytes of an error that travel with a dead letter.
const DEAD_ERROR_MAX: usize = 2_048;

/// What few messages have.
#[derive(Serialize, Deserialize)]
struct More<'a> {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "terms")]
    handler_options: Option<Cow<'a, HandlerOptions>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "ties")]
    relations: Option<Cow<'a, Relations>>,
}

/// A message as our own envelope carries it.
pub(in crate::wire) fn wire(outgoing: &Outgoing) -> Result<Wire> {
    let message = &*outgoing.message;
    let mut wire = Wire {
        headers: Vec::with_capacity(message.headers.len() + 4),
        body: message.body.bytes.clone(),
        content_type: message.body.content_type.clone(),
    };
    let own = message.headers.all();
    wire.headers.extend(own.map(|(name, value)| (Cow::Owned(name.to_owned()), value.to_owned())));
    wire.note(ID, message.id);
    wire.note(CREATED, message.created_at);
    if message.due_at != message.created_at {
        wire.note(DUE, message.due_at);
    }
    wire.note_some(KEY, message.key.as_ref());
    wire.note_some(CORRELATION, message.correlation.id.as_ref());
    wire.note_some(CAUSATION, message.correlation.causation);
    wire.note_some(SEQUENCE, Some(message.correlation.sequence).filter(|sequence| *sequence > 0));
    wire.note_some(ATTEMPT, Some(outgoing.attempt).filter(|attempt| *attempt > 0));
    wire.note_some(GROUP, outgoing.group.as_ref());
    wire.note_some(MORE, more(message)?);
    Ok(wire)
}

/// A message as a dead letter: with why, from where, after how many attempts and when.
pub(in crate::wire) fn dead(message: &Arc<Message>, rejection: &Rejection) -> Result<Wire> {
    let message = Arc::clone(message);
    let topic = message.topic.clone();
    let attempt = rejection.attempt;
    let outgoing = Outgoing { message, delay: std::time::Duration::ZERO, attempt, group: None };
    let mut wire = wire(&outgoing)?;
    wire.note(DEAD_REASON, rejection.reason.as_str());
    wire.note(DEAD_TOPIC, topic);
    wire.note(DEAD_ATTEMPTS, rejection.attempt);
    wire.note(DEAD_AT, rejection.at);
    wire.note_some(DEAD_ERROR, rejection.error.as_deref().map(one_line));
    Ok(wire)
}

impl Wire {
    pub(in crate::wire) fn note(&mut self, name: &'static str, value: impl fmt::Display) {
        self.headers.push((Cow::Borrowed(name), value.to_string()));
    }

    fn note_some(&mut self, name: &'static str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.note(name, value);
        }
    }
}

/// What is read while headers come in: the due time is settled when all of them have.
pub(in crate::wire) struct Reading {
    pub(in crate::wire) received: DecodedMessage,
    pub(in crate::wire) due_at: Option<Timestamp>,
}

impl Reading {
    /// Takes one header in; what cannot be read makes the message poison.
    pub(in crate::wire) fn take(&mut self, name: &str, value: &str) {
        let taken = self.note(name, value);
        self.blame(taken);
    }

    /// Remembers the first thing that could not be read.
    pub(in crate::wire) fn blame(&mut self, read: Result<()>) {
        if let Err(error) = read {
            self.received.poison.get_or_insert_with(|| error.to_string());
        }
    }

    fn note(&mut self, name: &str, value: &str) -> Result<()> {
        let received = &mut self.received;
        let message = &mut received.message;
        match name {
            ID => message.id = parsed(name, value)?,
            KEY => message.key = Some(Key::written(value)),
            CREATED => message.created_at = parsed(name, value)?,
            DUE => self.due_at = Some(parsed(name, value)?),
            CORRELATION => message.correlation.id = Some(Arc::from(value)),
            CAUSATION => message.correlation.causation = Some(parsed(name, value)?),
            SEQUENCE => message.correlation.sequence = parsed(name, value)?,
            ATTEMPT => received.attempt = parsed(name, value)?,
            GROUP => received.group = Some(value.to_owned()),
            MORE => note_more(message, value)?,
            // The engine's own count, which a message has among its headers.
            noted::SNOOZES => {
                message.headers.note(noted::SNOOZES, parsed::<u32>(name, value)?.to_string());
            }
            _ if name.starts_with(RESERVED) => {
                // What stays with the message stays; the rest is what a dead letter says of itself, and
                // history once the message is sent again.
                if let Some(name) = noted::ALL.iter().find(|known| **known == name) {
                    message.headers.note(name, value.to_owned());
                }
            }
            _ => drop(message.headers.insert(name, value)),
        }
        Ok(())
    }

    /// The message as it was sent.
    pub(in crate::wire) fn done(mut self) -> DecodedMessage {
        let message = &mut self.received.message;
        message.due_at = self.due_at.unwrap_or(message.created_at);
        self.received
    }
}

fn note_more(message: &mut Message, text: &str) -> Result<()> {
    let more: More<'static> =
        serde_json::from_str(text).map_err(|error| unreadable(MORE, text, &error))?;
    message.priority = more.priority.unwrap_or_default();
    message.source = more.source.unwrap_or(Source::Published);
    message.dedupe = more.dedupe.map(Cow::into_owned);
    message.exclusive = more.exclusive;
    message.occurrence = more.occurrence.map(Cow::into_owned);
    message.handler_options =
        more.handler_options.map(|handler_options| Arc::new(handler_options.into_owned()));
    // Refused ties are not kept: they would also follow the dead letter that the message becomes.
    let Some(relations) = more.relations else { return Ok(()) };
    relations.check_received().map_err(|error| unreadable(MORE, text, &error))?;
    message.relations = Some(Arc::new(relations.into_owned()));
    Ok(())
}

/// What a message has beyond the usual, as JSON; none for most.
fn more(message: &Message) -> Result<Option<String>> {
    let more = More {
        priority: (message.priority != Priority::default()).then_some(message.priority),
        source: (message.source != Source::Published).then_some(message.source),
        dedupe: message.dedupe.as_ref().map(Cow::Borrowed),
        exclusive: message.exclusive,
        occurrence: message.occurrence.as_ref().map(Cow::Borrowed),
        handler_options: message.handler_options.as_deref().map(Cow::Borrowed),
        relations: message.relations.as_deref().map(Cow::Borrowed),
    };
    let More { priority, source, dedupe, exclusive, occurrence, handler_options, relations } =
        &more;
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
    let text = serde_json::to_string(&more).map_err(|error| {
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

/// An error as a header can carry it.
fn one_line(error: &str) -> String {
    let mut line: String =
        error.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if line.len() > DEAD_ERROR_MAX {
        line.truncate(line.floor_char_boundary(DEAD_ERROR_MAX));
    }
    line
}
