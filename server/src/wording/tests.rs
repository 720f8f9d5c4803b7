//! Rewritten deserialization errors, and replaced hints for programmers.

use std::path::Path;

use punctual::Error;
use serde::Deserialize;
use serde_json::json;

use super::advice::ADVICE;
use super::*;
use crate::spec::JobSpec;

fn refused(value: Value, path: &[&str], syntax: Syntax) -> String {
    let error = JobSpec::deserialize(&value).unwrap_err().to_string();
    reworded(&error, path, syntax)
}

#[test]
fn an_example_is_written_in_the_syntax_of_the_reader() {
    let command = || json!({ "command": "echo hi" });
    let toml = refused(command(), &["jobs", "a", "command"], Syntax::Toml);
    assert_eq!(
        toml,
        "\"echo hi\" is a string; use a table such as { program = \"/usr/local/bin/backup\" }"
    );
    let json = refused(command(), &["command"], Syntax::Json);
    assert!(json.ends_with("{ \"program\": \"/usr/local/bin/backup\" }"), "{json}");
    let timeout = refused(json!({ "timeout": 30 }), &["timeout"], Syntax::Toml);
    assert_eq!(timeout, "30 is a number; use a string such as \"30s\"");
    let retry = refused(json!({ "retry": true }), &["retry"], Syntax::Toml);
    assert!(retry.contains("{ first = \"10s\", retries = 3 }"), "{retry}");
    let retry = refused(json!({ "retry": true }), &["retry"], Syntax::Json);
    assert!(retry.contains("{ \"first\": \"10s\", \"retries\": 3 }"), "{retry}");
}

#[test]
fn long_values_are_shortened() {
    let text = refused(json!({ "tags": "x".repeat(500) }), &["tags"], Syntax::Json);
    assert!(text.len() < 200 && text.contains("use a list such as [\"report\"]"), "{text}");
}

#[test]
fn hints_for_programmers_are_replaced_for_callers_of_the_api() {
    let message =
        "the instant is in the past; give a later one, or allow_past() to run it immediately";
    assert!(!for_api(message).contains("()"));
    assert!(for_api("there is no job \"a\"; jobs() lists the jobs").contains("GET /api/v1/jobs"));
    let message = "there is no transport \"nope\"; give it to the builder first";
    assert!(for_api(message).ends_with("leave the transport out"), "{}", for_api(message));
}

// Finding P16 of the newcomer's review: errors of the start of a server had hints for programmers.
#[test]
fn hints_for_programmers_are_replaced_for_operators() {
    let message = "the transport \"a\" is durable; give the builder a durable storage, or call allow_volatile_delays()";
    let error = for_operators(Error::invalid(message));
    assert_eq!(error.kind(), punctual::ErrorKind::Invalid);
    assert!(error.to_string().contains("set storage.address"), "{error}");
    let plain = for_operators(Error::conflict("the topic is given twice").with("topic", "a"));
    assert_eq!(
        plain.to_string(),
        "the topic is given twice (topic: a)",
        "an error without a hint stays unchanged"
    );
}

/// Returns the Rust sources below a folder without the line breaks of string literals that a `\` continues.
fn joined_sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            joined_sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let mut parts = text.split("\\\n");
            let first = parts.next().unwrap_or_default().to_owned();
            found.push(parts.fold(first, |joined, part| joined + part.trim_start()));
        }
    }
}

#[test]
fn every_replaced_hint_is_a_text_of_the_library_or_of_a_transport() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for folder in ["core/src", "schedule/src", "transports"] {
        joined_sources(&workspace.join(folder), &mut sources);
    }
    let stale: Vec<&str> = ADVICE
        .iter()
        .map(|(hint, _)| *hint)
        .filter(|hint| !sources.iter().any(|source| source.contains(hint)))
        .collect();
    assert!(stale.is_empty(), "no error has these hints; correct or remove them: {stale:#?}");
}
