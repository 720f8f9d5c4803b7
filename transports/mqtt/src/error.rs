//! Errors of connections and calls, and the one function that maps them to [`Error`]. No text contains a password.

use std::time::Duration;

use punctual::{Error, ErrorKind};

use crate::codec::{ProtocolError, Version};

/// PUBACK code: no subscription matches the topic.
pub(crate) const UNMATCHED: u8 = 0x10;
/// Codes from here on are refusals.
pub(crate) const REFUSAL: u8 = 0x80;

/// Error of a connection or a call.
#[derive(Clone, Debug)]
pub(crate) enum ConnectionError {
    /// No connection could be established.
    Unreachable(String),
    /// The TLS handshake failed.
    TlsFailed(String),
    /// The broker refused the connection, with a code of its version.
    ConnectRefused(Version, u8),
    /// The broker lacks a required feature.
    Unsupported(&'static str),
    /// The connection was lost.
    Lost(String),
    /// The broker sent DISCONNECT with a code.
    Disconnected(u8),
    /// The broker did not respond in time.
    Timeout(Duration),
    /// The broker refused a call, with a code.
    Refused(&'static str, u8),
    /// A packet exceeds the broker's limit.
    TooLarge { size: usize, limit: usize },
}

/// Maps an error; `server` is host and port of the broker.
pub(crate) fn map_error(error: &ConnectionError, server: &str) -> Error {
    let (kind, text) = error.kind_and_text();
    Error::new(kind, format!("the MQTT broker at {server} {text}"))
}

impl From<ProtocolError> for ConnectionError {
    fn from(malformed: ProtocolError) -> Self {
        Self::Lost(format!("the broker breaks the protocol: {}", malformed.0))
    }
}

impl ConnectionError {
    fn kind_and_text(&self) -> (ErrorKind, String) {
        match self {
            Self::Unreachable(why) => (
                ErrorKind::Unavailable,
                format!(
                    "cannot be reached: {why}; check that it is running there, and that mqtts:// is used \
                     if and only if it has TLS"
                ),
            ),
            Self::TlsFailed(why) => (
                ErrorKind::Invalid,
                format!("failed the TLS handshake: {why}; check root_certificate"),
            ),
            Self::ConnectRefused(Version::V5, code) => connect_refused(*code),
            Self::ConnectRefused(Version::V311, code) => connect_refused(match code {
                1 => 0x84,
                2 => 0x85,
                3 => 0x88,
                4 => 0x86,
                5 => 0x87,
                other => *other,
            }),
            Self::Unsupported(what) => (
                ErrorKind::Unsupported,
                format!("does not support {what}, which the transport needs"),
            ),
            Self::Lost(why) => (ErrorKind::Unavailable, format!("is not connected: {why}")),
            Self::Disconnected(code) => {
                (ErrorKind::Unavailable, format!("ended the connection: {}", code_text(*code)))
            }
            Self::Timeout(timeout) => {
                (ErrorKind::Unavailable, format!("did not respond for {timeout:?}"))
            }
            Self::Refused(what, code) => refused(what, *code),
            Self::TooLarge { size, limit } => (
                ErrorKind::Invalid,
                format!(
                    "accepts packets of at most {limit} bytes, and this one has {size}; send a smaller \
                     message, or raise its limit"
                ),
            ),
        }
    }
}

fn connect_refused(code: u8) -> (ErrorKind, String) {
    match code {
        0x84 | 1 => (
            ErrorKind::Unsupported,
            "does not support this version of MQTT; use the other one with version(Version::V311)"
                .to_owned(),
        ),
        0x86 | 0x87 | 0x8c => {
            (ErrorKind::Invalid, "refuses this user or password; check both".to_owned())
        }
        0x88 | 0x89 | 0x97 | 0x9f => {
            (ErrorKind::Unavailable, format!("accepts no connections for now: {}", code_text(code)))
        }
        code => (ErrorKind::Invalid, format!("refuses the connection: {}", code_text(code))),
    }
}

fn refused(what: &str, code: u8) -> (ErrorKind, String) {
    match code {
        0x87 => (
            ErrorKind::Invalid,
            format!("does not permit to {what}; allow its user the topics under the prefix"),
        ),
        0x80 | 0x83 | 0x97 => {
            (ErrorKind::Unavailable, format!("refused to {what}: {}", code_text(code)))
        }
        0x9e => (
            ErrorKind::Unsupported,
            format!(
                "refused to {what}: it does not support shared subscriptions, which the transport needs"
            ),
        ),
        code => (ErrorKind::Invalid, format!("refused to {what}: {}", code_text(code))),
    }
}

/// Returns the meaning of a reason code.
fn code_text(code: u8) -> String {
    let text = match code {
        0x00 => "normal disconnection",
        0x80 => "no reason given",
        0x81 | 0x82 => "it reports a protocol error of this client",
        0x83 => "an implementation-specific error",
        0x85 => "it refuses this client identifier",
        0x87 => "not authorized",
        0x88 => "it is not available",
        0x89 => "it is busy",
        0x8a => "this client is banned",
        0x8b => "it is shutting down",
        0x8d => "the keep-alive timed out",
        0x8e => "another client took over the session",
        0x8f => "it refuses this filter",
        0x90 => "it refuses this topic name",
        0x93 => "too many messages were unconfirmed",
        0x95 => "the packet is too large",
        0x96 | 0x9f => "the rate limit is exceeded",
        0x97 => "a quota is exceeded",
        0x98 => "an operator closed the connection",
        0x99 => "the payload does not match its declared format",
        code => return format!("code {code:#04x}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_temporary_or_permanent_and_name_the_way_out() {
        for (error, kind, word) in [
            (ConnectionError::Unreachable("refused".to_owned()), ErrorKind::Unavailable, "running"),
            (ConnectionError::ConnectRefused(Version::V5, 0x86), ErrorKind::Invalid, "password"),
            (ConnectionError::ConnectRefused(Version::V311, 5), ErrorKind::Invalid, "password"),
            (ConnectionError::ConnectRefused(Version::V5, 1), ErrorKind::Unsupported, "V311"),
            (ConnectionError::ConnectRefused(Version::V311, 3), ErrorKind::Unavailable, "for now"),
            (
                ConnectionError::TlsFailed("unknown issuer".to_owned()),
                ErrorKind::Invalid,
                "root_certificate",
            ),
            (ConnectionError::Lost("cut".to_owned()), ErrorKind::Unavailable, "cut"),
            (ConnectionError::Disconnected(0x8e), ErrorKind::Unavailable, "took over the session"),
            (ConnectionError::Timeout(Duration::from_secs(3)), ErrorKind::Unavailable, "3s"),
            (ConnectionError::Refused("publish", 0x87), ErrorKind::Invalid, "allow"),
            (ConnectionError::Refused("publish", 0x97), ErrorKind::Unavailable, "quota"),
            (ConnectionError::TooLarge { size: 9, limit: 8 }, ErrorKind::Invalid, "at most 8"),
        ] {
            let mapped = map_error(&error, "h:1883");
            assert_eq!(mapped.kind(), kind, "{mapped}");
            assert!(mapped.to_string().contains(word), "{mapped}");
            assert!(mapped.to_string().contains("h:1883"), "{mapped}");
        }
    }
}
