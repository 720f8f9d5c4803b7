//! Wire format of a message on a broker: a body, its content type, and text headers, because every broker can
//! carry those or can be made to. All transports encode and decode messages here, so a message that was sent
//! through one transport and forwarded through another is the same message.
//!
//! There are three envelopes: our own (`own_envelope.rs`) and the two modes of CloudEvents (`cloud_events.rs`).
//! The sender sets which one is written; all of them are read. A foreign message, from a sender that uses none
//! of them, is read as well: its identity is computed from its position on the broker, so that a second
//! delivery is recognized as the same message.

mod cloud_events;
mod own_envelope;
mod wrapping;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::own_envelope::Decoder;
use crate::error::Result;
use crate::model::{
    Body, Correlation, Headers, Key, Message, MessageId, Priority, Queue, Source, Topic, mix,
};
use crate::transport::{OutgoingMessage, Rejection};

pub use self::cloud_events::PREFIX_DEFAULT;
pub use self::wrapping::Wrapping;
pub use crate::model::CONTENT_TYPE_UNKNOWN;

/// Envelope of a message on a broker, as it is written. All envelopes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Envelope {
    /// Our own headers beside the body.
    #[default]
    Own,
    /// A CloudEvent 1.0 in binary mode: the body as it is, the attributes as headers.
    CloudEventsBinary,
    /// A CloudEvent 1.0 in structured mode: everything in one JSON object. Headers of the application stay
    /// headers, because their names need not be names of attributes.
    CloudEventsStructured,
}

/// Message as a broker carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Names and values, in no particular order.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// Bytes of the body.
    pub body: Bytes,
    /// Media type of the body.
    pub content_type: Cow<'static, str>,
}

/// Message as a broker delivered it.
#[derive(Debug)]
pub struct RawMessage<'a> {
    /// Topic it was received from.
    pub topic: &'a Topic,
    /// Bytes of the body.
    pub body: Bytes,
    /// Media type of the body, when the broker stores it.
    pub content_type: Option<String>,
    /// Key, when the broker has one.
    pub key: Option<&'a str>,
    /// Position on the broker, as text that is unique to this message; the identity of a message without an id.
    pub place: fmt::Arguments<'a>,
    /// When it was sent, as far as the broker stores it; else now.
    pub sent_at: Timestamp,
}

/// Message decoded from a broker.
#[derive(Clone, Debug)]
pub struct DecodedMessage {
    /// The message; of one that cannot be decoded, as much as could be.
    pub message: Message,
    /// Attempts spent before this delivery, as stored by the sender.
    pub attempt: u32,
    /// Only group it is for; none means all groups.
    pub group: Option<String>,
    /// Error of decoding, if it failed.
    pub poison: Option<String>,
}

impl DecodedMessage {
    /// Returns whether it is for a group. Where a broker cannot send to one group alone, the other groups skip
    /// the message.
    pub fn is_for(&self, group: &str) -> bool {
        self.group.as_deref().is_none_or(|only| only == group)
    }
}

impl Wire {
    /// Encodes a message to send in our own envelope.
    pub fn of(outgoing: &OutgoingMessage) -> Result<Self> {
        own_envelope::wire(outgoing)
    }

    /// Encodes a message to send in an envelope.
    pub fn in_envelope(outgoing: &OutgoingMessage, envelope: Envelope) -> Result<Self> {
        Wrapping::from(envelope).wire(outgoing, PREFIX_DEFAULT)
    }

    /// Encodes a dead letter in our own envelope: with reason, topic, number of attempts and time.
    pub fn dead(message: &Arc<Message>, rejection: &Rejection) -> Result<Self> {
        own_envelope::dead(message, rejection)
    }

    /// Encodes a dead letter in an envelope.
    pub fn dead_in_envelope(
        message: &Arc<Message>,
        rejection: &Rejection,
        envelope: Envelope,
    ) -> Result<Self> {
        own_envelope::dead(message, rejection)?.wrapped(message, envelope)
    }

    /// Replaces the prefix of the attributes of a binary CloudEvent, which is [`PREFIX_DEFAULT`]; CloudEvents
    /// prescribes `ce_` for Kafka, `cloudEvents_` for AMQP, none for MQTT.
    pub fn with_attribute_prefix(mut self, prefix: &str) -> Self {
        for (name, _) in &mut self.headers {
            if let Some(attribute) = name.strip_prefix(PREFIX_DEFAULT) {
                *name = Cow::Owned(format!("{prefix}{attribute}"));
            }
        }
        self
    }

    /// Moves the headers of a structured event into the object, as extensions, for brokers without headers.
    /// Fails for a header whose name is not valid for an extension.
    pub fn with_headers_inside(self) -> Result<Self> {
        cloud_events::headers_inside(self)
    }

    /// Returns the value of a header.
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

/// Decodes a message that a broker delivered, in any envelope. Never fails: a message that cannot
/// be decoded is poison.
///
/// Headers that break the rules of [`Headers`], which only foreign senders can have sent, are left out.
pub fn receive<'a>(
    raw: RawMessage<'_>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> DecodedMessage {
    let place = raw.place;
    let structured = raw.content_type.as_deref().and_then(cloud_events::structure);
    let mut decoder = Decoder { received: without_headers(raw), due_at: None };
    let mut prefix = None;
    for (name, value) in headers {
        decoder.read_header(name, value);
        prefix = prefix.or_else(|| cloud_events::prefix(name));
    }
    if let Some(structure) = structured {
        cloud_events::decode_structured(&mut decoder, structure);
    } else if let Some(prefix) = prefix {
        cloud_events::decode_binary(&mut decoder, prefix);
    }
    let mut received = decoder.finish();
    if received.message.id == NO_ID {
        received.message.id = id_of(place);
    }
    received
}

/// Placeholder of the id until all headers are read; nearly every message has an id, and then the one of its
/// position need not be computed.
const NO_ID: MessageId = MessageId::from_uuid(Uuid::nil());

/// Returns a delivery decoded without any header.
fn without_headers(raw: RawMessage<'_>) -> DecodedMessage {
    let content_type = raw.content_type.unwrap_or_else(|| CONTENT_TYPE_UNKNOWN.to_owned());
    DecodedMessage {
        message: Message {
            id: NO_ID,
            topic: raw.topic.clone(),
            queue: Queue::default(),
            priority: Priority::default(),
            due_at: raw.sent_at,
            created_at: raw.sent_at,
            source: Source::Published,
            key: raw.key.and_then(|key| Key::new(key).ok()),
            dedupe: None,
            exclusive: false,
            body: Body::raw(raw.body, content_type),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        },
        attempt: 0,
        group: None,
        poison: None,
    }
}

/// Computes the id of a message that has none from its position.
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
