//! Results of cases, written to a folder per transport with a small file per case, because each case may run in
//! a separate process.
//!
//! A file contains one line: the outcome and, after a tab, the reason. A case without a file was not run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use punctual::backend::transport::{AcknowledgeMode, AttemptCount, Capabilities, Delay, Ordering};

use super::case::CaseOutcome;

/// Environment variable with the folder that results are written to.
pub const RESULTS: &str = "PUNCTUAL_RESULTS";

const CAPABILITIES: &str = "capabilities";

/// Writer of the results of one transport; writes nothing without a folder.
#[derive(Clone)]
pub(super) struct ResultsWriter(Option<PathBuf>);

impl ResultsWriter {
    /// Creates the writer of a transport; it writes only when [`RESULTS`] is set.
    pub(super) fn of(transport: &str) -> Self {
        Self(std::env::var_os(RESULTS).map(|folder| Path::new(&folder).join(transport)))
    }

    /// Creates the transport's folder, also when none of its cases runs.
    pub(super) fn create_folder(&self) {
        if let Some(folder) = &self.0 {
            let _ = fs::create_dir_all(folder);
        }
    }

    /// Writes that a case cannot run here.
    pub(super) fn skipped(&self, case: &str, reason: &str) {
        self.write(case, &format!("skipped\t{}\n", one_line(reason)));
    }

    /// Writes the outcome of a case.
    pub(super) fn finished(&self, case: &str, outcome: &Result<CaseOutcome, String>) {
        let line = match outcome {
            Ok(CaseOutcome::Passed) => "passed\n".to_owned(),
            Ok(CaseOutcome::Refused(why)) => format!("refused\t{}\n", one_line(why)),
            Err(error) => format!("failed\t{}\n", one_line(error)),
        };
        self.write(case, &line);
    }

    /// Writes the declared capabilities of the transport.
    pub(super) fn capabilities(&self, can: &Capabilities) {
        let lines = capability_lines(can);
        let lines = lines.iter().map(|(name, value)| format!("{name}\t{value}\n"));
        self.write(CAPABILITIES, &lines.collect::<String>());
    }

    /// Ignores errors: a case does not fail because its result cannot be written, and is shown as not run.
    fn write(&self, name: &str, text: &str) {
        if let Some(folder) = &self.0 {
            self.create_folder();
            let _ = fs::write(folder.join(name.replace("::", ".")), text);
        }
    }
}

/// Recorded results of one transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedResults {
    /// Declared capabilities: name and value.
    pub capabilities: Vec<(String, String)>,
    /// Outcome and reason by case.
    pub cases: BTreeMap<String, (String, String)>,
}

impl RecordedResults {
    /// Reads the results folder of a transport.
    pub fn read(folder: &Path) -> std::io::Result<Self> {
        let mut recorded = Self::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().replacen('.', "::", 1);
            let text = fs::read_to_string(entry.path())?;
            if name == CAPABILITIES {
                recorded.capabilities = text.lines().map(in_two).collect();
            } else if let Some(line) = text.lines().next() {
                recorded.cases.insert(name, in_two(line));
            }
        }
        Ok(recorded)
    }

    /// Parses the output of [`RecordedResults::text`].
    pub fn parse(text: &str) -> Self {
        let mut recorded = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            let (word, name, rest) = (next(), next(), next());
            if word == "can" {
                recorded.capabilities.push((name, rest));
            } else {
                recorded.cases.insert(name, (word, rest));
            }
        }
        recorded
    }

    /// Renders the results as one file, to be stored with the sources.
    pub fn text(&self) -> String {
        let mut text = String::from("# Written by `cargo xtask test --record`; do not edit.\n");
        for (name, value) in &self.capabilities {
            let _ = writeln!(text, "can\t{name}\t{value}");
        }
        for (name, (word, reason)) in &self.cases {
            let line = format!("{word}\t{name}\t{reason}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns whether a case was run, and not only listed.
    pub fn was_run(&self) -> bool {
        !self.capabilities.is_empty()
    }
}

fn in_two(line: &str) -> (String, String) {
    let (first, second) = line.split_once('\t').unwrap_or((line, ""));
    (first.to_owned(), second.to_owned())
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().replace('\t', " ")
}

/// Returns capabilities as names and values.
fn capability_lines(can: &Capabilities) -> [(&'static str, String); 9] {
    let yes = |fact: bool| if fact { "yes" } else { "no" }.to_owned();
    let ordering = match can.ordering {
        Ordering::None => "none",
        Ordering::PerKey => "per key",
        Ordering::Total => "total",
    };
    let attempts = match can.attempts {
        AttemptCount::Counted => "the transport",
        AttemptCount::RedeliveredFlag => "first or not",
        AttemptCount::None => "the engine",
    };
    let acknowledge = match can.acknowledge {
        AcknowledgeMode::Single => "one by one",
        AcknowledgeMode::Cumulative => "up to one",
    };
    let payload = can.payload_max.map_or("no limit".to_owned(), |most| format!("{most} bytes"));
    [
        ("delay on publish", delay(can.publish_delay)),
        ("delay on requeue", delay(can.requeue_delay)),
        ("keeps dead letters", yes(can.dead_letter)),
        ("order", ordering.to_owned()),
        ("each group a copy", yes(can.fan_out)),
        ("attempts counted by", attempts.to_owned()),
        ("acknowledged", acknowledge.to_owned()),
        ("survives a restart", yes(can.durable)),
        ("largest body", payload),
    ]
}

fn delay(delay: Delay) -> String {
    match delay {
        Delay::None => "none".to_owned(),
        Delay::UpTo(limit) => format!("up to {limit:?}"),
        Delay::Any => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_read_back() {
        let folder = std::env::temp_dir().join(format!("punctual-results-{}", std::process::id()));
        let results = ResultsWriter(Some(folder.clone()));
        results.finished("group::each_group_gets_one_copy", &Ok(CaseOutcome::Passed));
        results.finished(
            "order::kept",
            &Ok(CaseOutcome::Refused("it declares\tno order\nat all".to_owned())),
        );
        results.finished("settle::once", &Err("panicked".to_owned()));
        results.skipped("faults::restart", "memory ends with its process");
        let not_run = RecordedResults::read(&folder).unwrap();
        assert!(!not_run.was_run());
        results.capabilities(&Capabilities {
            publish_delay: Delay::UpTo(std::time::Duration::from_secs(900)),
            requeue_delay: Delay::None,
            dead_letter: true,
            ordering: Ordering::PerKey,
            fan_out: true,
            attempts: AttemptCount::None,
            acknowledge: AcknowledgeMode::Cumulative,
            durable: true,
            payload_max: Some(1_024),
        });
        let recorded = RecordedResults::read(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(recorded.was_run());
        assert_eq!(recorded.cases["order::kept"].0, "refused");
        assert_eq!(recorded.cases["order::kept"].1, "it declares no order");
        assert_eq!(recorded.cases["settle::once"].0, "failed");
        assert_eq!(recorded.capabilities[0].1, "up to 900s");
        assert_eq!(RecordedResults::parse(&recorded.text()), recorded);
    }
}
