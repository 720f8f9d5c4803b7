//! Plain words: names, file names and the first line of a file use the technical noun of the field.
//!
//! The words below were a dialect of this project's early days. A reader who does not know it can neither guess nor
//! search it. The rule reads identifiers, file names and first lines of Rust and JavaScript, and file names and first
//! lines of SQL and CSS; the rest of a text is checked in reviews.

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
/// Words that are refused only in the names of files and types, because local names may need them.
const REFUSED_FOR_TYPES: [(&str, &str); 5] = [
    ("answer", "response, result"),
    ("answers", "responses, results"),
    ("gone", "missing, deleted, disconnected"),
    ("said", "reported, state"),
    ("story", "what it contains"),
];
/// Words before the name of a type; in JavaScript a component is a function or a constant with a large first letter.
const DECLARATIONS: [&str; 8] =
    ["class", "const", "enum", "function", "struct", "trait", "type", "union"];
/// Beginnings of a comment.
const COMMENTS: [&str; 3] = ["//", "--", "/*"];
/// Names of the field that hold a refused word: ring buffers, the cryptography library, and its items.
const ALLOWED: [&str; 7] =
    ["Ring", "RingBuffer", "RingBuffers", "ring", "ring_buffer", "ring_buffers", "ring_provider"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let has_names = source.is_rust() || source.is_script();
    if !(has_names || source.is_sql() || source.is_style_sheet()) || source.is_a_rule() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut refuse = |line: usize, place: &str, text: &str, is_type: bool| {
        if let Some((word, instead)) = refused(text, is_type) {
            findings.push(
                source.finding(line, format!("{place} `{text}` says `{word}`; say {instead}")),
            );
        }
    };
    let stem = source.path.rsplit_once('.').map_or(&*source.path, |(stem, _)| stem);
    for part in stem.split('/') {
        refuse(0, "the file name", part, true);
    }
    if let Some(first) = source.text.lines().next().filter(|line| is_comment(line)) {
        for word in first.split(|letter: char| !letter.is_alphanumeric()) {
            refuse(1, "the first line", word, false);
        }
    }
    if has_names {
        let quotes: &[char] = if source.is_rust() { &['"'] } else { &['"', '\'', '`'] };
        for (number, line) in source.code_lines() {
            let mut before = "";
            for name in identifiers(line, quotes) {
                let is_type =
                    DECLARATIONS.contains(&before) && name.starts_with(char::is_uppercase);
                refuse(number, "the name", name, is_type);
                before = name;
            }
        }
    }
    findings
}

fn is_comment(line: &str) -> bool {
    COMMENTS.iter().any(|start| line.starts_with(start))
}

/// Returns the first refused word of a name, and what to write instead.
fn refused(name: &str, is_type: bool) -> Option<(&'static str, &'static str)> {
    if ALLOWED.contains(&name) {
        return None;
    }
    let words = words(name);
    let types = REFUSED_FOR_TYPES.into_iter().filter(|_| is_type);
    REFUSED.into_iter().chain(types).find(|(word, _)| words.iter().any(|one| one == word))
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
fn identifiers<'a>(line: &'a str, quotes: &'a [char]) -> impl Iterator<Item = &'a str> {
    let is_quoted = |index: usize| index % 2 == 1;
    line.split(quotes).enumerate().filter(move |(index, _)| !is_quoted(*index)).flat_map(
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
        assert_eq!(found("testing/browser/a.mjs", "const rungAt = 1;\n"), 1);
        assert_eq!(found("storages/sqlite/migrations/0001_bells.sql", ""), 1);
        assert_eq!(found("storages/postgres/sql/a.sql", "-- The crew of a queue.\n"), 1);
        assert_eq!(found("dashboard/styles/a.css", "/* Bell in the top bar. */\n"), 1);
    }

    #[test]
    fn some_words_are_refused_only_in_names_of_files_and_types() {
        assert_eq!(found("core/src/answers.rs", ""), 1);
        assert_eq!(found("core/src/a.rs", "//! Poller.\npub(crate) struct LastAnswer;\n"), 1);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nenum Story { A }\n"), 1);
        assert_eq!(found("dashboard/lib/a.js", "export function Answers({ list }) {}\n"), 1);
        assert_eq!(found("dashboard/lib/a.js", "const Gone = () => 1;\n"), 1);
        assert_eq!(found("core/src/a.rs", "//! What it said.\nlet answer = 1;\n"), 0);
        assert_eq!(found("dashboard/lib/a.js", "function answer() {}\n"), 0);
        assert_eq!(found("dashboard/pages/job/history.js", "const History = 1;\n"), 0);
    }

    #[test]
    fn other_words_texts_and_libraries_are_not() {
        assert_eq!(found("core/src/a.rs", "//! Poller.\nfn heartbeat() {} // the beat\n"), 0);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nlet a = \"nobody\";\n"), 0);
        assert_eq!(found("core/src/a.rs", "//! Poller.\nuse rustls::crypto::ring;\n"), 0);
        assert_eq!(found("dashboard/lib/a.js", "const queue = 'nobody';\n"), 0);
        assert_eq!(found("storages/postgres/sql/a.sql", "SELECT nobody FROM a;\n"), 0);
        assert_eq!(found("dashboard/vendor/a.js", "const news = 1;\n"), 0);
        assert_eq!(found("docs/a.md", "nobody"), 0);
    }
}
