//! Wire format: a message as a Kafka record. The value is the body, the key is the key, headers are headers, and the
//! content type is the header `content-type`. Names and values of headers are text. Header bytes from other producers
//! that are not UTF-8 are dropped, or make the message poison if the header is one of Punctual's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use punctual::backend::wire::{DecodedMessage, RawMessage, Wire, receive};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message as _, OwnedHeaders};

const CONTENT_TYPE: &str = "content-type";
/// Prefix of CloudEvents attributes on Kafka.
pub(crate) const ATTRIBUTE_PREFIX: &str = "ce_";
/// Prefix of the headers that Punctual needs.
const RESERVED: &str = "punctual-";

/// Returns the headers of a record, the content type last.
pub(crate) fn headers(wire: &Wire) -> OwnedHeaders {
    let empty = OwnedHeaders::new_with_capacity(wire.headers.len() + 1);
    let own = wire.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str()));
    own.chain([(CONTENT_TYPE, wire.content_type.as_ref())])
        .fold(empty, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}

/// The parts of a record other than its headers.
pub(crate) struct Envelope<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) body: Bytes,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) sent_at: Timestamp,
}

/// Reads a record. It never fails: an unreadable record is poison.
pub(crate) fn read(record: &BorrowedMessage<'_>, topic: &Topic, now: Timestamp) -> DecodedMessage {
    let sent_at = record.timestamp().to_millis();
    let envelope = Envelope {
        topic,
        key: record.key(),
        body: Bytes::copy_from_slice(record.payload().unwrap_or_default()),
        partition: record.partition(),
        offset: record.offset(),
        sent_at: sent_at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(now),
    };
    // The client library panics at a header name that is not UTF-8, which any producer can send.
    let pairs = catch_unwind(AssertUnwindSafe(|| {
        record.headers().map_or_else(Vec::new, |headers| {
            headers.iter().map(|header| (header.key, header.value)).collect()
        })
    }));
    let Ok(pairs) = pairs else {
        let mut received = read_pairs(envelope, &[]);
        received.poison = Some("the name of a header is not UTF-8".to_owned());
        return received;
    };
    read_pairs(envelope, &pairs)
}

/// Reads a record from its parts and its raw headers.
pub(crate) fn read_pairs(
    envelope: Envelope<'_>,
    pairs: &[(&str, Option<&[u8]>)],
) -> DecodedMessage {
    let Envelope { topic, key, body, partition, offset, sent_at } = envelope;
    // The application may have its own header `content-type`; Punctual's is the last.
    let typed = pairs.iter().rposition(|(name, _)| *name == CONTENT_TYPE);
    let content_type = typed.and_then(|at| text(pairs[at].1)).map(str::to_owned);
    let rest = pairs.iter().enumerate().filter(|(at, _)| Some(*at) != typed);
    let readable = rest.filter_map(|(_, (name, value))| Some((*name, text(*value)?)));
    let arrived = RawMessage {
        topic,
        body,
        content_type,
        key: key.and_then(|key| std::str::from_utf8(key).ok()),
        place: format_args!("{topic}/{partition}/{offset}"),
        sent_at,
    };
    let mut received = receive(arrived, readable);
    let broken =
        pairs.iter().find(|(name, value)| name.starts_with(RESERVED) && text(*value).is_none());
    if let Some((name, _)) = broken {
        received.poison.get_or_insert_with(|| format!("the header {name:?} is not UTF-8"));
    }
    received
}

fn text(value: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(value?).ok()
}

#[cfg(test)]
mod tests;
