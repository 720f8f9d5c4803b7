//! What went wrong with a connection or a call, and what that means to the caller. The one place that maps
//! errors; nothing here has ever seen a password.

use std::time::Duration;

use punctual::{Error, ErrorKind};

use crate::codec::{Malformed, Version};

/// Nobody had subscribed to what was published.
pub(crate) const UNMATCHED: u8 = 0x10;
/// The first code that is a refusal.
pub(crate) const REFUSAL: u8 = 0x80;

/// What went wrong.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// No connection could be made.
    Unreachable(String),
    /// TLS was not agreed on.
    Untrusted(String),
    /// The broker did not want us, with a code of its version.
    Unwelcome(Version, u8),
    /// The broker has not what is needed.
    Lacks(&'static str),
    /// The connection ended.
    Lost(String),
    /// The broker ended the connection, with a code.
    Dismissed(u8),
    /// No answer came in time.
    Silent(Duration),
    /// A call was refused, with a code.
    Refused(&'static str, u8),
    /// A packet is larger than the broker takes.
    TooLarge { size: usize, most: usize },
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Self {
        Self::Lost(format!("the broker breaks the protocol: {}", malformed.0))
    }
}

impl Trouble {
    /// The error for the caller, at the broker of this place.
    pub(crate) fn told(&self, place: &str) -> Error {
        let (kind, sentence) = self.explained();
        Error::new(kind, format!("the MQTT broker at {place} {sentence}"))
    }

    fn explained(&self) -> (ErrorKind, String) {
        match self {
            Self::Unreachable(why) => (
                ErrorKind::Unavailable,
                format!(
                    "cannot be reached: {why}; is it running there, and with TLS only if the address says so?"
                ),
            ),
            Self::Untrusted(why) => (
                ErrorKind::Invalid,
                format!("and we do not agree on TLS: {why}; check root_certificate"),
            ),
            Self::Unwelcome(Version::V5, code) => unwelcome(*code),
            Self::Unwelcome(Version::V311, code) => unwelcome(match code {
                1 => 0x84,
                2 => 0x85,
                3 => 0x88,
                4 => 0x86,
                5 => 0x87,
                other => *other,
            }),
            Self::Lacks(what) => {
                (ErrorKind::Unsupported, format!("has no {what}, which is needed"))
            }
            Self::Lost(why) => (ErrorKind::Unavailable, format!("is not connected: {why}")),
            Self::Dismissed(code) => {
                (ErrorKind::Unavailable, format!("ended the connection: {}", words(*code)))
            }
            Self::Silent(length) => {
                (ErrorKind::Unavailable, format!("has not answered for {length:?}"))
            }
            Self::Refused(what, code) => refused(what, *code),
            Self::TooLarge { size, most } => (
                ErrorKind::Invalid,
                format!(
                    "takes packets of at most {most} bytes, and this one has {size}; send less, or raise its limit"
                ),
            ),
        }
    }
}

fn unwelcome(code: u8) -> (ErrorKind, String) {
    match code {
        0x84 | 1 => (
            ErrorKind::Unsupported,
            "does not speak this version of MQTT; choose the other with version(Version::V311)"
                .to_owned(),
        ),
        0x86 | 0x87 | 0x8c => {
            (ErrorKind::Invalid, "refuses this user or password; check both".to_owned())
        }
        0x88 | 0x89 | 0x97 | 0x9f => {
            (ErrorKind::Unavailable, format!("accepts nobody for now: {}", words(code)))
        }
        code => (ErrorKind::Invalid, format!("refuses the connection: {}", words(code))),
    }
}

fn refused(what: &str, code: u8) -> (ErrorKind, String) {
    match code {
        0x87 => (
            ErrorKind::Invalid,
            format!("does not permit to {what}; allow its user the topics under the prefix"),
        ),
        0x80 | 0x83 | 0x97 => {
            (ErrorKind::Unavailable, format!("refused to {what}: {}", words(code)))
        }
        0x9e => (
            ErrorKind::Unsupported,
            format!("refused to {what}: it has no shared subscriptions, which are needed"),
        ),
        code => (ErrorKind::Invalid, format!("refused to {what}: {}", words(code))),
    }
}

/// What a code says.
fn words(code: u8) -> String {
    let words = match code {
        0x00 => "in order",
        0x80 => "no reason given",
        0x81 | 0x82 => "it says that we break the protocol",
        0x83 => "an error of its own",
        0x85 => "it does not take this client identifier",
        0x87 => "not authorized",
        0x88 => "it is not available",
        0x89 => "it is busy",
        0x8a => "this client is banned",
        0x8b => "it is shutting down",
        0x8d => "it heard nothing from us for too long",
        0x8e => "somebody else took the session over",
        0x8f => "it does not take this filter",
        0x90 => "it does not take this topic name",
        0x93 => "too much was sent unconfirmed",
        0x95 => "the packet is too large",
        0x96 | 0x9f => "too much in too short a time",
        0x97 => "a quota is exceeded",
        0x98 => "an operator ended it",
        0x99 => "the payload is not in the form it was said to be",
        code => return format!("code {code:#04x}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_whether_to_try_again_and_what_to_do() {
        for (trouble, kind, word) in [
            (Trouble::Unreachable("refused".to_owned()), ErrorKind::Unavailable, "running"),
            (Trouble::Unwelcome(Version::V5, 0x86), ErrorKind::Invalid, "password"),
            (Trouble::Unwelcome(Version::V311, 5), ErrorKind::Invalid, "password"),
            (Trouble::Unwelcome(Version::V5, 1), ErrorKind::Unsupported, "V311"),
            (Trouble::Unwelcome(Version::V311, 3), ErrorKind::Unavailable, "for now"),
            (Trouble::Untrusted("stranger".to_owned()), ErrorKind::Invalid, "root_certificate"),
            (Trouble::Lost("cut".to_owned()), ErrorKind::Unavailable, "cut"),
            (Trouble::Dismissed(0x8e), ErrorKind::Unavailable, "took the session"),
            (Trouble::Silent(Duration::from_secs(3)), ErrorKind::Unavailable, "3s"),
            (Trouble::Refused("publish", 0x87), ErrorKind::Invalid, "allow"),
            (Trouble::Refused("publish", 0x97), ErrorKind::Unavailable, "quota"),
            (Trouble::TooLarge { size: 9, most: 8 }, ErrorKind::Invalid, "at most 8"),
        ] {
            let told = trouble.told("h:1883");
            assert_eq!(told.kind(), kind, "{told}");
            assert!(told.to_string().contains(word), "{told}");
            assert!(told.to_string().contains("h:1883"), "{told}");
        }
    }
}
