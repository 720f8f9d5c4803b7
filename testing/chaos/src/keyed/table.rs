//! Table of the results of keyed requests, with one column for each storage.

use std::collections::{BTreeMap, BTreeSet};

use super::check::KeyedCheckResult;
use crate::check::ProcessEnd;
use crate::fuse::CrashPoint;
use crate::table::{Row, kills, render_rows};

/// Report of one run.
#[derive(Clone, Debug)]
pub struct KeyedRunReport {
    /// Name of the storage.
    pub storage: &'static str,
    /// Number of ended servers, by kind of end.
    pub ends: BTreeMap<ProcessEnd, usize>,
    /// Number of pauses longer than a lease.
    pub pauses: usize,
    /// Number of database crashes.
    pub crashes: usize,
    /// Result of the check.
    pub check_result: KeyedCheckResult,
    /// Time from the first request to the last kill, in seconds.
    pub seconds: u64,
}

impl KeyedRunReport {
    /// Returns the number of servers that were killed or aborted.
    pub fn kills(&self) -> usize {
        kills(&self.ends)
    }

    fn count(&self, end: ProcessEnd) -> usize {
        self.ends.get(&end).copied().unwrap_or_default()
    }
}

/// Returns the table in Markdown.
pub fn render(reports: &[KeyedRunReport]) -> String {
    let mut rows: Vec<Row<KeyedRunReport>> = vec![row("kills of servers", KeyedRunReport::kills)];
    rows.push(row("- from outside, at a random moment", |one| one.count(ProcessEnd::Killed)));
    for point in CrashPoint::SERVER_POINTS {
        let name = format!("- {}", point.label());
        rows.push(row(&name, move |one| one.count(ProcessEnd::Crashed(point))));
    }
    rows.push(row("pauses longer than a lease", |one| one.pauses));
    rows.push(row("crashes of the database", |one| one.crashes));
    rows.push(row("keys", |one| one.check_result.keys));
    rows.push(row("- of batches", |one| one.check_result.batches));
    rows.push(row("messages stored", |one| one.check_result.messages));
    rows.push(row("requests", |one| one.check_result.requests));
    rows.push(row("- answered", |one| one.check_result.answered));
    rows.push(row("- of these marked as a replay", |one| one.check_result.replays));
    rows.push(row("- sent while another one of the key was running", |one| {
        one.check_result.concurrent
    }));
    rows.push(row("- refused because of a live lease (409, in flight)", |one| {
        one.check_result.in_flight
    }));
    rows.push(row("  - without one, by a server with the request itself", |one| {
        one.check_result.own_request
    }));
    rows.push(row("- failed (5xx)", |one| one.check_result.failed.values().sum::<usize>()));
    let kinds: BTreeSet<&String> =
        reports.iter().flat_map(|one| one.check_result.failed.keys()).collect();
    for kind in kinds {
        let of = kind.clone();
        let count = move |one: &KeyedRunReport| {
            one.check_result.failed.get(&of).copied().unwrap_or_default()
        };
        rows.push(row(&format!("  - {kind}"), count));
    }
    rows.push(row("- not sent, since no server listened", |one| one.check_result.not_sent));
    rows.push(row("- sent, without a response", |one| one.check_result.unanswered));
    rows.push(row("keys repeated before their first response", |one| one.check_result.repeated));
    rows.push(row("- started by an unanswered request", |one| one.check_result.taken_over));
    rows.push(row("keys refused because of a live lease", |one| one.check_result.refused));
    rows.push(row("- of these until the lease ended, over 5 s", |one| one.check_result.waited));
    rows.push(row("proven leases: first ones, renewals and takeovers", |one| {
        one.check_result.leases
    }));
    rows.push(row("longest time from a lease to a refusal because of it, ms", |one| {
        one.check_result.in_flight_ms
    }));
    rows.push(row("longest time of refusals of a key, over all its leases, ms", |one| {
        one.check_result.refused_ms
    }));
    rows.push(row("seconds of killing", |one| one.seconds));
    rows.push(row("**keys with two effects**", |one| one.check_result.duplicated));
    rows.push(row("**keys with differing responses**", |one| one.check_result.differing));
    rows.push(row("**violations**", |one| one.check_result.violations.len()));
    let names: Vec<&str> = reports.iter().map(|one| one.storage).collect();
    render_rows(&names, reports, &rows)
}

fn row<T: ToString>(
    name: &str,
    value: impl Fn(&KeyedRunReport) -> T + 'static,
) -> Row<KeyedRunReport> {
    Row::new(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_is_a_column_and_kills_add_up() {
        let ends = BTreeMap::from([
            (ProcessEnd::Stopped, 2),
            (ProcessEnd::Killed, 3),
            (ProcessEnd::Crashed(CrashPoint::Published), 4),
        ]);
        let failed = BTreeMap::from([("503 away".to_owned(), 7)]);
        let check_result = KeyedCheckResult { keys: 9, failed, ..KeyedCheckResult::default() };
        let one = KeyedRunReport {
            storage: "sqlite",
            ends,
            pauses: 0,
            crashes: 0,
            check_result,
            seconds: 5,
        };
        let table =
            render(&[one.clone(), KeyedRunReport { storage: "postgres", crashes: 2, ..one }]);
        assert!(
            table.starts_with(
                "| | sqlite | postgres |\n|---|---|---|\n| kills of servers | 7 | 7 |\n"
            )
        );
        assert!(table.contains("\n| - between messages and response | 4 | 4 |\n"));
        assert!(table.contains("\n| crashes of the database | 0 | 2 |\n| keys | 9 | 9 |\n"));
        assert!(table.contains("\n|   - 503 away | 7 | 7 |\n"));
    }
}
