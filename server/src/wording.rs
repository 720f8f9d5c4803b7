//! Wording of deserialization errors: rewrites messages about Rust types as sentences about valid values, with an
//! example in the syntax of the reader. Examples are in `wording/examples.rs`, hints for programmers in
//! `wording/advice.rs`.

mod advice;
mod examples;

use punctual::schedule::near_words;
use serde_json::Value;

pub(crate) use advice::{for_api, for_operators};
use examples::example;

/// Largest number of characters of a value that is repeated in an error.
const SHOWN_MAX: usize = 60;

/// Syntax of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A request body.
    Json,
    /// A configuration.
    Toml,
    /// The query or the path of a request.
    Url,
}

/// Kind of the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Switch,
    Whole,
    Number,
    List,
    Table,
    Any,
}

/// Rewrites a deserialization error of the value at a path; messages of this crate stay unchanged.
pub(crate) fn reworded(message: &str, path: &[&str], syntax: Syntax) -> String {
    if let Some((_, text)) = unknown_key(message) {
        return text;
    }
    if let Some((kind, got, expected)) = mismatch(message) {
        let got = got_words(got, syntax);
        let got =
            if kind == "invalid value" { format!("{} is out of range", got.0) } else { got.1 };
        return format!("{got}; use {}", expected_words(expected, path, syntax));
    }
    if let Some(rest) = message.strip_prefix("missing field `") {
        let name = rest.trim_end_matches('`');
        let path: Vec<&str> = path.iter().copied().chain([name]).collect();
        let assignment = example(&path, |_| true).map(|value| assigned(name, &value, syntax));
        return match assignment {
            Some(assignment) => format!("{name} is missing; set {assignment}"),
            None => format!("{name} is missing; set it"),
        };
    }
    if let Some(rest) = message.strip_prefix("duplicate field `") {
        return format!("{} is set twice; set it once", rest.trim_end_matches('`'));
    }
    if let Some(text) = unknown_word(message) {
        return text;
    }
    if message.starts_with("data did not match") || message.starts_with("invalid length") {
        return format!(
            "the value has an invalid form; use {}",
            with_example(path, Kind::Any, syntax)
        );
    }
    parse_error(message).map_or_else(|| message.to_owned(), ToOwned::to_owned)
}

/// Returns the error of a value that is not a string where an enum is expected.
pub(crate) fn word_expected(path: &[&str]) -> String {
    format!("one of the known names is expected: {}", with_example(path, Kind::Text, Syntax::Json))
}

/// Returns the name of an unknown key, and the error with similar keys.
pub(crate) fn unknown_key(message: &str) -> Option<(String, String)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let near = near_words(name, known.iter().copied());
    let text = match near.as_slice() {
        [] => format!("unknown key; known keys are {}", known.join(", ")),
        near => format!("unknown key; did you mean {}?", near.join(" or ")),
    };
    Some((name.to_owned(), text))
}

/// Returns the error of an unknown enum value, with similar ones.
fn unknown_word(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown variant `")?;
    let (word, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let word = shortened(word);
    let near = near_words(&word, known.iter().copied());
    let hint = match near.as_slice() {
        [] => format!("use one of {}", known.join(", ")),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Some(format!("`{word}` is unknown; {hint}"))
}

/// Returns the parts of a mismatch: whether type or value is invalid, what was found, and what is expected.
fn mismatch(message: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = message.split_once(": ")?;
    if !matches!(kind, "invalid type" | "invalid value") {
        return None;
    }
    let (got, expected) = rest.rsplit_once(", expected ")?;
    Some((kind, got, expected))
}

/// Returns the found value, and a phrase that names its kind.
fn got_words(got: &str, syntax: Syntax) -> (String, String) {
    let inner = got.split_once('`').map(|(_, rest)| shortened(rest.trim_end_matches('`')));
    let table = if syntax == Syntax::Toml { "a table" } else { "an object" };
    let (shown, what) = match got.split([' ', '`']).next().unwrap_or_default() {
        "boolean" => (inner, "true or false"),
        "integer" | "floating" => (inner, "a number"),
        "string" => (got.strip_prefix("string ").map(shortened), "a string"),
        "sequence" => (None, "a list"),
        "map" => (None, table),
        "null" | "unit" => (None, "null"),
        _ => (None, "something else"),
    };
    match shown {
        Some(shown) if what == "true or false" => (shown.clone(), format!("{shown} is a boolean")),
        Some(shown) => (shown.clone(), format!("{shown} is {what}")),
        None => ("the value".to_owned(), format!("the value is {what}")),
    }
}

