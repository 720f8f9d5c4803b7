//! The matrix: behaviours by transports, each passed, refused as declared, skipped with its reason, or
//! not tried here. It is rendered from what was written down and from nothing else, so that a broker
//! nobody tried is never shown as passed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::cases;
use super::results::Recorded;

/// What a transport is called that nobody tried.
const NOT_TRIED: &str = "not tried here";

/// Transports by name, with what was written down of each.
#[derive(Default)]
pub struct Matrix(BTreeMap<String, Recorded>);

impl Matrix {
    /// From the folder that a run wrote to.
    pub fn of_run(folder: &Path) -> std::io::Result<Self> {
        let mut matrix = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            matrix.0.insert(name, Recorded::read(&entry.path())?);
        }
        Ok(matrix)
    }

    /// From the files that are kept with the sources, and every transport there is.
    pub fn of_sources() -> std::io::Result<Self> {
        let mut matrix = Self::default();
        for entry in fs::read_dir(results_folder())? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            matrix.0.insert(name, Recorded::parse(&fs::read_to_string(path)?));
        }
        let transports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../transports");
        for entry in fs::read_dir(transports).into_iter().flatten() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            matrix.0.entry(name).or_default();
        }
        Ok(matrix)
    }

    /// Keeps what was tried with the sources; what was not tried this time stays as it was.
    pub fn record(&self) -> std::io::Result<Vec<String>> {
        let mut written = Vec::new();
        for (name, recorded) in self.0.iter().filter(|(_, recorded)| recorded.was_tried()) {
            fs::create_dir_all(results_folder())?;
            fs::write(results_folder().join(format!("{name}.txt")), recorded.text())?;
            written.push(name.clone());
        }
        Ok(written)
    }

    /// Behaviours that were written down and are in the suite no longer.
    pub fn unknown(&self) -> Vec<String> {
        let known: BTreeSet<String> = cases().map(|case| case.name()).collect();
        let written = self.0.values().flat_map(|recorded| recorded.cases.keys());
        let mut unknown: Vec<String> =
            written.filter(|name| !known.contains(*name)).cloned().collect();
        unknown.dedup();
        unknown
    }

    /// In what a run differs from what is kept of the transports it tried. What it did not try, because
    /// somebody asked for a few cases only, is no difference.
    pub fn differences(&self, kept: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, tried) in self.0.iter().filter(|(_, recorded)| recorded.was_tried()) {
            let Some(kept) = kept.0.get(name).filter(|kept| kept.was_tried()) else {
                differences.push(format!("{name} is not kept yet"));
                continue;
            };
            if tried.capabilities != kept.capabilities {
                differences.push(format!("{name} declares other capabilities"));
            }
            for (case, came) in &tried.cases {
                if kept.cases.get(case) != Some(came) {
                    differences.push(format!("{name}: {case} {}", came.0));
                }
            }
        }
        differences
    }

    /// As a document.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# What transports can do, and what was shown of it\n\n\
             Rendered by `cargo xtask generate` from the capabilities that transports declare and from what \
             `cargo xtask test --record` wrote to `conformance/results`; do not edit.\n\n\
             ## Capabilities\n\n\
             What a transport does not do itself, the engine does with the storage, so that a reader cannot \
             tell the difference.\n\n",
        );
        self.capabilities(&mut text);
        text.push_str(
            "\n## Behaviours\n\n\
             *Passed*: shown against a real server; but for Kafka against the mock cluster of its client, for SQS against moto, and for Service Bus against a double of our own. *Refused*: the transport declares that it does not do \
             this, and refuses it or leaves it to the engine as it should. *Skipped*: it cannot be tried \
             here; the reason stands below. *Not tried here*: nobody has run it; it says nothing about the \
             transport.\n\n",
        );
        self.behaviours(&mut text);
        self.reasons(&mut text);
        text
    }

    fn capabilities(&self, text: &mut String) {
        self.head(text, "");
        let named = self.0.values().flat_map(|recorded| &recorded.capabilities);
        let mut rows: Vec<&str> = Vec::new();
        for (name, _) in named {
            if !rows.contains(&name.as_str()) {
                rows.push(name);
            }
        }
        for row in rows {
            let _ = write!(text, "| {row} |");
            for recorded in self.0.values() {
                let known = recorded.capabilities.iter().find(|(name, _)| name == row);
                let _ = write!(text, " {} |", known.map_or(NOT_TRIED, |(_, value)| value));
            }
            text.push('\n');
        }
    }

    fn behaviours(&self, text: &mut String) {
        self.head(text, "behaviour");
        for case in cases() {
            let name = case.name();
            let _ = write!(text, "| {} |", name.replace("::", ": ").replace('_', " "));
            for recorded in self.0.values() {
                let _ = write!(text, " {} |", word(recorded, &name));
            }
            text.push('\n');
        }
    }

    fn head(&self, text: &mut String, first: &str) {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let _ = writeln!(text, "| {first} | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    }

    /// Why something was refused or skipped: each reason once, with what it is the reason of.
    fn reasons(&self, text: &mut String) {
        for (transport, recorded) in &self.0 {
            let mut reasons: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
            for (case, (word, reason)) in &recorded.cases {
                if !reason.is_empty() {
                    let case = case.replace("::", ": ").replace('_', " ");
                    reasons.entry((word, reason)).or_default().push(case);
                }
            }
            if !reasons.is_empty() {
                let _ = writeln!(text, "\n### {transport}\n");
            }
            for ((word, reason), cases) in reasons {
                let _ = writeln!(text, "- {word}, because {reason}: {}", cases.join("; "));
            }
        }
    }

    /// As lines for a terminal: how many of each kind, and everything that is not passed.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (transport, recorded) in &self.0 {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for case in cases() {
                *counts.entry(word(recorded, &case.name())).or_default() += 1;
            }
            let counts: Vec<String> =
                counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
            let _ = writeln!(text, "{transport:<12} {}", counts.join(", "));
        }
        text
    }
}

