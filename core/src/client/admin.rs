//! The operator's view: look at jobs, messages and history; trigger, pause, resume, cancel, redrive.
//! Every change is a compare-and-set or a command that the storage answers; nothing is forced. Declarations,
//! edits, moves of the cursor, backfills, commands by filter, status and health are in files of their own.

mod backfill;
mod declaring;
mod editing;
mod health;
mod moving;
mod status;
mod sweeping;
mod unhandled;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use backfill::{Backfill, BackfillOrder, BackfillResult, BackfillSelection, OCCURRENCES_MAX};
pub use declaring::DeclaredJobs;
pub use sweeping::{BulkResult, MatchCount, SWEEP_MAX};

use crate::clock::{subtract, whole_microseconds};
use crate::compression::opened;
use crate::engine::{Process, occurrence_message, resume};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::{Counts, ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult};
use crate::model::{
    Assignment, BatchId, Body, Execution, ExecutionId, JobCommand, JobName, JobRecord, Message,
    MessageId, MessageRecord, MessageState, Source,
};
use crate::policy::{Overlap, PlannedOccurrence, admit};
use crate::storage::{
    Command, CommandResult, FireResult, Firing, JobCommandResult, Prune, PruneResult,
};

/// How long a storage may take to say how all jobs are.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a change is tried again when others write at the same time.
const TRIES_MAX: usize = 10;

/// Looks and steers. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    process: Arc<Process>,
}

/// Who pauses a job, why, and until when.
#[derive(Clone, Debug)]
pub struct PauseRequest {
    /// Who asks.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When it ends by itself; none means never.
    pub until: Option<Timestamp>,
}

/// How a job is run by hand.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    /// Runs it beside what is alive, whatever its overlap policy says. Default no.
    pub ignore_overlap: bool,
    /// What its handler receives this once. Default what the job says.
    pub body: Option<Body>,
    /// The identity of its message, so that triggering twice with the same one runs it once. Default a new one.
    pub id: Option<MessageId>,
}

/// What triggering a job came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerResult {
    /// It runs as this message.
    Started(MessageId),
    /// It runs as this message, although the job is paused: its schedule still fires nothing.
    StartedWhilePaused(MessageId),
    /// It does not run: so many of its messages are alive and its overlap policy says no.
    Overlapping(u32),
}

impl TriggerResult {
    /// The message it runs as; none when it does not run.
    pub fn message(self) -> Option<MessageId> {
        match self {
            Self::Started(id) | Self::StartedWhilePaused(id) => Some(id),
            Self::Overlapping(_) => None,
        }
    }
}

impl Admin {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// Every job, by name.
    pub async fn jobs(&self) -> Result<Vec<JobRecord>> {
        self.process.inspect.jobs(JobFilter::default()).await
    }

    /// One job.
    pub async fn job(&self, name: impl AsRef<str>) -> Result<JobRecord> {
        let name = JobName::new(name)?;
        self.process.inspect.job(&name).await?.ok_or_else(|| {
            Error::not_found(format!("there is no job {name:?}; jobs() lists what there is"))
        })
    }

    /// What happened to a job, newest first.
    pub async fn history(
        &self,
        job: impl AsRef<str>,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        let filter =
            ExecutionFilter { job: Some(JobName::new(job)?), ..ExecutionFilter::default() };
        self.process.inspect.executions(filter, page).await
    }

