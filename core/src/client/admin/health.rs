//! Asking how this process is. It only reads, and it is answered also when the storage is not.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Admin;
use super::unhandled::unhandled;
use crate::clock::{Clock, add, between, within};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::health::{Findings, Health, Known, UNWORKED_AFTER};
use crate::inspect::Counts;
use crate::model::{JobRecord, MessageState, Queue};
use crate::storage::WakeSource;

/// How long the storage may take. Pages wait five seconds for the whole answer, and have to get it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most queues without a worker that are looked for.
const UNWORKED_MAX: usize = 32;
/// The most overdue jobs that are looked at; more are counted as so many.
const LATE_MAX: usize = 1_000;

impl Admin {
    /// How this process is. Asks the storage, changes nothing, and returns within two seconds also
    /// when the storage does not.
    pub async fn health(&self) -> Health {
        self.health_with(&Known::default()).await
    }

    /// The same with what the caller knows already.
    pub async fn health_with(&self, known: &Known) -> Health {
        let process = &*self.process;
        let clock: &dyn Clock = &*process.clock;
        let begun = clock.now();
        let asked = async {
            process.storage.next_due_all(&[WakeSource::Jobs]).await?;
            let latency = between(begun, clock.now());
            let now = clock.now();
            let counts = match &known.counts {
                Some(counts) => counts.clone(),
                None => Arc::new(process.inspect.estimate(now).await?),
            };
            let due = process.storage.due_jobs(LATE_MAX, now).await?;
            let late = due.iter().filter(|due| is_late(process, &due.record)).count();
            let unworked = unworked(process, &counts, now).await?;
            let unhandled = unhandled(process, &counts, known.handled.as_deref(), now).await?;
            Ok((latency, counts, late as u64, (unworked, unhandled)))
        };
        let answer = within(clock, add(begun, TIMEOUT), asked).await;
        let answer = answer.unwrap_or_else(|| no_answer(TIMEOUT));
        let (storage, counts, late, (unworked, unhandled)) = match answer {
            Ok((latency, counts, late, waiting)) => (Ok(latency), counts, late, waiting),
            Err(error) => (Err(error.to_string()), Arc::default(), 0, Default::default()),
        };
        // What belongs to no job here may be somebody else's; a job with a wrong cron text is ours.
        let misconfigured = process.misconfigured.list();
        let misconfigured = misconfigured.into_iter().filter(|wrong| wrong.job.is_some());
        let findings = Findings {
            storage,
            stale: counts.stale,
            dead: counts.total(MessageState::Dead),
            pending: counts.total(MessageState::Pending),
            late,
            misconfigured: misconfigured.map(|wrong| wrong.problem).collect(),
            unworked,
            unhandled,
            lifecycle: process.lifecycle(),
            services: process.turns.all(),
            poll_interval: process.options.poll_interval,
        };
        Health::judge(&findings, clock.now())
    }
}

pub(super) fn no_answer<T>(timeout: Duration) -> Result<T> {
    Err(Error::unavailable(format!("no answer within {} s", timeout.as_secs())))
}

/// The queues whose due messages wait while nothing of them is handled anywhere and this process does not
/// work on them; at most [`UNWORKED_MAX`] are looked at.
async fn unworked(process: &Process, counts: &Counts, now: Timestamp) -> Result<Vec<String>> {
    let count = |queue: &Queue, state| counts.messages.get(&(queue.clone(), state)).copied();
    let waits = |queue: &&Queue| {
        !queue.is_relay()
            && !process.queues.serves(queue)
            && count(queue, MessageState::Running).unwrap_or(0) == 0
    };
    let pending = counts
        .messages
        .iter()
        .filter(|((_, state), count)| *state == MessageState::Pending && **count > 0);
    let queues: Vec<&Queue> =
        pending.map(|((queue, _), _)| queue).filter(waits).take(UNWORKED_MAX).collect();
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let lines: Vec<WakeSource> =
        queues.iter().map(|queue| WakeSource::Queue((*queue).clone())).collect();
    let due = process.storage.next_due_all(&lines).await?;
    let is_late =
        |due: Option<Timestamp>| due.is_some_and(|due| between(due, now) > UNWORKED_AFTER);
    let late = queues.iter().zip(due).filter(|(_, due)| is_late(*due));
    Ok(late.map(|(queue, _)| queue.to_string()).collect())
}

/// Whether the next occurrence is overdue by more than the misfire threshold in force.
fn is_late(process: &Process, record: &JobRecord) -> bool {
    let active = record.paused.is_none() && record.retired.is_none();
    let threshold = || record.misfire_threshold(process.options.misfire_threshold).length;
    active && record.cursor.is_some_and(|cursor| between(cursor, process.now()) > threshold())
}
