//! Who waits is woken after the commit of a transaction that is not ours: the storage remembers what
//! such a transaction stored and asks the server what became of it, all of them in one statement, soon
//! at first and then less and less often. With nothing remembered nothing is asked. What is forgotten
//! here is found by those who look.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::Queue;
use punctual::storage::Line;
use punctual::{Clock, Result};
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use crate::batches::Freed;
use crate::inner::{Inner, attempt};
use crate::turns::Turns;
use crate::value::Param;

/// The pauses before a transaction is asked about, in milliseconds; the last one repeats.
const PAUSES: [u64; 9] = [2, 5, 10, 20, 50, 100, 200, 500, 1_000];
/// The pause between two statements, however many transactions there are.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The most transactions that are remembered.
const OPEN_MAX: usize = 10_000;
/// The most transactions in one statement.
const ASKED_MAX: usize = 1_000;
/// A transaction that is open for longer is forgotten.
const OPEN_LENGTH_MAX: Duration = Duration::from_secs(600);

/// What there is to tell when a transaction has committed.
#[derive(Debug, Default)]
pub(crate) struct Tidings {
    /// What is due, and when first.
    pub(crate) due: HashMap<Queue, i64>,
    /// Of what a message no longer runs.
    pub(crate) turns: Turns,
}

impl Tidings {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.turns.is_empty()
    }

    pub(crate) fn is_due(&mut self, queue: &Queue, at: i64) {
        match self.due.get_mut(queue) {
            Some(first) => *first = at.min(*first),
            None => drop(self.due.insert(queue.clone(), at)),
        }
    }

    pub(crate) fn are_due(&mut self, freed: Freed) {
        for (queue, at) in freed {
            self.is_due(&queue, at);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (queue, at) in &other.due {
            self.is_due(queue, *at);
        }
        self.turns.add(other.turns);
    }
}

/// The transactions nobody knows the end of yet.
#[derive(Default)]
pub(crate) struct Commits {
    state: Mutex<State>,
    /// Rung when one comes that is to be asked about sooner than all others.
    sooner: Arc<Notify>,
}

#[derive(Default)]
struct State {
    open: HashMap<String, Open>,
    is_watched: bool,
}

struct Open {
    tidings: Tidings,
    asked: usize,
    ask_at: Timestamp,
    forget_at: Timestamp,
}

impl Commits {
    /// Remembers what a transaction stored; answers whether somebody has to begin to watch.
    fn remember(&self, transaction: String, tidings: Tidings, now: Timestamp) -> bool {
        let mut state = self.state();
        if let Some(known) = state.open.get_mut(&transaction) {
            known.tidings.add(tidings);
            return false;
        }
        if state.open.len() >= OPEN_MAX {
            return false;
        }
        let open = Open {
            tidings,
            asked: 0,
            ask_at: add(now, pause(0)),
            forget_at: add(now, OPEN_LENGTH_MAX),
        };
        state.open.insert(transaction, open);
        let begins = !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        self.sooner.notify_one();
        begins
    }

    /// When to ask next; nothing when nobody has to watch any more.
    fn next(&self) -> Option<Timestamp> {
        let mut state = self.state();
        let next = state.open.values().map(|open| open.ask_at).min();
        state.is_watched = next.is_some();
        next
    }

    /// Whom to ask about now. Each is asked about later again, unless it is too old.
    fn due(&self, now: Timestamp) -> Vec<String> {
        let mut state = self.state();
        state.open.retain(|_, open| open.forget_at > now);
        let due = state.open.iter_mut().filter(|(_, open)| open.ask_at <= now).take(ASKED_MAX);
        due.map(|(transaction, open)| {
            open.asked += 1;
            open.ask_at = add(now, pause(open.asked));
            transaction.clone()
        })
        .collect()
    }

