//! One exchange over HTTP: redirects looked at one by one, and an answer of bounded size.

use bytes::{Bytes, BytesMut};
use punctual::HandlerError;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, StatusCode, Url};

use super::guard::Guard;
use super::open_files::exhausted;

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) redirects_max: u8,
    pub(super) answer_max: usize,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// After how many seconds to come again, when the answer says so.
    pub(super) retry_after: Option<u64>,
    /// The body, up to its bound.
    pub(super) body: Bytes,
    /// Whether there was more.
    pub(super) cut: bool,
}

/// Asks, follows redirects within their bound, and reads the answer.
pub(super) async fn exchange(
    client: &Client,
    guard: &Guard,
    mut ask: Ask,
) -> Result<Answer, HandlerError> {
    for followed in 0..=ask.redirects_max {
        // A refusal does not go away by itself.
        guard.check(&ask.url).map_err(|error| HandlerError::from(error).permanent())?;
        guard.check_proxied(&ask.url).await.map_err(|error| {
            let is_temporary = error.is_temporary();
            let error = HandlerError::from(error);
            if is_temporary { error } else { error.permanent() }
        })?;
        let mut request = client.request(ask.method.clone(), ask.url.clone());
        request = request.headers(ask.headers.clone());
        if let Some(body) = &ask.body {
            request = request.body(body.clone());
        }
        let response = request.send().await.map_err(unreachable)?;
        let next = (followed < ask.redirects_max && response.status().is_redirection())
            .then(|| location(&ask.url, response.headers()))
            .flatten()
            .filter(|url| ask.may_follow(response.status(), url));
        match next {
            Some(url) => ask = redirected(ask, response.status(), url),
            None => return read(response, ask.answer_max).await,
        }
    }
    // The last turn of the loop follows nothing and returns.
    Err(HandlerError::new("the redirects did not end"))
}

fn location(from: &Url, headers: &HeaderMap) -> Option<Url> {
    from.join(headers.get(LOCATION)?.to_str().ok()?).ok()
}

impl Ask {
    /// Whether a redirect is followed: a body that was meant for one origin is not sent to another.
    fn may_follow(&self, status: StatusCode, url: &Url) -> bool {
        !keeps_method(status) || self.body.is_none() || url.origin() == self.url.origin()
    }
}

/// Whether a redirect asks for the same method and body again.
fn keeps_method(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// The next question. What was meant for one origin is not sent to another.
fn redirected(mut ask: Ask, status: StatusCode, url: Url) -> Ask {
    if url.origin() != ask.url.origin() {
        ask.headers = HeaderMap::new();
    }
    if !keeps_method(status) && ask.method != Method::HEAD {
        ask.method = Method::GET;
        ask.body = None;
    }
    ask.url = url;
    ask
}

async fn read(mut response: reqwest::Response, most: usize) -> Result<Answer, HandlerError> {
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| {
        // The other form is a date, by a clock that is not ours.
        value.to_str().ok()?.trim().parse().ok()
    });
    let (mut body, mut cut) = (BytesMut::new(), false);
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        let room = most.saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            cut = true;
            break;
        }
    }
    Ok(Answer { status, retry_after, body: body.freeze(), cut })
}

/// What went wrong, without the URL, which may hold a secret.
fn unreachable(error: reqwest::Error) -> HandlerError {
    if let Some(error) = exhausted(&error) {
        return error;
    }
    let refused = refusal(&error);
    let error = HandlerError::from(error.without_url());
    if refused { error.permanent() } else { error }
}

/// Whether our own guard is among the causes.
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
