//! Admin API for operators: reads jobs, messages and history; triggers, pauses, resumes, cancels and redrives.
//! Every change is a compare-and-set or a command of the storage. Submodules contain declarations, edits, the
//! schedule cursor, backfills, bulk commands, analysis, status and health.

mod analysis;
mod backfill;
mod bulk;
mod cursor;
mod declare;
mod edit;
mod health;
mod status;
mod unhandled;

pub use backfill::{Backfill, BackfillOrder, BackfillResult, BackfillSelection};
pub use bulk::{BULK_MAX, BulkResult, MatchCount};
pub use declare::DeclareReport;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::compression::decompressed;
use crate::engine::{Process, occurrence_message, resume};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::{
    Counts, ExecutionFilter, Inspect, JobFilter, MessageFilter, PageRequest, PageResult,
};
use crate::model::time::{subtract, whole_microseconds};
use crate::model::{
    Assignment, BatchId, Body, Execution, ExecutionId, JobCommand, JobName, JobRecord, Message,
    MessageId, MessageRecord, MessageState, Overlap, Source,
};
use crate::policy::{PlannedOccurrence, admit};
use crate::storage::{
    Command, CommandResult, FireResult, Firing, JobCommandResult, Prune, PruneResult,
};

/// Timeout of the storage for the status of all jobs.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of attempts of a change while others write at the same time.
const TRIES_MAX: usize = 10;

/// Reads and changes jobs and messages for operators. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    process: Arc<Process>,
    inspect: Arc<dyn Inspect>,
}

/// A request to pause a job.
#[derive(Clone, Debug)]
pub struct PauseRequest {
    /// Name of the operator.
    pub by: String,
    /// Reason for the pause.
    pub reason: String,
    /// When it ends by itself; `None` means never.
    pub until: Option<Timestamp>,
}

/// Options of a manual run.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    /// Whether the job runs beside its current runs, ignoring its overlap policy. Default false.
    pub ignore_overlap: bool,
    /// Body of this run. Default: the body of the job.
    pub body: Option<Body>,
    /// Id of the message, so that triggering twice with the same id runs the job once. Default: a new id.
    pub id: Option<MessageId>,
}

/// The result of triggering a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerResult {
    /// The job runs as this message.
    Started(MessageId),
    /// The job runs as this message. It is paused: its schedule still fires nothing.
    StartedWhilePaused(MessageId),
    /// The job does not run: this number of its messages is alive and its overlap policy forbids another.
    Overlapping(u32),
}

impl TriggerResult {
    /// Returns the message of the run; `None` when the job does not run.
    pub fn message(self) -> Option<MessageId> {
        match self {
            Self::Started(id) | Self::StartedWhilePaused(id) => Some(id),
            Self::Overlapping(_) => None,
        }
    }
}

