//! Vocabulary: the names of public types avoid the words that the glossary refuses.
//!
//! Only words without another legitimate use are checked, and only in the names of public types; reviewers check the
//! rest. Back-end crates use the words of their product and are not checked.

use super::{Finding, Source};

/// Refused word, and its replacement. `Firing`, `Broker`, `Consumer`, `Producer`, `Item`, `Lock`,
/// `Result` and `Status` are refused for one meaning and correct for another, so reviewers check them.
const REFUSED: [(&str, &str); 20] = [
    ("Task", "Message or Job"),
    ("Ticker", "Job"),
    ("Tick", "Occurrence"),
    ("Bus", "Publisher"),
    ("Provider", "Storage"),
    ("Persistence", "Storage"),
    ("Store", "Storage"),
    ("Nack", "Delivery::requeue"),
    ("Dispatcher", "Relay"),
    ("Processor", "Worker"),
    ("Reaper", "Rescuer"),
    ("Janitor", "Rescuer"),
    ("Cleaner", "Pruner"),
    ("Morgue", "dead letter"),
    ("Manager", "Admin"),
    ("Notification", "Event"),
    ("Deferred", "jobs.once or publish().after"),
    ("Channel", "Topic"),
    ("Subject", "Topic"),
    ("Strategy", "a policy by its name: Retry, Misfire, Overlap"),
];
/// Allowed names that contain a refused word: a store of small documents is no storage of messages.
const ALLOWED: [&str; 1] = ["DocumentStore"];
const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
const CHECKED: [&str; 6] =
    ["core/src/", "schedule/src/", "cli/src/", "server/src/", "macros/src/", "integrations/"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() || !CHECKED.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.code_lines() {
        let Some(name) = public_type(line) else {
            continue;
        };
        if ALLOWED.contains(&name) {
            continue;
        }
        for (word, instead) in REFUSED {
            if camel_words(name).contains(&word) {
                let what = format!("`{name}` uses the refused word `{word}`; use {instead}");
                findings.push(source.finding(number, what));
            }
        }
    }
    findings
}

/// Returns the name of the public type that a line declares.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let (kind, name) = rest.split_once(' ')?;
    let end = name.find(|letter: char| !letter.is_alphanumeric());
    KINDS.contains(&kind).then(|| &name[..end.unwrap_or(name.len())])
}

/// Splits `StoredTransport` into `Stored` and `Transport`.
fn camel_words(name: &str) -> Vec<&str> {
    let mut starts: Vec<usize> =
        name.char_indices().filter(|(_, letter)| letter.is_uppercase()).map(|(i, _)| i).collect();
    starts.push(name.len());
    starts.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn refused_words_in_public_types_are_found() {
        assert_eq!(count("core/src/a.rs", "pub struct TaskQueue {\n"), 1);
        assert_eq!(count("core/src/a.rs", "pub trait JobStore: Send {\n"), 1);
        assert_eq!(count("core/src/a.rs", "pub enum RetryStrategy {\n"), 1);
    }

    #[test]
    fn other_words_private_types_and_other_crates_are_not() {
        assert_eq!(count("core/src/a.rs", "pub struct StoredTransport {\n"), 0);
        assert_eq!(count("core/src/a.rs", "pub trait DocumentStore {\n"), 0);
        assert_eq!(count("core/src/a.rs", "struct Task;\npub fn task() {}\n"), 0);
        assert_eq!(count("transports/nats/src/lib.rs", "pub struct Subject;\n"), 0);
    }

    #[test]
    fn every_refused_word_is_in_the_glossary() {
        let glossary = include_str!("../../../docs/glossary.md").to_lowercase();
        for (word, _) in REFUSED {
            assert!(glossary.contains(&word.to_lowercase()), "{word}");
        }
    }
}