/// Returns the expected kind of value with an example.
fn expected_words(expected: &str, path: &[&str], syntax: Syntax) -> String {
    let kind = match expected.split(' ').next().unwrap_or_default() {
        "u8" => {
            return format!("a whole number from 0 to 255{}", such_as(path, Kind::Whole, syntax));
        }
        "u16" | "u32" | "u64" | "usize" => {
            return format!("a whole number, 0 or more{}", such_as(path, Kind::Whole, syntax));
        }
        "i8" | "i16" | "i32" | "i64" | "isize" => Kind::Whole,
        "f32" | "f64" => Kind::Number,
        "struct" | "tuple" | "map" => Kind::Table,
        "string" | "unit" | "newtype" | "variant" | "enum" | "path" | "socket" | "IP" => Kind::Text,
        _ => match expected {
            "a string" | "a str" | "a borrowed string" | "a character" | "a byte array" => {
                Kind::Text
            }
            "a timestamp string" | "a string for a `Timestamp`" => Kind::Text,
            "a boolean" => Kind::Switch,
            "a sequence" => Kind::List,
            "a map" => Kind::Table,
            _ => return own_words(expected, syntax),
        },
    };
    with_example(path, kind, syntax)
}

/// Returns the forms that visitors of this crate expect.
fn own_words(expected: &str, syntax: Syntax) -> String {
    let forms: &[(&str, &str)] = match expected {
        "a secret" => &[
            ("a string such as", "\"text\""),
            ("", "{\"env\":\"NAME\"}"),
            ("or", "{\"file\":\"/run/secrets/name\"}"),
        ],
        "a retry policy" => &[
            ("a number of retries such as", "3"),
            ("waits such as", "[\"10s\",\"1m\"]"),
            ("or both such as", "{\"retries\":3,\"first\":\"10s\"}"),
        ],
        "a misfire policy" => &[
            ("a policy such as", "\"fire_now\""),
            ("or with more about it", "{\"policy\":\"fire_all\",\"catch_up_max\":3}"),
        ],
        "statuses" => &[("a list such as", "[200,\"300-399\",\"4xx\"]")],
        "a duration" => &[("a string such as", "\"30s\""), ("or", "\"1h 30m\"")],
        "lines" => &[("a string such as", "\"done\""), ("or a list such as", "[\"one\",\"two\"]")],
        "words" => &[("a string such as", "\"a,b\""), ("or a list such as", "[\"a\",\"b\"]")],
        other => return other.to_owned(),
    };
    let form = |(words, json): &(&str, &str)| {
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        format!("{words} {}", written(&value, syntax)).trim().to_owned()
    };
    forms.iter().map(form).collect::<Vec<_>>().join(", ")
}

fn with_example(path: &[&str], kind: Kind, syntax: Syntax) -> String {
    let what = match (kind, syntax) {
        (Kind::Text, _) => "a string",
        (Kind::Switch, _) => return "true or false, such as true".to_owned(),
        (Kind::Whole, _) => "a whole number",
        (Kind::Number, _) => "a number",
        (Kind::List, _) => "a list",
        (Kind::Table, Syntax::Toml) => "a table",
        (Kind::Table, _) => "an object",
        (Kind::Any, _) => "a value",
    };
    format!("{what}{}", such_as(path, kind, syntax))
}

fn such_as(path: &[&str], kind: Kind, syntax: Syntax) -> String {
    let value = example(path, |value| kind.is(value)).unwrap_or_else(|| kind.usual());
    format!(" such as {}", written(&value, syntax))
}

impl Kind {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Switch => value.is_boolean(),
            Self::Whole => value.is_u64(),
            Self::Number => value.is_number(),
            Self::List => value.is_array(),
            Self::Table => value.is_object(),
            Self::Any => true,
        }
    }

    /// Returns a generic example.
    fn usual(self) -> Value {
        match self {
            Self::Text | Self::Any => Value::from("text"),
            Self::Switch => Value::from(true),
            Self::Whole => Value::from(3),
            Self::Number => Value::from(1.5),
            Self::List => serde_json::json!(["a", "b"]),
            Self::Table => serde_json::json!({ "name": "value" }),
        }
    }
}

/// Returns a value in a syntax.
fn written(value: &Value, syntax: Syntax) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| written(item, syntax)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| assigned(name, value, syntax)).collect();
            format!("{{ {} }}", members.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn assigned(name: &str, value: &Value, syntax: Syntax) -> String {
    match syntax {
        Syntax::Toml => format!("{name} = {}", written(value, syntax)),
        Syntax::Json => format!("\"{name}\": {}", written(value, syntax)),
        Syntax::Url => {
            format!("{name}={}", value.as_str().map_or_else(|| value.to_string(), Into::into))
        }
    }
}

/// Rewrites errors of the parsers of numbers, booleans and addresses.
fn parse_error(message: &str) -> Option<&'static str> {
    Some(match message {
        "invalid digit found in string" | "invalid float literal" => {
            "the value is not a valid number; use a whole number, 0 or more, such as 50"
        }
        "cannot parse integer from empty string" | "cannot parse float from empty string" => {
            "the value is empty; use a number such as 50"
        }
        "number too large to fit in target type" => "the number is too large; use a smaller one",
        "number too small to fit in target type" => "the number is too small; use a larger one",
        "provided string was not `true` or `false`" => "use true or false",
        "invalid socket address syntax" => {
            "invalid socket address; use an address with a port, such as \"127.0.0.1:8080\""
        }
        _ => return None,
    })
}

fn shortened(text: &str) -> String {
    let mut start: String = text.chars().take(SHOWN_MAX).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    start
}

#[cfg(test)]
mod tests;
