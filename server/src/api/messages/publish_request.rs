//! Publish request, and its conversion to a message.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use punctual::client::Publish;
use punctual::model::{Body as Content, CONTENT_TYPE_UNKNOWN, HandlerOptions};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::publish::{duration, null_as_value};
use crate::app::App;
use crate::problem::{ApiResult, Problem};
use crate::redact::{HIDDEN, holds_hidden};
use crate::spec::{RetrySpec, RetryText};

/// A message to publish, with at most one of `body`, `json`, `text` and `base64`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({ "topic": "send-email", "json": { "to": "ada@example.com" }, "delay": "5m" }))]
pub(crate) struct PublishRequest {
    /// Topic, which selects the handler.
    pub(super) topic: Option<String>,
    /// Body as JSON; the same as `json`.
    #[serde(deserialize_with = "null_as_value")]
    #[schema(value_type = Value)]
    pub(super) body: Option<Value>,
    /// Body as JSON.
    #[serde(deserialize_with = "null_as_value")]
    #[schema(value_type = Value)]
    pub(super) json: Option<Value>,
    /// Body as text.
    pub(super) text: Option<String>,
    /// Body as bytes in base64.
    pub(super) base64: Option<String>,
    /// Media type of the body.
    pub(super) content_type: Option<String>,
    /// Headers of the message.
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// Key of the message, such as the id of its subject.
    pub(super) key: Option<String>,
    /// Deduplication key: while another message with this key is unfinished, this one is a duplicate.
    pub(super) dedupe: Option<String>,
    /// Whether to replace a pending message with the same `dedupe` key; a running one is kept.
    pub(super) replace: bool,
    /// Queue of the message.
    pub(super) queue: Option<String>,
    /// Priority, 0 (lowest) to 9 (highest).
    pub(super) priority: Option<u8>,
    /// Delay, such as `5m`.
    pub(super) delay: Option<String>,
    /// Due time.
    pub(super) at: Option<Timestamp>,
    /// Transport of the message.
    pub(super) transport: Option<String>,
    /// Deliver only to this group.
    pub(super) group: Option<String>,
    /// Retry policy: a number of retries, a list of waits, or an object as in a job definition.
    #[schema(value_type = Option<RetryText>)]
    pub(super) retry: Option<RetrySpec>,
    /// Timeout of an attempt, such as `30s`.
    pub(super) timeout: Option<String>,
}

/// Setter of a text option.
type Setter = fn(Publish, &str) -> Publish;

impl PublishRequest {
    /// Returns the topic. Fails when it is missing.
    pub(super) fn topic(&self) -> ApiResult<&str> {
        self.topic.as_deref().ok_or_else(|| {
            Problem::refused("a message needs a `topic`, which selects its handler")
                .field("topic", "is missing")
        })
    }

    /// Returns whether a body is given.
    pub(super) fn has_body(&self) -> bool {
        self.json.is_some() || self.body.is_some() || self.text.is_some() || self.base64.is_some()
    }

    /// Returns the body, if one is given. Fails when several are, or when it holds a redacted value.
    pub(super) fn content(&self) -> ApiResult<Option<Content>> {
        let content_type =
            |default: &str| self.content_type.clone().unwrap_or_else(|| default.to_owned());
        let json = |value: &Value| {
            if holds_hidden(value) {
                return Err(redacted_body("json"));
            }
            Ok(Content::raw(Content::json(value)?.bytes, content_type("application/json")))
        };
        match (self.body.as_ref().or(self.json.as_ref()), &self.text, &self.base64) {
            (Some(value), None, None) if self.body.is_none() || self.json.is_none() => {
                json(value).map(Some)
            }
            (None, Some(text), None) => {
                if text == HIDDEN {
                    return Err(redacted_body("text"));
                }
                Ok(Some(Content::raw(text.clone(), content_type("text/plain; charset=utf-8"))))
            }
            (None, None, Some(text)) => {
                let bytes = BASE64.decode(text).map_err(|error| {
                    Problem::refused(format!("`base64` cannot be read: {error}"))
                        .field("base64", error.to_string())
                })?;
                Ok(Some(Content::raw(bytes, content_type(CONTENT_TYPE_UNKNOWN))))
            }
            (None, None, None) => Ok(None),
            _ => Err(Problem::refused("give at most one of `body`, `json`, `text` and `base64`")
                .field("body", "is given more than once")),
        }
    }

    /// Returns the message to publish.
    pub(super) fn publish(&self, app: &App) -> ApiResult<Publish> {
        let content = self.content()?.unwrap_or_default();
        self.publish_with(app, content)
    }

    /// Returns the message to publish with another body.
    pub(super) fn publish_with(&self, app: &App, content: Content) -> ApiResult<Publish> {
        let mut publish = app.punctual.publisher().publish_body(self.topic()?, content);
        for (name, value) in self.headers.iter().flatten() {
            if value == HIDDEN {
                return Err(Problem::refused(format!(
                    "the header {name:?} is {HIDDEN:?}, which stands for a redacted value; give the real value"
                ))
                .field(format!("headers.{name}"), "is a redacted value"));
            }
            publish = publish.header(name.clone(), value.clone());
        }
        let texts: [(Option<&str>, Setter); 5] = [
            (self.key.as_deref(), |publish, text| publish.key(text)),
            (self.dedupe.as_deref(), |publish, text| publish.unique(text)),
            (self.queue.as_deref(), |publish, text| publish.queue(text)),
            (self.transport.as_deref(), |publish, text| publish.via(text)),
            (self.group.as_deref(), |publish, text| publish.group(text)),
        ];
        for (text, set) in texts {
            if let Some(text) = text {
                publish = set(publish, text);
            }
        }
        if self.replace {
            if self.dedupe.is_none() {
                return Err(Problem::refused("`replace` needs a `dedupe` key")
                    .field("replace", "needs dedupe"));
            }
            publish = publish.replace();
        }
        if let Some(priority) = self.priority {
            publish = publish.priority(priority);
        }
        publish = match (&self.delay, self.at) {
            (None, None) => publish,
            (Some(delay), None) => publish.after(duration("delay", delay)?),
            (None, Some(at)) => publish.at(at),
            (Some(_), Some(_)) => {
                return Err(Problem::refused("give either `delay` or `at`, not both")
                    .field("delay", "is given together with at"));
            }
        };
        Ok(match self.handler_options()? {
            Some(handler_options) => publish.handler_options(handler_options),
            None => publish,
        })
    }

    /// Returns the handler options of the message, if any are given.
    fn handler_options(&self) -> ApiResult<Option<HandlerOptions>> {
        if self.retry.is_none() && self.timeout.is_none() {
            return Ok(None);
        }
        let mut handler_options = HandlerOptions::default();
        if let Some(retry) = &self.retry {
            for wait in retry.waits.iter().flatten() {
                duration("retry.waits", wait)?;
            }
            let retry = retry.retry().map_err(|error| {
                Problem::refused(format!("`retry`: {error}")).field("retry", error.to_string())
            })?;
            handler_options.retry = Some(retry);
        }
        if let Some(timeout) = &self.timeout {
            handler_options.timeout = Some(duration("timeout", timeout)?);
        }
        Ok(Some(handler_options))
    }
}

/// Returns the problem for a body with redacted values.
fn redacted_body(field: &str) -> Problem {
    Problem::refused(format!(
        "the body contains {HIDDEN:?}, which stands for a redacted value; give the real value, or leave the body out when cloning"
    ))
    .field(field, "contains a redacted value")
}
