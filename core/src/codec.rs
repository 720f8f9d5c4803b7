//! Codecs: encode payloads into bodies and decode them, chosen by content type. JSON is built in and costs
//! nothing more because of the others; a body of an unknown content type is poison, and the error names the
//! type.

#[cfg(feature = "messagepack")]
mod message_pack;

#[cfg(feature = "messagepack")]
pub use message_pack::MessagePack;

use std::any::type_name;
use std::sync::Arc;

use erased_serde::{Deserializer, Serialize as ErasedSerialize};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::model::{Body, CONTENT_TYPE_UNKNOWN, JSON, Message, PAYLOAD_MAX_DEFAULT};
use crate::options::Options;

/// Encoder and decoder of payloads, registered by [`Builder::codec`](crate::Builder::codec) or
/// [`Builder::default_codec`](crate::Builder::default_codec).
///
/// ```
/// use punctual::codec::{Codec, PayloadReader};
/// use punctual::{Error, Result, erased_serde};
///
/// /// JSON with line breaks, for people.
/// struct Pretty;
///
/// impl Codec for Pretty {
///     fn content_type(&self) -> &'static str {
///         "application/x-pretty-json"
///     }
///
///     fn encode(&self, payload: &dyn erased_serde::Serialize) -> Result<Vec<u8>> {
///         punctual::serde_json::to_vec_pretty(payload).map_err(|error| Error::invalid(error.to_string()))
///     }
///
///     fn decode(&self, bytes: &[u8], read: PayloadReader<'_>) -> Result<()> {
///         let mut from = punctual::serde_json::Deserializer::from_slice(bytes);
///         read(&mut <dyn erased_serde::Deserializer>::erase(&mut from))
///             .map_err(|error| Error::invalid(error.to_string()))
///     }
/// }
/// # assert!(punctual::Punctual::builder().codec(Pretty).build().is_ok());
/// ```
pub trait Codec: Send + Sync + 'static {
    /// Returns the media type of its bodies without parameters, such as `application/msgpack`.
    fn content_type(&self) -> &'static str;

    /// Encodes a payload.
    fn encode(&self, payload: &dyn ErasedSerialize) -> Result<Vec<u8>>;

    /// Decodes a payload: calls `read` once, with a deserializer over the bytes.
    fn decode(&self, bytes: &[u8], read: PayloadReader<'_>) -> Result<()>;
}

/// Function that reads a payload from a deserializer over the bytes.
pub type PayloadReader<'a> =
    &'a mut dyn for<'d> FnMut(&mut dyn Deserializer<'d>) -> Result<(), erased_serde::Error>;

/// Codecs of a process.
#[doc(hidden)]
pub struct Codecs {
    others: Vec<Arc<dyn Codec>>,
    /// Default codec; none means JSON.
    default: Option<Arc<dyn Codec>>,
    payload_max: usize,
}

impl Default for Codecs {
    fn default() -> Self {
        Self { others: Vec::new(), default: None, payload_max: PAYLOAD_MAX_DEFAULT }
    }
}

impl Codecs {
    pub(crate) fn add(&mut self, codec: Arc<dyn Codec>) {
        self.others.push(codec);
    }

    pub(crate) fn add_default(&mut self, codec: Arc<dyn Codec>) {
        self.default = Some(codec.clone());
        self.others.push(codec);
    }

    /// Fails when two codecs have the same content type or one has an invalid type.
    pub(crate) fn checked(mut self, options: &Options) -> Result<Self> {
        self.payload_max = options.payload_max;
        for (index, codec) in self.others.iter().enumerate() {
            let name = codec.content_type();
            let is_like = |other: &str| other.eq_ignore_ascii_case(name);
            if is_json(name) || self.others[..index].iter().any(|one| is_like(one.content_type())) {
                return Err(Error::conflict(format!(
                    "there are two codecs for {name:?}; a content type has one"
                )));
            }
            if essence(name) != name || !name.contains('/') || is_like(CONTENT_TYPE_UNKNOWN) {
                return Err(Error::invalid(format!(
                    "a codec has the content type {name:?}; give it a media type of its own without parameters, such as \"application/msgpack\""
                )));
            }
        }
        Ok(self)
    }

    /// Encodes a payload with the given content type, or with the default one.
    pub(crate) fn write<T: Serialize + ?Sized>(
        &self,
        payload: &T,
        content_type: Option<&str>,
    ) -> Result<Body> {
        let codec = match content_type {
            None => self.default.as_deref(),
            Some(name) if is_json(name) => None,
            Some(name) => Some(self.find(name).ok_or_else(|| {
                Error::invalid(format!(
                    "no codec can write {name:?}; give the builder a codec() for it, or choose from {}",
                    self.names()
                ))
            })?),
        };
        match codec {
            None => Body::json(payload),
            Some(codec) => Ok(Body::raw(codec.encode(&payload)?, codec.content_type())),
        }
    }

    /// Decodes the payload of a message by the content type of its body.
    pub(crate) fn read<T: DeserializeOwned>(&self, message: &Message) -> Result<T> {
        let body = message.content(self.payload_max)?;
        let name = &*body.content_type;
        if name == JSON {
            return body.read();
        }
        let codec = if name.is_empty() || name == CONTENT_TYPE_UNKNOWN {
            self.default.as_deref()
        } else if is_json(name) {
            None
        } else {
            Some(self.find(name).ok_or_else(|| {
                Error::invalid(format!(
                    "the body is {name:?}, which no codec here can read; give the builder a codec() for it, or take a Body as the argument"
                ))
            })?)
        };
        match codec {
            None => body.read(),
            Some(codec) => decoded(codec, &body.bytes),
        }
    }

    /// Returns the body of a message as its sender wrote it.
    pub(crate) fn body(&self, message: &Message) -> Result<Body> {
        Ok(message.content(self.payload_max)?.into_owned())
    }

    fn find(&self, content_type: &str) -> Option<&dyn Codec> {
        let wanted = essence(content_type);
        let mut others = self.others.iter();
        others.find(|codec| codec.content_type().eq_ignore_ascii_case(wanted)).map(|codec| &**codec)
    }

    fn names(&self) -> String {
        let others = self.others.iter().map(|codec| codec.content_type());
        std::iter::once(JSON).chain(others).collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Debug for Codecs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Codecs").field(&self.names()).finish()
    }
}

fn decoded<T: DeserializeOwned>(codec: &dyn Codec, bytes: &[u8]) -> Result<T> {
    let mut payload = None;
    let mut read = |from: &mut dyn Deserializer<'_>| {
        payload = Some(erased_serde::deserialize(from)?);
        Ok(())
    };
    codec.decode(bytes, &mut read).map_err(|error| {
        Error::invalid(format!("the body cannot be read as {}: {error}", type_name::<T>()))
    })?;
    payload.ok_or_else(|| {
        Error::internal(format!("the codec of {:?} read nothing", codec.content_type()))
    })
}

/// Returns a media type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Returns whether a media type is JSON, also under a name such as `application/vnd.shop+json`.
fn is_json(content_type: &str) -> bool {
    let essence = essence(content_type).to_ascii_lowercase();
    essence == JSON || essence == "text/json" || essence.ends_with("+json")
}

#[cfg(test)]
mod tests;
