//! Wrapping: the envelope of sent messages, and the source of CloudEvents in it. Every transport has it as the
//! option `envelope`, and in its address as `envelope=` and `source=`.

use std::str::FromStr;
use std::sync::Arc;

use super::{Envelope, Wire, cloud_events, own_envelope};
use crate::error::{Error, Result};
use crate::transport::OutgoingMessage;
use crate::transport::address::percent_decode;

/// Parameters of an address that set the wrapping.
const ENVELOPE: &str = "envelope";
const SOURCE: &str = "source";
const NAMES: [(&str, Envelope); 3] = [
    ("own", Envelope::Own),
    ("cloudevents-binary", Envelope::CloudEventsBinary),
    ("cloudevents-structured", Envelope::CloudEventsStructured),
];

/// Envelope of sent messages, and the source of CloudEvents in it.
///
/// Messages are published in our own envelope unless a transport's builder or its address sets another one;
/// the builder wins. All envelopes are read, independent of this setting.
///
/// ```
/// use punctual::backend::wire::{Envelope, Wrapping};
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
    /// Sets the source of its events, a URI reference such as `/orders`; default `urn:punctual`. Our own
    /// envelope has none and ignores it.
    pub fn sent_by(self, source: impl Into<Arc<str>>) -> Wrapping {
        Wrapping { envelope: self, source: Some(source.into()) }
    }
}

impl From<Envelope> for Wrapping {
    fn from(envelope: Envelope) -> Self {
        Self { envelope, source: None }
    }
}

/// Parses the value of an address: `own`, `cloudevents-binary` or `cloudevents-structured`.
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
    /// Returns the envelope.
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// Parses the parameters of an address.
    pub fn parse(envelope: Option<&str>, source: Option<&str>) -> Result<Option<Self>> {
        let Some(envelope) = envelope else {
            return match source {
                None => Ok(None),
                Some(source) => Err(Error::invalid(format!(
                    "source={source} requires a CloudEvent; write envelope=cloudevents-binary or \
                     envelope=cloudevents-structured beside it"
                ))),
            };
        };
        let wrapping = Self { envelope: envelope.parse()?, source: source.map(Arc::from) };
        wrapping.checked().map(Some)
    }

    /// Splits an address into the rest without our parameters, and the wrapping: `set` by the program, else the
    /// one of the address.
    pub fn at(address: &str, set: Option<Self>) -> Result<(String, Self)> {
        let (rest, configured) = split_address(address)?;
        let wrapping = set.or(configured).unwrap_or_default();
        Ok((rest, wrapping.checked()?))
    }

    /// Encodes a message to send. The prefix is that of the attributes of a binary event on this broker; see
    /// [`Wire::with_attribute_prefix`].
    pub fn wire(&self, outgoing: &OutgoingMessage, prefix: &str) -> Result<Wire> {
        let wire = own_envelope::wire(outgoing)?;
        let source = self.source.as_deref().unwrap_or(cloud_events::SOURCE);
        let message = &outgoing.message;
        match self.envelope {
            Envelope::Own => Ok(wire),
            Envelope::CloudEventsBinary => cloud_events::binary(wire, message, source, prefix),
            Envelope::CloudEventsStructured => cloud_events::structured(wire, message, source),
        }
    }

    /// Fails when the source is not valid.
    pub fn checked(self) -> Result<Self> {
        match &self.source {
            Some(source)
                if source.is_empty() || !source.bytes().all(|one| one.is_ascii_graphic()) =>
            {
                Err(Error::invalid(format!(
                    "the source {source:?} of CloudEvents is not a URI reference; write one such as /orders, \
                     in ASCII and without spaces"
                )))
            }
            _ => Ok(self),
        }
    }
}

/// Splits an address into the rest and its wrapping. A `?` can also be part of a password: only parameters with
/// our names are taken.
fn split_address(address: &str) -> Result<(String, Option<Wrapping>)> {
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
    let configured = Wrapping::parse(envelope.as_deref(), source.as_deref())?;
    if configured.is_none() {
        return Ok((address.to_owned(), None));
    }
    let rest =
        if others.is_empty() { base.to_owned() } else { [base, &others.join("&")].join("?") };
    Ok((rest, configured))
}

/// Decodes percent-encoding such as `%40`.
fn decoded(name: &str, text: &str) -> Result<String> {
    percent_decode(text).ok_or_else(|| {
        Error::invalid(format!(
            "{name}={text} cannot be read: a % is followed by two digits, as in %40"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_sets_the_envelope_and_the_rest_is_unchanged() {
        let source = |text: &str| Envelope::CloudEventsStructured.sent_by(text);
        for (address, rest, configured) in [
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
            assert_eq!((left.as_str(), wrapping), (rest, configured), "{address}");
        }
        let set = Some(source("/program"));
        let (rest, wrapping) = Wrapping::at("a://h?envelope=own", set.clone()).unwrap();
        assert_eq!((rest.as_str(), Some(wrapping)), ("a://h", set));
    }

    #[test]
    fn an_invalid_parameter_is_refused_with_the_way_out() {
        for (address, words) in [
            ("a://u:secret@h?envelope=xml", "envelope=xml is unknown; write own"),
            ("a://u:secret@h?source=/a", "envelope=cloudevents-binary"),
            ("a://u:secret@h?envelope=own&source=%4", "%40"),
            ("a://u:secret@h?envelope=own&source=", "not a URI reference"),
            ("a://u:secret@h?envelope=own&source=a%20b", "not a URI reference"),
        ] {
            let error = Wrapping::at(address, None).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
        let error = Wrapping::at("a://h", Some(Envelope::Own.sent_by("\n"))).unwrap_err();
        assert!(error.to_string().contains("not a URI reference"), "{error}");
    }
}
