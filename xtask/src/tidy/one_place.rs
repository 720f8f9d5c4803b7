//! One place: the clock, waiting, randomness and the runtime are used in one place each.
//!
//! Clippy's `disallowed-methods` checks types; this rule reads text, so it also applies where a lint was lifted or a
//! macro hides the call.

use super::source::has_word;
use super::{Finding, Source};

/// Words that are allowed in code only under these paths.
struct OnePlace {
    words: &'static [&'static str],
    homes: &'static [&'static str],
    reason: &'static str,
}

const PLACES: [OnePlace; 2] = [
    OnePlace {
        words: &[
            "SystemTime::now",
            "Instant::now",
            "Timestamp::now",
            "Zoned::now",
            "Utc::now",
            "Local::now",
            "thread::sleep",
            "time::sleep",
            "time::sleep_until",
            "time::timeout",
            "time::timeout_at",
            "time::interval",
            "time::interval_at",
        ],
        // A benchmark and the tools measure real time; both decide nothing by it.
        homes: &["core/src/clock.rs", "xtask/src/stopwatch.rs", "testing/bench/src/"],
        reason: "time and waiting come from a Clock; only core/src/clock.rs touches the system's",
    },
    OnePlace {
        words: &[
            "Uuid::new_v4",
            "Uuid::now_v7",
            "rand::random",
            "rand::rng",
            "thread_rng",
            "fastrand",
            "getrandom",
            "RandomState::new",
        ],
        homes: &["core/src/model/id.rs", "server/src/secret.rs"],
        reason: "randomness comes from the IdSource in core/src/model/id.rs, secrets from server/src/secret.rs",
    },
];

/// Folders whose code is pure, and the names it must not use.
const PURE: [&str; 3] = ["core/src/model/", "schedule/src/", "core/src/policy/"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() || source.is_a_rule() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.code_lines() {
        for place in &PLACES {
            if place.is_broken_by(source, line) {
                findings.push(source.finding(number, place.reason));
            }
        }
        if is_pure(source) && has_word(line, "tokio") {
            let what = "model, schedule and policy are pure: they do not know tokio";
            findings.push(source.finding(number, what));
        }
    }
    findings
}

impl OnePlace {
    fn is_broken_by(&self, source: &Source, line: &str) -> bool {
        let at_home = self.homes.iter().any(|home| source.path.starts_with(home));
        !at_home && self.words.iter().any(|word| has_word(line, word))
    }
}

fn is_pure(source: &Source) -> bool {
    PURE.iter().any(|folder| source.path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn a_clock_read_outside_its_file_is_found() {
        let text = "let now = jiff::Timestamp::now();\n";
        assert_eq!(count("core/src/engine/relay.rs", text), 1);
        assert_eq!(count("core/src/clock.rs", text), 0);
    }

    #[test]
    fn every_forbidden_word_is_found() {
        for word in PLACES.iter().flat_map(|place| place.words) {
            let text = format!("let x = {word}();\n");
            assert_eq!(count("core/src/engine/worker.rs", &text), 1, "{word}");
        }
    }

    #[test]
    fn a_comment_may_speak_of_clocks() {
        assert_eq!(count("core/src/lib.rs", "/// Never calls Instant::now.\n"), 0);
    }

    #[test]
    fn the_pure_folders_do_not_know_the_runtime() {
        assert_eq!(count("core/src/policy/retry.rs", "use tokio::sync::Notify;\n"), 1);
        assert_eq!(count("core/src/engine/relay.rs", "use tokio::sync::Notify;\n"), 0);
        assert_eq!(count("core/src/model/id.rs", "//! Knows nothing of tokio.\n"), 0);
    }
}
