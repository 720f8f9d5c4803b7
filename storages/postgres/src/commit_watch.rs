//! Watch on transactions of the application: subscribers are notified after such a transaction has committed.
//! The storage keeps what each transaction stored and queries the server for the outcome of all of them in
//! one statement, soon at first and then less and less often. Without watched transactions nothing is
//! queried. Messages of a forgotten transaction are found by polling.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::{Clock, Result};
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use crate::inner::{Inner, attempt};
use crate::pending_notifications::PendingNotifications;
use crate::value::Param;

/// Pauses before the outcome of a transaction is queried, in milliseconds; the last one repeats.
const PAUSES: [u64; 9] = [2, 5, 10, 20, 50, 100, 200, 500, 1_000];
/// Pause between two statements, for any number of transactions.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Most transactions that are watched.
const OPEN_MAX: usize = 10_000;
/// Most transactions in one statement.
const QUERIED_MAX: usize = 1_000;
/// A transaction that is open for longer is forgotten.
const OPEN_DURATION_MAX: Duration = Duration::from_secs(600);

/// Transactions whose outcome is not known yet.
#[derive(Default)]
pub(crate) struct CommitWatch {
    state: Mutex<WatchState>,
    /// Notified when a new transaction has to be queried before all others.
    sooner: Arc<Notify>,
}

#[derive(Default)]
struct WatchState {
    open: HashMap<String, WatchedTransaction>,
    is_watched: bool,
}

struct WatchedTransaction {
    notifications: PendingNotifications,
    queries: usize,
    query_at: Timestamp,
    remove_at: Timestamp,
}

impl CommitWatch {
    /// Watches what a transaction stored; returns whether the caller has to start the watch.
    fn watch(
        &self,
        transaction: String,
        notifications: PendingNotifications,
        now: Timestamp,
    ) -> bool {
        let mut state = self.state();
        if let Some(known) = state.open.get_mut(&transaction) {
            known.notifications.add(notifications);
            return false;
        }
        if state.open.len() >= OPEN_MAX {
            return false;
        }
        let open = WatchedTransaction {
            notifications,
            queries: 0,
            query_at: add(now, pause(0)),
            remove_at: add(now, OPEN_DURATION_MAX),
        };
        state.open.insert(transaction, open);
        let begins = !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        self.sooner.notify_one();
        begins
    }

    /// Returns when to query next; none ends the watch.
    fn next(&self) -> Option<Timestamp> {
        let mut state = self.state();
        let next = state.open.values().map(|open| open.query_at).min();
        state.is_watched = next.is_some();
        next
    }

    /// Returns the transactions to query now. Each is scheduled again, unless it is too old.
    fn due(&self, now: Timestamp) -> Vec<String> {
        let mut state = self.state();
        state.open.retain(|_, open| open.remove_at > now);
        let due = state.open.iter_mut().filter(|(_, open)| open.query_at <= now).take(QUERIED_MAX);
        due.map(|(transaction, open)| {
            open.queries += 1;
            open.query_at = add(now, pause(open.queries));
            transaction.clone()
        })
        .collect()
    }

    /// Removes a transaction; returns its notifications.
    fn take(&self, transaction: &str) -> Option<PendingNotifications> {
        Some(self.state().open.remove(transaction)?.notifications)
    }

    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(queries: usize) -> Duration {
    Duration::from_millis(PAUSES[queries.min(PAUSES.len() - 1)])
}

impl Inner {
    /// Notifies subscribers as soon as a transaction has committed, and not at all when it was rolled back.
    pub(crate) fn notify_after_commit(
        self: &Arc<Self>,
        transaction: String,
        notifications: PendingNotifications,
    ) {
        if self.commit_watch.watch(transaction, notifications, self.clock.now()) {
            tokio::spawn(watch(Arc::downgrade(self), Arc::clone(&self.clock)));
        }
    }

