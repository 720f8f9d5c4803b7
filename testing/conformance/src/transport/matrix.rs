//! Matrix of results: behaviours by transports, each passed, refused as declared, skipped with its reason, or
//! not run. It is rendered from recorded results only, so that a broker without results is never shown as
//! passed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::cases;
use super::results::RecordedResults;

/// Result of a case without a recorded result.
const NOT_RUN: &str = "not run";

/// Recorded results by transport.
#[derive(Default)]
pub struct Matrix(BTreeMap<String, RecordedResults>);

impl Matrix {
    /// Reads the results folder of a run.
    pub fn of_run(folder: &Path) -> std::io::Result<Self> {
        let mut matrix = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            matrix.0.insert(name, RecordedResults::read(&entry.path())?);
        }
        Ok(matrix)
    }

    /// Reads the results stored with the sources, and adds transports without results.
    pub fn of_sources() -> std::io::Result<Self> {
        let mut matrix = Self::default();
        for entry in fs::read_dir(results_folder())? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            matrix.0.insert(name, RecordedResults::parse(&fs::read_to_string(path)?));
        }
        let transports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../transports");
        for entry in fs::read_dir(transports).into_iter().flatten() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            matrix.0.entry(name).or_default();
        }
        Ok(matrix)
    }

    /// Stores the results of this run with the sources; those of transports that were not run stay unchanged.
    pub fn record(&self) -> std::io::Result<Vec<String>> {
        let mut written = Vec::new();
        for (name, recorded) in self.0.iter().filter(|(_, recorded)| recorded.was_run()) {
            fs::create_dir_all(results_folder())?;
            fs::write(results_folder().join(format!("{name}.txt")), recorded.text())?;
            written.push(name.clone());
        }
        Ok(written)
    }

    /// Returns recorded behaviours that the suite no longer contains.
    pub fn unknown(&self) -> Vec<String> {
        let known: BTreeSet<String> = cases().map(|case| case.name()).collect();
        let written = self.0.values().flat_map(|recorded| recorded.cases.keys());
        let mut unknown: Vec<String> =
            written.filter(|name| !known.contains(*name)).cloned().collect();
        unknown.dedup();
        unknown
    }

    /// Returns the differences of a run from the stored results of the transports it ran. Cases that it did not
    /// run, because only some were selected, are no difference.
    pub fn differences(&self, stored: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, run) in self.0.iter().filter(|(_, recorded)| recorded.was_run()) {
            let Some(stored) = stored.0.get(name).filter(|stored| stored.was_run()) else {
                differences.push(format!("{name} has no recorded results yet"));
                continue;
            };
            if run.capabilities != stored.capabilities {
                differences.push(format!("{name} declares other capabilities"));
            }
            for (case, outcome) in &run.cases {
                if stored.cases.get(case) != Some(outcome) {
                    differences.push(format!("{name}: {case} {}", outcome.0));
                }
            }
        }
        differences
    }

    /// Renders `docs/capabilities.md`.
    pub fn render(&self) -> String {
        let mut text = String::from(
            "# Capabilities of transports, and test results\n\n\
             Rendered by `cargo xtask generate` from the capabilities that transports declare and from the results \
             that `cargo xtask test --record` wrote to `testing/conformance/results`; do not edit.\n\n\
             ## Capabilities\n\n\
             The engine does with the storage what a transport does not do itself, with the same result for \
             handlers. `folder` is the example of [writing a transport](guide/write-a-transport.md).\n\n",
        );
        self.capabilities(&mut text);
        text.push_str(
            "\n## Behaviours\n\n\
             *Passed*: tested against a real server; but for Kafka against the mock cluster of its client, for SQS \
             against moto, and for Service Bus against a simulated server of this repository. *Refused*: the \
             transport declares that it does not do this, and refuses it or leaves it to the engine as it must. \
             *Skipped*: it cannot be tested here; the reason is below. *Not run*: there is no result.\n\n",
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
                let _ = write!(text, " {} |", known.map_or(NOT_RUN, |(_, value)| value));
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

    /// Appends the reasons of refused and skipped cases: each reason once, with its cases.
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

    /// Returns a summary for a terminal: the number of cases with each result, per transport.
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

fn word<'a>(recorded: &'a RecordedResults, case: &str) -> &'a str {
    match recorded.cases.get(case) {
        Some((word, _)) if recorded.was_run() => word,
        _ => NOT_RUN,
    }
}

fn results_folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_was_not_run_is_never_passed() {
        let mut matrix = Matrix::default();
        let case = cases().next().unwrap().name();
        let listed = RecordedResults {
            cases: BTreeMap::from([(case.clone(), ("passed".to_owned(), String::new()))]),
            ..RecordedResults::default()
        };
        matrix.0.insert("kafka".to_owned(), listed.clone());
        matrix.0.insert("mqtt".to_owned(), RecordedResults::default());
        assert!(!matrix.summary().contains(" passed"), "{}", matrix.summary());
        let can = vec![("order".to_owned(), "total".to_owned())];
        matrix.0.insert("kafka".to_owned(), RecordedResults { capabilities: can, ..listed });
        assert!(matrix.summary().contains("1 passed"), "{}", matrix.summary());
        assert!(matrix.render().contains("| passed | not run |"));
    }

    #[test]
    fn a_run_that_differs_from_stored_results_is_reported() {
        let one = |word: &str, order: &str| {
            let cases = [("a::b".to_owned(), (word.to_owned(), String::new()))];
            let capabilities = vec![("order".to_owned(), order.to_owned())];
            let recorded = RecordedResults { capabilities, cases: BTreeMap::from(cases) };
            Matrix(BTreeMap::from([("kafka".to_owned(), recorded)]))
        };
        let stored = one("passed", "total");
        assert!(one("passed", "total").differences(&stored).is_empty());
        assert!(Matrix::default().differences(&stored).is_empty(), "not run this time");
        assert_eq!(one("refused", "total").differences(&stored), ["kafka: a::b refused"]);
        assert_eq!(one("passed", "none").differences(&stored).len(), 1);
        assert_eq!(stored.differences(&Matrix::default()), ["kafka has no recorded results yet"]);
    }

    #[test]
    fn generated_capabilities_are_fresh() {
        let matrix = Matrix::of_sources().unwrap();
        assert_eq!(matrix.unknown(), Vec::<String>::new(), "run `cargo xtask test --record`");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/capabilities.md");
        let text = matrix.render();
        if std::env::var_os("PUNCTUAL_GENERATE").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "docs/capabilities.md is stale; run `cargo xtask generate`");
    }
}
