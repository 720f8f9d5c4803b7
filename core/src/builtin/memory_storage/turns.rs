//! Messages that are due and must wait for their turn: exclusive ones while another message of their
//! job is running, scheduled ones while their job is paused. They are in no lane meanwhile, so that a
//! claim does not stumble over them again and again, and nobody is woken for them.

use std::collections::{BTreeMap, BTreeSet};

use super::records::Slot;
use crate::model::{JobName, Message};

/// Whose turn it is, by job.
#[derive(Default)]
pub(super) struct Turns {
    jobs: BTreeMap<JobName, Turn>,
    ready: Vec<Slot>,
}

#[derive(Default)]
struct Turn {
    running: u32,
    waiting: BTreeSet<Slot>,
}

impl Turns {
    /// A message of a job began to run.
    pub(super) fn started(&mut self, message: &Message) {
        if let Some(occurrence) = &message.occurrence {
            self.jobs.entry(occurrence.job.clone()).or_default().running += 1;
        }
    }

    /// A message of a job runs no more: those that waited for it may try again.
    pub(super) fn ended(&mut self, message: &Message) {
        let Some(occurrence) = &message.occurrence else { return };
        if let Some(turn) = self.jobs.get_mut(&occurrence.job) {
            turn.running = turn.running.saturating_sub(1);
        }
        self.release(&occurrence.job);
    }

    /// Whether another message of its job is running.
    pub(super) fn is_taken(&self, job: &JobName) -> bool {
        self.jobs.get(job).is_some_and(|turn| turn.running > 0)
    }

    /// Sets a message aside until its turn comes.
    pub(super) fn wait(&mut self, job: &JobName, slot: Slot) {
        self.jobs.entry(job.clone()).or_default().waiting.insert(slot);
    }

    /// A message that may have waited is leaving.
    pub(super) fn leave(&mut self, message: &Message, slot: Slot) {
        if let Some(occurrence) = &message.occurrence
            && let Some(turn) = self.jobs.get_mut(&occurrence.job)
        {
            turn.waiting.remove(&slot);
        }
    }

    /// Everything that waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Slot> {
        self.jobs.values().flat_map(|turn| turn.waiting.iter().copied())
    }

    /// Lets everything of a job try again; a claim looks at each once more.
    pub(super) fn release(&mut self, job: &JobName) {
        let Some(turn) = self.jobs.get_mut(job) else { return };
        self.ready.extend(std::mem::take(&mut turn.waiting));
        if turn.running == 0 {
            self.jobs.remove(job);
        }
    }

    /// What may go back to its lane.
    pub(super) fn take_ready(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.ready)
    }
}
