//! Reading of packets.

use bytes::{Buf as _, Bytes, BytesMut};

use super::{ConnAck, Incoming, PACKET_MAX, ProtocolError, Publish, Version, kind, property};

type Read<T> = Result<T, ProtocolError>;

/// Takes the next complete packet from the buffer; returns none while it is incomplete.
pub(crate) fn next(buffer: &mut BytesMut, version: Version) -> Read<Option<Incoming>> {
    let Some((&first, rest)) = buffer.split_first() else { return Ok(None) };
    let Some((length, size)) = length(rest)? else { return Ok(None) };
    let whole = 1 + size + length;
    // The buffer grows with the bytes received, not with the announced length.
    if buffer.len() < whole {
        return Ok(None);
    }
    let mut packet = buffer.split_to(whole);
    packet.advance(1 + size);
    read(first, Part(packet.freeze()), version).map(Some)
}

fn read(first: u8, mut part: Part, version: Version) -> Read<Incoming> {
    let is_v5 = version == Version::V5;
    Ok(match first >> 4 {
        kind::CONNACK => Incoming::ConnAck(connack(part, version)?),
        kind::PUBLISH => Incoming::Publish(publish(first, part, version)?),
        kind::PUBACK => {
            let id = part.two()?;
            Incoming::PubAck { id, code: if part.0.is_empty() { 0 } else { part.one()? } }
        }
        kind::SUBACK => {
            let id = part.two()?;
            if is_v5 {
                part.properties(|_, _| {})?;
            }
            Incoming::SubAck { id, codes: part.0.to_vec() }
        }
        kind::UNSUBACK => Incoming::SubAck { id: part.two()?, codes: Vec::new() },
        kind::PINGRESP => Incoming::PingResponse,
        kind::DISCONNECT => {
            Incoming::Disconnect { code: if part.0.is_empty() { 0 } else { part.one()? } }
        }
        other => {
            return Err(ProtocolError(format!("an unexpected packet of type {other} arrived")));
        }
    })
}

fn connack(mut part: Part, version: Version) -> Read<ConnAck> {
    let session_present = part.one()? & 1 == 1;
    let mut connack = ConnAck {
        code: part.one()?,
        session_present,
        receive_max: u16::MAX,
        packet_max: PACKET_MAX,
        keep_alive: None,
        qos_max: 2,
        shared_subscriptions: true,
        retain_available: true,
    };
    // A broker without version 5 responds in its own version, without properties.
    if version == Version::V5 && !part.0.is_empty() {
        part.properties(|name, value| match (name, value) {
            (property::RECEIVE_MAX, Value::Number(limit)) => {
                connack.receive_max = u16::try_from(limit).unwrap_or(u16::MAX).max(1);
            }
            (property::PACKET_MAX, Value::Number(limit)) => {
                connack.packet_max = usize::try_from(limit).unwrap_or(PACKET_MAX);
            }
            (property::SERVER_KEEP_ALIVE, Value::Number(seconds)) => {
                connack.keep_alive = u16::try_from(seconds).ok();
            }
            (property::QOS_MAX, Value::Number(limit)) => {
                connack.qos_max = u8::try_from(limit).unwrap_or(2);
            }
            (property::SHARED_AVAILABLE, Value::Number(flag)) => {
                connack.shared_subscriptions = flag != 0;
            }
            (property::RETAIN_AVAILABLE, Value::Number(flag)) => {
                connack.retain_available = flag != 0;
            }
            _ => {}
        })?;
    }
    Ok(connack)
}

fn publish(first: u8, mut part: Part, version: Version) -> Read<Publish> {
    let qos = (first >> 1) & 0b11;
    let mut publish = Publish {
        topic: part.text()?,
        duplicate: first & 0b1000 != 0,
        retained: first & 1 == 1,
        ..Publish::default()
    };
    match qos {
        0 => {}
        1 => publish.id = part.two()?,
        _ => {
            return Err(ProtocolError(
                "a message arrived with QoS 2, which was not requested".to_owned(),
            ));
        }
    }
    if qos == 1 && publish.id == 0 {
        return Err(ProtocolError("a message arrived with packet identifier zero".to_owned()));
    }
    if version == Version::V5 {
        part.properties(|name, value| match (name, value) {
            (property::CONTENT_TYPE, Value::Text(kind)) => publish.content_type = Some(kind),
            (property::USER, Value::Pair(name, value)) => publish.properties.push((name, value)),
            _ => {}
        })?;
    }
    publish.payload = part.0;
    Ok(publish)
}

/// Value of a property.
enum Value {
    Number(u32),
    Text(String),
    Pair(String, String),
    Binary,
}

/// The unread rest of a packet.
struct Part(Bytes);

impl Part {
    fn one(&mut self) -> Read<u8> {
        self.0.try_get_u8().map_err(|_| short())
    }

    fn two(&mut self) -> Read<u16> {
        self.0.try_get_u16().map_err(|_| short())
    }

    fn four(&mut self) -> Read<u32> {
        self.0.try_get_u32().map_err(|_| short())
    }

    fn binary(&mut self) -> Read<Bytes> {
        let length = usize::from(self.two()?);
        if self.0.len() < length {
            return Err(short());
        }
        Ok(self.0.split_to(length))
    }

    fn text(&mut self) -> Read<String> {
        String::from_utf8(self.binary()?.to_vec())
            .map_err(|_| ProtocolError("a string is not UTF-8".to_owned()))
    }

    fn length(&mut self) -> Read<usize> {
        let (length, size) = length(&self.0)?.ok_or_else(short)?;
        self.0.advance(size);
        Ok(length)
    }

    /// Reads the properties, which precede the rest of every version 5 packet.
    fn properties(&mut self, mut take: impl FnMut(u8, Value)) -> Read<()> {
        let length = self.length()?;
        if self.0.len() < length {
            return Err(short());
        }
        let mut part = Part(self.0.split_to(length));
        while !part.0.is_empty() {
            let name = part.one()?;
            let value = part.value(name)?;
            take(name, value);
        }
        Ok(())
    }

    fn value(&mut self, name: u8) -> Read<Value> {
        Ok(match name {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => {
                Value::Number(self.one()?.into())
            }
            0x13 | 0x21 | 0x22 | 0x23 => Value::Number(self.two()?.into()),
            0x02 | 0x11 | 0x18 | 0x27 => Value::Number(self.four()?),
            0x0b => Value::Number(u32::try_from(self.length()?).unwrap_or(u32::MAX)),
            0x03 | 0x08 | 0x12 | 0x15 | 0x1a | 0x1c | 0x1f => Value::Text(self.text()?),
            0x09 | 0x16 => {
                self.binary()?;
                Value::Binary
            }
            0x26 => Value::Pair(self.text()?, self.text()?),
            _ => return Err(ProtocolError(format!("the property {name} is unknown"))),
        })
    }
}

/// Reads a variable byte integer; returns the value and its size, or none while it is incomplete.
fn length(bytes: &[u8]) -> Read<Option<(usize, usize)>> {
    let mut length = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(Some((length, place + 1)));
        }
    }
    if bytes.len() >= 4 {
        return Err(ProtocolError("a length has more than four bytes".to_owned()));
    }
    Ok(None)
}

fn short() -> ProtocolError {
    ProtocolError("a packet ends too early".to_owned())
}
