//! Scheduler: turns due jobs into messages. Every process may try; the storage accepts one. A turn reads the
//! jobs whose cursor is due, applies the misfire and overlap policies to every occurrence up to now, and
//! writes messages, skipped executions and the new cursor in one step.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::reconciler::Reconciler;
use super::{Process, Service, Turn, ensure_alive};
use crate::error::Result;
use crate::event::Event;
use crate::model::time::add;
use crate::model::{
    Correlation, Ending, Execution, Headers, Job, JobRecord, Key, Limit, Message, MisfireFacts,
    Occurrence, Overlap, Relations, Retirement, SkipReason, Source, skip_note,
};
use crate::policy::{
    self, COUNT_MAX, JobDecision, Plan, PlannedOccurrence, Skip, at_once_max, cursor_after_pause,
};
use crate::storage::{DueJob, FireResult, Firing, WakeSource};

/// Largest number of decisions about a firing in one turn when runs overlap meanwhile.
const ROUNDS_MAX: usize = 3;

/// Service that turns due jobs into messages.
pub(crate) struct Scheduler {
    process: Arc<Process>,
    reconciler: Reconciler,
    /// Occurrences missed before the start; none once they are decided and reported.
    missed_at_start: Option<MissedCount>,
}

/// Number of missed occurrences, and of the jobs they belong to.
#[derive(Default)]
struct MissedCount {
    jobs: u64,
    occurrences: u64,
}

impl Scheduler {
    /// Creates a scheduler. Until its first round is over, this process claims no message.
    pub(crate) fn new(process: Arc<Process>, reconciler: Reconciler) -> Self {
        process.queues.block_claims(process.now());
        Self { process, reconciler, missed_at_start: Some(MissedCount::default()) }
    }

    /// Fires a batch; a firing that overlaps is decided again with the number of alive runs that the storage
    /// counted. Returns whether a job is still due: one whose pause ended before missed occurrences.
    async fn fire(&mut self, mut due: Vec<DueJob>, now: Timestamp) -> Result<bool> {
        let mut is_still_due = false;
        for _ in 0..ROUNDS_MAX {
            if due.is_empty() {
                break;
            }
            let decisions: Vec<Decision> =
                due.iter().map(|job| decide(&self.process, job, now)).collect();
            let firings = decisions.iter().map(|decision| decision.firing.clone()).collect();
            let results = self.process.env.storage.fire(firings, now).await?;
            let mut overlapping = Vec::new();
            for ((job, decision), result) in due.into_iter().zip(&decisions).zip(results) {
                match result {
                    FireResult::Fired => {
                        decision.report(&self.process);
                        self.count_missed(&decision.plan);
                        is_still_due |= decision.leaves_due_occurrences(&job.record, now);
                    }
                    FireResult::AlreadyMoved => {}
                    FireResult::Overlapping(alive) => overlapping.push(DueJob { alive, ..job }),
                }
            }
            due = overlapping;
        }
        Ok(is_still_due)
    }

    fn count_missed(&mut self, plan: &Plan) {
        if let Some(missed) = &mut self.missed_at_start
            && plan.missed_count > 0
        {
            missed.jobs += 1;
            missed.occurrences += plan.missed_count;
        }
    }

    /// Emits the number of missed occurrences, once, when everything due at the start is decided.
    fn report_missed_at_start(&mut self) {
        if let Some(MissedCount { jobs, occurrences }) = self.missed_at_start.take()
            && jobs > 0
        {
            self.process.env.events.emit(Event::MisfiresFound { jobs, missed: occurrences });
        }
    }
}

#[async_trait]
impl Service for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        let now = ensure_alive(&self.process, now).await?;
        self.reconciler.reconcile(now).await?;
        let limit = self.process.env.options.batch_max;
        let due = self.process.env.storage.due_jobs(limit, now).await?;
        let more = due.len() == limit;
        let is_still_due = self.fire(due, now).await?;
        if more || is_still_due {
            return Ok(Turn::Again);
        }
        self.report_missed_at_start();
        self.process.queues.unblock_claims();
        let next = self.process.env.storage.next_due(&WakeSource::Jobs).await?;
        Ok(next.map_or(Turn::WhenWoken, Turn::At))
    }
}

/// Decision about one job.
pub(crate) struct Decision {
    pub(crate) firing: Firing,
    pub(super) plan: Plan,
}

