//! Table of the results, with one column for each storage.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::{CheckResult, ProcessEnd};
use crate::fuse::CrashPoint;

/// Report of one run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Name of the storage.
    pub storage: &'static str,
    /// Number of ended workers, by kind of end.
    pub ends: BTreeMap<ProcessEnd, usize>,
    /// Number of pauses longer than a lease.
    pub pauses: usize,
    /// Result of the check.
    pub check_result: CheckResult,
    /// Time from the first publish to the last kill, in seconds.
    pub seconds: u64,
    /// Time from the last kill until all messages were done, in seconds.
    pub drain_seconds: u64,
}

impl RunReport {
    /// Returns the number of workers that were killed or aborted.
    pub fn kills(&self) -> usize {
        kills(&self.ends)
    }

    fn count(&self, end: ProcessEnd) -> usize {
        self.ends.get(&end).copied().unwrap_or_default()
    }
}

/// Returns the table in Markdown.
pub fn render(reports: &[RunReport]) -> String {
    let mut rows: Vec<Row<RunReport>> = vec![row("kills", RunReport::kills)];
    rows.push(row("- from outside, at a random moment", |one| one.count(ProcessEnd::Killed)));
    for point in CrashPoint::WORKER_POINTS {
        let name = format!("- {}", point.label());
        rows.push(row(&name, move |one| one.count(ProcessEnd::Crashed(point))));
    }
    rows.push(row("pauses longer than a lease", |one| one.pauses));
    rows.push(row("messages acknowledged", |one| one.check_result.acknowledged));
    rows.push(row("messages stored, not acknowledged", |one| one.check_result.unacknowledged));
    rows.push(row("handlers started", |one| one.check_result.runs));
    rows.push(row("messages that ran more than once", |one| one.check_result.repeated));
    rows.push(row("- runs explained by a kill", |one| one.check_result.explained_by_kill));
    rows.push(row("- runs explained by a lost lease", |one| one.check_result.explained_by_lease));
    rows.push(row("lost attempts in the history", |one| one.check_result.lost_attempts));
    rows.push(row("seconds of killing", |one| one.seconds));
    rows.push(row("seconds until all were done", |one| one.drain_seconds));
    rows.push(row("**unexplained repeats and other violations**", |one| {
        one.check_result.violations.len()
    }));
    rows.push(row("**lost**", |one| one.check_result.lost.len()));
    let names: Vec<&str> = reports.iter().map(|one| one.storage).collect();
    render_rows(&names, reports, &rows)
}

/// Returns the number of processes that were killed or aborted.
pub(crate) fn kills(ends: &BTreeMap<ProcessEnd, usize>) -> usize {
    ends.iter().filter(|(end, _)| **end != ProcessEnd::Stopped).map(|(_, count)| count).sum()
}

/// Row of a table: its name, and a function for its value in a report.
pub(crate) struct Row<R> {
    name: String,
    value: Box<dyn Fn(&R) -> String>,
}

impl<R> Row<R> {
    /// Returns a row.
    pub(crate) fn new<T: ToString>(name: &str, value: impl Fn(&R) -> T + 'static) -> Self {
        Self { name: name.to_owned(), value: Box::new(move |one| value(one).to_string()) }
    }
}

fn row<T: ToString>(name: &str, value: impl Fn(&RunReport) -> T + 'static) -> Row<RunReport> {
    Row::new(name, value)
}

/// Returns a Markdown table with a column for each report.
pub(crate) fn render_rows<R>(names: &[&str], reports: &[R], rows: &[Row<R>]) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for Row { name, value } in rows {
        let values: Vec<String> = reports.iter().map(value).collect();
        // Writing into a string does not fail.
        let _ = writeln!(text, "| {name} | {} |", values.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_is_a_column_and_kills_add_up() {
        let ends = BTreeMap::from([
            (ProcessEnd::Stopped, 3),
            (ProcessEnd::Killed, 20),
            (ProcessEnd::Crashed(CrashPoint::Settling), 30),
        ]);
        let check_result = CheckResult { acknowledged: 1_000, ..CheckResult::default() };
        let one = RunReport {
            storage: "sqlite",
            ends,
            pauses: 2,
            check_result,
            seconds: 60,
            drain_seconds: 3,
        };
        let table = render(&[one.clone(), RunReport { storage: "postgres", ..one }]);
        assert!(table.starts_with("| | sqlite | postgres |\n|---|---|---|\n| kills | 50 | 50 |\n"));
        assert!(table.contains("\n| - during settle | 30 | 30 |\n"));
        assert!(table.ends_with("\n| **lost** | 0 | 0 |\n"));
    }
}
