//! What a step changes for those who sleep: which lines have something due earlier, from which lines
//! something was taken. Collected inside a transaction, told once it is committed.

use std::collections::{HashMap, HashSet};

use punctual::model::Queue;

/// News of a step, or of all steps of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) due: HashMap<Queue, i64>,
    pub(crate) taken: HashSet<Queue>,
    pub(crate) jobs_due: Option<i64>,
    pub(crate) jobs_moved: bool,
    pub(crate) leases: bool,
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

    /// The news of another step, too.
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
    }
}
