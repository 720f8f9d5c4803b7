//! Wording of errors of deserialization: what a reader says about types of the program becomes a sentence about what
//! may be written there, with an example in the syntax of the reader. The examples stand in `wording/examples.rs`, sentences of the library for people who write code in `wording/advice.rs`.

mod advice;
mod examples;

use punctual::schedule::near_words;
use serde_json::Value;

pub(crate) use advice::{for_api, for_operators};
use examples::example;

/// The most characters of a value that is repeated in an error.
const SHOWN_MAX: usize = 60;

/// In which syntax a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A body of a request.
    Json,
    /// A configuration.
    Toml,
    /// The query or the path of a request.
    Url,
}

/// What is expected, as a kind of JSON value.
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

/// Rewords what a reader says about the value at a path; a text of our own stays as it is.
pub(crate) fn reworded(said: &str, path: &[&str], syntax: Syntax) -> String {
    if let Some((_, way_out)) = unknown_key(said) {
        return way_out;
    }
    if let Some((kind, got, wanted)) = mismatch(said) {
        let got = got_words(got, syntax);
        let got =
            if kind == "invalid value" { format!("{} is out of range", got.0) } else { got.1 };
        return format!("{got}; write {}", wanted_words(wanted, path, syntax));
    }
    if let Some(rest) = said.strip_prefix("missing field `") {
        let name = rest.trim_end_matches('`');
        let path: Vec<&str> = path.iter().copied().chain([name]).collect();
        let given = example(&path, |_| true).map(|value| assigned(name, &value, syntax));
        return match given {
            Some(given) => format!("{name} is missing; write {given}"),
            None => format!("{name} is missing; give it"),
        };
    }
    if let Some(rest) = said.strip_prefix("duplicate field `") {
        return format!("{} is given twice; give it once", rest.trim_end_matches('`'));
    }
    if let Some(text) = unknown_word(said) {
        return text;
    }
    if said.starts_with("data did not match") || said.starts_with("invalid length") {
        return format!("this has the wrong form; write {}", with_example(path, Kind::Any, syntax));
    }
    parsed(said).map_or_else(|| said.to_owned(), ToOwned::to_owned)
}

/// What is said where a word of a list belongs and something else stands.
pub(crate) fn word_expected(path: &[&str]) -> String {
    format!(
        "one of the known words is expected here: {}",
        with_example(path, Kind::Text, Syntax::Json)
    )
}

/// The name of an unknown key, and what it may have been meant to be.
pub(crate) fn unknown_key(said: &str) -> Option<(String, String)> {
    let rest = said.strip_prefix("unknown field `")?;
    let (name, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let near = near_words(name, known.iter().copied());
    let way_out = match near.as_slice() {
        [] => format!("there is no such key; known are {}", known.join(", ")),
        near => format!("there is no such key; did you mean {}?", near.join(" or ")),
    };
    Some((name.to_owned(), way_out))
}

/// A word that is none of those that are known.
fn unknown_word(said: &str) -> Option<String> {
    let rest = said.strip_prefix("unknown variant `")?;
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

/// A value of the wrong kind: whether the kind or the value is wrong, what was found, and what is expected.
fn mismatch(said: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = said.split_once(": ")?;
    if !matches!(kind, "invalid type" | "invalid value") {
        return None;
    }
    let (got, wanted) = rest.rsplit_once(", expected ")?;
    Some((kind, got, wanted))
}

/// A value that was found: itself, and what it is.
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
        Some(shown) if what == "true or false" => (shown.clone(), format!("{shown} is a switch")),
        Some(shown) => (shown.clone(), format!("{shown} is {what}")),
        None => ("this".to_owned(), format!("this is {what}")),
    }
}

/// What may be written instead.
fn wanted_words(wanted: &str, path: &[&str], syntax: Syntax) -> String {
    let kind = match wanted.split(' ').next().unwrap_or_default() {
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
        _ => match wanted {
            "a string" | "a str" | "a borrowed string" | "a character" | "a byte array" => {
                Kind::Text
            }
            "a timestamp string" | "a string for a `Timestamp`" => Kind::Text,
            "a boolean" => Kind::Switch,
            "a sequence" => Kind::List,
            "a map" => Kind::Table,
            _ => return own_words(wanted, syntax),
        },
    };
    with_example(path, kind, syntax)
}

/// What our own readers expect, which have several forms.
fn own_words(wanted: &str, syntax: Syntax) -> String {
    let forms: &[(&str, &str)] = match wanted {
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

    /// An example where there is none of its own.
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

/// A value in a syntax.
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

/// What the parsers of numbers and switches say, in our own words.
fn parsed(said: &str) -> Option<&'static str> {
    Some(match said {
        "invalid digit found in string" | "invalid float literal" => {
            "this is not a number that can be used; write a whole number, 0 or more, such as 50"
        }
        "cannot parse integer from empty string" | "cannot parse float from empty string" => {
            "this is empty; write a number such as 50"
        }
        "number too large to fit in target type" => "the number is too large; write a smaller one",
        "number too small to fit in target type" => "the number is too small; write a larger one",
        "provided string was not `true` or `false`" => "write true or false",
        "invalid socket address syntax" => {
            "invalid socket address; write an address with a port, such as \"127.0.0.1:8080\""
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
