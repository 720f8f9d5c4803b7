//! Redaction: hides values in bodies and headers that the rules name. Applied to every view, never to stored data.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual::model::{Ending, Execution, Headers, MessageRecord};
use punctual::{Error, Result};
use serde_json::Value;

/// Placeholder of a hidden value.
pub const HIDDEN: &str = "[redacted]";
/// Headers that usually contain secrets.
const SECRET_HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-csrf-token"];
/// Fields of events with texts of handlers.
const EVENT_TEXTS: [&str; 3] = ["error", "note", "output"];
/// Largest number of rules.
const RULES_MAX: usize = 1_000;

/// Redaction rules. A rule is a path of keys such as `password` or `card.number` and matches every value whose
/// last keys are these, at any depth, case-insensitive, also inside lists. A rule of one key also matches the
/// header. Without rules only headers that usually contain secrets are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction {
    paths: Vec<Vec<String>>,
    topics: Vec<String>,
}

impl Redaction {
    /// Parses rules; fails on an invalid one.
    pub fn new<Rule: AsRef<str>>(rules: &[Rule]) -> Result<Self> {
        if rules.len() > RULES_MAX {
            return Err(Error::invalid(format!(
                "{} redaction rules are too many; at most {RULES_MAX} are allowed",
                rules.len()
            )));
        }
        let paths = rules.iter().map(|rule| path(rule.as_ref())).collect::<Result<_>>()?;
        Ok(Self { paths, topics: Vec::new() })
    }

    /// Also hides every body of these topics, and what their handlers write: errors, notes and logs, which may quote
    /// bodies. `orders.*` is a prefix.
    pub fn of_topics<Topic: AsRef<str>>(self, topics: &[Topic]) -> Result<Self> {
        if topics.len() > RULES_MAX {
            return Err(Error::invalid(format!(
                "{} topics to hide are too many; at most {RULES_MAX} are allowed",
                topics.len()
            )));
        }
        let topics = topics.iter().map(|topic| pattern(topic.as_ref())).collect::<Result<_>>()?;
        Ok(Self { topics, ..self })
    }

    /// Returns the topics whose bodies are hidden.
    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    /// Returns whether bodies of this topic are hidden as a whole.
    pub fn hides_topic(&self, topic: &str) -> bool {
        self.topics.iter().any(|hidden| match hidden.strip_suffix('*') {
            Some(beginning) => topic.starts_with(beginning),
            None => topic == hidden,
        })
    }

    /// Hides the values that the rules name in a definition or view of a job, and everything that goes into
    /// bodies of hidden topics.
    pub fn hide_job(&self, job: &mut Value) {
        self.hide(job);
        let hides = |topic: &Value| topic.as_str().is_some_and(|topic| self.hides_topic(topic));
        let published = ["publish", "target"].into_iter().find(|name| hides(&job[*name]["topic"]));
        if published.is_none() && !hides(&job["topic"]) {
            return;
        }
        if let Some(payload) = job.get_mut("payload").filter(|payload| !payload.is_null()) {
            *payload = Value::from(HIDDEN);
        }
        if let Some(body) = published.and_then(|name| job.get_mut(name)?.get_mut("body")) {
            *body = Value::from(HIDDEN);
        }
    }

    /// Hides what a handler wrote in an event of a hidden topic, because it may quote the body.
    pub fn hide_event(&self, event: &mut Value) {
        if !event["topic"].as_str().is_some_and(|topic| self.hides_topic(topic)) {
            return;
        }
        for name in EVENT_TEXTS {
            if let Some(text) = event.get_mut(name).filter(|text| !text.is_null()) {
                *text = Value::from(HIDDEN);
            }
        }
    }

    /// Hides what a handler wrote about a message of a hidden topic: its error and the note of its progress.
    pub fn hide_record(&self, record: &mut MessageRecord) {
        if self.hides_topic(record.message.topic.as_str()) {
            hide_text(&mut record.error);
            if let Some(progress) = &mut record.progress {
                hide_text(&mut progress.note);
            }
        }
    }

    /// Hides what a handler of a hidden topic wrote during an attempt: its error or note, and its log.
    pub fn hide_execution(&self, execution: &mut Execution) {
        if self.hides_topic(execution.topic.as_str()) {
            // The scheduler wrote the note of a skipped occurrence.
            if !matches!(execution.ending, Ending::Skipped(_)) {
                hide_text(&mut execution.note);
            }
            hide_text(&mut execution.log);
        }
    }

    /// Returns the rules as texts.
    pub fn rules(&self) -> Vec<String> {
        self.paths.iter().map(|path| path.join(".")).collect()
    }

    /// Hides the values that the rules name; returns whether there were any.
    pub fn hide(&self, value: &mut Value) -> bool {
        !self.paths.is_empty() && self.hide_below(value, &mut Vec::new())
    }