    /// Executions that match, newest first.
    pub async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.process.inspect.executions(filter, page).await
    }

    /// Messages that match, newest first.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        let mut paged = self.process.inspect.messages(filter, page).await?;
        let payload_max = self.process.options.payload_max;
        paged.rows = paged.rows.into_iter().map(|row| opened(row, payload_max)).collect();
        Ok(paged)
    }

    /// One message.
    pub async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        let record = self.process.inspect.message(id).await?;
        Ok(record.map(|record| opened(record, self.process.options.payload_max)))
    }

    /// Messages that were given up, newest first.
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

    /// How many messages wait, run and failed. Reading changes nothing.
    pub async fn counts(&self) -> Result<Counts> {
        self.process.inspect.counts(self.process.now()).await
    }

    /// The same for those who look often: large numbers may be estimates.
    pub async fn estimate(&self) -> Result<Counts> {
        self.process.inspect.estimate(self.process.now()).await
    }

    /// Runs a job now, also a paused one, and says when it is paused. Its schedule is left alone; its
    /// overlap policy is respected unless told otherwise.
    pub async fn trigger(
        &self,
        job: impl AsRef<str>,
        ignore_overlap: bool,
    ) -> Result<TriggerResult> {
        self.trigger_with(job, Trigger { ignore_overlap, ..Trigger::default() }).await
    }

    /// The same, with a body of its own.
    pub async fn trigger_with(
        &self,
        job: impl AsRef<str>,
        trigger: Trigger,
    ) -> Result<TriggerResult> {
        let (name, ignore_overlap) = (job.as_ref(), trigger.ignore_overlap);
        if let Some(body) = &trigger.body {
            body.check(self.process.options.payload_max)?;
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
            let made = occurrence_message(&self.process, &record.job, nominal, None, now);
            let message = Message {
                id: trigger.id.unwrap_or(made.id),
                source: Source::Manual,
                exclusive: !ignore_overlap && !matches!(record.job.overlap, Overlap::Allow { .. }),
                body: trigger.body.clone().unwrap_or(made.body),
                ..made
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
            match self.process.storage.fire(vec![firing], now).await?.first() {
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

    /// Stops a job from firing; what runs goes on.
    pub async fn pause(&self, job: impl AsRef<str>, request: PauseRequest) -> Result<JobRecord> {
        let PauseRequest { by, reason, until } = request;
        self.steer(job.as_ref(), JobCommand::Pause { by, reason, until }, "paused").await
    }

    /// Lets a job fire again, from the next occurrence on; what was due meanwhile is not made up for.
    pub async fn resume(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            if record.paused.is_none() {
                return Ok(record);
            }
            let now = self.process.now();
            // A firing and not only a change, because it also records what the pause has skipped.
            let decision = resume(&self.process, &record, now);
            let answers = self.process.storage.fire(vec![decision.firing.clone()], now).await?;
            if answers.first() == Some(&FireResult::Fired) {
                decision.tell(&self.process);
                self.process
                    .events
                    .emit(Event::JobSteered { job: record.job.name, change: "resumed" });
                return self.job(name).await;
            }
        }
        Err(busy(name))
    }

    async fn steer(
        &self,
        name: &str,
        steer: JobCommand,
        change: &'static str,
    ) -> Result<JobRecord> {
        self.change(name, change, |_, _| Ok(steer.clone())).await
    }

    /// Changes a job by what its record says, again when somebody else was first.
    async fn change(
        &self,
        name: &str,
        change: &'static str,
        decide: impl Fn(&JobRecord, Timestamp) -> Result<JobCommand>,
    ) -> Result<JobRecord> {
        let changed = self.change_if(name, change, |_| true, decide).await?;
        changed.ok_or_else(|| busy(name))
    }

    /// The same as long as the record is as it should be; nothing otherwise. It is asked about the very
    /// record that is replaced, since the storage compares its version with the write.
    async fn change_if(
        &self,
        name: &str,
        change: &'static str,
        is_right: impl Fn(&JobRecord) -> bool,
        decide: impl Fn(&JobRecord, Timestamp) -> Result<JobCommand>,
    ) -> Result<Option<JobRecord>> {
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            if !is_right(&record) {
                return Ok(None);
            }
            let now = self.process.now();
            let steer = decide(&record, now)?;
            match self
                .process
                .storage
                .command_job(&record.job.name, steer, record.version, now)
                .await?
            {
                JobCommandResult::Applied(record) => {
                    self.process
                        .events
                        .emit(Event::JobSteered { job: record.job.name.clone(), change });
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

    /// Removes a job with its history and all its messages that are not running. One that is declared in
    /// code comes back, as new, when it is declared again.
    pub async fn delete_job(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        let name = job.as_ref();
        self.delete_job_if(name, |_| true).await?.ok_or_else(|| busy(name))
    }

    /// The same if the job is as it was seen, which is asked about the very record that goes; answers
    /// nothing, and removes nothing, when it is not.
    pub async fn delete_job_if(
        &self,
        job: impl AsRef<str>,
        is_as_seen: impl Fn(&JobRecord) -> bool,
    ) -> Result<Option<JobRecord>> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            if !is_as_seen(&record) {
                return Ok(None);
            }
            let (job, now) = (&record.job.name, self.process.now());
            match self.process.storage.remove_job(job, record.version, now).await? {
                JobCommandResult::Applied(record) => {
                    let (job, change) = (record.job.name.clone(), "deleted");
                    self.process.events.emit(Event::JobSteered { job, change });
                    return Ok(Some(*record));
                }
                JobCommandResult::Raced | JobCommandResult::Unknown => {}
            }
        }
        Err(busy(name))
    }

    /// What became of a batch: how many of its messages are in each state.
    pub async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.process.inspect.batch(batch).await
    }

    /// Stops a message: a pending one at once, a running one by asking its handler.
    pub async fn cancel(&self, id: MessageId) -> Result<CommandResult> {
        self.command(Command::Cancel(id), id, "cancel").await
    }

    /// Sends a finished message again, at once; its attempts start anew.
    pub async fn redrive(&self, id: MessageId) -> Result<CommandResult> {
        let due_at = self.process.now();
        self.command(Command::Redrive { id, due_at }, id, "redrive").await
    }

    /// Makes a pending message due at another instant.
    pub async fn reschedule(&self, id: MessageId, due_at: Timestamp) -> Result<CommandResult> {
        self.command(Command::Reschedule { id, due_at }, id, "reschedule").await
    }

    /// Puts a pending message into another queue, or makes it more or less urgent.
    ///
    /// What waits in a line of the engine's own, for a transport or for a group, belongs there: of that only
    /// the priority can be changed.
    pub async fn reassign(&self, id: MessageId, to: Assignment) -> Result<CommandResult> {
        if to.is_empty() {
            return Err(Error::invalid("nothing says what to change; give a queue or a priority"));
        }
        if let Some(queue) = &to.queue {
            let record = self.process.inspect.message(id).await?;
            let lines = [Some(queue), record.as_ref().map(|record| &record.message.queue)];
            if let Some(line) = lines.into_iter().flatten().find(|line| line.is_reserved()) {
                return Err(Error::invalid(format!(
                    "the queue {line:?} is a line of the engine's own: nothing is put into it or taken from \
                     it by hand; change the priority alone"
                )));
            }
        }
        self.command(Command::Reassign { id, to }, id, "reassign").await
    }

    /// Removes a message that is not running, without a trace.
    pub async fn delete(&self, id: MessageId) -> Result<CommandResult> {
        self.command(Command::Delete(id), id, "delete").await
    }

    async fn command(
        &self,
        command: Command,
        id: MessageId,
        name: &'static str,
    ) -> Result<CommandResult> {
        let answer = self.process.storage.command(command, self.process.now()).await?;
        if matches!(answer, CommandResult::Applied(_) | CommandResult::Requested) {
            self.process.events.emit(Event::MessageCommanded { message: id, command: name });
        }
        Ok(answer)
    }

    /// Deletes finished messages and executions that ended longer ago than this, at most `limit` of
    /// each. Dead letters stay unless asked for.
    pub async fn purge(
        &self,
        older_than: Duration,
        limit: usize,
        dead: bool,
    ) -> Result<PruneResult> {
        let now = self.process.now();
        self.process
            .storage
            .prune(Prune { before: subtract(now, older_than), limit, dead }, now)
            .await
    }
}

fn busy(name: &str) -> Error {
    Error::unavailable(format!("the job {name:?} kept changing; try again"))
}
