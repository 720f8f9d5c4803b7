//! How a message looks on a broker: a body, its content type, and text headers, because every broker can
//! carry those or can be made to. All transports write and read messages here, so a message that was sent
//! through one and sent on through another is the same message.
//!
//! What an application put into the headers travels under its own name. What Punctual needs travels in
//! headers that begin with `punctual-`; what a message rarely has is together in one of them, as JSON.
//! A message of somebody who knows nothing of Punctual has none of these and is read as well: it gets an
//! identity from its place on the broker, so that a second delivery of it is known as the same message.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{
    Body, Headers, Key, Message, MessageId, Occurrence, Priority, Queue, Source, Terms, Ties,
    Topic, Trail, mix,
};
use crate::transport::{Outgoing, Rejection};

/// The content type of a body that says nothing about itself.
pub const CONTENT_TYPE_UNKNOWN: &str = "application/octet-stream";

const ID: &str = "punctual-id";
const KEY: &str = "punctual-key";
const CREATED: &str = "punctual-created";
const DUE: &str = "punctual-due";
const CORRELATION: &str = "punctual-correlation";
const CAUSATION: &str = "punctual-causation";
const SEQUENCE: &str = "punctual-sequence";
const MORE: &str = "punctual-more";
const ATTEMPT: &str = "punctual-attempt";
const GROUP: &str = "punctual-group";
const SNOOZES: &str = "punctual-snoozes";
const DEAD_REASON: &str = "punctual-dead-reason";
const DEAD_ERROR: &str = "punctual-dead-error";
const DEAD_TOPIC: &str = "punctual-dead-topic";
const DEAD_ATTEMPTS: &str = "punctual-dead-attempts";
const DEAD_AT: &str = "punctual-dead-at";
const RESERVED: &str = "punctual-";

/// The most bytes of an error that travel with a dead letter.
const DEAD_ERROR_MAX: usize = 2_048;

/// A message as a broker carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Names and values, in no particular order.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// The bytes of the body.
    pub body: Bytes,
    /// What the bytes are, as a media type.
    pub content_type: Cow<'static, str>,
}

/// What a broker delivered.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// The topic it was received from.
    pub topic: &'a Topic,
    /// The bytes of the body.
    pub body: Bytes,
    /// What the bytes are, when the broker was told.
    pub content_type: Option<String>,
    /// What it is about, when the broker has a notion of that.
    pub key: Option<&'a str>,
    /// Where it lies on the broker, as text that no other message has: the identity of one that brings
    /// none.
    pub place: fmt::Arguments<'a>,
    /// When it was sent, as far as the broker knows; else now.
    pub sent_at: Timestamp,
}

/// What was read from it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The message; of one that cannot be read, as much as could be.
    pub message: Message,
    /// Attempts spent before this delivery, as far as the sender knew.
    pub attempt: u32,
    /// The only group it is for, when it is not for all of them.
    pub group: Option<String>,
    /// Why it could not be read, when it could not.
    pub poison: Option<String>,
}

impl Received {
    /// Whether a group should get it. Brokers on which a message cannot be sent to one group alone let
    /// the others pass it over.
    pub fn is_for(&self, group: &str) -> bool {
        self.group.as_deref().is_none_or(|only| only == group)
    }
}

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
    terms: Option<Cow<'a, Terms>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ties: Option<Cow<'a, Ties>>,
}

impl Wire {
    /// A message on its way out.
    pub fn of(outgoing: &Outgoing) -> Result<Self> {
        let message = &*outgoing.message;
        let mut wire = Self {
            headers: Vec::with_capacity(message.headers.len() + 4),
            body: message.body.bytes.clone(),
            content_type: message.body.content_type.clone(),
        };
        let own = message.headers.iter();
        wire.headers
            .extend(own.map(|(name, value)| (Cow::Owned(name.to_owned()), value.to_owned())));
        wire.note(ID, message.id);
        wire.note(CREATED, message.created_at);
        if message.due_at != message.created_at {
            wire.note(DUE, message.due_at);
        }
        wire.note_some(KEY, message.key.as_ref());
        wire.note_some(CORRELATION, message.trail.correlation.as_ref());
        wire.note_some(CAUSATION, message.trail.causation);
        wire.note_some(SEQUENCE, Some(message.trail.sequence).filter(|sequence| *sequence > 0));
        wire.note_some(ATTEMPT, Some(outgoing.attempt).filter(|attempt| *attempt > 0));
        wire.note_some(GROUP, outgoing.group.as_ref());
        wire.note_some(MORE, more(message)?);
        Ok(wire)
    }

    /// The same as a dead letter: with why, from where, after how many attempts and when.
    pub fn dead(message: &Arc<Message>, rejection: &Rejection) -> Result<Self> {
        let message = Arc::clone(message);
        let topic = message.topic.clone();
        let attempt = rejection.attempt;
        let outgoing = Outgoing { message, delay: std::time::Duration::ZERO, attempt, group: None };
        let mut wire = Self::of(&outgoing)?;
        wire.note(DEAD_REASON, rejection.reason.as_str());
        wire.note(DEAD_TOPIC, topic);
        wire.note(DEAD_ATTEMPTS, rejection.attempt);
        wire.note(DEAD_AT, rejection.at);
        wire.note_some(DEAD_ERROR, rejection.error.as_deref().map(one_line));
        Ok(wire)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn note(&mut self, name: &'static str, value: impl fmt::Display) {
        self.headers.push((Cow::Borrowed(name), value.to_string()));
    }

    fn note_some(&mut self, name: &'static str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.note(name, value);
        }
    }
}

