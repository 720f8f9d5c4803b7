//! Reading packets.

use bytes::{Buf as _, Bytes, BytesMut};

use super::{Incoming, Malformed, PACKET_MAX, Publish, Version, Welcome, kind, property};

type Read<T> = Result<T, Malformed>;

/// Takes the next whole packet out of what was received; none while it is not whole.
pub(crate) fn next(buffer: &mut BytesMut, version: Version) -> Read<Option<Incoming>> {
    let Some((&first, rest)) = buffer.split_first() else { return Ok(None) };
    let Some((length, size)) = length(rest)? else { return Ok(None) };
    let whole = 1 + size + length;
    // Room is made as it comes and not as it is announced.
    if buffer.len() < whole {
        return Ok(None);
    }
    let mut packet = buffer.split_to(whole);
    packet.advance(1 + size);
    read(first, Part(packet.freeze()), version).map(Some)
}

fn read(first: u8, mut part: Part, version: Version) -> Read<Incoming> {
    let is_new = version == Version::V5;
    Ok(match first >> 4 {
        kind::CONNACK => Incoming::Welcome(welcome(part, version)?),
        kind::PUBLISH => Incoming::Publish(publish(first, part, version)?),
        kind::PUBACK => {
            let id = part.two()?;
            Incoming::Confirmed { id, code: if part.0.is_empty() { 0 } else { part.one()? } }
        }
        kind::SUBACK => {
            let id = part.two()?;
            if is_new {
                part.properties(|_, _| {})?;
            }
            Incoming::Subscribed { id, codes: part.0.to_vec() }
        }
        kind::UNSUBACK => Incoming::Subscribed { id: part.two()?, codes: Vec::new() },
        kind::PINGRESP => Incoming::Pong,
        kind::DISCONNECT => {
            Incoming::Goodbye { code: if part.0.is_empty() { 0 } else { part.one()? } }
        }
        other => return Err(Malformed(format!("a packet of kind {other} was not expected"))),
    })
}

fn welcome(mut part: Part, version: Version) -> Read<Welcome> {
    let session_present = part.one()? & 1 == 1;
    let mut welcome = Welcome {
        code: part.one()?,
        session_present,
        receive_max: u16::MAX,
        packet_max: PACKET_MAX,
        keep_alive: None,
        qos_max: 2,
        shares: true,
        retains: true,
    };
    // A broker that does not speak version 5 answers in its own, without properties.
    if version == Version::V5 && !part.0.is_empty() {
        part.properties(|name, value| match (name, value) {
            (property::RECEIVE_MAX, Value::Number(most)) => {
                welcome.receive_max = u16::try_from(most).unwrap_or(u16::MAX).max(1);
            }
            (property::PACKET_MAX, Value::Number(most)) => {
                welcome.packet_max = usize::try_from(most).unwrap_or(PACKET_MAX);
            }
            (property::SERVER_KEEP_ALIVE, Value::Number(seconds)) => {
                welcome.keep_alive = u16::try_from(seconds).ok();
            }
            (property::QOS_MAX, Value::Number(most)) => {
                welcome.qos_max = u8::try_from(most).unwrap_or(2);
            }
            (property::SHARED_AVAILABLE, Value::Number(is)) => welcome.shares = is != 0,
            (property::RETAIN_AVAILABLE, Value::Number(is)) => welcome.retains = is != 0,
            _ => {}
        })?;
    }
    Ok(welcome)
}

fn publish(first: u8, mut part: Part, version: Version) -> Read<Publish> {
    let qos = (first >> 1) & 0b11;
    let mut publish = Publish {
        topic: part.text()?,
        again: first & 0b1000 != 0,
        retained: first & 1 == 1,
        ..Publish::default()
    };
    match qos {
        0 => {}
        1 => publish.id = part.two()?,
        _ => return Err(Malformed("a message came with a quality nobody asked for".to_owned())),
    }
    if qos == 1 && publish.id == 0 {
        return Err(Malformed("a message came with the number zero".to_owned()));
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

/// The value of a property.
enum Value {
    Number(u32),
    Text(String),
    Pair(String, String),
    Binary,
}

/// What is left of a packet.
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
            .map_err(|_| Malformed("a text is not UTF-8".to_owned()))
    }

    fn length(&mut self) -> Read<usize> {
        let (length, size) = length(&self.0)?.ok_or_else(short)?;
        self.0.advance(size);
        Ok(length)
    }

    /// Reads the properties, which every packet of version 5 has before the rest.
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
            _ => return Err(Malformed(format!("nobody knows the property {name}"))),
        })
    }
}

/// A length as the protocol writes it, and how many bytes that took; none while it is not whole.
fn length(bytes: &[u8]) -> Read<Option<(usize, usize)>> {
    let mut length = 0;
    for (place, byte) in bytes.iter().take(4).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(Some((length, place + 1)));
        }
    }
    if bytes.len() >= 4 {
        return Err(Malformed("a length has more than four bytes".to_owned()));
    }
    Ok(None)
}

fn short() -> Malformed {
    Malformed("a packet ends too early".to_owned())
}
