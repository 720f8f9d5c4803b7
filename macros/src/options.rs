//! Options of a declaration as they are written: each name once, with its value and its place.
//! `declaration.rs` interprets the values.

use std::collections::BTreeMap;

use proc_macro2::Span;
use punctual_schedule::near_words;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, Token};

use crate::value::Value;

/// The names of all options.
const KNOWN: [&str; 28] = [
    "name",
    "cron",
    "zone",
    "every",
    "anchor",
    "once",
    "start",
    "end",
    "runs_max",
    "exclude",
    "misfire",
    "misfire_threshold",
    "misfire_window",
    "catch_up_max",
    "overlap",
    "retry",
    "attempts",
    "timeout",
    "on_timeout",
    "when_interrupted",
    "queue",
    "priority",
    "spread",
    "topic",
    "tags",
    "description",
    "must_report",
    "blocking",
];

/// Aliases: another word and the option it means.
const ALIASES: [(&str, &str); 1] = [("jitter", "spread")];

/// Likely mistakes, and the hint that is given for each.
const HINTS: [(&str, &str); 11] = [
    ("threshold", "did you mean `misfire_threshold`?"),
    ("window", "did you mean `misfire_window`?"),
    ("catch_up", "did you mean `catch_up_max`?"),
    ("max_runs", "did you mean `runs_max`?"),
    ("timezone", "did you mean `zone`?"),
    ("tz", "did you mean `zone`?"),
    ("interval", "did you mean `every`?"),
    ("tag", "did you mean `tags`?"),
    ("calendar", "did you mean `exclude`?"),
    ("retries", "did you mean `attempts`, which counts the first one too?"),
    (
        "payload",
        "its handler takes the `Occurrence` or nothing. A job with a payload is built by hand: `Job::cron(...).payload(...)`, given to `Builder::job`",
    ),
];

/// The options of one declaration, by name.
pub(crate) struct Options {
    given: BTreeMap<&'static str, DeclaredOption>,
}

/// One option: its name with its place, and its value unless it has none.
pub(crate) struct DeclaredOption {
    pub(crate) name: Ident,
    pub(crate) value: Option<Value>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut given = BTreeMap::new();
        while !input.is_empty() {
            let name = Ident::parse_any(input)?;
            let known = known(&name)?;
            let value = if input.peek(Token![=]) {
                input.parse::<Token![=]>()?;
                Some(input.parse::<Value>()?)
            } else {
                None
            };
            let span = name.span();
            if given.insert(known, DeclaredOption { name, value }).is_some() {
                return Err(syn::Error::new(
                    span,
                    format!("the option `{known}` is given twice; keep one of them"),
                ));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { given })
    }
}

/// Returns the option that a word means.
fn known(name: &Ident) -> syn::Result<&'static str> {
    let word = name.to_string();
    let same =
        ALIASES.iter().find(|(other, _)| *other == word).map_or(word.as_str(), |(_, own)| own);
    if let Some(known) = KNOWN.iter().find(|known| **known == same) {
        return Ok(known);
    }
    let meant =
        HINTS.iter().find(|(tried, _)| *tried == word).map(|(_, meant)| (*meant).to_owned());
    let hint = meant.unwrap_or_else(|| match near_words(&word, KNOWN).as_slice() {
        [] => format!("the options are {}", KNOWN.join(", ")),
        near => format!("did you mean `{}`?", near.join("` or `")),
    });
    Err(syn::Error::new(name.span(), format!("a job has no option `{word}`; {hint}")))
}

impl Options {
    /// Removes and returns an option.
    pub(crate) fn take(&mut self, name: &str) -> Option<DeclaredOption> {
        self.given.remove(name)
    }

    /// Returns the place of an option, if it is present.
    pub(crate) fn place(&self, name: &str) -> Option<Span> {
        self.given.get(name).map(|given| given.name.span())
    }

    /// Removes an option without a value and returns whether it was present.
    pub(crate) fn flag(&mut self, name: &str) -> syn::Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(DeclaredOption { value: None, .. }) => Ok(true),
            Some(DeclaredOption { name, .. }) => {
                let text = format!("`{name}` takes no value");
                Err(syn::Error::new(name.span(), text))
            }
        }
    }

    /// Removes an option and returns its value.
    pub(crate) fn value(&mut self, name: &str) -> syn::Result<Option<Value>> {
        match self.take(name) {
            None => Ok(None),
            Some(DeclaredOption { value: Some(value), .. }) => Ok(Some(value)),
            Some(DeclaredOption { name, .. }) => {
                let text = format!("`{name}` needs a value: `{name} = ...`");
                Err(syn::Error::new(name.span(), text))
            }
        }
    }
}
