//! Asking how this process is. It only reads, and it is answered also when the storage is not.

use jiff::Timestamp;

use super::{Admin, PATIENCE};
use crate::clock::{Clock, add, between, within};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::health::{Findings, Health, UNWORKED_AFTER};
use crate::inspect::Counts;
use crate::model::{JobRecord, Queue, State};
use crate::storage::Line;

/// The most queues without a worker that are looked for.
const UNWORKED_MAX: usize = 32;
/// The most overdue jobs that are looked at; more are counted as so many.
const LATE_MAX: usize = 1_000;

impl Admin {
    /// How this process is. Asks the storage, changes nothing, and is answered within a few seconds
    /// also when the storage is not.
    pub async fn health(&self) -> Health {
        self.healthy(None).await
    }

    /// The same with counts that were asked for before, where counting costs much and is asked often.
    pub async fn health_with(&self, counts: &Counts) -> Health {
        self.healthy(Some(counts)).await
    }

    async fn healthy(&self, known: Option<&Counts>) -> Health {
        let process = &*self.process;
        let clock: &dyn Clock = &*process.clock;
        let begun = clock.now();
        let asked = async {
            process.storage.look(&[Line::Jobs]).await?;
            let latency = between(begun, clock.now());
            let now = clock.now();
            let counts = match known {
                Some(known) => known.clone(),
                None => process.inspect.estimate(now).await?,
            };
            let due = process.storage.due_jobs(LATE_MAX, now).await?;
            let late = due.iter().filter(|due| is_late(process, &due.record)).count();
            let unworked = unworked(process, &counts, now).await?;
            Ok((latency, counts, late as u64, unworked))
        };
        let answer = within(clock, add(begun, PATIENCE), asked).await.unwrap_or_else(no_answer);
        let (storage, counts, late, unworked) = match answer {
            Ok((latency, counts, late, unworked)) => (Ok(latency), counts, late, unworked),
            Err(error) => (Err(error.to_string()), Counts::default(), 0, Vec::new()),
        };
        // What belongs to no job here may be somebody else's; a job with a wrong cron text is ours.
        let misconfigured = process.misconfigured.list();
        let misconfigured = misconfigured.into_iter().filter(|wrong| wrong.job.is_some());
        let findings = Findings {
            storage,
            stale: counts.stale,
            dead: counts.total(State::Dead),
            pending: counts.total(State::Pending),
            late,
            misconfigured: misconfigured.map(|wrong| wrong.problem).collect(),
            unworked,
            lifecycle: process.lifecycle(),
            services: process.turns.all(),
            poll_interval: process.options.poll_interval,
        };
        Health::judge(&findings, clock.now())
    }
}

pub(super) fn no_answer<T>() -> Result<T> {
    Err(Error::unavailable(format!("no answer within {} s", PATIENCE.as_secs())))
}

/// The queues whose due messages wait while nothing of them is handled anywhere and this process does not
/// work on them; at most [`UNWORKED_MAX`] are looked at.
async fn unworked(process: &Process, counts: &Counts, now: Timestamp) -> Result<Vec<String>> {
    let count = |queue: &Queue, state| counts.messages.get(&(queue.clone(), state)).copied();
    let waits = |queue: &&Queue| {
        !queue.is_relay()
            && !process.queues.serves(queue)
            && count(queue, State::Running).unwrap_or(0) == 0
    };
    let pending = counts
        .messages
        .iter()
        .filter(|((_, state), count)| *state == State::Pending && **count > 0);
    let queues: Vec<&Queue> =
        pending.map(|((queue, _), _)| queue).filter(waits).take(UNWORKED_MAX).collect();
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let lines: Vec<Line> = queues.iter().map(|queue| Line::Queue((*queue).clone())).collect();
    let due = process.storage.look(&lines).await?;
    let is_late =
        |due: Option<Timestamp>| due.is_some_and(|due| between(due, now) > UNWORKED_AFTER);
    let late = queues.iter().zip(due).filter(|(_, due)| is_late(*due));
    Ok(late.map(|(queue, _)| queue.to_string()).collect())
}

/// Whether the next occurrence is overdue by more than the job's misfire threshold, or its default.
fn is_late(process: &Process, record: &JobRecord) -> bool {
    let threshold = record.job.misfire.threshold_max(process.options.misfire_threshold);
    let active = record.paused.is_none() && record.retired.is_none();
    active && record.cursor.is_some_and(|cursor| between(cursor, process.now()) > threshold)
}
