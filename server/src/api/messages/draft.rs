//! A message as it is asked for, and the message it becomes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use punctual::client::Publish;
use punctual::model::{Body as Content, CONTENT_TYPE_UNKNOWN, HandlerOptions};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::sending::{given, length};
use crate::app::App;
use crate::problem::{Answer, Problem};
use crate::redact::{HIDDEN, holds_hidden};
use crate::spec::{RetrySpec, RetryText};

/// A message to be sent. Of `body`, `json`, `text` and `base64` at most one is given.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({ "topic": "send-email", "json": { "to": "ada@example.com" }, "delay": "5m" }))]
pub(crate) struct PublishRequest {
    /// The name that finds its handler.
    pub(super) topic: Option<String>,
    /// The content as JSON; the same as `json`.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Value)]
    pub(super) body: Option<Value>,
    /// The content as JSON.
    #[serde(deserialize_with = "given")]
    #[schema(value_type = Value)]
    pub(super) json: Option<Value>,
    /// The content as text.
    pub(super) text: Option<String>,
    /// The content as bytes.
    pub(super) base64: Option<String>,
    /// What the content is, as a media type.
    pub(super) content_type: Option<String>,
    /// Small facts that travel along.
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// What it is about.
    pub(super) key: Option<String>,
    /// While a message with the same value lives, this one is a duplicate.
    pub(super) dedupe: Option<String>,
    /// Takes the place of a pending message with the same `dedupe` instead of being a duplicate of it; a running
    /// one stays.
    pub(super) replace: bool,
    /// The line it waits in.
    pub(super) queue: Option<String>,
    /// How urgent it is, 0 (last) to 9 (first).
    pub(super) priority: Option<u8>,
    /// Not before this much later, such as `5m`.
    pub(super) delay: Option<String>,
    /// Not before this instant.
    pub(super) at: Option<Timestamp>,
    /// The transport that carries it.
    pub(super) transport: Option<String>,
    /// Only this group gets it.
    pub(super) group: Option<String>,
    /// How often it is tried again: a number, a list of waits, or a table as in the definition of a job.
    #[schema(value_type = Option<RetryText>)]
    pub(super) retry: Option<RetrySpec>,
    /// How long one attempt may take, such as `30s`.
    pub(super) timeout: Option<String>,
}

/// How a text becomes part of a message.
type Set = fn(Publish, &str) -> Publish;

impl PublishRequest {
    /// The topic, which must be given.
    pub(super) fn topic(&self) -> Answer<&str> {
        self.topic.as_deref().ok_or_else(|| {
            Problem::refused("a message needs a `topic`, the name that finds its handler")
                .field("topic", "is missing")
        })
    }

    /// Whether a content is given.
    pub(super) fn has_content(&self) -> bool {
        self.json.is_some() || self.body.is_some() || self.text.is_some() || self.base64.is_some()
    }

    /// The content that is given, if one is.
    pub(super) fn content(&self) -> Answer<Option<Content>> {
        let kind = |usual: &str| self.content_type.clone().unwrap_or_else(|| usual.to_owned());
        let json = |value: &Value| {
            if holds_hidden(value) {
                return Err(hidden_content("json"));
            }
            Ok(Content::raw(Content::json(value)?.bytes, kind("application/json")))
        };
        match (self.body.as_ref().or(self.json.as_ref()), &self.text, &self.base64) {
            (Some(value), None, None) if self.body.is_none() || self.json.is_none() => {
                json(value).map(Some)
            }
            (None, Some(text), None) => {
                if text == HIDDEN {
                    return Err(hidden_content("text"));
                }
                Ok(Some(Content::raw(text.clone(), kind("text/plain; charset=utf-8"))))
            }
            (None, None, Some(text)) => {
                let bytes = BASE64.decode(text).map_err(|error| {
                    Problem::refused(format!("`base64` cannot be read: {error}"))
                        .field("base64", error.to_string())
                })?;
                Ok(Some(Content::raw(bytes, kind(CONTENT_TYPE_UNKNOWN))))
            }
            (None, None, None) => Ok(None),
            _ => Err(Problem::refused(
                "give one of `body`, `json`, `text` and `base64`, not several",
            )
            .field("body", "is given twice")),
        }
    }

    /// The message, ready to be sent.
    pub(super) fn publish(&self, app: &App) -> Answer<Publish> {
        let content = self.content()?.unwrap_or_default();
        self.publish_with(app, content)
    }

    /// The same with another content.
    pub(super) fn publish_with(&self, app: &App, content: Content) -> Answer<Publish> {
        let mut publish = app.punctual.publisher().publish_body(self.topic()?, content);
        for (name, value) in self.headers.iter().flatten() {
            if value == HIDDEN {
                return Err(Problem::refused(format!(
                    "the header {name:?} is {HIDDEN:?}, which stands for a hidden value; give the value itself"
                ))
                .field(format!("headers.{name}"), "is a hidden value"));
            }
            publish = publish.header(name.clone(), value.clone());
        }
        let texts: [(Option<&str>, Set); 5] = [
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
                return Err(Problem::refused(
                    "`replace` is about a message with the same `dedupe`; give `dedupe` as well",
                )
                .field("replace", "needs dedupe"));
            }
            publish = publish.replace();
        }
        if let Some(priority) = self.priority {
            publish = publish.priority(priority);
        }
        publish = match (&self.delay, self.at) {
            (None, None) => publish,
            (Some(delay), None) => publish.after(length("delay", delay)?),
            (None, Some(at)) => publish.at(at),
            (Some(_), Some(_)) => {
                return Err(Problem::refused("give either `delay` or `at`, not both")
                    .field("delay", "is given with at"));
            }
        };
        Ok(match self.handler_options()? {
            Some(handler_options) => publish.handler_options(handler_options),
            None => publish,
        })
    }

    /// Handler options of its own, when it brings some.
    fn handler_options(&self) -> Answer<Option<HandlerOptions>> {
        if self.retry.is_none() && self.timeout.is_none() {
            return Ok(None);
        }
        let mut handler_options = HandlerOptions::default();
        if let Some(retry) = &self.retry {
            for wait in retry.waits.iter().flatten() {
                length("retry.waits", wait)?;
            }
            let retry = retry.retry().map_err(|error| {
                Problem::refused(format!("`retry`: {error}")).field("retry", error.to_string())
            })?;
            handler_options.retry = Some(retry);
        }
        if let Some(timeout) = &self.timeout {
            handler_options.timeout = Some(length("timeout", timeout)?);
        }
        Ok(Some(handler_options))
    }
}

/// A view was sent back in which something was hidden.
fn hidden_content(field: &str) -> Problem {
    Problem::refused(format!(
        "the content holds {HIDDEN:?}, which stands for a hidden value; give the value itself, or leave the content out of a clone"
    ))
    .field(field, "holds a hidden value")
}
