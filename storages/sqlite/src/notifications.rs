//! Notifications: which subscribers are woken, and when. A source notifies only of a due time earlier than the
//! one its subscribers know: the last one that was returned to them or notified. Without a known due time every
//! change notifies.
//!
//! A due-time query clears the known due time before it reads, and sets it again only if no other query began
//! meanwhile; so whatever is committed during the read notifies, and no change is missed. Queries with a topic
//! filter return later due times than others; the latest of them counts until the next notification.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::backend::storage::{Notifier, TopicFilter, WakeSource, Wakeup};
use punctual::jiff::Timestamp;
use punctual_columns::instant::micros_up;

use crate::effects::Effects;
use crate::operations::claim_cursor::ClaimCursors;

/// No known due time: every change notifies.
const UNKNOWN: i64 = i64::MAX;
/// No query with a filter has returned since the last notification.
const NO_FILTER_QUERY: i64 = i64::MIN;
/// Most filters of a queue that are kept apart.
const FILTERS_MAX: usize = 16;

/// Subscribers of every source.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    sources: Mutex<HashMap<WakeSource, SourceState>>,
    /// Cursors of claims with a filter.
    pub(crate) cursors: ClaimCursors,
}

#[derive(Debug)]
struct SourceState {
    notifier: Notifier,
    known_due: i64,
    queries: u64,
    filtered: FilterState,
}

/// State of the queries with a topic filter.
#[derive(Debug)]
struct FilterState {
    /// Latest due time that any of them returned since the last notification.
    known_due: i64,
    /// Number of running queries; their results may be older than a commit.
    running: usize,
    /// Filters of the queries that returned.
    topics: Vec<TopicFilter>,
}

impl SourceState {
    fn new(notifier: Notifier) -> Self {
        let filtered = FilterState { known_due: NO_FILTER_QUERY, running: 0, topics: Vec::new() };
        Self { notifier, known_due: UNKNOWN, queries: 0, filtered }
    }
}

/// Running query of due times.
pub(crate) struct DueQuery<'a> {
    notifications: &'a Notifications,
    sources: &'a [WakeSource],
    /// Number of the query for each source that has subscribers.
    counts: Vec<Option<u64>>,
}

impl DueQuery<'_> {
    /// Records the due times that the query returned.
    pub(crate) fn finish(self, due: &[Option<Timestamp>]) {
        let mut sources = self.notifications.lock();
        for ((source, count), due) in self.sources.iter().zip(&self.counts).zip(due) {
            let Some(state) = sources.get_mut(&source.without_filter()) else { continue };
            let due = due.map_or(UNKNOWN, micros_up);
            match source {
                WakeSource::Topics(_, topics) => state.filtered.add_result(topics, due),
                _ if Some(state.queries) == *count => state.known_due = due,
                _ => {}
            }
        }
    }
}

impl Drop for DueQuery<'_> {
    fn drop(&mut self) {
        let queried = self.sources.iter().zip(&self.counts).filter(|(_, count)| count.is_some());
        let mut sources = self.notifications.lock();
        for (source, _) in queried.filter(|(source, _)| matches!(source, WakeSource::Topics(..))) {
            if let Some(state) = sources.get_mut(&source.without_filter()) {
                state.filtered.running = state.filtered.running.saturating_sub(1);
            }
        }
    }
}

impl FilterState {
    fn add_result(&mut self, topics: &TopicFilter, due: i64) {
        self.known_due = self.known_due.max(due);
        if !self.topics.contains(topics) && self.topics.len() < FILTERS_MAX {
            self.topics.push(topics.clone());
        }
    }
}

impl Notifications {
    /// Returns a handle that is notified of changes of a source.
    pub(crate) fn wakeup(&self, source: &WakeSource) -> Wakeup {
        let (mut sources, source) = (self.lock(), source.without_filter());
        if let Some(state) = sources.get(&source) {
            return state.notifier.wakeup();
        }
        let (notifier, wakeup) = Wakeup::new();
        sources.insert(source, SourceState::new(notifier));
        wakeup
    }