/// Decides about every occurrence of a job from its cursor up to now.
fn decide(process: &Process, due: &DueJob, now: Timestamp) -> Decision {
    let record = &due.record;
    let job = &record.job;
    if record.paused.is_some() {
        // Occurrences due after the end of the pause are decided in the next round.
        return resume(process, record, now);
    }
    // A due job always has a cursor; without one, planning from now decides nothing and sets it.
    let cursor = record.cursor.unwrap_or(now);
    let threshold = process.env.options.misfire_threshold;
    let JobDecision { plan, alive_max, cancel_alive } =
        policy::decide(record, cursor, due.alive, threshold, now);
    let messages: Vec<Arc<Message>> =
        fired_messages(process, job, &plan.fire, now).into_iter().map(Arc::new).collect();

    let mut after = record.clone();
    after.runs += messages.len() as u64;
    after.last_nominal = plan.last_nominal.or(record.last_nominal);
    after.cursor = plan.cursor;
    if let Some(schedule) = &plan.schedule {
        after.job.schedule = schedule.clone();
    }
    if after.cursor.is_none() {
        after.retired = Some(Retirement::Finished);
    }
    forget_skips(&mut after);
    let skipped = skipped(process, job, &plan.skipped, now);
    let firing = firing(record, after, messages, skipped, now);
    Decision { firing: Firing { alive_max, cancel_alive, ..firing }, plan }
}

/// Returns the decision that ends a pause, by its own end or by an operator: occurrences due meanwhile are
/// skipped, the next one fires normally. A pause with an end is over at that instant, whenever a process
/// handles it: the misfire policy decides about occurrences due after it.
pub(crate) fn resume(process: &Process, record: &JobRecord, now: Timestamp) -> Decision {
    let job = &record.job;
    let until = record.paused.as_ref().and_then(|pause| pause.until);
    let end = until.map_or(now, |until| until.min(now));
    let mut after = record.clone();
    after.paused = None;
    after.cursor = cursor_after_pause(record, end);
    let skips: Vec<Skip> = paused_over(record, after.cursor, end).into_iter().collect();
    after.last_nominal = skips.last().map(|skip| skip.nominal).or(record.last_nominal);
    if after.cursor.is_none() && after.retired.is_none() {
        after.retired = Some(Retirement::Finished);
    }
    let firing = firing(record, after, Vec::new(), skipped(process, job, &skips, now), now);
    Decision { firing, plan: Plan { skipped: skips, ..Plan::default() } }
}

/// Returns the occurrences due during a pause, up to its end, as one entry with a count.
fn paused_over(record: &JobRecord, cursor: Option<Timestamp>, end: Timestamp) -> Option<Skip> {
    let first = record.cursor.filter(|first| Some(*first) != cursor)?;
    let schedule = &record.job.schedule;
    let nominal = schedule.prev(add(end, Duration::from_nanos(1))).filter(|last| *last >= first)?;
    let later = schedule.count(first, nominal, COUNT_MAX);
    Some(Skip {
        nominal,
        first,
        count: 1 + later,
        more: later == COUNT_MAX,
        reason: SkipReason::Paused,
    })
}

pub(super) fn firing(
    record: &JobRecord,
    mut after: JobRecord,
    messages: Vec<Arc<Message>>,
    skipped: Vec<Execution>,
    now: Timestamp,
) -> Firing {
    after.updated_at = now;
    after.version = record.version + 1;
    Firing {
        job: record.job.name.clone(),
        seen: record.version,
        messages,
        skipped,
        alive_max: None,
        cancel_alive: false,
        after: Box::new(after),
    }
}

/// Removes requested skips that are behind the cursor.
pub(super) fn forget_skips(record: &mut JobRecord) {
    let skips = &mut record.overrides.skips;
    *skips = record.cursor.map(|cursor| skips.split_off(&cursor)).unwrap_or_default();
}

/// Returns the messages of the occurrences that fire, in the order in which they run: none is due before an
/// older one of the same decision, and several run one after another unless the job lets them overlap.
fn fired_messages(
    process: &Process,
    job: &Job,
    fire: &[PlannedOccurrence],
    now: Timestamp,
) -> Vec<Message> {
    let makes_up = fire.iter().any(|planned| planned.misfire.is_some());
    let late_limit = late_run_limit(job).filter(|_| fire.len() > 1);
    let message = |planned: &PlannedOccurrence| {
        let mut message =
            occurrence_message(process, job, planned.nominal, planned.misfire.clone(), now);
        message.dedupe = Some(Occurrence::identity(&job.name, planned.nominal));
        if planned.misfire.is_none() {
            let next = job.schedule.next(planned.nominal);
            let spread = job.spread.offset(job.name.as_str(), planned.nominal, next);
            let due_at = add(planned.nominal, spread);
            message.due_at = if makes_up { due_at.max(now) } else { due_at };
        }
        match &late_limit {
            Some(LateRunLimit::Exclusive) => message.exclusive = true,
            Some(LateRunLimit::Shared(limit)) => {
                message.relations = Some(Arc::new(Relations {
                    limit: Some(limit.clone()),
                    ..Relations::default()
                }));
            }
            None => {}
        }
        message
    };
    fire.iter().map(message).collect()
}

