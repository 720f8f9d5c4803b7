//! Headers: small text values that are sent with a message and survive delay, requeue and dead letter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Largest number of headers of a message.
pub const HEADERS_MAX: usize = 64;
/// Largest size of a header's value in bytes.
pub const HEADER_VALUE_MAX: usize = 8 * 1024;
const HEADER_NAME_MAX: usize = 200;
/// Prefix of the names that Punctual reserves.
const RESERVED: &str = "punctual-";

/// Headers that Punctual itself sets on a message, for as long as the message lives.
pub(crate) mod reserved_headers {
    /// Compression of the body.
    pub(crate) const ENCODING: &str = "punctual-encoding";
    /// Topic on which the sender waits for a reply.
    pub(crate) const REPLY_TO: &str = "punctual-reply-to";
    /// Transport through which the sender waits for a reply; the storage when missing.
    pub(crate) const REPLY_VIA: &str = "punctual-reply-via";
    /// Request of this reply.
    pub(crate) const REPLY_OF: &str = "punctual-reply-of";
    /// Number of snoozes of a message on its broker.
    pub(crate) const SNOOZES: &str = "punctual-snoozes";
    /// Total seconds that a message from a broker was delayed because it had no handler.
    pub(crate) const UNHANDLED: &str = "punctual-unhandled";
    /// All of them.
    pub(crate) const ALL: [&str; 6] = [ENCODING, REPLY_TO, REPLY_VIA, REPLY_OF, SNOOZES, UNHANDLED];
}

/// Names and values, sorted by name. Limited, printable, checked on insertion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// Returns empty headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a header, replacing one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) -> Result<()> {
        let (name, value) = (name.into(), value.into());
        if name.is_empty() || name.len() > HEADER_NAME_MAX || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the header name {name:?} must have 1 to {HEADER_NAME_MAX} printable characters"
            )));
        }
        if name.starts_with(RESERVED) {
            return Err(Error::invalid(format!(
                "the header {name:?} starts with \"{RESERVED}\", which is reserved; choose another name"
            )));
        }
        if value.len() > HEADER_VALUE_MAX {
            return Err(Error::invalid(format!(
                "the header {name:?} has {} bytes; at most {HEADER_VALUE_MAX} are allowed",
                value.len()
            )));
        }
        if value.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the header {name:?} holds a control character; encode the value first"
            )));
        }
        if self.0.len() >= HEADERS_MAX && !self.0.contains_key(&name) {
            return Err(Error::invalid(format!(
                "the header {name:?} is one too many; a message may have {HEADERS_MAX}"
            )));
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// Removes a header and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Sets a reserved header, which does not count against the limit.
    pub(crate) fn set_reserved(&mut self, name: &'static str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    /// Returns the value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns names and values in the order of the names, without reserved headers, which must not be passed
    /// on.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all().filter(|(name, _)| !name.starts_with(RESERVED))
    }

    /// Returns names and values, reserved headers included.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_headers_are_refused_by_name() {
        let mut headers = Headers::new();
        headers.insert("tenant", "acme").unwrap();
        assert_eq!(headers.get("tenant"), Some("acme"));
        assert!(headers.insert("", "x").is_err());
        assert!(headers.insert("a\nb", "x").is_err());
        let error = headers.insert("note", "two\r\nlines").unwrap_err().to_string();
        assert!(error.contains("\"note\""), "{error}");
        assert!(headers.insert("big", "x".repeat(HEADER_VALUE_MAX + 1)).is_err());
    }

    #[test]
    fn the_number_of_headers_is_bounded() {
        let mut headers = Headers::new();
        for index in 0..HEADERS_MAX {
            headers.insert(format!("h{index}"), "v").unwrap();
        }
        assert!(headers.insert("one-more", "v").is_err());
        headers.insert("h0", "replaced").unwrap();
    }
}
