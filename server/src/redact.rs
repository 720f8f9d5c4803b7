//! What nobody gets to see: values in bodies and headers that the rules name. Applied to every view, never
//! to what is stored.

use punctual::model::Headers;
use punctual::{Error, Result};
use serde_json::Value;
use std::collections::BTreeMap;

/// What stands in place of a hidden value.
pub const HIDDEN: &str = "[redacted]";
/// Headers that carry secrets by custom.
const HEADERS_USUAL: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-csrf-token"];
/// The most rules.
const RULES_MAX: usize = 1_000;

/// Which values are hidden. A rule is a path of keys such as `password` or `card.number`: it names every
/// value whose last keys are these, however deep, in upper or lower case, through lists too. A rule of one
/// key also names the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
    paths: Vec<Vec<String>>,
}

impl Default for Redaction {
    /// No paths; the headers that carry secrets by custom.
    fn default() -> Self {
        Self { paths: Vec::new() }
    }
}

impl Redaction {
    /// These rules, besides the usual headers.
    pub fn new<Rule: AsRef<str>>(rules: &[Rule]) -> Result<Self> {
        if rules.len() > RULES_MAX {
            return Err(Error::invalid(format!(
                "{} redaction rules are too many; at most {RULES_MAX} are allowed",
                rules.len()
            )));
        }
        let paths = rules.iter().map(|rule| path(rule.as_ref())).collect::<Result<_>>()?;
        Ok(Self { paths })
    }

    /// The rules as they are written.
    pub fn rules(&self) -> Vec<String> {
        self.paths.iter().map(|path| path.join(".")).collect()
    }

    /// Hides what the rules name; answers whether there was anything.
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

    /// Headers as people may see them, and whether one was hidden.
    pub fn headers(&self, headers: &Headers) -> (BTreeMap<String, String>, bool) {
        let mut hidden = false;
        let shown = headers.iter().map(|(name, value)| {
            let lower = name.to_lowercase();
            let secret = HEADERS_USUAL.contains(&lower.as_str())
                || self.paths.iter().any(|path| matches!(&path[..], [one] if *one == lower));
            hidden |= secret;
            let value = if secret { HIDDEN } else { value };
            (name.to_owned(), value.to_owned())
        });
        let shown = shown.collect();
        (shown, hidden)
    }
}

/// Whether a value was taken from a view in which something was hidden: it must not be sent on.
pub(crate) fn holds_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == HIDDEN,
        Value::Array(items) => items.iter().any(holds_hidden),
        Value::Object(fields) => fields.values().any(holds_hidden),
        _ => false,
    }
}

fn path(rule: &str) -> Result<Vec<String>> {
    let keys: Vec<String> = rule.split('.').map(|key| key.trim().to_lowercase()).collect();
    if keys.iter().any(String::is_empty) {
        return Err(Error::invalid(format!(
            "the redaction rule {rule:?} has an empty key; write one such as password or card.number"
        )));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_name_values_by_their_last_keys() {
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
    fn headers_that_carry_secrets_are_hidden_without_rules() {
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
    fn a_rule_with_an_empty_key_is_refused() {
        let error = Redaction::new(&["card..number"]).unwrap_err().to_string();
        assert!(error.contains("\"card..number\""), "{error}");
    }
}
