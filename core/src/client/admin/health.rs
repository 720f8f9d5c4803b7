//! Health check of this process. It only reads, and returns also while the storage does not respond.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Admin;
use super::unhandled::unhandled;
use crate::clock::{Clock, within};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::health::{Findings, Health, KnownFacts, UNSERVED_AFTER};
use crate::inspect::Counts;
use crate::model::time::{add, between};
use crate::model::{JobRecord, MessageState, Queue};
use crate::storage::WakeSource;

/// Timeout of the storage. Dashboard pages time out after five seconds and must get the result before.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The most queues that are checked for a worker.
const UNSERVED_MAX: usize = 32;
/// The most overdue jobs that are read; the count stops there.
const LATE_MAX: usize = 1_000;

impl Admin {
    /// Returns the health of this process. Reads from the storage, changes nothing, and returns within two
    /// seconds also while the storage does not respond.
    pub async fn health(&self) -> Health {
        self.health_with(&KnownFacts::default()).await
    }

    /// Returns the health like [`Admin::health`], from facts that the caller already has.
    pub async fn health_with(&self, known: &KnownFacts) -> Health {
        let process = &*self.process;
        let clock: &dyn Clock = &*process.env.clock;
        let begun = clock.now();
        let check = async {
            process.env.storage.next_due_all(&[WakeSource::Jobs]).await?;
            let latency = between(begun, clock.now());
            let now = clock.now();
            let counts = match &known.counts {
                Some(counts) => counts.clone(),
                None => Arc::new(process.env.inspect.estimate(now).await?),
            };
            let due = process.env.storage.due_jobs(LATE_MAX, now).await?;
            let late = due.iter().filter(|due| is_late(process, &due.record)).count();
            let unserved = unserved(process, &counts, now).await?;
            let unhandled = unhandled(process, &counts, known.handled.as_deref(), now).await?;
            Ok((latency, counts, late as u64, (unserved, unhandled)))
        };
        let result = within(clock, add(begun, TIMEOUT), check).await;
        let result = result.unwrap_or_else(|| timed_out(TIMEOUT));
        let (storage, counts, late, (unserved, unhandled)) = match result {
            Ok((latency, counts, late, waiting)) => (Ok(latency), counts, late, waiting),
            Err(error) => (Err(error.to_string()), Arc::default(), 0, Default::default()),
        };
        // A problem without a job of this process may concern a job of another one.
        let misconfigured = process.declared.misconfigured.list();
        let misconfigured = misconfigured.into_iter().filter(|wrong| wrong.job.is_some());
        let findings = Findings {
            storage,
            stale: counts.stale,
            dead: counts.total(MessageState::Dead),
            pending: counts.total(MessageState::Pending),
            late,
            misconfigured: misconfigured.map(|wrong| wrong.problem).collect(),
            unserved,
            unhandled,
            lifecycle: process.env.stop.lifecycle(),
            services: process.turns.all(),
            poll_interval: process.env.options.poll_interval,
        };
        Health::evaluate(&findings, clock.now())
    }
}

pub(super) fn timed_out<T>(timeout: Duration) -> Result<T> {
    Err(Error::unavailable(format!("no response within {} s", timeout.as_secs())))
}

/// Returns the queues with late messages of which none is handled, and on which this process does not work;
/// checks up to [`UNSERVED_MAX`] queues.
async fn unserved(process: &Process, counts: &Counts, now: Timestamp) -> Result<Vec<String>> {
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
        pending.map(|((queue, _), _)| queue).filter(waits).take(UNSERVED_MAX).collect();
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let sources: Vec<WakeSource> =
        queues.iter().map(|queue| WakeSource::Queue((*queue).clone())).collect();
    let due = process.env.storage.next_due_all(&sources).await?;
    let is_late =
        |due: Option<Timestamp>| due.is_some_and(|due| between(due, now) > UNSERVED_AFTER);
    let late = queues.iter().zip(due).filter(|(_, due)| is_late(*due));
    Ok(late.map(|(queue, _)| queue.to_string()).collect())
}

/// Returns whether the next occurrence is overdue by more than the misfire threshold in force.
fn is_late(process: &Process, record: &JobRecord) -> bool {
    let active = record.paused.is_none() && record.retired.is_none();
    let threshold = || record.misfire_threshold(process.env.options.misfire_threshold).duration;
    active && record.cursor.is_some_and(|cursor| between(cursor, process.now()) > threshold())
}
