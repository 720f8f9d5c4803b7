//! Target `http`: calls a URL and evaluates the response.
//!
//! An expected status is success. 408, 425, 429, 500 to 599 and connection errors are failures that the retry
//! policy of the job handles; `Retry-After` is respected. Other statuses fail permanently, because a retry would
//! return the same. `retry_on` of the job overrides this.

use std::time::Duration;

use bytes::Bytes;
use punctual::clock::{add, within};
use punctual::model::JobName;
use punctual::{Context, Handler, HandlerError, HandlerResult, Outcome, Result};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value;

use super::exchange::{HttpRequest, HttpResponse, exchange};
use super::output::log_lines;
use super::signature::HEADER_DEFAULT;
use super::{SecretUse, TargetServices, checked, misdirected, sign, snooze_without_files};
use crate::spec::{HTTP_TOPIC, HttpTarget, Secret, Statuses, Target, Work, duration};
use crate::template::{Escape, Facts, Template, render_json};

/// Default timeout of a request.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default number of bytes of a response that are read.
const RESPONSE_BYTES_DEFAULT: u32 = 1024 * 1024;
/// Largest accepted `Retry-After` in seconds.
const RETRY_AFTER_MAX: u64 = 24 * 60 * 60;

/// Handler that calls URLs.
pub(super) struct HttpRunner(pub(super) TargetServices);

impl Handler<Work> for HttpRunner {
    async fn handle(&self, work: Work, context: Context) -> HandlerResult {
        let result = self.attempt(work, &context).await;
        snooze_without_files(result, &context)
    }
}

impl HttpRunner {
    async fn attempt(&self, work: Work, context: &Context) -> HandlerResult {
        checked(&work.target)?;
        let Work { target: Target::Http(target), payload } = work else {
            return Err(misdirected(HTTP_TOPIC));
        };
        let facts = Facts::of(context, payload.as_ref());
        let request = self
            .request(&target, &facts, context)
            .map_err(|error| HandlerError::from(error).permanent())?;
        let timeout = match &target.timeout {
            Some(text) => duration(text).map_err(|error| HandlerError::from(error).permanent())?,
            None => TIMEOUT_DEFAULT,
        };
        let clock = &*self.0.clock;
        let exchange = exchange(&self.0.client, &self.0.guard, request);
        let response = within(clock, add(clock.now(), timeout), exchange)
            .await
            .ok_or_else(|| HandlerError::new(format!("no response within {timeout:?}")))??;
        evaluate(&target, &response, context)
    }

    fn request(
        &self,
        target: &HttpTarget,
        facts: &Facts,
        context: &Context,
    ) -> Result<HttpRequest> {
        let url = Template::parse(&target.url)?.render(facts, Escape::Url)?;
        let url = Url::parse(&url)
            .map_err(|error| punctual::Error::invalid(format!("http.url: {error}")))?;
        let secret_use =
            SecretUse { job: context.job().map(JobName::as_str), host: url.host_str() };
        let mut headers = self.headers(target, facts, secret_use)?;
        let body = match &target.body {
            Some(body) => Some(body_of(body, &mut headers, facts)?),
            None => None,
        };
        let content = body.as_deref().unwrap_or_default();
        self.add_standard_headers(target, &mut headers, content, (context, secret_use))?;
        let method = match &target.method {
            Some(method) => {
                Method::from_bytes(method.to_ascii_uppercase().as_bytes()).map_err(|_| {
                    punctual::Error::invalid(format!("{method:?} is not an HTTP method"))
                })?
            }
            None if body.is_some() => Method::POST,
            None => Method::GET,
        };
        let response_bytes_max = target.response_bytes_max.unwrap_or(RESPONSE_BYTES_DEFAULT);
        Ok(HttpRequest {
            method,
            url,
            headers,
            body,
            redirects_max: target.redirects_max.unwrap_or(0),
            response_bytes_max: usize::try_from(response_bytes_max).unwrap_or(usize::MAX),
        })
    }

    fn headers(
        &self,
        target: &HttpTarget,
        facts: &Facts,
        secret_use: SecretUse<'_>,
    ) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        for (name, secret) in &target.headers {
            let text = match secret {
                Secret::Plain(text) => Template::parse(text)?.render(facts, Escape::None)?,
                secret => self.0.vault.open(secret, secret_use)?,
            };
            set(&mut headers, name, &text)?;
        }
        Ok(headers)
    }

    /// Adds the headers by which the receiver recognizes repeats, and the signature.
    fn add_standard_headers(
        &self,
        target: &HttpTarget,
        headers: &mut HeaderMap,
        body: &[u8],
        (context, secret_use): (&Context, SecretUse<'_>),
    ) -> Result<()> {
        set(headers, "Punctual-Attempt", &context.attempt().to_string())?;
        if !headers.contains_key("idempotency-key") {
            set(headers, "Idempotency-Key", &context.message_id().to_string())?;
        }
        #[cfg(feature = "otlp")]
        crate::telemetry::inject(headers);
        if let Some(signature) = &target.signature {
            let secret = self.0.vault.open(&signature.secret, secret_use)?;
            let signed = sign(secret.as_bytes(), self.0.clock.now(), body)?;
            set(headers, signature.header.as_deref().unwrap_or(HEADER_DEFAULT), &signed)?;
        }
        Ok(())
    }
}

fn set(headers: &mut HeaderMap, name: &str, text: &str) -> Result<()> {
    let bad = |what: &str| punctual::Error::invalid(format!("the header {name:?} has {what}"));
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("an invalid name"))?;
    let value = HeaderValue::from_str(text).map_err(|_| bad("a value with invalid characters"))?;
    headers.insert(key, value);
    Ok(())
}

/// Returns the bytes of a body; an object is sent as JSON with its content type.
fn body_of(body: &Value, headers: &mut HeaderMap, facts: &Facts) -> Result<Bytes> {
    let Value::String(text) = body else {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        return Ok(Bytes::from(render_json(body, facts)?.to_string()));
    };
    let is_json = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.to_ascii_lowercase().contains("json"));
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/plain; charset=utf-8"));
    let escape = if is_json { Escape::Json } else { Escape::None };
    Ok(Bytes::from(Template::parse(text)?.render(facts, escape)?))
}

/// Returns the result of a response.
fn evaluate(target: &HttpTarget, response: &HttpResponse, context: &Context) -> HandlerResult {
    let status = response.status.as_u16();
    let size = if response.cut { "more than " } else { "" };
    let note = format!("{}, {size}{} bytes", response.status, response.body.len());
    log_lines(context, &response.body);
    if target.expect.clone().unwrap_or_else(Statuses::success).contains(status) {
        context.report_success(&note);
        return Ok(Outcome::Done);
    }
    let error = HandlerError::new(format!("the response was {note}"));
    let is_retried = match &target.retry_on {
        Some(statuses) => statuses.contains(status),
        None => matches!(status, 408 | 425 | 429 | 500..=599),
    };
    match (is_retried, response.retry_after) {
        (false, _) => Err(error.permanent()),
        (true, Some(seconds)) => {
            Err(error.retry_after(Duration::from_secs(seconds.min(RETRY_AFTER_MAX))))
        }
        (true, None) => Err(error),
    }
}
