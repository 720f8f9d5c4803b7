//! Body of a message: bytes and their content type. Punctual never reads the bytes; only a handler's payload
//! type does.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Default size limit of a body in bytes: one mebibyte.
pub const PAYLOAD_MAX_DEFAULT: usize = 1 << 20;

/// Content type of a body whose type is unknown.
pub const CONTENT_TYPE_UNKNOWN: &str = "application/octet-stream";

pub(crate) const JSON: &str = "application/json";

/// Content of a message: bytes with their content type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredBody", into = "StoredBody")]
pub struct Body {
    /// The bytes as sent.
    pub bytes: Bytes,
    /// Media type of the bytes.
    pub content_type: Cow<'static, str>,
}

impl Body {
    /// Returns an empty body; read as JSON it is `null`.
    pub const fn empty() -> Self {
        Self { bytes: Bytes::new(), content_type: Cow::Borrowed(JSON) }
    }

    /// Returns a value encoded as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let bytes = serde_json::to_vec(value).map_err(|error| {
            Error::invalid(format!("the payload cannot be written as JSON: {error}"))
                .caused_by(error)
        })?;
        Ok(Self { bytes: bytes.into(), content_type: Cow::Borrowed(JSON) })
    }

    /// Returns bytes of any content type.
    pub fn raw(bytes: impl Into<Bytes>, content_type: impl Into<Cow<'static, str>>) -> Self {
        Self { bytes: bytes.into(), content_type: content_type.into() }
    }

    /// Parses the bytes as JSON; an empty body reads as `null`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let bytes: &[u8] = if self.bytes.is_empty() { b"null" } else { &self.bytes };
        serde_json::from_slice(bytes).map_err(|error| {
            Error::invalid(format!(
                "the body cannot be read as {}: {error}",
                std::any::type_name::<T>()
            ))
            .caused_by(error)
        })
    }

    /// Fails when the body is larger than a limit in bytes.
    pub fn check(&self, payload_max: usize) -> Result<()> {
        if self.bytes.len() > payload_max {
            return Err(Error::invalid(format!(
                "the payload has {} bytes and at most {payload_max} are allowed; store it elsewhere and send a reference, or raise payload_max",
                self.bytes.len()
            )));
        }
        Ok(())
    }
}

/// Stored form of a body: as text where it is text, so that people can read it.
#[derive(Serialize, Deserialize)]
struct StoredBody {
    content_type: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl From<Body> for StoredBody {
    fn from(body: Body) -> Self {
        let text = std::str::from_utf8(&body.bytes).ok().map(str::to_owned);
        let base64 = text.is_none().then(|| BASE64.encode(&body.bytes));
        Self { content_type: body.content_type, text, base64 }
    }
}

impl TryFrom<StoredBody> for Body {
    type Error = Error;

    fn try_from(stored: StoredBody) -> Result<Self> {
        let bytes = match (stored.text, stored.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => BASE64.decode(&base64).map_err(|error| {
                Error::invalid(format!("the body is not base64: {error}")).caused_by(error)
            })?,
            (None, None) => Vec::new(),
            (Some(_), Some(_)) => {
                return Err(Error::invalid("a body has either `text` or `base64`, not both"));
            }
        };
        Ok(Self { bytes: bytes.into(), content_type: stored.content_type })
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips() {
        let body = Body::json(&vec![1, 2, 3]).unwrap();
        assert_eq!(body.read::<Vec<u8>>().unwrap(), [1, 2, 3]);
        assert_eq!(body.content_type, "application/json");
    }

    #[test]
    fn is_stored_as_text_where_it_is_text() {
        for (body, json) in [
            (
                Body::raw("héllo\0", "text/plain"),
                r#"{"content_type":"text/plain","text":"héllo\u0000"}"#,
            ),
            (
                Body::raw(vec![255, 0], "image/png"),
                r#"{"content_type":"image/png","base64":"/wA="}"#,
            ),
            (Body::empty(), r#"{"content_type":"application/json","text":""}"#),
        ] {
            assert_eq!(serde_json::to_string(&body).unwrap(), json);
            assert_eq!(serde_json::from_str::<Body>(json).unwrap(), body);
        }
        let both = r#"{"content_type":"a/b","text":"","base64":""}"#;
        assert!(serde_json::from_str::<Body>(both).unwrap_err().to_string().contains("not both"));
    }

    #[test]
    fn an_empty_body_reads_as_nothing() {
        Body::empty().read::<()>().unwrap();
        assert_eq!(Body::empty().read::<Option<u8>>().unwrap(), None);
    }

    #[test]
    fn a_body_over_the_limit_is_refused_with_both_numbers() {
        let body = Body::raw(vec![0; 11], "application/octet-stream");
        assert!(body.check(11).is_ok());
        let error = body.check(10).unwrap_err().to_string();
        assert!(error.contains("11 bytes") && error.contains("at most 10"), "{error}");
    }
}
