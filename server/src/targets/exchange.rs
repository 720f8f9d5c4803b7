//! HTTP exchange: a request with redirects that are checked one by one, and a response of bounded size.

use bytes::{Bytes, BytesMut};
use punctual::HandlerError;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, StatusCode, Url};

use super::guard::Guard;
use super::open_files::exhausted;

/// A request of a target.
#[derive(Clone, Debug)]
pub(super) struct HttpRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) redirects_max: u8,
    pub(super) response_bytes_max: usize,
}

/// The response to a request.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    /// `Retry-After` in seconds, if sent.
    pub(super) retry_after: Option<u64>,
    /// The body, up to the limit.
    pub(super) body: Bytes,
    /// Whether the body was truncated.
    pub(super) cut: bool,
}

/// Sends a request, follows redirects up to their limit, and reads the response.
pub(super) async fn exchange(
    client: &Client,
    guard: &Guard,
    mut request: HttpRequest,
) -> Result<HttpResponse, HandlerError> {
    for followed in 0..=request.redirects_max {
        // A refusal by the guard is permanent.
        guard.check(&request.url).map_err(|error| HandlerError::from(error).permanent())?;
        guard.check_proxied(&request.url).await.map_err(|error| {
            let is_temporary = error.is_temporary();
            let error = HandlerError::from(error);
            if is_temporary { error } else { error.permanent() }
        })?;
        let mut builder = client.request(request.method.clone(), request.url.clone());
        builder = builder.headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        let response = builder.send().await.map_err(unreachable)?;
        let next = (followed < request.redirects_max && response.status().is_redirection())
            .then(|| location(&request.url, response.headers()))
            .flatten()
            .filter(|url| request.may_follow(response.status(), url));
        match next {
            Some(url) => request = redirected(request, response.status(), url),
            None => return read(response, request.response_bytes_max).await,
        }
    }
    // Unreachable: the last iteration follows no redirect and returns.
    Err(HandlerError::new("the redirects did not end"))
}

fn location(from: &Url, headers: &HeaderMap) -> Option<Url> {
    from.join(headers.get(LOCATION)?.to_str().ok()?).ok()
}

impl HttpRequest {
    /// Returns whether a redirect is followed: a body is not sent to another origin.
    fn may_follow(&self, status: StatusCode, url: &Url) -> bool {
        !keeps_method(status) || self.body.is_none() || url.origin() == self.url.origin()
    }
}

/// Returns whether a redirect keeps the method and the body.
fn keeps_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// Returns the redirected request. Headers are not sent to another origin.
fn redirected(mut request: HttpRequest, status: StatusCode, url: Url) -> HttpRequest {
    if url.origin() != request.url.origin() {
        request.headers = HeaderMap::new();
    }
    if !keeps_method(status) && request.method != Method::HEAD {
        request.method = Method::GET;
        request.body = None;
    }
    request.url = url;
    request
}

async fn read(
    mut response: reqwest::Response,
    bytes_max: usize,
) -> Result<HttpResponse, HandlerError> {
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| {
        // The date form depends on the clock of the sender and is ignored.
        value.to_str().ok()?.trim().parse().ok()
    });
    let (mut body, mut cut) = (BytesMut::new(), false);
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        let room = bytes_max.saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            cut = true;
            break;
        }
    }
    Ok(HttpResponse { status, retry_after, body: body.freeze(), cut })
}

/// Returns the error of a request without the URL, which may contain a secret.
fn unreachable(error: reqwest::Error) -> HandlerError {
    if let Some(error) = exhausted(&error) {
        return error;
    }
    let refused = refusal(&error);
    let error = HandlerError::from(error.without_url());
    if refused { error.permanent() } else { error }
}

/// Returns whether the guard caused the error.
fn refusal(error: &reqwest::Error) -> bool {
    const CAUSES_MAX: usize = 16;
    let mut cause = std::error::Error::source(error);
    for _ in 0..CAUSES_MAX {
        match cause {
            Some(error) if error.is::<punctual::Error>() => return true,
            Some(error) => cause = error.source(),
            None => return false,
        }
    }
    false
}
