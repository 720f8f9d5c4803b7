//! How a message looks on a broker: a body, its content type, and text headers, because every broker can
//! carry those or can be made to. All transports write and read messages here, so a message that was sent
//! through one and sent on through another is the same message.
//!
//! There are three envelopes: our own (`own.rs`) and the two modes of CloudEvents (`cloud_events.rs`).
//! Which one is written is a setting of the sender; all of them are read, whatever was set.
//! A message of somebody who knows nothing of any of this is read as well: it gets an identity from its
//! place on the broker, so that a second delivery of it is known as the same message.

mod cloud_events;
mod own;
mod wrapping;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::own::Reading;
use crate::error::Result;
use crate::model::{
    Body, Correlation, Headers, Key, Message, MessageId, Priority, Queue, Source, Topic, mix,
};
use crate::transport::{Outgoing, Rejection};

pub use self::cloud_events::PREFIX_DEFAULT;
pub use self::wrapping::Wrapping;
pub use crate::model::CONTENT_TYPE_UNKNOWN;

/// How a message is wrapped on a broker. All of them are read; this is what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Envelope {
    /// Our own headers beside the body.
    #[default]
    Own,
    /// A CloudEvent of version 1.0 in binary mode: the body as it is, the attributes as headers.
    CloudEventsBinary,
    /// A CloudEvent of version 1.0 in structured mode: everything in one JSON object. Headers of the
    /// application stay headers, because their names need not be names of attributes.
    CloudEventsStructured,
}

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
pub struct RawMessage<'a> {
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
pub struct DecodedMessage {
    /// The message; of one that cannot be read, as much as could be.
    pub message: Message,
    /// Attempts spent before this delivery, as far as the sender knew.
    pub attempt: u32,
    /// The only group it is for, when it is not for all of them.
    pub group: Option<String>,
    /// Why it could not be read, when it could not.
    pub poison: Option<String>,
}

impl DecodedMessage {
    /// Whether a group should get it. Brokers on which a message cannot be sent to one group alone let
    /// the others pass it over.
    pub fn is_for(&self, group: &str) -> bool {
        self.group.as_deref().is_none_or(|only| only == group)
    }
}

impl Wire {
    /// A message on its way out, in our own envelope.
    pub fn of(outgoing: &Outgoing) -> Result<Self> {
        own::wire(outgoing)
    }

    /// A message on its way out, in an envelope.
    pub fn in_envelope(outgoing: &Outgoing, envelope: Envelope) -> Result<Self> {
        Wrapping::from(envelope).wire(outgoing, PREFIX_DEFAULT)
    }

    /// The same as a dead letter: with why, from where, after how many attempts and when.
    pub fn dead(message: &Arc<Message>, rejection: &Rejection) -> Result<Self> {
        own::dead(message, rejection)
    }

    /// A dead letter in an envelope.
    pub fn dead_in_envelope(
        message: &Arc<Message>,
        rejection: &Rejection,
        envelope: Envelope,
    ) -> Result<Self> {
        own::dead(message, rejection)?.wrapped(message, envelope)
    }

    /// The same with another prefix before the attributes of a binary CloudEvent than [`PREFIX_DEFAULT`];
    /// `ce_` is what CloudEvents prescribes for Kafka, `cloudEvents_` for AMQP, none for MQTT.
    pub fn with_attribute_prefix(mut self, prefix: &str) -> Self {
        for (name, _) in &mut self.headers {
            if let Some(attribute) = name.strip_prefix(PREFIX_DEFAULT) {
                *name = Cow::Owned(format!("{prefix}{attribute}"));
            }
        }
        self
    }

    /// A structured event with its headers in the object, as extensions, for brokers that have no headers.
    /// A header whose name can be none of an extension is refused.
    pub fn with_headers_inside(self) -> Result<Self> {
        cloud_events::headers_inside(self)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn wrapped(self, message: &Message, envelope: Envelope) -> Result<Self> {
        match envelope {
            Envelope::Own => Ok(self),
            Envelope::CloudEventsBinary => {
                cloud_events::binary(self, message, cloud_events::SOURCE, PREFIX_DEFAULT)
            }
            Envelope::CloudEventsStructured => {
                cloud_events::structured(self, message, cloud_events::SOURCE)
            }
        }
    }
}

/// Reads what a broker delivered, with its headers, in whatever envelope it came. Never fails: what
/// cannot be read is poison.
///
/// Headers that break the rules of [`Headers`], which only somebody else can have sent, are left out.
pub fn receive<'a>(
    arrived: RawMessage<'_>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> DecodedMessage {
    let place = arrived.place;
    let structured = arrived.content_type.as_deref().and_then(cloud_events::structure);
    let mut reading = Reading { received: bare(arrived), due_at: None };
    let mut prefix = None;
    for (name, value) in headers {
        reading.take(name, value);
        prefix = prefix.or_else(|| cloud_events::prefix(name));
    }
    if let Some(structure) = structured {
        cloud_events::read_structured(&mut reading, structure);
    } else if let Some(prefix) = prefix {
        cloud_events::read_binary(&mut reading, prefix);
    }
    let mut received = reading.done();
    if received.message.id == NO_ID {
        received.message.id = id_of(place);
    }
    received
}

/// Stands for the identity until all headers are read; nearly every message brings one, and then the one
/// of its place need not be worked out.
const NO_ID: MessageId = MessageId::from_uuid(Uuid::nil());

/// A delivery as it is without any header.
fn bare(arrived: RawMessage<'_>) -> DecodedMessage {
    let content_type = arrived.content_type.unwrap_or_else(|| CONTENT_TYPE_UNKNOWN.to_owned());
    DecodedMessage {
        message: Message {
            id: NO_ID,
            topic: arrived.topic.clone(),
            queue: Queue::default(),
            priority: Priority::default(),
            due_at: arrived.sent_at,
            created_at: arrived.sent_at,
            source: Source::Published,
            key: arrived.key.and_then(|key| Key::new(key).ok()),
            dedupe: None,
            exclusive: false,
            body: Body::raw(arrived.body, content_type),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
        },
        attempt: 0,
        group: None,
        poison: None,
    }
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

#[cfg(test)]
pub(crate) mod tests;
