//! Wire format: a message as a NATS message. Headers keep their names; a header that NATS would change, or would
//! interpret as a command, is encoded.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr as _;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use punctual::backend::wire::{self, DecodedMessage, RawMessage, Wire};
use punctual::model::Topic;
use punctual::{Error, Result};

use crate::origin::Origin;

/// Header of the content type. NATS has none of its own, so this is the one of HTTP.
const CONTENT_TYPE: &str = "Content-Type";
/// Prefix of the broker's own headers.
const BROKER_PREFIX: &str = "nats-";
/// Prefix of an encoded header; the name follows. Applications cannot use names with this prefix.
const ENCODED_PREFIX: &str = "punctual-encoded-";

/// Returns the headers of a message.
pub(crate) fn headers(wire: &Wire) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    insert(&mut headers, CONTENT_TYPE, &wire.content_type)?;
    for (name, value) in &wire.headers {
        if is_plain(name) && is_unchanged(value) {
            insert(&mut headers, name, value)?;
        } else {
            insert(&mut headers, &format!("{ENCODED_PREFIX}{}", encoded(name)), &encoded(value))?;
        }
    }
    Ok(headers)
}

/// Returns an upper bound of the bytes of the headers, a few more than actual.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| {
        values.iter().map(|value| AsRef::<str>::as_ref(name).len() + value.as_str().len() + 4)
    });
    lines.sum::<usize>() + 16
}

/// Decodes a received message.
pub(crate) fn receive(
    topic: &Topic,
    stream: &str,
    message: &async_nats::Message,
    origin: Origin,
) -> DecodedMessage {
    let mut content_type = None;
    let mut plain = Vec::new();
    let mut decoded_headers = Vec::new();
    for (name, value) in header_pairs(message.headers.as_ref()) {
        if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            content_type = Some(value.to_owned());
        } else if let Some(rest) = name.strip_prefix(ENCODED_PREFIX) {
            decoded_headers.push((decoded(rest), decoded(value)));
        } else if !is_broker_header(name) {
            plain.push((name, value));
        }
    }
    let arrived = RawMessage {
        topic,
        body: message.payload.clone(),
        content_type,
        key: None,
        place: format_args!("{stream}/{}", origin.sequence),
        sent_at: origin.stored_at,
    };
    let decoded_headers = decoded_headers.iter().map(|(name, value)| (&**name, &**value));
    wire::receive(arrived, plain.into_iter().chain(decoded_headers))
}

fn header_pairs(headers: Option<&HeaderMap>) -> impl Iterator<Item = (&str, &str)> {
    headers.into_iter().flat_map(HeaderMap::iter).flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values.iter().map(move |value| (name, value.as_str()))
    })
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    let invalid = || {
        Error::invalid(format!("NATS cannot transmit the header {name:?} with the value {value:?}"))
    };
    let key = HeaderName::from_str(name).map_err(|_| invalid())?;
    headers.insert(key, HeaderValue::from_str(value).map_err(|_| invalid())?);
    Ok(())
}

/// Whether a name is transmitted unchanged and is read as an application's header.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
        && !is_broker_header(name)
        && !name.eq_ignore_ascii_case(CONTENT_TYPE)
}

fn is_broker_header(name: &str) -> bool {
    name.get(..BROKER_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(BROKER_PREFIX))
}

/// Whether a value is transmitted unchanged: the protocol is line-based and trims values.
fn is_unchanged(value: &str) -> bool {
    value.trim() == value && !value.is_empty() && !value.chars().any(char::is_control)
}

/// Encodes everything but letters, digits, hyphens and dots as `%` and two hexadecimal digits. An empty text becomes
/// a single `%`, because the protocol has no empty values.
fn encoded(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Decodes a text; what is not a valid code stays unchanged.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    if text == "%" {
        return Cow::Borrowed("");
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let code = (*first == b'%').then(|| others.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &others[2..] } else { others };
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests;