/// Limit that keeps late runs of a job that allows overlaps from starting together.
enum LateRunLimit {
    /// Each waits until no run of the job is active.
    Exclusive,
    /// They share a limit of their own, beside which other runs of the job may start.
    Shared(Limit),
}

/// Returns the limit for several runs of one decision; `None` where the overlap policy limits them already,
/// or where the job lets them overlap.
fn late_run_limit(job: &Job) -> Option<LateRunLimit> {
    if !matches!(job.overlap, Overlap::Allow { .. }) {
        return None;
    }
    let most = at_once_max(job.overlap, job.misfire.policy_in_force())?;
    // A message has one limit; where the job has its own, the runs wait for each other instead.
    let name = Key::new(format!("late runs of {}", job.name)).ok().filter(|_| job.limit.is_none());
    Some(match name {
        Some(name) => LateRunLimit::Shared(Limit { name, running_max: Some(most), rate: None }),
        None => LateRunLimit::Exclusive,
    })
}

/// Returns the message of an occurrence: due at once, with the job's body and options.
pub(crate) fn occurrence_message(
    process: &Process,
    job: &Job,
    nominal: Timestamp,
    misfire: Option<MisfireFacts>,
    now: Timestamp,
) -> Message {
    let occurrence = Occurrence {
        job: job.name.clone(),
        nominal,
        schedule: Some(job.schedule.to_string()),
        misfire,
    };
    Message {
        id: process.env.message_id(now),
        topic: job.topic.clone(),
        queue: job.queue.clone(),
        priority: job.priority,
        due_at: now,
        created_at: now,
        source: Source::Scheduled,
        key: None,
        dedupe: None,
        exclusive: !matches!(job.overlap, Overlap::Allow { .. }),
        body: job.body.clone(),
        headers: Headers::new(),
        correlation: Correlation::default(),
        occurrence: Some(occurrence),
        handler_options: Some(job.handler_options.clone()),
        relations: job
            .limit
            .clone()
            .map(|limit| Arc::new(Relations { limit: Some(limit), ..Relations::default() })),
        route: None,
    }
}

/// Returns the executions of skipped occurrences, so that every nominal time is in the history.
pub(super) fn skipped(
    process: &Process,
    job: &Job,
    skips: &[Skip],
    now: Timestamp,
) -> Vec<Execution> {
    let attempts_max = process.options_of_job(job).retry.attempts_max;
    let execution = |skip: &Skip| Execution {
        id: process.env.execution_id(now),
        message: None,
        topic: job.topic.clone(),
        queue: job.queue.clone(),
        key: None,
        job: Some(job.name.clone()),
        nominal: Some(skip.nominal),
        source: Source::Scheduled,
        attempt: 0,
        attempts_max,
        process: Some(process.env.id),
        due_at: skip.nominal,
        started_at: now,
        ended_at: now,
        ending: Ending::Skipped(skip.reason),
        note: (skip.count > 1)
            .then(|| Arc::from(skip_note(skip.count, skip.more, skip.first, skip.nominal))),
        log: None,
    };
    skips.iter().map(execution).collect()
}

impl Decision {
    /// Returns whether it ended a pause before occurrences that are due by now.
    fn leaves_due_occurrences(&self, before: &JobRecord, now: Timestamp) -> bool {
        let after = &self.firing.after;
        before.paused.is_some()
            && after.retired.is_none()
            && after.cursor.is_some_and(|cursor| cursor <= now)
    }

    /// Emits the events of the decision, once it is stored.
    pub(crate) fn report(&self, process: &Process) {
        let record = &self.firing.after;
        let job = &record.job.name;
        if self.plan.missed_count > 0 {
            process.env.events.emit(Event::JobMisfired {
                job: job.clone(),
                missed: self.plan.missed_count,
                policy: record.job.misfire.policy_in_force(),
                threshold: self.plan.threshold,
                cursor: record.cursor,
            });
        }
        for skip in &self.plan.skipped {
            process.env.events.emit(Event::JobSkipped {
                job: job.clone(),
                nominal: skip.nominal,
                count: skip.count,
                reason: skip.reason,
            });
        }
        for message in &self.firing.messages {
            let nominal =
                message.occurrence.as_ref().map_or(message.due_at, |occurrence| occurrence.nominal);
            process.env.events.emit(Event::JobFired {
                job: job.clone(),
                nominal,
                message: message.id,
            });
        }
        if record.retired.is_some() {
            process.env.events.emit(Event::JobRetired { job: job.clone(), reason: "finished" });
        }
    }
}
