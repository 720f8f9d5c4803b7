//! Job: a name with a schedule, and the policies for its occurrences. The definition belongs to the application
//! that declared it; the record around it has the cursor, the pause and the operator's overrides. A job has no
//! running state; its messages have.

use crate::model::time::subtract;
use crate::model::{Misfire, Overlap, Retry, Threshold};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Body, HandlerOptions, JobName, Limit, Priority, Queue, Topic};
use crate::error::{Error, Result};
use crate::schedule::{Schedule, Spread};

/// Definition of a job: what runs, when, and by which policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Name, unique in a storage.
    pub name: JobName,
    /// Topic whose handler runs it; by default the same as the name.
    pub topic: Topic,
    /// Schedule by which it runs.
    pub schedule: Schedule,
    /// Treatment of missed occurrences.
    pub misfire: Misfire,
    /// Policy for an occurrence while the previous run is alive.
    pub overlap: Overlap,
    /// Spread of the runs, so that not all jobs start at the full hour.
    pub spread: Spread,
    /// Queue of its messages.
    pub queue: Queue,
    /// Priority of its messages.
    pub priority: Priority,
    /// Payload of its handler; empty means the occurrence itself.
    pub body: Body,
    /// Options for the attempts of its runs; fields that are not set are left to the handler.
    #[serde(rename = "terms")]
    pub handler_options: Arc<HandlerOptions>,
    /// Limit that its messages share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Tags to find it by.
    pub tags: Vec<String>,
    /// Purpose, as a sentence.
    pub description: Option<String>,
}

impl Job {
    /// Returns a job with a schedule and the defaults: misfires fire now, overlaps are skipped, no retries.
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

/// Origin of a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Declared in code.
    #[default]
    Declared,
    /// Seeded from a file or a migration.
    Seeded,
    /// Created at run time.
    Runtime,
}

/// Values set by an operator; each wins over configuration and code until it is reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// Schedule, including its zone.
    pub schedule: Option<Schedule>,
    /// Retry policy.
    pub retry: Option<Retry>,
    /// Timeout; `Some(None)` removes the job's own, so that the process's default applies.
    #[serde(with = "super::duration_text")]
    pub timeout: Option<Option<Duration>>,
    /// Misfire settings.
    pub misfire: Option<Misfire>,
    /// Future occurrences that are skipped. A reset of the other fields leaves them, because they are about
    /// dates and not about the definition.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub skips: BTreeSet<Timestamp>,
}

impl Overrides {
    /// Returns whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns overrides with the same skipped occurrences and nothing else.
    #[must_use]
    pub fn reset(&self) -> Self {
        Self { skips: self.skips.clone(), ..Self::default() }
    }
}

/// Pause of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Name of the operator.
    pub by: String,
    /// Reason.
    pub reason: String,
    /// Start of the pause.
    pub at: Timestamp,
    /// End of the pause; none means until it is resumed.
    pub until: Option<Timestamp>,
}

/// Reason why a job no longer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retirement {
    /// Its schedule has no further occurrence, or its number of runs is used up.
    Finished,
    /// It is no longer declared; declared again it fires again.
    Removed,
}

/// Phase of a job as shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// It fires.
    Active,
    /// An operator paused it.
    Paused,
    /// It no longer fires.
    Retired,
}

/// Stored record of a job: its definition and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Definition as declared.
    pub declared: Job,
    /// Schedule set by the configuration.
    pub configured: Option<Schedule>,
    /// Values set by an operator.
    pub overrides: Overrides,
    /// Definition in force: declared, then configured, then overridden.
    pub job: Job,
    /// Origin of the definition.
    pub origin: Origin,
    /// Application that declared it; reconciliation of other applications does not change it.
    pub app: String,
    /// Release of the last reconciliation; older releases change nothing.
    pub release: u64,
    /// Next occurrence to fire.
    pub cursor: Option<Timestamp>,
    /// Last occurrence that was decided about.
    pub last_nominal: Option<Timestamp>,
    /// Number of occurrences that became messages.
    pub runs: u64,
    /// Pause, while it is paused.
    pub paused: Option<Pause>,
    /// Reason of retirement, when it is retired.
    pub retired: Option<Retirement>,
    /// First declaration.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
    /// Version, incremented by every change; a write must pass the current one.
    pub version: u64,
}

impl JobRecord {
    /// Returns its phase.
    pub fn phase(&self) -> JobPhase {
        if self.retired.is_some() {
            JobPhase::Retired
        } else if self.paused.is_some() {
            JobPhase::Paused
        } else {
            JobPhase::Active
        }
    }

    /// Returns how late its next occurrence may be without being missed, given the default of the scheduler.
    pub fn misfire_threshold(&self, default: Duration) -> Threshold {
        let Job { misfire, schedule, .. } = &self.job;
        let before = |at: Timestamp| subtract(at, Duration::from_nanos(1));
        let next = self.cursor.map(|cursor| schedule.next(before(cursor)).unwrap_or(cursor));
        // Without any occurrence there is no distance to the next one.
        let occurrence = next.or(self.last_nominal).unwrap_or(Timestamp::MAX);
        misfire.threshold_in_force(schedule, occurrence, default)
    }

    /// Returns how many of its occurrences may still run; the largest number when its schedule sets no limit.
    pub(crate) fn runs_left(&self) -> u64 {
        let most = self.job.schedule.runs_max();
        most.map_or(u64::MAX, |most| most.saturating_sub(self.runs))
    }

    /// Returns when the scheduler handles it next: at its cursor, or at the end of its pause.
    pub fn due_at(&self) -> Option<Timestamp> {
        match (&self.paused, self.retired) {
            (_, Some(_)) => None,
            (Some(pause), None) => pause.until,
            (None, None) => self.cursor,
        }
    }

    /// Returns the record after an operator's change, with the version incremented.
    pub fn with_command(&self, command: &JobCommand, now: Timestamp) -> Result<Self> {
        let mut record = self.clone();
        match command {
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
                // A new schedule may have occurrences for a finished job.
                match (cursor, record.retired) {
                    (Some(_), Some(Retirement::Finished)) => record.retired = None,
                    // Another one may have none left.
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

/// Change to a job by an operator. It is a final decision: cursors are computed before.
#[derive(Clone, Debug, PartialEq)]
pub enum JobCommand {
    /// Pauses the job.
    Pause {
        /// Name of the operator.
        by: String,
        /// Reason.
        reason: String,
        /// End of the pause.
        until: Option<Timestamp>,
    },
    /// Ends the pause and fires from a cursor.
    Resume {
        /// Next occurrence to fire.
        cursor: Option<Timestamp>,
    },
    /// Retires the job.
    Retire {
        /// Reason.
        reason: Retirement,
    },
    /// Moves the cursor.
    MoveCursor {
        /// Next occurrence to fire.
        cursor: Option<Timestamp>,
    },
    /// Sets values over the declared ones, or resets them.
    Override {
        /// New overrides.
        overrides: Box<Overrides>,
        /// Resulting definition.
        job: Box<Job>,
        /// Next occurrence to fire.
        cursor: Option<Timestamp>,
    },
}
