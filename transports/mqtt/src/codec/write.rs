//! Writing of packets.

use bytes::{BufMut as _, BytesMut};

use super::{ConnectPacket, PACKET_MAX, TEXT_MAX, Version, kind, property};

const QOS_1: u8 = 1;

/// A PUBLISH packet without its headers and payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishHeader<'a> {
    pub(crate) topic: &'a str,
    /// Packet identifier; zero for `QoS 0`.
    pub(crate) id: u16,
    pub(crate) retained: bool,
    pub(crate) content_type: Option<&'a str>,
}

pub(crate) fn connect(out: &mut BytesMut, version: Version, connect: &ConnectPacket<'_>) {
    let mut body = BytesMut::with_capacity(128);
    text(&mut body, "MQTT");
    body.put_u8(match version {
        Version::V5 => 5,
        Version::V311 => 4,
    });
    let mut flags = u8::from(connect.clean) << 1;
    if connect.will.is_some() {
        flags |= 0b0010_0100 | (QOS_1 << 3);
    }
    flags |= u8::from(connect.user.is_some()) << 7;
    flags |= u8::from(connect.password.is_some()) << 6;
    body.put_u8(flags);
    body.put_u16(connect.keep_alive);
    if version == Version::V5 {
        let mut properties = BytesMut::with_capacity(8);
        properties.put_u8(property::SESSION_EXPIRY);
        properties.put_u32(connect.session_expiry);
        properties.put_u8(property::RECEIVE_MAX);
        properties.put_u16(connect.receive_max.max(1));
        length(&mut body, properties.len());
        body.put(properties);
    }
    text(&mut body, connect.client);
    if let Some((topic, payload)) = connect.will {
        no_properties(&mut body, version);
        text(&mut body, topic);
        binary(&mut body, payload);
    }
    for part in [connect.user, connect.password].into_iter().flatten() {
        text(&mut body, part);
    }
    packet(out, kind::CONNECT << 4, &body);
}

/// Writes a PUBLISH packet with its headers. Returns false, and writes nothing, when it exceeds the size that the
/// protocol allows.
pub(crate) fn publish<'a>(
    out: &mut BytesMut,
    version: Version,
    head: PublishHeader<'_>,
    headers: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    payload: &[u8],
) -> bool {
    let mut properties = 0;
    if version == Version::V5 {
        properties += head.content_type.map_or(0, |kind| 3 + kind.len());
        let headers = headers.clone();
        properties += headers.map(|(name, value)| 5 + name.len() + value.len()).sum::<usize>();
    }
    let mut size = 2 + head.topic.len() + payload.len();
    size += if head.id > 0 { 2 } else { 0 };
    size += if version == Version::V5 { length_size(properties) + properties } else { 0 };
    if size > PACKET_MAX {
        return false;
    }
    out.reserve(size + 5);
    let qos = if head.id > 0 { QOS_1 } else { 0 };
    out.put_u8((kind::PUBLISH << 4) | (qos << 1) | u8::from(head.retained));
    length(out, size);
    text(out, head.topic);
    if head.id > 0 {
        out.put_u16(head.id);
    }
    if version == Version::V5 {
        length(out, properties);
        if let Some(kind) = head.content_type {
            out.put_u8(property::CONTENT_TYPE);
            text(out, kind);
        }
        for (name, value) in headers {
            out.put_u8(property::USER);
            text(out, name);
            text(out, value);
        }
    }
    out.put_slice(payload);
    true
}

/// Writes a PUBACK packet.
pub(crate) fn ack(out: &mut BytesMut, id: u16) {
    out.put_u8(kind::PUBACK << 4);
    out.put_u8(2);
    out.put_u16(id);
}

/// Writes a SUBSCRIBE packet, with `QoS 1` or `QoS 0` per filter.
pub(crate) fn subscribe(out: &mut BytesMut, version: Version, id: u16, filters: &[(&str, bool)]) {
    let mut body = BytesMut::with_capacity(64);
    body.put_u16(id);
    no_properties(&mut body, version);
    for (filter, confirmed) in filters {
        text(&mut body, filter);
        body.put_u8(if *confirmed { QOS_1 } else { 0 });
    }
    packet(out, (kind::SUBSCRIBE << 4) | 0b10, &body);
}

pub(crate) fn unsubscribe(out: &mut BytesMut, version: Version, id: u16, filters: &[&str]) {
    let mut body = BytesMut::with_capacity(64);
    body.put_u16(id);
    no_properties(&mut body, version);
    for filter in filters {
        text(&mut body, filter);
    }
    packet(out, (kind::UNSUBSCRIBE << 4) | 0b10, &body);
}

pub(crate) fn ping(out: &mut BytesMut) {
    packet(out, kind::PINGREQ << 4, &[]);
}

/// Ends a connection cleanly: no will is published.
pub(crate) fn disconnect(out: &mut BytesMut) {
    packet(out, kind::DISCONNECT << 4, &[]);
}

fn packet(out: &mut BytesMut, first: u8, body: &[u8]) {
    out.put_u8(first);
    length(out, body.len());
    out.put_slice(body);
}

fn no_properties(out: &mut BytesMut, version: Version) {
    if version == Version::V5 {
        out.put_u8(0);
    }
}

fn text(out: &mut BytesMut, text: &str) {
    binary(out, text.as_bytes());
}

/// Writes bytes after their length. Callers check the length; longer input is truncated.
fn binary(out: &mut BytesMut, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(TEXT_MAX)];
    out.put_u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    out.put_slice(bytes);
}

fn length(out: &mut BytesMut, mut length: usize) {
    loop {
        let low = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        out.put_u8(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            return;
        }
    }
}

fn length_size(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        _ => 4,
    }
}
