//! The ledger's summary as a table: one column for each storage.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::{Fate, Judgement};
use crate::fuse::Point;

/// How one run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The storage, by name.
    pub storage: &'static str,
    /// How the workers ended.
    pub fates: BTreeMap<Fate, usize>,
    /// How often a worker was stopped for longer than a lease and went on.
    pub pauses: usize,
    /// What came of the messages.
    pub judgement: Judgement,
    /// From the first publish to the last kill, in seconds.
    pub seconds: u64,
    /// From the last kill until nothing was left to do, in seconds.
    pub drain_seconds: u64,
}

impl Outcome {
    /// How many workers were killed, in whatever way.
    pub fn kills(&self) -> usize {
        kills(&self.fates)
    }

    fn count(&self, fate: Fate) -> usize {
        self.fates.get(&fate).copied().unwrap_or_default()
    }
}

/// The table, in the form documents use.
pub fn render(outcomes: &[Outcome]) -> String {
    let mut rows: Vec<Row<Outcome>> = vec![row("kills", Outcome::kills)];
    rows.push(row("- from outside, at a random moment", |one| one.count(Fate::Killed)));
    for point in Point::ALL {
        let name = format!("- {}", point.meaning());
        rows.push(row(&name, move |one| one.count(Fate::Crashed(point))));
    }
    rows.push(row("pauses longer than a lease", |one| one.pauses));
    rows.push(row("messages acknowledged", |one| one.judgement.acknowledged));
    rows.push(row("messages stored, answer unheard", |one| one.judgement.unheard));
    rows.push(row("handlers begun", |one| one.judgement.runs));
    rows.push(row("messages that ran more than once", |one| one.judgement.repeated));
    rows.push(row("- runs explained by a kill", |one| one.judgement.explained_by_kill));
    rows.push(row("- runs explained by a lost lease", |one| one.judgement.explained_by_lease));
    rows.push(row("lost attempts in the history", |one| one.judgement.lost_attempts));
    rows.push(row("seconds of killing", |one| one.seconds));
    rows.push(row("seconds until all was done", |one| one.drain_seconds));
    rows.push(row("**not explained or otherwise wrong**", |one| one.judgement.wrong.len()));
    rows.push(row("**lost**", |one| one.judgement.lost.len()));
    let names: Vec<&str> = outcomes.iter().map(|one| one.storage).collect();
    written(&names, outcomes, &rows)
}

/// Counts those that were killed, in whatever way.
pub(crate) fn kills(fates: &BTreeMap<Fate, usize>) -> usize {
    fates.iter().filter(|(fate, _)| **fate != Fate::Ended).map(|(_, count)| count).sum()
}

/// One line of a table: its name, and its value for an outcome.
pub(crate) struct Row<O> {
    name: String,
    value: Box<dyn Fn(&O) -> String>,
}

impl<O> Row<O> {
    /// Returns a line of a table.
    pub(crate) fn new<T: ToString>(name: &str, value: impl Fn(&O) -> T + 'static) -> Self {
        Self { name: name.to_owned(), value: Box::new(move |one| value(one).to_string()) }
    }
}

fn row<T: ToString>(name: &str, value: impl Fn(&Outcome) -> T + 'static) -> Row<Outcome> {
    Row::new(name, value)
}

/// Returns a table with a column for each outcome.
pub(crate) fn written<O>(names: &[&str], outcomes: &[O], rows: &[Row<O>]) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for Row { name, value } in rows {
        let values: Vec<String> = outcomes.iter().map(value).collect();
        // Into a string, which takes everything.
        let _ = writeln!(text, "| {name} | {} |", values.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_is_a_column_and_kills_add_up() {
        let fates = BTreeMap::from([
            (Fate::Ended, 3),
            (Fate::Killed, 20),
            (Fate::Crashed(Point::Settling), 30),
        ]);
        let judgement = Judgement { acknowledged: 1_000, ..Judgement::default() };
        let one = Outcome {
            storage: "sqlite",
            fates,
            pauses: 2,
            judgement,
            seconds: 60,
            drain_seconds: 3,
        };
        let table = render(&[one.clone(), Outcome { storage: "postgres", ..one }]);
        assert!(table.starts_with("| | sqlite | postgres |\n|---|---|---|\n| kills | 50 | 50 |\n"));
        assert!(table.contains("\n| - during settle | 30 | 30 |\n"));
        assert!(table.ends_with("\n| **lost** | 0 | 0 |\n"));
    }
}
