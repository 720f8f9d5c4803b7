//! A job: a name with a schedule, and the policies its occurrences are treated by. The definition
//! belongs to whoever declared it; the record around it holds the cursor, the pause and the
//! operator's overrides. A job has no running state; that belongs to its messages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Body, HandlerOptions, JobName, Limit, Priority, Queue, Topic};
use crate::clock::subtract;
use crate::error::{Error, Result};
use crate::policy::{Misfire, Overlap, Retry, Threshold};
use crate::schedule::{Schedule, Spread};

/// A definition: what runs, when, and by which policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its name, unique in a storage.
    pub name: JobName,
    /// The topic whose handler runs it; the same as the name unless said otherwise.
    pub topic: Topic,
    /// When it runs.
    pub schedule: Schedule,
    /// What happens with occurrences that were missed.
    pub misfire: Misfire,
    /// What happens while the run before is still alive.
    pub overlap: Overlap,
    /// How runs are spread, so that not all jobs start at the full hour.
    pub spread: Spread,
    /// The line its messages wait in.
    pub queue: Queue,
    /// How urgent they are.
    pub priority: Priority,
    /// What its handler receives; empty means the occurrence itself.
    pub body: Body,
    /// What it says about the attempts of its runs; the rest is as their handler says.
    #[serde(rename = "terms")]
    pub handler_options: Arc<HandlerOptions>,
    /// The limit its messages share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// What it is for, in a sentence.
    pub description: Option<String>,
}

impl Job {
    /// A job with a schedule and the defaults: misfires fire now, overlaps are skipped, no retries.
    pub fn new(name: impl AsRef<str>, schedule: Schedule) -> Result<Self> {
        let name = JobName::new(name)?;
        Ok(Self {
            topic: Topic::new(name.as_str())?,
            name,
            schedule,
            misfire: Misfire::default(),
            overlap: Overlap::default(),
            spread: Spread::default(),
            queue: Queue::default(),
            priority: Priority::default(),
            body: Body::empty(),
            handler_options: Arc::new(HandlerOptions::default()),
            limit: None,
            tags: Vec::new(),
            description: None,
        })
    }
}

/// Where a definition comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Declared in code.
    #[default]
    Declared,
    /// Seeded from a file or a migration.
    Seeded,
    /// Made at run time.
    Runtime,
}

/// What an operator changed; each field wins over configuration and code until it is reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// Another schedule, zone included.
    pub schedule: Option<Schedule>,
    /// Other retries.
    pub retry: Option<Retry>,
    /// Another timeout; `Some(None)` takes the job's own away, so that the process's default applies.
    #[serde(with = "super::duration_text")]
    pub timeout: Option<Option<Duration>>,
    /// Another misfire policy.
    pub misfire: Option<Misfire>,
    /// Occurrences still to come that are not to be run. They are about the schedule's days, not about
    /// the definition, so taking the other fields back leaves them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub skips: BTreeSet<Timestamp>,
}

impl Overrides {
    /// Whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Nothing overridden, and the same occurrences skipped.
    #[must_use]
    pub fn reset(&self) -> Self {
        Self { skips: self.skips.clone(), ..Self::default() }
    }
}

/// Who paused a job, when, why, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// When it ends by itself; none means never.
    pub until: Option<Timestamp>,
}

/// Why a job fires no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retirement {
    /// Its schedule has no further occurrence, or its runs are used up.
    Finished,
    /// It is no longer declared; declared again it comes back.
    Removed,
}

/// What people see of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// Its cursor moves.
    Active,
    /// Somebody paused it.
    Paused,
    /// It fires no more.
    Retired,
}

