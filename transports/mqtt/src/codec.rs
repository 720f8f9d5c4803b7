//! Codec of MQTT 5 and 3.1.1 packets, as far as a transport needs them. One set of types for both versions: what
//! 3.1.1 lacks is omitted when writing and empty when reading.
//!
//! Input is not trusted: every length is checked before it is used.

mod read;
mod write;

use bytes::Bytes;

pub(crate) use self::read::next;
pub(crate) use self::write::{
    PublishHeader, ack, connect, disconnect, ping, publish, subscribe, unsubscribe,
};

/// Largest packet that the protocol allows, in bytes.
pub(crate) const PACKET_MAX: usize = 268_435_455;
/// Longest string that the protocol allows, in bytes.
pub(crate) const TEXT_MAX: usize = 65_535;

/// Version of MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Version 5: headers travel as user properties.
    #[default]
    V5,
    /// Version 3.1.1: a message travels with its headers in one JSON envelope.
    V311,
}

/// A PUBLISH packet, in either direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Publish {
    pub(crate) topic: String,
    /// Packet identifier; zero for `QoS 0`.
    pub(crate) id: u16,
    pub(crate) duplicate: bool,
    pub(crate) retained: bool,
    pub(crate) content_type: Option<String>,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) payload: Bytes,
}

/// A CONNECT packet.
#[derive(Clone, Debug)]
pub(crate) struct ConnectPacket<'a> {
    pub(crate) client: &'a str,
    pub(crate) clean: bool,
    /// How long the session outlives the connection, in seconds.
    pub(crate) session_expiry: u32,
    pub(crate) keep_alive: u16,
    /// Limit of unacknowledged messages from the broker.
    pub(crate) receive_max: u16,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
    /// Topic and payload of the will: published, retained, when the connection ends without DISCONNECT.
    pub(crate) will: Option<(&'a str, &'a [u8])>,
}

/// A CONNACK packet: the limits and features of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnAck {
    pub(crate) code: u8,
    pub(crate) session_present: bool,
    /// Limit of unconfirmed messages to the broker.
    pub(crate) receive_max: u16,
    pub(crate) packet_max: usize,
    pub(crate) keep_alive: Option<u16>,
    pub(crate) qos_max: u8,
    pub(crate) shared_subscriptions: bool,
    pub(crate) retain_available: bool,
}

/// A packet from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    ConnAck(ConnAck),
    Publish(Publish),
    /// PUBACK: a publish is confirmed or refused.
    PubAck {
        id: u16,
        code: u8,
    },
    /// SUBACK with a code per filter, or UNSUBACK without codes.
    SubAck {
        id: u16,
        codes: Vec<u8>,
    },
    PingResponse,
    Disconnect {
        code: u8,
    },
}

/// A violation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) String);

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