/// Reads what a broker delivered, with its headers. Never fails: what cannot be read is poison.
///
/// Headers that break the rules of [`Headers`], which only somebody else can have sent, are left out.
pub fn receive<'a>(
    arrived: Arrived<'_>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Received {
    let place = arrived.place;
    let mut received = Received {
        message: Message {
            id: id_of(place),
            topic: arrived.topic.clone(),
            queue: Queue::default(),
            priority: Priority::default(),
            due_at: arrived.sent_at,
            created_at: arrived.sent_at,
            source: Source::Published,
            key: arrived.key.and_then(|key| Key::new(key).ok()),
            dedupe: None,
            exclusive: false,
            body: Body::raw(
                arrived.body,
                arrived.content_type.unwrap_or_else(|| CONTENT_TYPE_UNKNOWN.to_owned()),
            ),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
        },
        attempt: 0,
        group: None,
        poison: None,
    };
    let mut due_at = None;
    for (name, value) in headers {
        let read = if name == DUE {
            parsed(name, value).map(|instant| due_at = Some(instant))
        } else {
            received.note(name, value)
        };
        if let Err(error) = read {
            received.poison.get_or_insert_with(|| error.to_string());
        }
    }
    received.message.due_at = due_at.unwrap_or(received.message.created_at);
    received
}

impl Received {
    /// Takes one header in.
    fn note(&mut self, name: &str, value: &str) -> Result<()> {
        let message = &mut self.message;
        match name {
            ID => message.id = parsed(name, value)?,
            KEY => message.key = Some(Key::written(value)),
            CREATED => message.created_at = parsed(name, value)?,
            CORRELATION => message.trail.correlation = Some(Arc::from(value)),
            CAUSATION => message.trail.causation = Some(parsed(name, value)?),
            SEQUENCE => message.trail.sequence = parsed(name, value)?,
            ATTEMPT => self.attempt = parsed(name, value)?,
            GROUP => self.group = Some(value.to_owned()),
            MORE => self.note_more(value)?,
            // The engine's own count, which a message has among its headers.
            SNOOZES => message.headers.note(SNOOZES, parsed::<u32>(name, value)?.to_string()),
            // What a dead letter says of itself; it is history once the message is sent again.
            _ if name.starts_with(RESERVED) => {}
            _ => drop(message.headers.insert(name, value)),
        }
        Ok(())
    }

    fn note_more(&mut self, text: &str) -> Result<()> {
        let more: More<'static> =
            serde_json::from_str(text).map_err(|error| unreadable(MORE, text, &error))?;
        let message = &mut self.message;
        message.priority = more.priority.unwrap_or_default();
        message.source = more.source.unwrap_or(Source::Published);
        message.dedupe = more.dedupe.map(Cow::into_owned);
        message.exclusive = more.exclusive;
        message.occurrence = more.occurrence.map(Cow::into_owned);
        message.terms = more.terms.map(|terms| Arc::new(terms.into_owned()));
        message.ties = more.ties.map(|ties| Arc::new(ties.into_owned()));
        Ok(())
    }
}

/// What a message has beyond the usual, as JSON; none for most.
fn more(message: &Message) -> Result<Option<String>> {
    let more = More {
        priority: (message.priority != Priority::default()).then_some(message.priority),
        source: (message.source != Source::Published).then_some(message.source),
        dedupe: message.dedupe.as_ref().map(Cow::Borrowed),
        exclusive: message.exclusive,
        occurrence: message.occurrence.as_ref().map(Cow::Borrowed),
        terms: message.terms.as_deref().map(Cow::Borrowed),
        ties: message.ties.as_deref().map(Cow::Borrowed),
    };
    let More { priority, source, dedupe, exclusive, occurrence, terms, ties } = &more;
    if priority.is_none()
        && source.is_none()
        && dedupe.is_none()
        && !exclusive
        && occurrence.is_none()
        && terms.is_none()
        && ties.is_none()
    {
        return Ok(None);
    }
    let text = serde_json::to_string(&more).map_err(|error| {
        Error::internal(format!("the message {} cannot be written: {error}", message.id))
    })?;
    Ok(Some(text))
}

/// The identity of a message that brings none.
fn id_of(place: fmt::Arguments<'_>) -> MessageId {
    let text = place.to_string();
    let hash = |seed: u64| {
        text.bytes().fold(mix(seed), |hash, byte| mix(hash.wrapping_add(u64::from(byte) + 1)))
    };
    let uuid = Uuid::from_u64_pair(hash(1), hash(2));
    let bytes = uuid::Builder::from_custom_bytes(uuid.into_bytes());
    MessageId::from_uuid(bytes.into_uuid())
}

fn parsed<T: FromStr<Err: fmt::Display>>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|error| unreadable(name, value, &error))
}

fn unreadable(name: &str, value: &str, error: &dyn fmt::Display) -> Error {
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

#[cfg(test)]
mod tests;
