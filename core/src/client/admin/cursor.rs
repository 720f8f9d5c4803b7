//! Schedule cursor: skips one occurrence, or moves the cursor of a job forward or back. The history records
//! every skipped occurrence as skipped by an operator.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Admin, TRIES_MAX, busy};
use crate::analysis::passed_over;
use crate::engine::move_cursor;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::{JobCommand, JobRecord, Overrides, Retirement};
use crate::policy::upcoming;
use crate::storage::{FireResult, JobCommandResult};

/// The most occurrences of one job that may wait to be skipped.
const SKIPS_MAX: usize = 100;

impl Admin {
    /// Skips the next occurrence of a job and returns its nominal time. A second call skips the occurrence after
    /// it.
    pub async fn skip_next(&self, job: impl AsRef<str>) -> Result<Timestamp> {
        let record = Arc::new(self.job(job).await?);
        let shared = record.clone();
        let next = self.walk(move |walk| {
            upcoming(&shared, 1, |schedule, at| walk.next(schedule, at)).first().copied()
        });
        let Some(nominal) = next.await? else {
            return Err(not_firing(&record, "has no next occurrence to skip"));
        };
        // By its nominal time, so that the following one is not skipped when it fires meanwhile.
        self.skip(record.job.name.as_str(), nominal).await?;
        Ok(nominal)
    }

    /// Skips one future occurrence of a job.
    pub async fn skip(&self, job: impl AsRef<str>, nominal: Timestamp) -> Result<JobRecord> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            check_skip(&record, nominal)?;
            if record.overrides.skips.contains(&nominal) {
                return Ok(record);
            }
            let now = self.process.now();
            if record.cursor == Some(nominal) {
                if self.apply_move(&record, record.job.schedule.next(nominal), now).await? {
                    return self.job(name).await;
                }
                continue;
            }
            let mut skips = record.overrides.skips.clone();
            skips.insert(nominal);
            let command = JobCommand::Override {
                overrides: Box::new(Overrides { skips, ..record.overrides.clone() }),
                job: Box::new(record.job.clone()),
                cursor: record.cursor,
            };
            let result = self
                .process
                .env
                .storage
                .command_job(&record.job.name, command, record.version, now)
                .await?;
            if let JobCommandResult::Applied(record) = result {
                self.emit_change(&record, "skips one");
                return Ok(*record);
            }
        }
        Err(busy(name))
    }

    /// Moves a job's cursor to its first occurrence at or after an instant.
    ///
    /// When it moves forward, the occurrences between are skipped and recorded. When it moves back, they are
    /// decided again by the job's misfire policy, which replays the past without duplicating messages that
    /// are alive. To run chosen occurrences of the past without changing the schedule, use
    /// [`Admin::backfill`].
    pub async fn move_cursor(&self, job: impl AsRef<str>, to: Timestamp) -> Result<JobRecord> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            let cursor = check_move(&record, to)?;
            if record.cursor == Some(cursor) {
                return Ok(record);
            }
            if self.apply_move(&record, Some(cursor), self.process.now()).await? {
                return self.job(name).await;
            }
        }
        Err(busy(name))
    }

    /// Stores a move of a cursor; returns `false` when another process changed the job before.
    async fn apply_move(
        &self,
        record: &JobRecord,
        cursor: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool> {
        let passed = record.clone();
        let skips = self.walk(move |walk| passed_over(walk, &passed, cursor)).await?;
        let decision = move_cursor(&self.process, record, (cursor, skips), now);
        let results = self.process.env.storage.fire(vec![decision.firing.clone()], now).await?;
        let stored = results.first() == Some(&FireResult::Fired);
        if stored {
            decision.report(&self.process);
            self.emit_change(&decision.firing.after, "moved");
        }
        Ok(stored)
    }

    fn emit_change(&self, record: &JobRecord, change: &'static str) {
        self.process.env.events.emit(Event::JobChanged { job: record.job.name.clone(), change });
    }
}

/// Returns the first occurrence at or after an instant.
fn first_occurrence(record: &JobRecord, instant: Timestamp) -> Option<Timestamp> {
    let before = instant.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN);
    record.job.schedule.next(before)
}

fn check_skip(record: &JobRecord, nominal: Timestamp) -> Result<()> {
    let name = &record.job.name;
    let Some(cursor) = record.cursor.filter(|_| record.retired.is_none()) else {
        return Err(not_firing(record, "has no occurrence to skip"));
    };
    if nominal < cursor {
        return Err(Error::conflict(format!(
            "the occurrence {nominal} of the job {name:?} has already fired or been skipped; its next occurrence is {cursor}"
        )));
    }
    match first_occurrence(record, nominal) {
        Some(found) if found == nominal || nominal == cursor => {}
        found => {
            let hint = found.map(|found| format!("; the next one is {found}")).unwrap_or_default();
            return Err(Error::invalid(format!(
                "{nominal} is not an occurrence of the job {name:?}{hint}"
            )));
        }
    }
    let skips = &record.overrides.skips;
    if skips.len() >= SKIPS_MAX && !skips.contains(&nominal) {
        return Err(Error::conflict(format!(
            "{SKIPS_MAX} occurrences of the job {name:?} are already marked to be skipped, which is the limit; pause it instead"
        )));
    }
    Ok(())
}

fn check_move(record: &JobRecord, to: Timestamp) -> Result<Timestamp> {
    let name = &record.job.name;
    let runs_max = record.job.schedule.runs_max();
    if record.retired == Some(Retirement::Removed)
        || runs_max.is_some_and(|most| record.runs >= most)
    {
        return Err(not_firing(record, "cannot be moved, because it does not fire"));
    }
    let Some(cursor) = first_occurrence(record, to) else {
        return Err(Error::invalid(format!(
            "the job {name:?} has no occurrence from {to} on; give an earlier instant"
        )));
    };
    if record.paused.is_some() && record.cursor.is_none_or(|old| cursor < old) {
        return Err(Error::conflict(format!(
            "the job {name:?} is paused, and occurrences before the end of a pause are never replayed; resume it first"
        )));
    }
    Ok(cursor)
}

fn not_firing(record: &JobRecord, what: &str) -> Error {
    let why = match record.retired {
        Some(Retirement::Removed) => "it is no longer declared",
        Some(Retirement::Finished) => "its schedule has ended",
        None => "its schedule has no more occurrences, or its number of runs is reached",
    };
    Error::conflict(format!("the job {:?} {what}: {why}", record.job.name))
}
