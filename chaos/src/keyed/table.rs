//! The ledger of keyed requests as a table: one column for each storage.

use std::collections::{BTreeMap, BTreeSet};

use super::check::Judgement;
use crate::check::Fate;
use crate::fuse::Point;
use crate::table::{Row, kills, written};

/// How one run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The storage, by name.
    pub storage: &'static str,
    /// How the servers ended.
    pub fates: BTreeMap<Fate, usize>,
    /// How often a server was stopped for longer than a lease and went on.
    pub pauses: usize,
    /// How often the database was crashed.
    pub crashes: usize,
    /// What came of the keys.
    pub judgement: Judgement,
    /// From the first request to the last kill, in seconds.
    pub seconds: u64,
}

impl Outcome {
    /// Returns how many servers were killed, in whatever way.
    pub fn kills(&self) -> usize {
        kills(&self.fates)
    }

    fn count(&self, fate: Fate) -> usize {
        self.fates.get(&fate).copied().unwrap_or_default()
    }
}

/// Returns the table, in the form documents use.
pub fn render(outcomes: &[Outcome]) -> String {
    let mut rows: Vec<Row<Outcome>> = vec![row("kills of servers", Outcome::kills)];
    rows.push(row("- from outside, at a random moment", |one| one.count(Fate::Killed)));
    for point in Point::OF_SERVERS {
        let name = format!("- {}", point.meaning());
        rows.push(row(&name, move |one| one.count(Fate::Crashed(point))));
    }
    rows.push(row("pauses longer than a lease", |one| one.pauses));
    rows.push(row("crashes of the database", |one| one.crashes));
    rows.push(row("keys", |one| one.judgement.keys));
    rows.push(row("- of batches", |one| one.judgement.batches));
    rows.push(row("messages stored", |one| one.judgement.messages));
    rows.push(row("requests", |one| one.judgement.requests));
    rows.push(row("- answered", |one| one.judgement.answered));
    rows.push(row("- of these marked as a replay", |one| one.judgement.replays));
    rows.push(row("- sent while another one of the key ran", |one| one.judgement.beside));
    rows.push(row("- met a live lease (409, under way)", |one| one.judgement.under_way));
    rows.push(row("- failed (5xx)", |one| one.judgement.failed.values().sum::<usize>()));
    let kinds: BTreeSet<&String> =
        outcomes.iter().flat_map(|one| one.judgement.failed.keys()).collect();
    for kind in kinds {
        let of = kind.clone();
        let count = move |one: &Outcome| one.judgement.failed.get(&of).copied().unwrap_or_default();
        rows.push(row(&format!("  - {kind}"), count));
    }
    rows.push(row("- without an answer", |one| one.judgement.broken));
    rows.push(row("keys repeated before their first answer", |one| one.judgement.repeated));
    rows.push(row("- begun by a request that was not answered", |one| one.judgement.taken_over));
    rows.push(row("keys that met a live lease", |one| one.judgement.leased));
    rows.push(row("- and then waited for its end, over 5 s", |one| one.judgement.waited));
    rows.push(row("longest time of a key under way, ms", |one| one.judgement.under_way_ms));
    rows.push(row("seconds of killing", |one| one.seconds));
    rows.push(row("**keys with two effects**", |one| one.judgement.twice));
    rows.push(row("**keys with differing answers**", |one| one.judgement.differing));
    rows.push(row("**wrong in all**", |one| one.judgement.wrong.len()));
    let names: Vec<&str> = outcomes.iter().map(|one| one.storage).collect();
    written(&names, outcomes, &rows)
}

fn row<T: ToString>(name: &str, value: impl Fn(&Outcome) -> T + 'static) -> Row<Outcome> {
    Row::new(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_is_a_column_and_kills_add_up() {
        let fates = BTreeMap::from([
            (Fate::Ended, 2),
            (Fate::Killed, 3),
            (Fate::Crashed(Point::Published), 4),
        ]);
        let failed = BTreeMap::from([("503 away".to_owned(), 7)]);
        let judgement = Judgement { keys: 9, failed, ..Judgement::default() };
        let one =
            Outcome { storage: "sqlite", fates, pauses: 0, crashes: 0, judgement, seconds: 5 };
        let table = render(&[one.clone(), Outcome { storage: "postgres", crashes: 2, ..one }]);
        assert!(
            table.starts_with(
                "| | sqlite | postgres |\n|---|---|---|\n| kills of servers | 7 | 7 |\n"
            )
        );
        assert!(table.contains("\n| - between messages and answer | 4 | 4 |\n"));
        assert!(table.contains("\n| crashes of the database | 0 | 2 |\n| keys | 9 | 9 |\n"));
        assert!(table.contains("\n|   - 503 away | 7 | 7 |\n"));
    }
}
