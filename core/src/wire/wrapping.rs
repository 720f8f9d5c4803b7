//! What a sender wraps its messages in: the envelope, and whom a CloudEvent names as its source. Every
//! transport has it as the option `envelope`, and in its address as `envelope=` and `source=`.

use std::str::FromStr;
use std::sync::Arc;

use super::{Envelope, Wire, cloud_events, own};
use crate::error::{Error, Result};
use crate::transport::Outgoing;

/// What of an address is ours.
const ENVELOPE: &str = "envelope";
const SOURCE: &str = "source";
const NAMES: [(&str, Envelope); 3] = [
    ("own", Envelope::Own),
    ("cloudevents-binary", Envelope::CloudEventsBinary),
    ("cloudevents-structured", Envelope::CloudEventsStructured),
];

/// An envelope, and the source that CloudEvents in it have.
///
/// Messages are published in our own envelope unless a transport's builder or its address says otherwise;
/// the builder wins. Whatever is set, all envelopes are read.
///
/// ```
/// use punctual::wire::{Envelope, Wrapping};
///
/// let wrapping = Envelope::CloudEventsBinary.sent_by("/orders");
/// assert_eq!(wrapping.envelope(), Envelope::CloudEventsBinary);
/// assert_eq!(Wrapping::default().envelope(), Envelope::Own);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrapping {
    envelope: Envelope,
    source: Option<Arc<str>>,
}

impl Envelope {
    /// The envelope with the source that its events have, a URI reference such as `/orders`;
    /// `urn:punctual` unless said otherwise. Our own envelope has none and ignores it.
    pub fn sent_by(self, source: impl Into<Arc<str>>) -> Wrapping {
        Wrapping { envelope: self, source: Some(source.into()) }
    }
}

impl From<Envelope> for Wrapping {
    fn from(envelope: Envelope) -> Self {
        Self { envelope, source: None }
    }
}

/// As an address says it: `own`, `cloudevents-binary` or `cloudevents-structured`.
impl FromStr for Envelope {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, envelope)| *envelope).ok_or_else(|| {
            Error::invalid(format!(
                "envelope={text} is unknown; write own, cloudevents-binary or cloudevents-structured"
            ))
        })
    }
}

impl Wrapping {
    /// The envelope.
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// Reads what an address says of it.
    pub fn parse(envelope: Option<&str>, source: Option<&str>) -> Result<Option<Self>> {
        let Some(envelope) = envelope else {
            return match source {
                None => Ok(None),
                Some(source) => Err(Error::invalid(format!(
                    "source={source} is of a CloudEvent; write envelope=cloudevents-binary or \
                     envelope=cloudevents-structured beside it"
                ))),
            };
        };
        let wrapping = Self { envelope: envelope.parse()?, source: source.map(Arc::from) };
        wrapping.checked().map(Some)
    }

    /// Takes what is ours out of the parameters of an address: the rest of it, and what was set by the
    /// program or, where it set nothing, by the address.
    pub fn at(address: &str, set: Option<Self>) -> Result<(String, Self)> {
        let (rest, said) = taken_out(address)?;
        let wrapping = set.or(said).unwrap_or_default();
        Ok((rest, wrapping.checked()?))
    }

    /// A message on its way out. The prefix is what stands before the attributes of a binary event on this
    /// broker; see [`Wire::with_attribute_prefix`].
    pub fn wire(&self, outgoing: &Outgoing, prefix: &str) -> Result<Wire> {
        let wire = own::wire(outgoing)?;
        let source = self.source.as_deref().unwrap_or(cloud_events::SOURCE);
        let message = &outgoing.message;
        match self.envelope {
            Envelope::Own => Ok(wire),
            Envelope::CloudEventsBinary => cloud_events::binary(wire, message, source, prefix),
            Envelope::CloudEventsStructured => cloud_events::structured(wire, message, source),
        }
    }

    /// Refuses a source that is none.
    pub fn checked(self) -> Result<Self> {
        match &self.source {
            Some(source)
                if source.is_empty() || !source.bytes().all(|one| one.is_ascii_graphic()) =>
            {
                Err(Error::invalid(format!(
                    "the source {source:?} of CloudEvents is no URI reference; write one such as /orders, \
                     in ASCII and without spaces"
                )))
            }
            _ => Ok(self),
        }
    }
}

/// The rest of an address, and what it says of the envelope. A `?` can also be part of a password: only
/// parameters of our names are ours.
fn taken_out(address: &str) -> Result<(String, Option<Wrapping>)> {
    let Some((base, parameters)) = address.rsplit_once('?') else {
        return Ok((address.to_owned(), None));
    };
    let (mut envelope, mut source, mut others) = (None, None, Vec::new());
    for part in parameters.split('&') {
        match part.split_once('=') {
            Some((ENVELOPE, value)) => envelope = Some(decoded(ENVELOPE, value)?),
            Some((SOURCE, value)) => source = Some(decoded(SOURCE, value)?),
            _ => others.push(part),
        }
    }
    let said = Wrapping::parse(envelope.as_deref(), source.as_deref())?;
    if said.is_none() {
        return Ok((address.to_owned(), None));
    }
    let rest =
        if others.is_empty() { base.to_owned() } else { [base, &others.join("&")].join("?") };
    Ok((rest, said))
}

/// Undoes `%40` and the like.
fn decoded(name: &str, text: &str) -> Result<String> {
    let wrong = || {
        Error::invalid(format!(
            "{name}={text} cannot be read: a % is followed by two digits, as in %40"
        ))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let byte = match byte {
            b'%' => digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok()),
            byte => Some(byte),
        };
        bytes.push(byte.ok_or_else(wrong)?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_the_envelope_and_the_rest_is_left_as_it_was() {
        let source = |text: &str| Envelope::CloudEventsStructured.sent_by(text);
        for (address, rest, said) in [
            ("redis://h", "redis://h", Wrapping::default()),
            ("redis://h?protocol=resp3", "redis://h?protocol=resp3", Wrapping::default()),
            ("kafka://ada:s?x=1@h:1", "kafka://ada:s?x=1@h:1", Wrapping::default()),
            ("redis://h?envelope=own", "redis://h", Envelope::Own.into()),
            (
                "a://h/?x=1&envelope=cloudevents-binary&y=2",
                "a://h/?x=1&y=2",
                Envelope::CloudEventsBinary.into(),
            ),
            ("a://h?source=/a%40b&envelope=cloudevents-structured", "a://h", source("/a@b")),
        ] {
            let (left, wrapping) = Wrapping::at(address, None).unwrap();
            assert_eq!((left.as_str(), wrapping), (rest, said), "{address}");
        }
        let set = Some(source("/program"));
        let (rest, wrapping) = Wrapping::at("a://h?envelope=own", set.clone()).unwrap();
        assert_eq!((rest.as_str(), Some(wrapping)), ("a://h", set));
    }

    #[test]
    fn what_cannot_be_right_is_named_with_the_way_out() {
        for (address, words) in [
            ("a://u:secret@h?envelope=xml", "envelope=xml is unknown; write own"),
            ("a://u:secret@h?source=/a", "envelope=cloudevents-binary"),
            ("a://u:secret@h?envelope=own&source=%4", "%40"),
            ("a://u:secret@h?envelope=own&source=", "no URI reference"),
            ("a://u:secret@h?envelope=own&source=a%20b", "no URI reference"),
        ] {
            let error = Wrapping::at(address, None).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
        let error = Wrapping::at("a://h", Some(Envelope::Own.sent_by("\n"))).unwrap_err();
        assert!(error.to_string().contains("no URI reference"), "{error}");
    }
}