    /// Queries the outcome of the transactions that are scheduled for now.
    async fn query_outcomes(self: &Arc<Self>) {
        let queried = self.commit_watch.due(self.clock.now());
        if queried.is_empty() {
            return;
        }
        match self.ended_transactions(&queried).await {
            Ok(ended) => self.notify_ended(ended).await,
            Err(error) if error.is_temporary() => {
                tracing::debug!(%error, "the outcome of transactions could not be queried and is queried again");
            }
            Err(error) => {
                tracing::debug!(%error, "the outcome of transactions cannot be queried; their messages are found by polling");
                for transaction in queried {
                    self.commit_watch.take(&transaction);
                }
            }
        }
    }

    /// Returns the transactions that have ended, and whether each may have committed.
    async fn ended_transactions(&self, queried: &[String]) -> Result<Vec<(String, bool)>> {
        // A transaction that is too old for a result may have committed.
        let text = "SELECT t, s IS DISTINCT FROM 'aborted' \
                    FROM (SELECT t, pg_xact_status(t::xid8) AS s FROM unnest($1::text[]) AS t) AS of \
                    WHERE s IS DISTINCT FROM 'in progress'";
        attempt!(self, |session| async {
            let params: [Param<'_>; 1] = [(&queried, Type::TEXT_ARRAY)];
            let rows = session.query_text(text, &params).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
    }

    async fn notify_ended(self: &Arc<Self>, ended: Vec<(String, bool)>) {
        let mut notifications = PendingNotifications::default();
        for (transaction, has_committed) in ended {
            let one = self.commit_watch.take(&transaction).filter(|_| has_committed);
            notifications.add(one.unwrap_or_default());
        }
        self.notify_committed(notifications).await;
    }
}

/// Queries outcomes until no transaction is left, or the storage is dropped.
async fn watch(inner: Weak<Inner>, clock: Arc<dyn Clock>) {
    let mut free_at = Timestamp::MIN;
    loop {
        let (next, sooner) = {
            let Some(here) = inner.upgrade() else { return };
            let Some(next) = here.commit_watch.next() else { return };
            (next.max(free_at), Arc::clone(&here.commit_watch.sooner))
        };
        if clock.now() < next {
            tokio::select! {
                () = clock.sleep_until(next) => {}
                () = sooner.notified() => continue,
            }
        }
        let Some(here) = inner.upgrade() else { return };
        here.query_outcomes().await;
        free_at = add(clock.now(), PAUSE_MIN);
    }
}

#[cfg(test)]
mod tests {
    use punctual::model::Queue;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn notifications(due_at: i64) -> PendingNotifications {
        let mut notifications = PendingNotifications::default();
        notifications.add_due(&Queue::default(), due_at);
        notifications
    }

    #[test]
    fn a_transaction_is_queried_less_and_less_often_and_forgotten_in_the_end() {
        let commits = CommitWatch::default();
        assert!(commits.watch("7".to_owned(), notifications(5), at(0)));
        assert!(!commits.watch("7".to_owned(), notifications(3), at(0)), "it is watched already");
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
        assert!(commits.watch("8".to_owned(), notifications(1), now), "the watch had ended");
    }

    #[test]
    fn the_messages_of_a_transaction_are_notified_once_with_the_earliest_instant() {
        let commits = CommitWatch::default();
        commits.watch("7".to_owned(), notifications(5), at(0));
        commits.watch("7".to_owned(), notifications(3), at(0));
        let due: Vec<i64> = commits.take("7").unwrap().due.into_values().collect();
        assert_eq!(due, [3]);
        assert!(commits.take("7").is_none());
    }

    #[test]
    fn the_number_of_watched_transactions_is_bounded() {
        let commits = CommitWatch::default();
        for number in 0..OPEN_MAX + 5 {
            commits.watch(number.to_string(), notifications(0), at(0));
        }
        assert_eq!(commits.state().open.len(), OPEN_MAX);
        assert_eq!(commits.due(at(1)).len(), QUERIED_MAX);
    }
}
