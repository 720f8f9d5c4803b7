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
        self.fates.iter().filter(|(fate, _)| **fate != Fate::Ended).map(|(_, count)| count).sum()
    }

    fn count(&self, fate: Fate) -> usize {
        self.fates.get(&fate).copied().unwrap_or_default()
    }
}

/// The table, in the form documents use.
pub fn render(outcomes: &[Outcome]) -> String {
    let mut rows: Vec<Row> = vec![row("kills", Outcome::kills)];
    rows.push(row("- from outside, at a random moment", |one| one.count(Fate::Killed)));
    for point in Point::ALL {
        rows.push(Row {
            name: format!("- {}", point.meaning()),
            value: Box::new(move |one| one.count(Fate::Crashed(point)).to_string()),
        });
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
    let mut text = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for Row { name, value } in rows {
        let values: Vec<String> = outcomes.iter().map(value).collect();
        // Into a string, which takes everything.
        let _ = writeln!(text, "| {name} | {} |", values.join(" | "));
    }
    text
}

struct Row {
    name: String,
    value: Box<dyn Fn(&Outcome) -> String>,
}

fn row<T: ToString>(name: &str, value: impl Fn(&Outcome) -> T + 'static) -> Row {
    Row { name: name.to_owned(), value: Box::new(move |one| value(one).to_string()) }
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