fn word<'a>(recorded: &'a Recorded, case: &str) -> &'a str {
    match recorded.cases.get(case) {
        Some((word, _)) if recorded.was_tried() => word,
        _ => NOT_TRIED,
    }
}

fn results_folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_tried_is_never_passed() {
        let mut matrix = Matrix::default();
        let case = cases().next().unwrap().name();
        let listed = Recorded {
            cases: BTreeMap::from([(case.clone(), ("passed".to_owned(), String::new()))]),
            ..Recorded::default()
        };
        matrix.0.insert("kafka".to_owned(), listed.clone());
        matrix.0.insert("mqtt".to_owned(), Recorded::default());
        assert!(!matrix.summary().contains(" passed"), "{}", matrix.summary());
        let can = vec![("order".to_owned(), "total".to_owned())];
        matrix.0.insert("kafka".to_owned(), Recorded { capabilities: can, ..listed });
        assert!(matrix.summary().contains("1 passed"), "{}", matrix.summary());
        assert!(matrix.render().contains("| passed | not tried here |"));
    }

    #[test]
    fn a_run_that_differs_from_what_is_kept_is_noticed() {
        let one = |word: &str, order: &str| {
            let cases = [("a::b".to_owned(), (word.to_owned(), String::new()))];
            let capabilities = vec![("order".to_owned(), order.to_owned())];
            let recorded = Recorded { capabilities, cases: BTreeMap::from(cases) };
            Matrix(BTreeMap::from([("kafka".to_owned(), recorded)]))
        };
        let kept = one("passed", "total");
        assert!(one("passed", "total").differences(&kept).is_empty());
        assert!(Matrix::default().differences(&kept).is_empty(), "not tried this time");
        assert_eq!(one("refused", "total").differences(&kept), ["kafka: a::b refused"]);
        assert_eq!(one("passed", "none").differences(&kept).len(), 1);
        assert_eq!(kept.differences(&Matrix::default()), ["kafka is not kept yet"]);
    }

    #[test]
    fn generated_capabilities_are_fresh() {
        let matrix = Matrix::of_sources().unwrap();
        assert_eq!(matrix.unknown(), Vec::<String>::new(), "run `cargo xtask test --record`");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/capabilities.md");
        let text = matrix.render();
        if std::env::var_os("PUNCTUAL_GENERATE").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "docs/capabilities.md is stale; run `cargo xtask generate`");
    }
}
