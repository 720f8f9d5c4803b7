//! What a step changes beside its rows: the counts of messages, written before the commit, and the news
//! for those who sleep, told after it. Collected inside a transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use punctual::model::{Queue, State};
use punctual_rows::code::Code as _;
use rusqlite::{Connection, params};

use crate::fault::Tried;
use crate::work::{end_batch, lane_is_free};

/// Changes a count.
pub(crate) const COUNT: &str = "INSERT INTO punctual_count (queue, state, count) VALUES (?1, ?2, ?3) \
     ON CONFLICT (queue, state) DO UPDATE SET count = count + ?3";

/// Of a step, or of all steps of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) due: HashMap<Queue, i64>,
    pub(crate) taken: HashSet<Queue>,
    pub(crate) jobs_due: Option<i64>,
    pub(crate) jobs_moved: bool,
    pub(crate) leases: bool,
    /// Lanes in which somebody has stopped running.
    lanes: HashSet<String>,
    /// Batches of which a message has left the hot table.
    batches: HashSet<[u8; 16]>,
    counts: HashMap<Queue, BTreeMap<State, i64>>,
}

impl Effects {
    /// A message of a queue is due at an instant.
    pub(crate) fn is_due(&mut self, queue: &Queue, at: i64) {
        match self.due.get_mut(queue) {
            Some(first) => *first = at.min(*first),
            None => {
                self.due.insert(queue.clone(), at);
            }
        }
    }

    /// A message no longer waits in a queue.
    pub(crate) fn was_taken(&mut self, queue: &Queue) {
        if !self.taken.contains(queue) {
            self.taken.insert(queue.clone());
        }
    }

    /// Messages of a queue went from one state to another; none is where they were or are not stored.
    pub(crate) fn moved(
        &mut self,
        queue: &Queue,
        count: usize,
        before: Option<State>,
        after: Option<State>,
    ) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let counts = match self.counts.get_mut(queue) {
            Some(counts) => counts,
            None => self.counts.entry(queue.clone()).or_default(),
        };
        if let Some(before) = before {
            *counts.entry(before).or_default() -= count;
        }
        if let Some(after) = after {
            *counts.entry(after).or_default() += count;
        }
    }

    /// The scheduler has to look at a job at another instant than before.
    pub(crate) fn job_moved(&mut self, before: Option<i64>, after: Option<i64>) {
        match (before, after) {
            (Some(before), Some(after)) if after >= before => self.jobs_moved |= after > before,
            (_, Some(after)) => {
                self.jobs_due = Some(self.jobs_due.map_or(after, |first| first.min(after)));
            }
            (before, None) => self.jobs_moved |= before.is_some(),
        }
    }

    /// The owner of a running message has to look at its leases.
    pub(crate) fn leases_changed(&mut self) {
        self.leases = true;
    }

    /// A message that shares a limit runs no more.
    pub(crate) fn left_lane(&mut self, lane: Option<String>) {
        self.lanes.extend(lane);
    }

    /// A message of a batch is no longer alive.
    pub(crate) fn left_batch(&mut self, batch: Option<[u8; 16]>) {
        self.batches.extend(batch);
    }

    /// The batches of which messages have left since the last time.
    pub(crate) fn take_batches(&mut self) -> HashSet<[u8; 16]> {
        std::mem::take(&mut self.batches)
    }

    /// What another step changed, too.
    pub(crate) fn add(&mut self, other: Self) {
        for (queue, at) in &other.due {
            self.is_due(queue, *at);
        }
        self.taken.extend(other.taken);
        if let Some(at) = other.jobs_due {
            self.job_moved(None, Some(at));
        }
        self.jobs_moved |= other.jobs_moved;
        self.leases |= other.leases;
        self.lanes.extend(other.lanes);
        self.batches.extend(other.batches);
        for (queue, counts) in other.counts {
            let sums = self.counts.entry(queue).or_default();
            for (state, count) in counts {
                *sums.entry(state).or_default() += count;
            }
        }
    }

    /// Makes due what waited for something that has ended, and writes the counts; the last thing before a
    /// commit, so that many messages of one batch or one lane are thought of once.
    pub(crate) fn write(&mut self, transaction: &Connection) -> Tried<()> {
        for batch in self.take_batches() {
            end_batch(transaction, batch, self)?;
        }
        for lane in std::mem::take(&mut self.lanes) {
            lane_is_free(transaction, &lane, self)?;
        }
        let mut statement = transaction.prepare_cached(COUNT)?;
        for (queue, state, count) in self.counts() {
            statement.execute(params![queue, state, count])?;
        }
        Ok(())
    }

    /// By how much the counts change: of which queue, of the state with which code.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, i16, i64)> {
        self.counts.iter().flat_map(|(queue, counts)| {
            let changed = counts.iter().filter(|(_, count)| **count != 0);
            changed.map(|(state, count)| (queue.as_str(), state.code(), *count))
        })
    }
}
