//! POST requests of the server itself, through the same guard as job targets.

use std::time::Duration;

use bytes::Bytes;
use punctual::HandlerError;
use punctual::clock::{add, within};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::TargetServices;
use super::exchange::{HttpRequest, exchange};

/// Largest number of bytes of a response that are read.
const RESPONSE_BYTES_MAX: usize = 4 * 1024;
/// Largest accepted `Retry-After` in seconds.
const RETRY_AFTER_MAX: u64 = 24 * 60 * 60;

/// A POST request.
#[derive(Clone, Debug)]
pub(crate) struct PostRequest {
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// The response to a POST request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostResponse {
    pub(crate) status: u16,
    /// `Retry-After`, if sent.
    pub(crate) retry_after: Option<Duration>,
}

impl TargetServices {
    /// Sends a request without following redirects, and returns the response; fails after `timeout`.
    pub(crate) async fn post(
        &self,
        post_request: PostRequest,
        timeout: Duration,
    ) -> Result<PostResponse, HandlerError> {
        let url = Url::parse(&post_request.url).map_err(|error| {
            HandlerError::new(format!("the URL is invalid: {error}")).permanent()
        })?;
        let mut headers = HeaderMap::new();
        for (name, value) in post_request.headers {
            let value = HeaderValue::from_str(&value).map_err(|_| {
                HandlerError::new(format!("the header {name} has invalid characters")).permanent()
            })?;
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        #[cfg(feature = "otlp")]
        crate::telemetry::inject(&mut headers);
        let request = HttpRequest {
            method: Method::POST,
            url,
            headers,
            body: Some(post_request.body),
            redirects_max: 0,
            response_bytes_max: RESPONSE_BYTES_MAX,
        };
        let clock = &*self.clock;
        let exchange = exchange(&self.client, &self.guard, request);
        let response = within(clock, add(clock.now(), timeout), exchange)
            .await
            .ok_or_else(|| HandlerError::new(format!("no response within {timeout:?}")))??;
        let retry_after = response.retry_after.map(|seconds| seconds.min(RETRY_AFTER_MAX));
        Ok(PostResponse {
            status: response.status.as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
        })
    }
}
