//! A message as AMQP carries it: text headers become long strings, the content type a property, and every
//! message is persistent. What the broker adds on its way (delivery counts, the history of a delay) is its
//! own business and is taken off again.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::wire::{Arrived, Received, Wire, receive};
use punctual::{Error, Result};

/// What CloudEvents has before its attributes in AMQP 1.0, to which the broker turns headers for such clients.
pub(crate) const ATTRIBUTE_PREFIX: &str = "cloudEvents_";
/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// How often a quorum queue has delivered a message before.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// What brokers and their plugins add.
const OF_THE_BROKER: [&str; 6] = [
    "x-death",
    "x-first-death-",
    "x-last-death-",
    "x-delivery-count",
    "x-acquired-count",
    "x-delay",
];
/// All headers have to fit into one frame of 128 KiB, together with what the broker adds to them.
const HEADERS_BYTES_MAX: usize = 120_000;
/// The room that a requeue or a dead letter needs beside the headers a message was published with.
pub(crate) const HEADERS_ROOM: usize = 20_000;

/// The properties of a message, with its headers, leaving so much room for more of them.
pub(crate) fn properties(wire: &Wire, room: usize) -> Result<BasicProperties> {
    let bytes: usize = wire.headers.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
    if bytes > HEADERS_BYTES_MAX - room {
        return Err(Error::invalid(format!(
            "the headers have {bytes} bytes; RabbitMQ takes {} at most: put what is long into the body",
            HEADERS_BYTES_MAX - room
        )));
    }
    let mut headers = FieldTable::default();
    for (name, value) in &wire.headers {
        headers.insert(short(name, "header name")?, AMQPValue::LongString(value.as_str().into()));
    }
    Ok(BasicProperties::default()
        .with_content_type(short(&wire.content_type, "content type")?)
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers))
}

/// A text of at most 255 bytes, which is all that AMQP has for names.
pub(crate) fn short(text: &str, what: &str) -> Result<ShortString> {
    ShortString::try_new(text).map_err(|_| {
        Error::invalid(format!(
            "the {what} {text:?} has {} bytes; RabbitMQ takes 255 at most: use a shorter one",
            text.len()
        ))
    })
}

/// What came, and how often the broker knows to have delivered it before.
pub(crate) struct Read {
    pub(crate) received: Received,
    pub(crate) redeliveries: u32,
}

/// Reads a delivery; `session` tells deliveries apart that bring no identity.
pub(crate) fn read(topic: &Topic, session: &str, delivery: &mut Delivery, now: Timestamp) -> Read {
    let properties = &delivery.properties;
    let place = Place { id: properties.message_id(), session, tag: delivery.delivery_tag };
    let stamp = properties.timestamp().and_then(|seconds| i64::try_from(seconds).ok());
    let arrived = Arrived {
        topic,
        body: Bytes::from(std::mem::take(&mut delivery.data)),
        content_type: properties.content_type().as_ref().map(ToString::to_string),
        key: None,
        place: format_args!("rabbitmq {place}"),
        sent_at: stamp.and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(now),
    };
    let none = FieldTable::default();
    let headers = properties.headers().as_ref().unwrap_or(&none).inner();
    let counted = headers.get(DELIVERY_COUNT).and_then(count);
    let texts: Vec<(&str, Cow<'_, str>)> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(name, _)| !OF_THE_BROKER.iter().any(|own| name.starts_with(own)))
        .filter_map(|(name, value)| Some((name, text(value)?)))
        .collect();
    let received = receive(arrived, texts.iter().map(|(name, value)| (*name, &**value)));
    Read { received, redeliveries: counted.unwrap_or(u32::from(delivery.redelivered)) }
}

/// Where a message is. A queue has no places that last, so a second delivery of a message without a name
/// is another message.
struct Place<'a> {
    id: &'a Option<ShortString>,
    session: &'a str,
    tag: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "message {id}"),
            None => write!(f, "delivery {} of {}", self.tag, self.session),
        }
    }
}

fn count(value: &AMQPValue) -> Option<u32> {
    text(value)?.parse().ok()
}

/// A header of somebody else may be a number; lists and tables have no text and are left out.
fn text(value: &AMQPValue) -> Option<Cow<'_, str>> {
    Some(match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()),
        AMQPValue::ShortString(text) => Cow::Borrowed(text.as_str()),
        AMQPValue::Boolean(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortShortInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortShortUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::ShortUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongUInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::LongLongInt(value) => Cow::Owned(value.to_string()),
        AMQPValue::Timestamp(value) => Cow::Owned(value.to_string()),
        AMQPValue::Float(value) => Cow::Owned(value.to_string()),
        AMQPValue::Double(value) => Cow::Owned(value.to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
