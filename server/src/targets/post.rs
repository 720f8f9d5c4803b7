//! A POST for the server's own purposes, past the same guard as everything that jobs call.

use std::time::Duration;

use bytes::Bytes;
use punctual::HandlerError;
use punctual::clock::{add, within};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::Tools;
use super::exchange::{Ask, exchange};

/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// The longest wait that an answer may ask for.
const RETRY_AFTER_MAX: u64 = 24 * 60 * 60;

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    pub(crate) status: u16,
    /// After how long to come again, when the answer says so.
    pub(crate) retry_after: Option<Duration>,
}

impl Tools {
    /// Sends, follows no redirect, and answers what came back within a time.
    pub(crate) async fn post(
        &self,
        posted: Posted,
        timeout: Duration,
    ) -> Result<Returned, HandlerError> {
        let url = Url::parse(&posted.url).map_err(|error| {
            HandlerError::new(format!("the URL cannot be read: {error}")).permanent()
        })?;
        let mut headers = HeaderMap::new();
        for (name, value) in posted.headers {
            let value = HeaderValue::from_str(&value).map_err(|_| {
                HandlerError::new(format!("the header {name} has signs it cannot have")).permanent()
            })?;
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        #[cfg(feature = "otlp")]
        crate::telemetry::inject(&mut headers);
        let ask = Ask {
            method: Method::POST,
            url,
            headers,
            body: Some(posted.body),
            redirects_max: 0,
            answer_max: ANSWER_BYTES_MAX,
        };
        let clock = &*self.clock;
        let exchange = exchange(&self.client, &self.guard, ask);
        let answer = within(clock, add(clock.now(), timeout), exchange)
            .await
            .ok_or_else(|| HandlerError::new(format!("no answer within {timeout:?}")))??;
        let retry_after = answer.retry_after.map(|seconds| seconds.min(RETRY_AFTER_MAX));
        Ok(Returned {
            status: answer.status.as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
        })
    }
}
