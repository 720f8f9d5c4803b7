//! Moving along a schedule: leaving out one occurrence, and setting the cursor forward or back. Every
//! nominal time keeps its answer: what is left out is in the history as skipped by an operator.

use jiff::{SignedDuration, Timestamp};

use super::{Admin, TRIES_MAX, busy};
use crate::engine::{Decision, jump};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::{JobCommand, JobRecord, Overrides, Retirement};
use crate::policy::upcoming;
use crate::storage::{FireResult, JobCommandResult};

/// The most occurrences of one job that may wait to be skipped.
const SKIPS_MAX: usize = 100;

impl Admin {
    /// Leaves out the next occurrence of a job; answers which one that is. Asked again, it leaves out the
    /// one after it.
    pub async fn skip_next(&self, job: impl AsRef<str>) -> Result<Timestamp> {
        let record = self.job(job).await?;
        let Some(nominal) = upcoming(&record, 1).first().copied() else {
            return Err(not_firing(&record, "has no next occurrence to skip"));
        };
        // By its instant, so that one that fires meanwhile is not answered by skipping the next.
        self.skip(record.job.name.as_str(), nominal).await?;
        Ok(nominal)
    }

    /// Leaves out one occurrence of a job that is still to come.
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
                let decision = jump(&self.process, &record, record.job.schedule.next(nominal), now);
                if self.decided(decision, now).await? {
                    return self.job(name).await;
                }
                continue;
            }
            let mut skips = record.overrides.skips.clone();
            skips.insert(nominal);
            let steer = JobCommand::Override {
                overrides: Box::new(Overrides { skips, ..record.overrides.clone() }),
                job: Box::new(record.job.clone()),
                cursor: record.cursor,
            };
            let steered = self
                .process
                .storage
                .command_job(&record.job.name, steer, record.version, now)
                .await?;
            if let JobCommandResult::Applied(record) = steered {
                self.moved(&record, "skips one");
                return Ok(*record);
            }
        }
        Err(busy(name))
    }

    /// Sets a job's cursor to its first occurrence from an instant on.
    ///
    /// Forward, what lies between is skipped and recorded. Back, it is decided about again: that is how
    /// the past is replayed on purpose, by the job's misfire policy, and without doubling what is still
    /// alive. To run chosen occurrences of the past and leave the schedule alone, use
    /// [`Admin::backfill`].
    pub async fn move_cursor(&self, job: impl AsRef<str>, to: Timestamp) -> Result<JobRecord> {
        let name = job.as_ref();
        for _ in 0..TRIES_MAX {
            let record = self.job(name).await?;
            let cursor = check_move(&record, to)?;
            if record.cursor == Some(cursor) {
                return Ok(record);
            }
            let now = self.process.now();
            if self.decided(jump(&self.process, &record, Some(cursor), now), now).await? {
                return self.job(name).await;
            }
        }
        Err(busy(name))
    }

    /// Stores a decision about a job; answers whether nobody else was first.
    async fn decided(&self, decision: Decision, now: Timestamp) -> Result<bool> {
        let answers = self.process.storage.fire(vec![decision.firing.clone()], now).await?;
        let stored = answers.first() == Some(&FireResult::Fired);
        if stored {
            decision.tell(&self.process);
            self.moved(&decision.firing.after, "moved");
        }
        Ok(stored)
    }

    fn moved(&self, record: &JobRecord, change: &'static str) {
        self.process.events.emit(Event::JobSteered { job: record.job.name.clone(), change });
    }
}

/// The first occurrence from an instant on.
fn from(record: &JobRecord, instant: Timestamp) -> Option<Timestamp> {
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
            "the job {name:?} has decided about {nominal} already; its next occurrence is {cursor}"
        )));
    }
    match from(record, nominal) {
        Some(found) if found == nominal || nominal == cursor => {}
        found => {
            let hint = found.map(|found| format!("; the next one is {found}")).unwrap_or_default();
            return Err(Error::invalid(format!(
                "{nominal} is no occurrence of the job {name:?}{hint}"
            )));
        }
    }
    let skips = &record.overrides.skips;
    if skips.len() >= SKIPS_MAX && !skips.contains(&nominal) {
        return Err(Error::conflict(format!(
            "{SKIPS_MAX} occurrences of the job {name:?} are to be skipped already; pause it instead"
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
        return Err(not_firing(record, "fires no more, wherever its cursor is"));
    }
    let Some(cursor) = from(record, to) else {
        return Err(Error::invalid(format!(
            "the job {name:?} has no occurrence from {to} on; give an earlier instant"
        )));
    };
    if record.paused.is_some() && record.cursor.is_none_or(|old| cursor < old) {
        return Err(Error::conflict(format!(
            "the job {name:?} is paused, and what was before the end of a pause is never replayed; resume it first"
        )));
    }
    Ok(cursor)
}

fn not_firing(record: &JobRecord, what: &str) -> Error {
    let why = match record.retired {
        Some(Retirement::Removed) => "it is no longer declared",
        Some(Retirement::Finished) => "its schedule is over",
        None => "its schedule or its runs are used up",
    };
    Error::conflict(format!("the job {:?} {what}: {why}", record.job.name))
}