impl Admin {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        let inspect = process.env.inspect.clone();
        Self { process, inspect }
    }

    /// Reads messages, executions and jobs through `inspect` from now on, such as one that hides the errors of some
    /// topics from operators. The latest runs of [`JobStatus::last`](crate::status::JobStatus::last) may come from
    /// the memory of this process instead.
    #[must_use]
    pub fn reading(self, inspect: Arc<dyn Inspect>) -> Self {
        Self { inspect, ..self }
    }

    /// Returns every job, by name.
    pub async fn jobs(&self) -> Result<Vec<JobRecord>> {
        self.inspect.jobs(JobFilter::default()).await
    }

    /// Returns a job; fails when there is none of this name.
    pub async fn job(&self, name: impl AsRef<str>) -> Result<JobRecord> {
        let name = JobName::new(name)?;
        self.inspect.job(&name).await?.ok_or_else(|| {
            Error::not_found(format!("there is no job {name:?}; jobs() lists the jobs"))
        })
    }

    /// Returns the executions of a job, newest first.
    pub async fn history(
        &self,
        job: impl AsRef<str>,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        let filter =
            ExecutionFilter { job: Some(JobName::new(job)?), ..ExecutionFilter::default() };
        self.inspect.executions(filter, page).await
    }

    /// Returns executions that match, newest first.
    pub async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.inspect.executions(filter, page).await
    }

    /// Returns messages that match, newest first.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        let mut paged = self.inspect.messages(filter, page).await?;
        let payload_max = self.process.env.options.payload_max;
        paged.rows = paged.rows.into_iter().map(|row| decompressed(row, payload_max)).collect();
        Ok(paged)
    }

    /// Returns a message; `None` when it does not exist.
    pub async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        let record = self.inspect.message(id).await?;
        Ok(record.map(|record| decompressed(record, self.process.env.options.payload_max)))
    }

    /// Returns the dead letters, newest first.
    pub async fn dead_letters(
        &self,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.messages(
            MessageFilter { states: vec![MessageState::Dead], ..MessageFilter::default() },
            page,
        )
        .await
    }

    /// Returns the number of messages by queue and state.
    pub async fn counts(&self) -> Result<Counts> {
        self.inspect.counts(self.process.now()).await
    }

    /// Returns approximate counts for frequently polled views; large numbers may be estimates.
    pub async fn estimate(&self) -> Result<Counts> {
        self.inspect.estimate(self.process.now()).await
    }

    /// Runs a job now, also a paused one. Its schedule is not affected; its overlap policy applies unless
    /// `ignore_overlap` is set.
    pub async fn trigger(
        &self,
        job: impl AsRef<str>,
        ignore_overlap: bool,
    ) -> Result<TriggerResult> {
        self.trigger_with(job, Trigger { ignore_overlap, ..Trigger::default() }).await
    }

    /// Runs a job now, with options; see [`Admin::trigger`].
    pub async fn trigger_with(
        &self,
        job: impl AsRef<str>,
        trigger: Trigger,
    ) -> Result<TriggerResult> {
        let (name, ignore_overlap) = (job.as_ref(), trigger.ignore_overlap);
        if let Some(body) = &trigger.body {
            body.check(self.process.env.options.payload_max)?;
        }
        let mut alive = 0;
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            let now = self.process.now();
            let admission = admit(
                record.job.overlap,
                alive,
                vec![PlannedOccurrence { nominal: now, misfire: None }],
            );
            if admission.fire.is_empty() && !ignore_overlap {
                return Ok(TriggerResult::Overlapping(alive));
            }
            let nominal = whole_microseconds(now);
            let planned = occurrence_message(&self.process, &record.job, nominal, None, now);
            let message = Message {
                id: trigger.id.unwrap_or(planned.id),
                source: Source::Manual,
                exclusive: !ignore_overlap && !matches!(record.job.overlap, Overlap::Allow { .. }),
                body: trigger.body.clone().unwrap_or(planned.body),
                ..planned
            };
            let (id, is_paused) = (message.id, record.paused.is_some());
            let firing = Firing {
                job: record.job.name.clone(),
                seen: record.version,
                messages: vec![Arc::new(message)],
                skipped: Vec::new(),
                alive_max: admission.alive_max.filter(|_| !ignore_overlap),
                cancel_alive: admission.cancel_alive && !ignore_overlap,
                after: Box::new(JobRecord { version: record.version + 1, ..record }),
            };
            match self.process.env.storage.fire(vec![firing], now).await?.first() {
                Some(FireResult::Fired) if is_paused => {
                    return Ok(TriggerResult::StartedWhilePaused(id));
                }
                Some(FireResult::Fired) => return Ok(TriggerResult::Started(id)),
                Some(FireResult::Overlapping(count)) => alive = *count,
                _ => {}
            }
        }
        Err(busy(name))
    }

    /// Pauses a job: it fires no occurrences; current runs continue.
    pub async fn pause(&self, job: impl AsRef<str>, request: PauseRequest) -> Result<JobRecord> {
        let PauseRequest { by, reason, until } = request;
        self.command_job(job.as_ref(), JobCommand::Pause { by, reason, until }, "paused").await
    }

    /// Resumes a job from its next occurrence on; occurrences during the pause are skipped.
    pub async fn resume(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            if record.paused.is_none() {
                return Ok(record);
            }
            let now = self.process.now();
            // A firing and not only a change, because it also records the skipped occurrences.
            let decision = resume(&self.process, &record, now);
            let results = self.process.env.storage.fire(vec![decision.firing.clone()], now).await?;
            if results.first() == Some(&FireResult::Fired) {
                decision.report(&self.process);
                self.process
                    .env
                    .events
                    .emit(Event::JobChanged { job: record.job.name, change: "resumed" });
                return self.job(name).await;
            }
        }
        Err(busy(name))
    }

    async fn command_job(
        &self,
        name: &str,
        command: JobCommand,
        change: &'static str,
    ) -> Result<JobRecord> {
        self.change(name, change, |_, _| Ok(command.clone())).await
    }

    /// Changes a job by a command that is derived from its record; repeats it after a lost race.
    async fn change(
        &self,
        name: &str,
        change: &'static str,
        decide: impl Fn(&JobRecord, Timestamp) -> Result<JobCommand>,
    ) -> Result<JobRecord> {
        let changed = self.change_if(name, change, |_| true, decide).await?;
        changed.ok_or_else(|| busy(name))
    }

    /// Changes a job if a condition holds for its record; returns `None` otherwise. The condition holds for
    /// exactly the record that is replaced, because the storage compares the version.
    async fn change_if(
        &self,
        name: &str,
        change: &'static str,
        condition: impl Fn(&JobRecord) -> bool,
        decide: impl Fn(&JobRecord, Timestamp) -> Result<JobCommand>,
    ) -> Result<Option<JobRecord>> {
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            if !condition(&record) {
                return Ok(None);
            }
            let now = self.process.now();
            let command = decide(&record, now)?;
            match self
                .process
                .env
                .storage
                .command_job(&record.job.name, command, record.version, now)
                .await?
            {
                JobCommandResult::Applied(record) => {
                    self.process
                        .env
                        .events
                        .emit(Event::JobChanged { job: record.job.name.clone(), change });
                    return Ok(Some(*record));
                }
                JobCommandResult::Raced => {}
                JobCommandResult::Unknown => {
                    return Err(Error::not_found(format!("there is no job {name:?}")));
                }
            }
        }
        Err(busy(name))
    }

    /// Removes a job with its history and all its messages that are not running. A job that is declared in
    /// code is created again by its next declaration.
    pub async fn delete_job(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        let name = job.as_ref();
        self.delete_job_if(name, |_| true).await?.ok_or_else(|| busy(name))
    }

    /// Removes a job like [`Admin::delete_job`] if a condition holds for exactly the record that is removed;
    /// returns `None` and removes nothing otherwise.
    pub async fn delete_job_if(
        &self,
        job: impl AsRef<str>,
        condition: impl Fn(&JobRecord) -> bool,
    ) -> Result<Option<JobRecord>> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            if !condition(&record) {
                return Ok(None);
            }
            let (job, now) = (&record.job.name, self.process.now());
            match self.process.env.storage.remove_job(job, record.version, now).await? {
                JobCommandResult::Applied(record) => {
                    let (job, change) = (record.job.name.clone(), "deleted");
                    self.process.env.events.emit(Event::JobChanged { job, change });
                    return Ok(Some(*record));
                }
                JobCommandResult::Raced | JobCommandResult::Unknown => {}
            }
        }
        Err(busy(name))
    }

    /// Returns the number of messages of a batch in each state.
    pub async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.inspect.batch(batch).await
    }

    /// Cancels a message: a pending one immediately, a running one by a request to its handler.
    pub async fn cancel(&self, id: MessageId) -> Result<CommandResult> {
        self.command(Command::Cancel(id), id, "cancel").await
    }

    /// Makes a finished message due now; its attempts start again at 1.
    pub async fn redrive(&self, id: MessageId) -> Result<CommandResult> {
        let due_at = self.process.now();
        self.command(Command::Redrive { id, due_at }, id, "redrive").await
    }

    /// Makes a pending message due at another instant.
    pub async fn reschedule(&self, id: MessageId, due_at: Timestamp) -> Result<CommandResult> {
        self.command(Command::Reschedule { id, due_at }, id, "reschedule").await
    }

    /// Changes the queue or the priority of a pending message.
    ///
    /// A message in an internal queue, which serves a transport or a group, stays there: only its priority can
    /// be changed.
    pub async fn reassign(&self, id: MessageId, to: Assignment) -> Result<CommandResult> {
        if to.is_empty() {
            return Err(Error::invalid("the change is empty; give a queue or a priority"));
        }
        if let Some(queue) = &to.queue {
            let record = self.inspect.message(id).await?;
            let queues = [Some(queue), record.as_ref().map(|record| &record.message.queue)];
            if let Some(queue) = queues.into_iter().flatten().find(|queue| queue.is_reserved()) {
                return Err(Error::invalid(format!(
                    "the queue {queue:?} is internal to Punctual: messages cannot be moved into it or out of \
                     it; change only the priority"
                )));
            }
        }
        self.command(Command::Reassign { id, to }, id, "reassign").await
    }

    /// Deletes a message that is not running, with its history.
    pub async fn delete(&self, id: MessageId) -> Result<CommandResult> {
        self.command(Command::Delete(id), id, "delete").await
    }

    async fn command(
        &self,
        command: Command,
        id: MessageId,
        name: &'static str,
    ) -> Result<CommandResult> {
        let result = self.process.env.storage.command(command, self.process.now()).await?;
        if matches!(result, CommandResult::Applied(_) | CommandResult::Requested) {
            self.process.env.events.emit(Event::MessageChanged { message: id, command: name });
        }
        Ok(result)
    }

    /// Deletes up to `limit` finished messages and up to `limit` executions that ended longer ago than
    /// `older_than`. Dead letters are deleted only with `dead`.
    pub async fn purge(
        &self,
        older_than: Duration,
        limit: usize,
        dead: bool,
    ) -> Result<PruneResult> {
        let now = self.process.now();
        self.process
            .env
            .storage
            .prune(Prune { before: subtract(now, older_than), limit, dead }, now)
            .await
    }
}

fn busy(name: &str) -> Error {
    Error::unavailable(format!("the job {name:?} kept changing; try again"))
}
