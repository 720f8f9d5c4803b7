//! Plain words: names, file names and the first line of a file use the technical noun of the field.
//!
//! The words below were a dialect of this project's early days. A reader who does not know it can neither guess nor
//! search it. The rule reads identifiers, file names and first lines; the rest of a text is checked in reviews.

use super::{Finding, Source};

/// Refused word, and what to write instead.
const REFUSED: [(&str, &str); 30] = [
    ("anybody", "the caller, the worker, the process"),
    ("beat", "heartbeat"),
    ("beats", "heartbeats"),
    ("bell", "notifier"),
    ("bells", "notifiers"),
    ("bye", "deregister"),
    ("crew", "tasks"),
    ("desk", "what it holds"),
    ("everywhere", "common"),
    ("goodbye", "deregister"),
    ("hushed", "redacted"),
    ("lookout", "poller"),
    ("news", "notifications"),
    ("nobody", "the caller, the worker, the process"),
    ("patience", "timeout"),
    ("pulse", "heartbeat"),
    ("rehearsal", "harness"),
    ("rehearse", "test"),
    ("ring", "notify"),
    ("rings", "notifies"),
    ("rung", "notified"),
    ("scribe", "writer"),
    ("shelf", "store"),
    ("somebody", "the caller, the worker, the process"),
    ("surround", "layers"),
    ("surroundings", "facts, context"),
    ("switchboard", "controls"),
    ("tidings", "notifications"),
    ("told", "notified"),
    ("whoever", "the caller, the worker, the process"),
];
/// Names of the field that hold a refused word: ring buffers, the cryptography library, and its items.
const ALLOWED: [&str; 7] =
    ["Ring", "RingBuffer", "RingBuffers", "ring", "ring_buffer", "ring_buffers", "ring_provider"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !(source.is_rust() || source.is_script()) || source.is_a_rule() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut refuse = |line: usize, place: &str, text: &str| {
        if let Some((word, instead)) = refused(text) {
            findings.push(
                source.finding(line, format!("{place} `{text}` says `{word}`; say {instead}")),
            );
        }
    };
    let stem = source.path.rsplit_once('.').map_or(&*source.path, |(stem, _)| stem);
    for part in stem.split('/') {
        refuse(0, "the file name", part);
    }
    if let Some(first) = source.text.lines().next().filter(|line| line.starts_with("//")) {
        for word in first.split(|letter: char| !letter.is_alphanumeric()) {
            refuse(1, "the first line", word);
        }
    }
    for (number, line) in source.code_lines() {
        for name in identifiers(line) {
            refuse(number, "the name", name);
        }
    }
    findings
}

/// Returns the first refused word of a name, and what to write instead.
fn refused(name: &str) -> Option<(&'static str, &'static str)> {
    if ALLOWED.contains(&name) {
        return None;
    }
    let words = words(name);
    REFUSED.into_iter().find(|(word, _)| words.iter().any(|one| one == word))
}

/// Splits `snake_case`, `camelCase` and `kebab-case` into words in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if !letter.is_alphanumeric() {
            words.push(String::new());
            continue;
        }
        if letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

/// Returns the identifiers of a line, without quoted text. Strings over several lines are not recognized.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    let is_quoted = |index: usize| index % 2 == 1;
    line.split('"').enumerate().filter(move |(index, _)| !is_quoted(*index)).flat_map(
        |(_, code)| {
            code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|name| {
                name.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn dialect_in_names_file_names_and_first_lines_is_found() {
        assert_eq!(found("core/src/lookout.rs", ""), 1);
        assert_eq!(found("core/src/a.rs", "//! The lookout: polls.\n"), 1);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nfn is_told() {}\n"), 1);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nstruct DoorBell;\n"), 1);
        assert_eq!(found("dashboard/lib/a.js", "const rungAt = 1;\n"), 1);
    }

    #[test]
    fn other_words_texts_and_libraries_are_not() {
        assert_eq!(found("core/src/a.rs", "//! Poller.\nfn heartbeat() {} // the beat\n"), 0);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nlet a = \"nobody\";\n"), 0);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nuse rustls::crypto::ring;\n"), 0);
        assert_eq!(found("docs/a.md", "nobody"), 0);
    }
}