    fn hide_below(&self, value: &mut Value, keys: &mut Vec<String>) -> bool {
        let mut hidden = false;
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    keys.push(name.to_lowercase());
                    if self.names(keys) {
                        *field = Value::String(HIDDEN.to_owned());
                        hidden = true;
                    } else {
                        hidden |= self.hide_below(field, keys);
                    }
                    keys.pop();
                }
            }
            Value::Array(items) => {
                for item in items {
                    hidden |= self.hide_below(item, keys);
                }
            }
            _ => {}
        }
        hidden
    }

    fn names(&self, keys: &[String]) -> bool {
        self.paths.iter().any(|path| keys.ends_with(path))
    }

    /// Returns the headers for views, and whether one was hidden.
    pub fn headers(&self, headers: &Headers) -> (BTreeMap<String, String>, bool) {
        let mut hidden = false;
        let shown = headers.iter().map(|(name, value)| {
            let lower = name.to_lowercase();
            let secret = SECRET_HEADERS.contains(&lower.as_str())
                || self.paths.iter().any(|path| matches!(&path[..], [one] if *one == lower));
            hidden |= secret;
            let value = if secret { HIDDEN } else { value };
            (name.to_owned(), value.to_owned())
        });
        let shown = shown.collect();
        (shown, hidden)
    }
}

/// Returns whether a value contains the placeholder of a hidden value, which must not be stored or sent.
pub(crate) fn holds_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == HIDDEN,
        Value::Array(items) => items.iter().any(holds_hidden),
        Value::Object(fields) => fields.values().any(holds_hidden),
        _ => false,
    }
}

/// Replaces a text by the placeholder, if there is one.
fn hide_text(text: &mut Option<Arc<str>>) {
    if let Some(text) = text {
        *text = Arc::from(HIDDEN);
    }
}

fn pattern(topic: &str) -> Result<String> {
    let topic = topic.trim();
    let name = topic.strip_suffix('*').unwrap_or(topic);
    if topic.is_empty() || name.contains('*') {
        return Err(Error::invalid(format!(
            "{topic:?} is not a topic; use one such as orders, or a prefix such as orders.*"
        )));
    }
    Ok(topic.to_owned())
}

fn path(rule: &str) -> Result<Vec<String>> {
    let keys: Vec<String> = rule.split('.').map(|key| key.trim().to_lowercase()).collect();
    if keys.iter().any(String::is_empty) {
        return Err(Error::invalid(format!(
            "the redaction rule {rule:?} has an empty key; use one such as password or card.number"
        )));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_match_values_by_their_last_keys() {
        let redaction = Redaction::new(&["password", "card.number"]).unwrap();
        for (before, after) in [
            (json!({"password": "x", "name": "ada"}), json!({"password": HIDDEN, "name": "ada"})),
            (json!({"user": {"PassWord": {"old": 1}}}), json!({"user": {"PassWord": HIDDEN}})),
            (json!({"card": {"number": 4111}}), json!({"card": {"number": HIDDEN}})),
            (json!({"number": 7, "card": 8}), json!({"number": 7, "card": 8})),
            (
                json!([{"card": [{"number": 1}, {"number": 2}]}]),
                json!([{"card": [{"number": HIDDEN}, {"number": HIDDEN}]}]),
            ),
            (json!("password"), json!("password")),
        ] {
            let mut shown = before.clone();
            assert_eq!(redaction.hide(&mut shown), before != after, "{before}");
            assert_eq!(shown, after);
            assert_eq!(holds_hidden(&shown), before != after);
        }
    }

    #[test]
    fn secret_headers_are_hidden_without_rules() {
        let mut headers = Headers::new();
        for name in ["Authorization", "tenant", "x-token"] {
            headers.insert(name, "v").unwrap();
        }
        let (shown, hidden) = Redaction::default().headers(&headers);
        assert!(hidden);
        assert_eq!((shown["Authorization"].as_str(), shown["tenant"].as_str()), (HIDDEN, "v"));
        let (shown, _) = Redaction::new(&["X-Token"]).unwrap().headers(&headers);
        assert_eq!(shown["x-token"], HIDDEN);
    }

    #[test]
    fn topics_are_hidden_by_name_and_prefix() {
        let redaction = Redaction::default().of_topics(&["salaries", "health.*"]).unwrap();
        for (topic, hidden) in [
            ("salaries", true),
            ("salaries.paid", false),
            ("health.report", true),
            ("health", false),
        ] {
            assert_eq!(redaction.hides_topic(topic), hidden, "{topic}");
        }
        for topic in ["", " ", "a*b", "**"] {
            assert!(Redaction::default().of_topics(&[topic]).is_err(), "{topic:?}");
        }
    }

    #[test]
    fn a_job_of_a_hidden_topic_shows_nothing_of_its_bodies() {
        let redaction = Redaction::new(&["pin"]).unwrap().of_topics(&["salaries"]).unwrap();
        for (before, after) in [
            (
                json!({"topic": "t", "payload": {"pin": 1}}),
                json!({"topic": "t", "payload": {"pin": HIDDEN}}),
            ),
            (
                json!({"topic": "salaries", "payload": 1}),
                json!({"topic": "salaries", "payload": HIDDEN}),
            ),
            (json!({"topic": "salaries"}), json!({"topic": "salaries"})),
            (
                json!({"publish": {"topic": "salaries", "body": "b"}, "payload": 1}),
                json!({"publish": {"topic": "salaries", "body": HIDDEN}, "payload": HIDDEN}),
            ),
            (
                json!({"http": {"body": "b"}, "payload": 1}),
                json!({"http": {"body": "b"}, "payload": 1}),
            ),
            (json!("job"), json!("job")),
        ] {
            let mut shown = before.clone();
            redaction.hide_job(&mut shown);
            assert_eq!(shown, after, "{before}");
        }
    }

    #[test]
    fn a_rule_with_an_empty_key_is_refused() {
        let error = Redaction::new(&["card..number"]).unwrap_err().to_string();
        assert!(error.contains("\"card..number\""), "{error}");
    }
}
