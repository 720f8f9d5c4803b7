//! Payload filter: a value at a path in the JSON body of a message. It searches the redacted body, because a search of
//! the full body would reveal redacted values.

use punctual::model::Body;
use serde_json::Value;

use super::body::BodyView;
use crate::problem::{ApiResult, Problem};
use crate::redact::Redaction;

/// Largest size of a body that is searched.
const LEN_MAX: usize = 64 << 10;
/// Largest number of names in a path.
const NAMES_MAX: usize = 32;

/// A path of names and the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PayloadFilter {
    names: Vec<String>,
    value: String,
}

impl PayloadFilter {
    /// Parses a filter such as `user.id:42`.
    pub(super) fn parse(text: &str) -> ApiResult<Self> {
        let refused = |problem: &str| {
            let sentence =
                format!("the payload filter {text:?} {problem}; use one such as user.id:42");
            Problem::refused(sentence).field("payload", problem)
        };
        let (path, value) = text.split_once(':').ok_or_else(|| refused("has no colon"))?;
        let names: Vec<String> = path.split('.').map(ToOwned::to_owned).collect();
        if names.iter().any(String::is_empty) {
            return Err(refused("has an empty name before the colon"));
        }
        if names.len() > NAMES_MAX {
            return Err(refused("has more than 32 names before the colon"));
        }
        Ok(Self { names, value: value.to_owned() })
    }

    /// Returns whether the redacted body of a message has the value.
    pub(super) fn matches(&self, topic: &str, body: &Body, redaction: &Redaction) -> bool {
        if body.bytes.len() > LEN_MAX {
            return false;
        }
        let shown = BodyView::of(topic, body, redaction).json;
        shown.is_some_and(|json| has_value(&json, &self.names, &self.value))
    }
}

/// Returns whether the value at the path equals the expected one. Arrays are searched too; their depth is
/// bounded by the JSON parser.
fn has_value(value: &Value, names: &[String], expected: &str) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| has_value(item, names, expected));
    }
    match (names.split_first(), value) {
        (Some((name, rest)), Value::Object(fields)) => {
            fields.get(name).is_some_and(|field| has_value(field, rest, expected))
        }
        (None, Value::String(text)) => text == expected,
        (None, Value::Number(number)) => number.to_string() == expected,
        (None, Value::Bool(boolean)) => boolean.to_string() == expected,
        (None, Value::Null) => expected == "null",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_found_by_its_path_unless_it_is_redacted() {
        let redaction = Redaction::new(&["password"]).unwrap();
        let content = json!({
            "user": { "id": 42, "name": "a:b", "admin": true, "boss": null, "password": "secret" },
            "items": [{ "id": 1 }, { "id": 2 }],
        });
        let body = Body::raw(content.to_string(), "application/json");
        for (text, found) in [
            ("user.id:42", true),
            ("user.id:4", false),
            ("user.name:a:b", true),
            ("user.admin:true", true),
            ("user.boss:null", true),
            ("items.id:2", true),
            ("items.id:3", false),
            ("user:42", false),
            ("user.id.more:42", false),
            ("user.password:secret", false),
        ] {
            assert_eq!(
                PayloadFilter::parse(text).unwrap().matches("t", &body, &redaction),
                found,
                "{text}"
            );
        }
        let other = Body::raw("no json", "text/plain");
        assert!(!PayloadFilter::parse("a:b").unwrap().matches("t", &other, &redaction));
        let long = json!({ "a": "b", "long": "x".repeat(LEN_MAX) }).to_string();
        let long = Body::raw(long, "application/json");
        assert!(!PayloadFilter::parse("a:b").unwrap().matches("t", &long, &redaction));
    }

    #[test]
    fn an_invalid_filter_is_refused_with_an_example() {
        for text in ["42", ":42", "user..id:42", &format!("{}a:1", "a.".repeat(40))] {
            let problem = PayloadFilter::parse(text).unwrap_err();
            assert!(problem.detail().contains("user.id:42"), "{}", problem.detail());
        }
    }
}
