//! Jobs: their records by name, and by when the scheduler has to handle them. Every write passes the version it
//! has read and increments it.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::memory::Memory;
use crate::error::Result;
use crate::inspect::JobFilter;
use crate::model::{JobCommand, JobName, JobRecord, MessageId};
use crate::storage::{
    DeclareResult, DueJob, Entry, FireResult, Firing, JobCommandResult, Notifier, Wakeup,
};

/// Job records, and when each is due.
pub(super) struct JobTable {
    records: BTreeMap<JobName, JobRecord>,
    due: BTreeSet<(Timestamp, JobName)>,
    notifier: Notifier,
    must_notify: bool,
    resumed: Vec<JobName>,
}

impl JobTable {
    pub(super) fn new() -> Self {
        let (notifier, _) = Wakeup::new();
        Self {
            records: BTreeMap::new(),
            due: BTreeSet::new(),
            notifier,
            must_notify: false,
            resumed: Vec::new(),
        }
    }

    pub(super) fn declare(
        &mut self,
        mut record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> DeclareResult {
        let name = record.job.name.clone();
        let known = self.records.get(&name);
        if let Some(known) = known {
            record.created_at = known.created_at;
            record.updated_at = known.updated_at;
            record.version = known.version;
            if *known == record {
                return DeclareResult::Unchanged;
            }
        }
        if known.map(|known| known.version) != seen {
            return DeclareResult::Raced;
        }
        record.updated_at = now;
        record.version = seen.unwrap_or(0) + 1;
        self.put(name, record);
        if seen.is_some() { DeclareResult::Changed } else { DeclareResult::Created }
    }

    pub(super) fn command(
        &mut self,
        name: &JobName,
        command: &JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        let Some(known) = self.records.get(name) else {
            return Ok(JobCommandResult::Unknown);
        };
        if known.version != seen {
            return Ok(JobCommandResult::Raced);
        }
        let record = known.with_command(command, now)?;
        self.put(name.clone(), record.clone());
        Ok(JobCommandResult::Applied(Box::new(record)))
    }

    /// Removes a job if its version is `seen`.
    pub(super) fn remove(&mut self, name: &JobName, seen: u64) -> JobCommandResult {
        match self.records.get(name).map(|known| known.version) {
            None => JobCommandResult::Unknown,
            Some(version) if version != seen => JobCommandResult::Raced,
            Some(_) => match self.records.remove(name) {
                None => JobCommandResult::Unknown,
                Some(record) => {
                    if let Some(due_at) = record.due_at() {
                        self.due.remove(&(due_at, name.clone()));
                    }
                    JobCommandResult::Applied(Box::new(record))
                }
            },
        }
    }

    /// Stores a record, replacing the one of that name; notifies when it is due before all others.
    fn put(&mut self, name: JobName, record: JobRecord) {
        let first = self.next_due();
        if let Some(due_at) = self.records.get(&name).and_then(JobRecord::due_at) {
            self.due.remove(&(due_at, name.clone()));
        }
        if let Some(due_at) = record.due_at() {
            self.due.insert((due_at, name.clone()));
            self.must_notify |= first.is_none_or(|first| due_at < first);
        }
        if self.is_paused(&name) && record.paused.is_none() {
            self.resumed.push(name.clone());
        }
        self.records.insert(name, record);
    }

    pub(super) fn is_paused(&self, name: &JobName) -> bool {
        self.records.get(name).is_some_and(|record| record.paused.is_some())
    }

    /// Takes the jobs whose pause has ended since the last call.
    pub(super) fn take_resumed(&mut self) -> Vec<JobName> {
        std::mem::take(&mut self.resumed)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due_at, _)| *due_at)
    }

    pub(super) fn wakeup(&self) -> Wakeup {
        self.notifier.wakeup()
    }

    pub(super) fn take_notifier(&mut self) -> Option<Notifier> {
        std::mem::take(&mut self.must_notify).then(|| self.notifier.clone())
    }

    pub(super) fn get(&self, name: &JobName) -> Option<JobRecord> {
        self.records.get(name).cloned()
    }

    pub(super) fn list(&self, filter: &JobFilter) -> Vec<JobRecord> {
        let JobFilter { app, phase, tag } = filter;
        let found = self.records.values().filter(|record| {
            app.as_ref().is_none_or(|app| record.app == *app)
                && phase.is_none_or(|phase| record.phase() == phase)
                && tag.as_ref().is_none_or(|tag| record.job.tags.contains(tag))
        });
        found.cloned().collect()
    }
}

impl Memory {
    pub(super) fn due_jobs(&self, limit: usize, now: Timestamp) -> Vec<DueJob> {
        let due = self.jobs.due.iter().take_while(|(due_at, _)| *due_at <= now).take(limit);
        let records = due.filter_map(|(_, name)| self.jobs.records.get(name));
        records
            .map(|record| DueJob {
                record: record.clone(),
                alive: count(&self.blocking_messages(&record.job.name, now)),
            })
            .collect()
    }

    pub(super) fn fire(&mut self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.check_room(firings.iter().map(|firing| firing.messages.len()).sum())?;
        let fired = firings.into_iter().map(|firing| self.fire_one(firing, now)).collect();
        self.trim();
        Ok(fired)
    }

    pub(super) fn remove_job(&mut self, name: &JobName, seen: u64) -> JobCommandResult {
        let removed = self.jobs.remove(name, seen);
        if matches!(removed, JobCommandResult::Applied(_)) {
            for id in self.records.of_job(name) {
                self.remove(id);
            }
            self.history.forget_job(name);
        }
        removed
    }

    /// Returns the messages of a job that block its next occurrence, oldest id first.
    fn blocking_messages(&self, job: &JobName, now: Timestamp) -> Vec<MessageId> {
        let blocks = |id: &MessageId| {
            self.records.get(*id).is_some_and(|stored| stored.record.blocks_next_run(now))
        };
        self.lookup.of_job(job).into_iter().filter(blocks).collect()
    }

    fn fire_one(&mut self, firing: Firing, now: Timestamp) -> FireResult {
        let known = self.jobs.records.get(&firing.job);
        if known.is_none_or(|known| known.version != firing.seen) {
            return FireResult::AlreadyMoved;
        }
        let blocking_messages = self.blocking_messages(&firing.job, now);
        let alive = count(&blocking_messages);
        if firing.alive_max.is_some_and(|alive_max| alive > alive_max) {
            return FireResult::Overlapping(alive);
        }
        if firing.cancel_alive {
            for id in blocking_messages {
                self.cancel(id, now);
            }
        }
        for message in firing.messages {
            // A duplicate when its message is alive because an operator moved the cursor back.
            self.enqueue_one(Entry { message, replace: false }, now);
        }
        for execution in firing.skipped {
            self.history.append(Arc::new(execution));
        }
        let after = JobRecord { version: firing.seen + 1, ..*firing.after };
        self.jobs.put(firing.job, after);
        FireResult::Fired
    }
}

fn count(messages: &[MessageId]) -> u32 {
    u32::try_from(messages.len()).unwrap_or(u32::MAX)
}
