//! Asking how this process is. It only reads, and it is answered also when the storage is not.

use super::{Admin, PATIENCE};
use crate::clock::{Clock, add, between, within};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::health::{Findings, Health};
use crate::inspect::Counts;
use crate::model::{JobRecord, State};
use crate::storage::Line;

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
            Ok((latency, counts, late as u64))
        };
        let answer = within(clock, add(begun, PATIENCE), asked).await.unwrap_or_else(no_answer);
        let (storage, counts, late) = match answer {
            Ok((latency, counts, late)) => (Ok(latency), counts, late),
            Err(error) => (Err(error.to_string()), Counts::default(), 0),
        };
        // What belongs to no job here may be somebody else's; a job with a wrong cron text is ours.
        let misconfigured = process.misconfigured.iter().filter(|wrong| wrong.job.is_some());
        let findings = Findings {
            storage,
            stale: counts.stale,
            dead: counts.total(State::Dead),
            pending: counts.total(State::Pending),
            late,
            misconfigured: misconfigured.map(|wrong| wrong.problem.clone()).collect(),
            services: process.turns.all(),
            poll_interval: process.options.poll_interval,
        };
        Health::judge(&findings, clock.now())
    }
}

pub(super) fn no_answer<T>() -> Result<T> {
    Err(Error::unavailable(format!("no answer within {} s", PATIENCE.as_secs())))
}

/// Whether the next occurrence is overdue by more than the job's misfire threshold, or its default.
fn is_late(process: &Process, record: &JobRecord) -> bool {
    let threshold = record.job.misfire.threshold_max(process.options.misfire_threshold);
    let active = record.paused.is_none() && record.retired.is_none();
    active && record.cursor.is_some_and(|cursor| between(cursor, process.now()) > threshold)
}
