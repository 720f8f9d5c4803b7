//! A value within the content of messages, looked for as people see the content: what the rules hide is not
//! found, because whoever may guess would learn it.

use punctual::model::Body;
use serde_json::Value;

use super::body::BodyView;
use crate::problem::{Answer, Problem};
use crate::redact::Redaction;

/// The most bytes of a content that is looked into.
const LEN_MAX: usize = 64 << 10;
/// The most names on the way to a value.
const NAMES_MAX: usize = 32;

/// Names that lead to a value, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    names: Vec<String>,
    value: String,
}

impl Part {
    /// Reads `user.id:42`.
    pub(super) fn parse(text: &str) -> Answer<Self> {
        let refused = |problem: &str| {
            let sentence = format!("the payload {text:?} {problem}; write one such as user.id:42");
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

    /// Whether the content of a message has it, as far as people may see.
    pub(super) fn is_in(&self, topic: &str, body: &Body, redaction: &Redaction) -> bool {
        if body.bytes.len() > LEN_MAX {
            return false;
        }
        let shown = BodyView::of(topic, body, redaction).json;
        shown.is_some_and(|json| below(&json, &self.names, &self.value))
    }
}

/// Follows the names, through lists too; a list is as deep as the content, which its reader bounds.
fn below(value: &Value, names: &[String], wanted: &str) -> bool {
    if let Value::Array(items) = value {
        return items.iter().any(|item| below(item, names, wanted));
    }
    match (names.split_first(), value) {
        (Some((name, rest)), Value::Object(fields)) => {
            fields.get(name).is_some_and(|field| below(field, rest, wanted))
        }
        (None, Value::String(text)) => text == wanted,
        (None, Value::Number(number)) => number.to_string() == wanted,
        (None, Value::Bool(truth)) => truth.to_string() == wanted,
        (None, Value::Null) => wanted == "null",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_found_by_its_names_and_what_is_hidden_is_not() {
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
            assert_eq!(Part::parse(text).unwrap().is_in("t", &body, &redaction), found, "{text}");
        }
        let other = Body::raw("no json", "text/plain");
        assert!(!Part::parse("a:b").unwrap().is_in("t", &other, &redaction));
        let long = json!({ "a": "b", "long": "x".repeat(LEN_MAX) }).to_string();
        let long = Body::raw(long, "application/json");
        assert!(!Part::parse("a:b").unwrap().is_in("t", &long, &redaction));
    }

    #[test]
    fn what_is_not_a_path_and_a_value_is_refused_by_name() {
        for text in ["42", ":42", "user..id:42", &format!("{}a:1", "a.".repeat(40))] {
            let problem = Part::parse(text).unwrap_err();
            assert!(problem.detail().contains("user.id:42"), "{}", problem.detail());
        }
    }
}
