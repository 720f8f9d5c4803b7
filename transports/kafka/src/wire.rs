//! A message as a record of Kafka: the body is the value, the key is the key, headers are headers, and the
//! content type is the header `content-type`. What a header is called and what it says is text; bytes that
//! are not, which only somebody else can have sent, are left out, or poison where we need them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::wire::{Arrived, Received, Wire, receive};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message as _, OwnedHeaders};

const CONTENT_TYPE: &str = "content-type";
/// What CloudEvents has before its attributes on Kafka.
pub(crate) const ATTRIBUTE_PREFIX: &str = "ce_";
/// Where the headers are that we need ourselves.
const RESERVED: &str = "punctual-";

/// The headers of a record, the content type last.
pub(crate) fn headers(wire: &Wire) -> OwnedHeaders {
    let empty = OwnedHeaders::new_with_capacity(wire.headers.len() + 1);
    let own = wire.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str()));
    own.chain([(CONTENT_TYPE, wire.content_type.as_ref())])
        .fold(empty, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}

/// What is around the headers of a record.
pub(crate) struct Envelope<'a> {
    pub(crate) topic: &'a Topic,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) body: Bytes,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) sent_at: Timestamp,
}

/// Reads a record. Never fails: what cannot be read is poison.
pub(crate) fn read(record: &BorrowedMessage<'_>, topic: &Topic, now: Timestamp) -> Received {
    let sent_at = record.timestamp().to_millis();
    let envelope = Envelope {
        topic,
        key: record.key(),
        body: Bytes::copy_from_slice(record.payload().unwrap_or_default()),
        partition: record.partition(),
        offset: record.offset(),
        sent_at: sent_at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(now),
    };
    // The client library panics at a header whose name is not UTF-8, and anybody can send one.
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

/// Reads what a record says, its headers as they came.
pub(crate) fn read_pairs(envelope: Envelope<'_>, pairs: &[(&str, Option<&[u8]>)]) -> Received {
    let Envelope { topic, key, body, partition, offset, sent_at } = envelope;
    // An application may have a header of that name as well; ours is the last.
    let typed = pairs.iter().rposition(|(name, _)| *name == CONTENT_TYPE);
    let content_type = typed.and_then(|at| text(pairs[at].1)).map(str::to_owned);
    let rest = pairs.iter().enumerate().filter(|(at, _)| Some(*at) != typed);
    let readable = rest.filter_map(|(_, (name, value))| Some((*name, text(*value)?)));
    let arrived = Arrived {
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
        received.poison.get_or_insert_with(|| format!("the header {name:?} is not text"));
    }
    received
}

fn text(value: Option<&[u8]>) -> Option<&str> {
    std::str::from_utf8(value?).ok()
}

#[cfg(test)]
mod tests;
