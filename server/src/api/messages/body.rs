//! Body view: a message body as JSON, text or base64, redacted and truncated.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use punctual::model::Body;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::redact::{HIDDEN, Redaction};
use crate::spec::{COMMAND_TOPIC, HTTP_TOPIC, PUBLISH_TOPIC, Target, Work};

/// Largest number of bytes shown of a body.
const SHOWN_MAX: usize = 64 << 10;

/// Body of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct BodyView {
    /// Media type of the body.
    content_type: String,
    /// The body as text, when it is not JSON, or is JSON that is too long to show.
    text: Option<String>,
    /// The body as a JSON value, when it is JSON.
    pub(super) json: Option<Value>,
    /// The body in base64, when it is not text.
    base64: Option<String>,
    /// Whether only the beginning is shown.
    truncated: bool,
    /// Whether a part is redacted.
    redacted: bool,
}

impl BodyView {
    /// Returns the redacted view of a body of a topic. The target of a job without code is shown without its
    /// secrets; the body it publishes is redacted like the published message.
    pub(crate) fn of(topic: &str, body: &Body, redaction: &Redaction) -> Self {
        let work = Work::of(topic, &body.bytes);
        let is_target = [HTTP_TOPIC, COMMAND_TOPIC, PUBLISH_TOPIC].contains(&topic);
        let is_hidden = redaction.hides_topic(topic)
            || match &work.target {
                Target::Publish(publish) => redaction.hides_topic(&publish.topic),
                // An unreadable target may hold secrets anywhere.
                Target::Code(_) => is_target,
                Target::Http(_) | Target::Command(_) => false,
            };
        if is_hidden && !body.bytes.is_empty() {
            let content_type = body.content_type.to_string();
            let text = Some(HIDDEN.to_owned());
            return Self { content_type, text, redacted: true, ..Self::default() };
        }
        if matches!(work.target, Target::Code(_)) {
            return Self::new(body, redaction);
        }
        let shown = Work { target: work.target.hidden(), ..work };
        Body::json(&shown).map_or_else(|_| Self::default(), |body| Self::new(&body, redaction))
    }

    /// Returns the redacted view of a body.
    fn new(body: &Body, redaction: &Redaction) -> Self {
        let view = Self { content_type: body.content_type.to_string(), ..Self::default() };
        if body.bytes.is_empty() {
            return view;
        }
        if let Ok(mut json) = serde_json::from_slice::<Value>(&body.bytes) {
            let redacted = redaction.hide(&mut json);
            let text = json.to_string();
            if text.len() <= SHOWN_MAX {
                return Self { json: Some(json), redacted, ..view };
            }
            return Self { text: Some(beginning(&text)), truncated: true, redacted, ..view };
        }
        let truncated = body.bytes.len() > SHOWN_MAX;
        if let Ok(text) = std::str::from_utf8(&body.bytes) {
            return Self { text: Some(beginning(text)), truncated, ..view };
        }
        let shown = &body.bytes[..body.bytes.len().min(SHOWN_MAX)];
        Self { base64: Some(BASE64.encode(shown)), truncated, ..view }
    }
}

/// Returns the shown beginning of a text.
fn beginning(text: &str) -> String {
    let mut end = text.len().min(SHOWN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_shown_as_json_text_or_base64() {
        let redaction = Redaction::new(&["password"]).unwrap();
        let show = |bytes: &[u8]| BodyView::new(&Body::raw(bytes.to_vec(), "x/y"), &redaction);
        let json = show(br#"{"password":"secret","n":1}"#);
        assert_eq!(json.json, Some(json!({"password": HIDDEN, "n": 1})));
        assert!(json.redacted && !json.truncated);
        assert_eq!(show(b"hello there").text.as_deref(), Some("hello there"));
        assert_eq!(show(b"\xff\x00").base64.as_deref(), Some("/wA="));
        assert_eq!(show(b""), BodyView { content_type: "x/y".into(), ..BodyView::default() });
    }

    #[test]
    fn redacted_topics_and_secrets_of_targets_are_not_shown() {
        let redaction = Redaction::default().of_topics(&["salaries"]).unwrap();
        let body = |value: serde_json::Value| Body::json(&value).unwrap();
        let show = |topic: &str, body: &Body| BodyView::of(topic, body, &redaction);
        let hidden = show("salaries", &body(json!({"paid": 5})));
        assert_eq!(
            (hidden.text.as_deref(), hidden.json, hidden.redacted),
            (Some(HIDDEN), None, true)
        );
        let publishes = json!({"target": {"publish": {"topic": "salaries", "body": "5"}}});
        assert!(show("punctual.publish", &body(publishes)).json.is_none());
        let calls =
            json!({"target": {"http": {"url": "http://x/", "headers": {"x-key": "s3cret"}}}});
        let shown = show("punctual.http", &body(calls)).json.unwrap();
        assert!(!shown.to_string().contains("s3cret") && shown.to_string().contains("http://x/"));
        let odd = json!({"target": {"http": {"url": "http://x/", "headers": {"x-key": "s3cret"}}}, "more": 1});
        let shown = show("punctual.http", &body(odd));
        assert_eq!((shown.json, shown.text.as_deref()), (None, Some(HIDDEN)));
        assert_eq!(show("other", &body(json!({"paid": 5}))).json, Some(json!({"paid": 5})));
    }

    #[test]
    fn a_long_body_is_truncated_after_redaction() {
        let redaction = Redaction::new(&["password"]).unwrap();
        let long = json!({"a": "\u{e9}".repeat(SHOWN_MAX), "password": "secret"}).to_string();
        let long = long.replacen("{\"a\"", "{\"password\":\"secret\",\"a\"", 1);
        let view = BodyView::new(&Body::raw(long, "application/json"), &redaction);
        assert!(view.truncated && view.redacted && view.json.is_none());
        let text = view.text.unwrap();
        assert!(text.len() <= SHOWN_MAX && !text.contains("secret"));
    }
}
