//! A message of ours as one of NATS and back. Headers travel under their own names; one that NATS would
//! not carry unchanged, or would take as a command, travels encoded.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr as _;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use punctual::model::Topic;
use punctual::wire::{self, Arrived, Received, Wire};
use punctual::{Error, Result};

use crate::origin::Origin;

/// Where the content type travels. NATS has no place for it, so it is where HTTP has it.
const CONTENT_TYPE: &str = "Content-Type";
/// How the broker's own headers begin.
const BROKERS: &str = "nats-";
/// How an encoded header begins; the name follows. Applications cannot use names that begin like this.
const ENCODED: &str = "punctual-encoded-";

/// The headers of a message on its way out.
pub(crate) fn headers(wire: &Wire) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    put(&mut headers, CONTENT_TYPE, &wire.content_type)?;
    for (name, value) in &wire.headers {
        if is_plain(name) && is_carried(value) {
            put(&mut headers, name, value)?;
        } else {
            put(&mut headers, &format!("{ENCODED}{}", encoded(name)), &encoded(value))?;
        }
    }
    Ok(headers)
}

/// How many bytes they take, at most a few more than they do.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| {
        values.iter().map(|value| AsRef::<str>::as_ref(name).len() + value.as_str().len() + 4)
    });
    lines.sum::<usize>() + 16
}

/// Reads what was delivered.
pub(crate) fn receive(
    topic: &Topic,
    stream: &str,
    message: &async_nats::Message,
    origin: Origin,
) -> Received {
    let mut content_type = None;
    let mut plain = Vec::new();
    let mut decoded_ones = Vec::new();
    for (name, value) in flat(message.headers.as_ref()) {
        if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            content_type = Some(value.to_owned());
        } else if let Some(rest) = name.strip_prefix(ENCODED) {
            decoded_ones.push((decoded(rest), decoded(value)));
        } else if !is_brokers(name) {
            plain.push((name, value));
        }
    }
    let arrived = Arrived {
        topic,
        body: message.payload.clone(),
        content_type,
        key: None,
        place: format_args!("{stream}/{}", origin.sequence),
        sent_at: origin.stored_at,
    };
    let decoded_ones = decoded_ones.iter().map(|(name, value)| (&**name, &**value));
    wire::receive(arrived, plain.into_iter().chain(decoded_ones))
}

fn flat(headers: Option<&HeaderMap>) -> impl Iterator<Item = (&str, &str)> {
    headers.into_iter().flat_map(HeaderMap::iter).flat_map(|(name, values)| {
        let name: &str = name.as_ref();
        values.iter().map(move |value| (name, value.as_str()))
    })
}

fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    let refused =
        || Error::invalid(format!("NATS cannot carry the header {name:?} with {value:?}"));
    let key = HeaderName::from_str(name).map_err(|_| refused())?;
    headers.insert(key, HeaderValue::from_str(value).map_err(|_| refused())?);
    Ok(())
}

/// Whether a name travels as it is, and comes back as an application's.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
        && !is_brokers(name)
        && !name.eq_ignore_ascii_case(CONTENT_TYPE)
}

fn is_brokers(name: &str) -> bool {
    name.get(..BROKERS.len()).is_some_and(|start| start.eq_ignore_ascii_case(BROKERS))
}

/// Whether a value comes back as it was: the protocol has lines and trims them.
fn is_carried(value: &str) -> bool {
    value.trim() == value && !value.is_empty() && !value.chars().any(char::is_control)
}

/// Everything but letters, digits, hyphens and dots as `%` and two hexadecimal digits; nothing at all as
/// a lone `%`, because the protocol has no empty values.
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

/// The other way; what was not encoded by us stays as it is.
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
