//! Wire format: text headers become long strings, the content type a property, and every message is persistent.
//! What the broker adds (delivery counts, the history of a delay) is removed.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use punctual::backend::wire::{DecodedMessage, RawMessage, Wire, receive};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};

/// Prefix of CloudEvents attributes in AMQP 1.0, to which the broker converts headers for such clients.
pub(crate) const ATTRIBUTE_PREFIX: &str = "cloudEvents_";
/// Delivery mode of a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// Header in which a quorum queue counts earlier deliveries.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Prefixes of headers that brokers and their plugins add.
const BROKER_HEADERS: [&str; 6] = [
    "x-death",
    "x-first-death-",
    "x-last-death-",
    "x-delivery-count",
    "x-acquired-count",
    "x-delay",
];
/// Limit of all headers: they have to fit into one frame of 128 KiB, together with what the broker adds.
const HEADERS_BYTES_MAX: usize = 120_000;
/// Bytes reserved for the headers that a requeue or a dead letter adds.
pub(crate) const HEADERS_RESERVED: usize = 20_000;

/// Returns the properties of a message with its headers, reserving `reserved` bytes for more headers.
pub(crate) fn properties(wire: &Wire, reserved: usize) -> Result<BasicProperties> {
    let bytes: usize = wire.headers.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
    if bytes > HEADERS_BYTES_MAX - reserved {
        return Err(Error::invalid(format!(
            "the headers have {bytes} bytes; RabbitMQ takes {} at most: put what is long into the body",
            HEADERS_BYTES_MAX - reserved
        )));
    }
    let mut headers = FieldTable::default();
    for (name, value) in &wire.headers {
        headers.insert(
            short_string(name, "header name")?,
            AMQPValue::LongString(value.as_str().into()),
        );
    }
    Ok(BasicProperties::default()
        .with_content_type(short_string(&wire.content_type, "content type")?)
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers))
}

/// Returns a short string, which AMQP uses for names and limits to 255 bytes.
pub(crate) fn short_string(text: &str, what: &str) -> Result<ShortString> {
    ShortString::try_new(text).map_err(|_| {
        Error::invalid(format!(
            "the {what} {text:?} has {} bytes; RabbitMQ takes 255 at most: use a shorter one",
            text.len()
        ))
    })
}

/// Decoded message, and how often the broker delivered it before.
pub(crate) struct DecodedDelivery {
    pub(crate) received: DecodedMessage,
    pub(crate) redeliveries: u32,
}

/// Decodes a delivery; `session` distinguishes deliveries without a message id.
pub(crate) fn decode(
    topic: &Topic,
    session: &str,
    delivery: &mut Delivery,
    now: Timestamp,
) -> DecodedDelivery {
    let properties = &delivery.properties;
    let place = MessageSource { id: properties.message_id(), session, tag: delivery.delivery_tag };
    let stamp = properties.timestamp().and_then(|seconds| i64::try_from(seconds).ok());
    let arrived = RawMessage {
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
        .filter(|(name, _)| !BROKER_HEADERS.iter().any(|own| name.starts_with(own)))
        .filter_map(|(name, value)| Some((name, text(value)?)))
        .collect();
    let received = receive(arrived, texts.iter().map(|(name, value)| (*name, &**value)));
    DecodedDelivery { received, redeliveries: counted.unwrap_or(u32::from(delivery.redelivered)) }
}

/// Source of a message. A queue has no lasting positions, so a second delivery of a message without an id is
/// another message.
struct MessageSource<'a> {
    id: &'a Option<ShortString>,
    session: &'a str,
    tag: u64,
}

impl fmt::Display for MessageSource<'_> {
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

/// Returns a header as text. Foreign clients send numbers too; lists and tables have no text and are left out.
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