    /// Forgets a transaction.
    fn take(&self, transaction: &str) -> Option<Tidings> {
        Some(self.state().open.remove(transaction)?.tidings)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(asked: usize) -> Duration {
    Duration::from_millis(PAUSES[asked.min(PAUSES.len() - 1)])
}

impl Inner {
    /// Tells who waits as soon as a transaction has committed, and nobody when it has not.
    pub(crate) fn tell_after(self: &Arc<Self>, transaction: String, tidings: Tidings) {
        if self.commits.remember(transaction, tidings, self.clock.now()) {
            tokio::spawn(watch(Arc::downgrade(self), Arc::clone(&self.clock)));
        }
    }

    /// Tells who waits what a transaction that has committed did.
    pub(crate) fn tell_all(self: &Arc<Self>, due: impl IntoIterator<Item = (Queue, i64)>) {
        for (queue, due_at) in due {
            self.tell(Line::Queue(queue), due_at);
        }
    }

    /// Asks what became of those whose time has come.
    async fn ask_commits(self: &Arc<Self>) {
        let asked = self.commits.due(self.clock.now());
        if asked.is_empty() {
            return;
        }
        match self.ended_among(&asked).await {
            Ok(ended) => self.tell_ended(ended).await,
            Err(error) if error.is_temporary() => {
                tracing::debug!(%error, "what became of transactions is asked again");
            }
            Err(error) => {
                tracing::debug!(%error, "what became of transactions cannot be asked; who waits looks");
                for transaction in asked {
                    self.commits.take(&transaction);
                }
            }
        }
    }

    /// Those that have ended, and whether they may have committed.
    async fn ended_among(&self, asked: &[String]) -> Result<Vec<(String, bool)>> {
        // One that is too old for an answer may have committed.
        let text = "SELECT t, s IS DISTINCT FROM 'aborted' \
                    FROM (SELECT t, pg_xact_status(t::xid8) AS s FROM unnest($1::text[]) AS t) AS of \
                    WHERE s IS DISTINCT FROM 'in progress'";
        attempt!(self, |held| async {
            let params: [Param<'_>; 1] = [(&asked, Type::TEXT_ARRAY)];
            let rows = held.ask(text, &params).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
    }

    async fn tell_ended(self: &Arc<Self>, ended: Vec<(String, bool)>) {
        let mut tidings = Tidings::default();
        for (transaction, has_committed) in ended {
            let one = self.commits.take(&transaction).filter(|_| has_committed);
            tidings.add(one.unwrap_or_default());
        }
        self.tell_all(tidings.due);
        self.tell_turns_of(&tidings.turns).await;
    }

    /// Tells those who waited for what no longer runs.
    pub(crate) async fn tell_turns_of(self: &Arc<Self>, turns: &Turns) {
        if turns.is_empty() {
            return;
        }
        let asking = async { attempt!(self, |held| self.waiting(held, turns, false)) };
        match asking.await {
            Ok(waiting) => self.tell_turns(waiting),
            Err(error) => tracing::debug!(%error, "whose turn it is was not told; they look"),
        }
    }
}

/// Watches until nothing is left to watch, or the storage is gone.
async fn watch(inner: Weak<Inner>, clock: Arc<dyn Clock>) {
    let mut free_at = Timestamp::MIN;
    loop {
        let (next, sooner) = {
            let Some(here) = inner.upgrade() else { return };
            let Some(next) = here.commits.next() else { return };
            (next.max(free_at), Arc::clone(&here.commits.sooner))
        };
        if clock.now() < next {
            tokio::select! {
                () = clock.sleep_until(next) => {}
                () = sooner.notified() => continue,
            }
        }
        let Some(here) = inner.upgrade() else { return };
        here.ask_commits().await;
        free_at = add(clock.now(), PAUSE_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn tidings(due_at: i64) -> Tidings {
        let mut tidings = Tidings::default();
        tidings.is_due(&Queue::default(), due_at);
        tidings
    }

    #[test]
    fn a_transaction_is_asked_about_ever_less_often_and_forgotten_in_the_end() {
        let commits = Commits::default();
        assert!(commits.remember("7".to_owned(), tidings(5), at(0)));
        assert!(!commits.remember("7".to_owned(), tidings(3), at(0)), "it is watched already");
        let mut waits = Vec::new();
        let mut now = at(0);
        while let Some(next) = commits.next() {
            waits.push(next.duration_since(now).as_millis());
            now = next;
            commits.due(now);
            assert!(waits.len() < 1_000, "it is never forgotten");
        }
        assert_eq!(waits[..9], [2, 5, 10, 20, 50, 100, 200, 500, 1_000]);
        assert!((600..700).contains(&waits.len()), "{}", waits.len());
        assert!(commits.remember("8".to_owned(), tidings(1), now), "nobody watched any more");
    }

    #[test]
    fn what_one_transaction_stored_is_told_once_with_the_earliest_instant() {
        let commits = Commits::default();
        commits.remember("7".to_owned(), tidings(5), at(0));
        commits.remember("7".to_owned(), tidings(3), at(0));
        let due: Vec<i64> = commits.take("7").unwrap().due.into_values().collect();
        assert_eq!(due, [3]);
        assert!(commits.take("7").is_none());
    }

    #[test]
    fn only_so_many_are_remembered() {
        let commits = Commits::default();
        for number in 0..OPEN_MAX + 5 {
            commits.remember(number.to_string(), tidings(0), at(0));
        }
        assert_eq!(commits.state().open.len(), OPEN_MAX);
        assert_eq!(commits.due(at(1)).len(), ASKED_MAX);
    }
}