    /// Begins a query of due times.
    pub(crate) fn begin_query<'a>(&'a self, queried: &'a [WakeSource]) -> DueQuery<'a> {
        let mut sources = self.lock();
        let count = |source: &WakeSource| {
            let state = sources.get_mut(&source.without_filter())?;
            if matches!(source, WakeSource::Topics(..)) {
                state.filtered.running += 1;
            } else {
                state.known_due = UNKNOWN;
                state.queries += 1;
            }
            Some(state.queries)
        };
        let counts = queried.iter().map(count).collect();
        DueQuery { notifications: self, sources: queried, counts }
    }

    /// Notifies subscribers of the changes of a committed transaction.
    pub(crate) fn notify(&self, effects: &Effects) {
        let mut notified = Vec::new();
        {
            let mut sources = self.lock();
            for queue in &effects.taken {
                forget(&mut sources, &WakeSource::Queue(queue.clone()));
            }
            if effects.jobs_moved {
                forget(&mut sources, &WakeSource::Jobs);
            }
            for (queue, at) in &effects.due {
                self.cursors.invalidate(queue, *at);
                notified.extend(notifier_for(
                    &mut sources,
                    &WakeSource::Queue(queue.clone()),
                    *at,
                    true,
                ));
            }
            if let Some(at) = effects.jobs_due {
                notified.extend(notifier_for(&mut sources, &WakeSource::Jobs, at, true));
            }
            if effects.leases {
                notified
                    .extend(sources.get(&WakeSource::Leases).map(|state| state.notifier.clone()));
            }
        }
        for notifier in notified {
            notifier.notify();
        }
    }

    /// Returns the sources that have subscribers, and those with the filters of earlier queries.
    pub(crate) fn sources(&self) -> Vec<WakeSource> {
        let mut all = Vec::new();
        for (source, state) in self.lock().iter() {
            all.push(source.clone());
            if let WakeSource::Queue(queue) = source {
                let filters = state.filtered.topics.iter();
                all.extend(filters.map(|topics| WakeSource::Topics(queue.clone(), topics.clone())));
            }
        }
        all
    }

    /// Notifies subscribers after a write of another process, given the current due times.
    pub(crate) fn notify_external(
        &self,
        found: &[WakeSource],
        due: &[Option<Timestamp>],
        has_cancels: bool,
    ) {
        let mut notified = Vec::new();
        {
            let mut sources = self.lock();
            for (source, due) in found.iter().zip(due) {
                notified.extend(
                    due.and_then(|due| notifier_for(&mut sources, source, micros_up(due), false)),
                );
            }
            let leases = sources.get(&WakeSource::Leases).filter(|_| has_cancels);
            notified.extend(leases.map(|state| state.notifier.clone()));
        }
        for notifier in notified {
            notifier.notify();
        }
    }

    /// Notifies every subscriber: what another process wrote is unknown.
    pub(crate) fn notify_all(&self) {
        let notifiers: Vec<Notifier> = {
            let mut sources = self.lock();
            let all = sources.values_mut().map(|state| {
                state.known_due = UNKNOWN;
                state.filtered.known_due = NO_FILTER_QUERY;
                state.filtered.topics.clear();
                state.notifier.clone()
            });
            all.collect()
        };
        for notifier in notifiers {
            notifier.notify();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WakeSource, SourceState>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget(sources: &mut HashMap<WakeSource, SourceState>, source: &WakeSource) {
    if let Some(state) = sources.get_mut(source) {
        state.known_due = UNKNOWN;
    }
}

/// Returns the notifier to call if an earlier due time is new to subscribers. A due time that this process
/// stored is new to all that know a later one; one that a query found is new only to queries of the same
/// source.
fn notifier_for(
    sources: &mut HashMap<WakeSource, SourceState>,
    source: &WakeSource,
    at: i64,
    is_stored: bool,
) -> Option<Notifier> {
    let is_filtered = matches!(source, WakeSource::Topics(..));
    let state = sources.get_mut(&source.without_filter())?;
    let is_new = !is_filtered && at < state.known_due;
    let filtered = &mut state.filtered;
    let is_new_to_filters =
        filtered.running > 0 || ((is_stored || is_filtered) && at < filtered.known_due);
    if !is_new && !is_new_to_filters {
        return None;
    }
    if is_new {
        state.known_due = at;
    }
    filtered.known_due = NO_FILTER_QUERY;
    filtered.topics.clear();
    Some(state.notifier.clone())
}
