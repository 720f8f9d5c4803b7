//! Packets of MQTT 5 and 3.1.1 on the wire, as far as a transport needs them. One set of types for both
//! versions: what 3.1.1 does not have is left out when writing and empty when reading.
//!
//! Nothing here trusts the other side: every length is checked before it is believed.

mod read;
mod write;

use bytes::Bytes;

pub(crate) use self::read::next;
pub(crate) use self::write::{
    Head, ack, connect, disconnect, ping, publish, subscribe, unsubscribe,
};

/// The most bytes of one packet, by the protocol.
pub(crate) const PACKET_MAX: usize = 268_435_455;
/// The most bytes of one text, by the protocol.
pub(crate) const TEXT_MAX: usize = 65_535;

/// Which MQTT is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Version 5: headers travel as user properties.
    #[default]
    V5,
    /// Version 3.1.1: a message travels with its headers in one JSON envelope.
    V311,
}

/// A message on its way, in either direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) topic: String,
    /// Zero for a message that is not confirmed.
    pub(crate) id: u16,
    pub(crate) again: bool,
    pub(crate) retained: bool,
    pub(crate) content_type: Option<String>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) payload: Bytes,
}

/// How a connection begins.
#[derive(Clone, Debug)]
pub(crate) struct Hello<'a> {
    pub(crate) client: &'a str,
    pub(crate) clean: bool,
    /// How long the session outlives the connection, in seconds.
    pub(crate) keep: u32,
    pub(crate) keep_alive: u16,
    /// The most messages that may come unacknowledged.
    pub(crate) receive_max: u16,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    /// Published, retained, when the connection ends otherwise than in order.
    pub(crate) will: Option<(&'a str, &'a [u8])>,
}

/// What the broker says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) code: u8,
    pub(crate) session_present: bool,
    /// The most messages that may go out unconfirmed.
    pub(crate) receive_max: u16,
    pub(crate) packet_max: usize,
    pub(crate) keep_alive: Option<u16>,
    pub(crate) qos_max: u8,
    pub(crate) shares: bool,
    pub(crate) retains: bool,
}

/// What a broker sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    Welcome(Welcome),
    Publish(Publish),
    /// A publish is confirmed, or refused.
    Confirmed {
        id: u16,
        code: u8,
    },
    /// Subscriptions are granted, or refused, each with a code; none for ended ones.
    Subscribed {
        id: u16,
        codes: Vec<u8>,
    },
    Pong,
    Goodbye {
        code: u8,
    },
}

/// A packet that breaks the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

mod kind {
    pub(super) const CONNECT: u8 = 1;
    pub(super) const CONNACK: u8 = 2;
    pub(super) const PUBLISH: u8 = 3;
    pub(super) const PUBACK: u8 = 4;
    pub(super) const SUBSCRIBE: u8 = 8;
    pub(super) const SUBACK: u8 = 9;
    pub(super) const UNSUBSCRIBE: u8 = 10;
    pub(super) const UNSUBACK: u8 = 11;
    pub(super) const PINGREQ: u8 = 12;
    pub(super) const PINGRESP: u8 = 13;
    pub(super) const DISCONNECT: u8 = 14;
}

mod property {
    pub(super) const CONTENT_TYPE: u8 = 0x03;
    pub(super) const SESSION_EXPIRY: u8 = 0x11;
    pub(super) const SERVER_KEEP_ALIVE: u8 = 0x13;
    pub(super) const RECEIVE_MAX: u8 = 0x21;
    pub(super) const QOS_MAX: u8 = 0x24;
    pub(super) const RETAIN_AVAILABLE: u8 = 0x25;
    pub(super) const USER: u8 = 0x26;
    pub(super) const PACKET_MAX: u8 = 0x27;
    pub(super) const SHARED_AVAILABLE: u8 = 0x2a;
}

#[cfg(test)]
mod tests;