/// A job with where it stands: what a storage remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The definition as declared.
    pub declared: Job,
    /// The schedule that configuration put over it.
    pub configured: Option<Schedule>,
    /// What an operator put over both.
    pub overrides: Overrides,
    /// The definition in force: declared, then configured, then overridden.
    pub job: Job,
    /// Where the definition comes from.
    pub origin: Origin,
    /// The application that declared it; other applications' reconciliation leaves it alone.
    pub app: String,
    /// The release stamp of the last reconciliation; older releases change nothing.
    pub release: u64,
    /// The next occurrence to fire.
    pub cursor: Option<Timestamp>,
    /// The last occurrence that was decided about.
    pub last_nominal: Option<Timestamp>,
    /// How many occurrences became messages.
    pub runs: u64,
    /// The pause, while there is one.
    pub paused: Option<Pause>,
    /// Why it is retired, when it is.
    pub retired: Option<Retirement>,
    /// When it was first declared.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Counts every change; who writes must have seen the current one.
    pub version: u64,
}

impl JobRecord {
    /// What people see.
    pub fn phase(&self) -> JobPhase {
        if self.retired.is_some() {
            JobPhase::Retired
        } else if self.paused.is_some() {
            JobPhase::Paused
        } else {
            JobPhase::Active
        }
    }

    /// How late its next occurrence may be and still run as usual, by the options of a scheduler.
    pub fn misfire_threshold(&self, default: Duration) -> Threshold {
        let Job { misfire, schedule, .. } = &self.job;
        let before = |at: Timestamp| subtract(at, Duration::from_nanos(1));
        let next = self.cursor.map(|cursor| schedule.next(before(cursor)).unwrap_or(cursor));
        // Without any occurrence there is no distance to the next one.
        let occurrence = next.or(self.last_nominal).unwrap_or(Timestamp::MAX);
        misfire.threshold_in_force(schedule, occurrence, default)
    }

    /// When the scheduler has to look at it: at its cursor, or where its pause ends.
    pub fn due_at(&self) -> Option<Timestamp> {
        match (&self.paused, self.retired) {
            (_, Some(_)) => None,
            (Some(pause), None) => pause.until,
            (None, None) => self.cursor,
        }
    }

    /// The record after an operator's change, with the version counted up.
    pub fn steered(&self, steer: &JobCommand, now: Timestamp) -> Result<Self> {
        let mut record = self.clone();
        match steer {
            JobCommand::Pause { by, reason, until } => {
                record.paused =
                    Some(Pause { by: by.clone(), reason: reason.clone(), at: now, until: *until });
            }
            JobCommand::Resume { cursor } => {
                record.paused = None;
                record.cursor = *cursor;
            }
            JobCommand::Retire { reason } => record.retired = Some(*reason),
            JobCommand::MoveCursor { cursor } => record.cursor = *cursor,
            JobCommand::Override { overrides, job, cursor } => {
                if job.name != record.job.name {
                    return Err(Error::invalid(format!(
                        "a job cannot be renamed from {:?} to {:?}",
                        record.job.name, job.name
                    )));
                }
                record.overrides = (**overrides).clone();
                record.job = (**job).clone();
                record.cursor = *cursor;
                // A new schedule may give a finished job more to do.
                match (cursor, record.retired) {
                    (Some(_), Some(Retirement::Finished)) => record.retired = None,
                    // And another one may leave it nothing.
                    (None, None) => record.retired = Some(Retirement::Finished),
                    _ => {}
                }
            }
        }
        record.updated_at = now;
        record.version += 1;
        Ok(record)
    }
}

/// A change an operator makes to a job. It is a finished decision: cursors are computed before.
#[derive(Clone, Debug, PartialEq)]
pub enum JobCommand {
    /// Stop firing.
    Pause {
        /// Who asks.
        by: String,
        /// Why.
        reason: String,
        /// When it ends by itself.
        until: Option<Timestamp>,
    },
    /// Fire again, from a cursor.
    Resume {
        /// The next occurrence to fire.
        cursor: Option<Timestamp>,
    },
    /// Fire no more.
    Retire {
        /// Why.
        reason: Retirement,
    },
    /// Fire from another occurrence on.
    MoveCursor {
        /// The next occurrence to fire.
        cursor: Option<Timestamp>,
    },
    /// Put values over the declared ones, or take them away again.
    Override {
        /// What is overridden from now on.
        overrides: Box<Overrides>,
        /// The definition that results.
        job: Box<Job>,
        /// The next occurrence to fire.
        cursor: Option<Timestamp>,
    },
}
