//! Edit: decides from a job's record and an operator's changes which overrides the job gets, and refuses what
//! cannot work before anything is stored. Overrides win over configuration and code until they are reset, field
//! by field or all at once. An edit never replays the past, and the zone, bounds and calendars of a schedule
//! stay unless the edit sets them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::reconcile::{bounded_like, overridden};
use crate::error::{Error, Result};
use crate::model::normalized;
use crate::model::{BackOffKind, Job, JobCommand, JobRecord, Misfire, Overrides, Retry};
use crate::schedule::{Cron, Interval, Schedule, Zone};

/// Largest number of times in a preview.
pub const PREVIEW_MAX: usize = 1_000;

/// Field of a job's definition that more than one layer can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Its schedule.
    Schedule,
    /// The time zone of its cron text.
    Zone,
    /// How often a failed run is retried, and when.
    Retry,
    /// The timeout of a run.
    Timeout,
    /// The treatment of missed occurrences.
    Misfire,
    /// Whether it fires.
    Enabled,
}

impl Field {
    /// Every field.
    pub const ALL: [Self; 6] =
        [Self::Schedule, Self::Zone, Self::Retry, Self::Timeout, Self::Misfire, Self::Enabled];

    /// Returns the field as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Zone => "zone",
            Self::Retry => "retry",
            Self::Timeout => "timeout",
            Self::Misfire => "misfire",
            Self::Enabled => "enabled",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Field {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = normalized(text);
        Self::ALL.into_iter().find(|field| field.as_str() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|field| field.as_str()).collect();
            Error::invalid(format!(
                "{text:?} is not a field of a job; use one of {}",
                names.join(", ")
            ))
        })
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Changes to a job. Fields that are not set stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "an edit does nothing until it is passed to the admin"]
pub struct Edit {
    when: Option<ScheduleEdit>,
    zone: Option<String>,
    retry: Option<Retry>,
    retries_max: Option<u32>,
    timeout: Option<TimeoutEdit>,
    misfire: Option<Misfire>,
}

#[derive(Clone, Debug, PartialEq)]
enum ScheduleEdit {
    Cron(String),
    Every(Duration),
    Schedule(Box<Schedule>),
}

/// Timeout of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TimeoutEdit {
    Of(Duration),
    Default,
}

impl Edit {
    /// Returns an edit without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets another cron text, in the present zone unless [`Edit::zone`] sets one.
    pub fn cron(mut self, text: impl Into<String>) -> Self {
        self.when = Some(ScheduleEdit::Cron(text.into()));
        self
    }

    /// Sets an interval: counted from the present anchor when the schedule is an interval already, else from
    /// the epoch.
    pub fn every(mut self, every: Duration) -> Self {
        self.when = Some(ScheduleEdit::Every(every));
        self
    }

    /// Sets a whole schedule, its bounds included.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.when = Some(ScheduleEdit::Schedule(Box::new(schedule)));
        self
    }

    /// Sets the IANA zone of the cron text.
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = Some(name.into());
        self
    }

    /// Sets how failed runs are retried.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets the number of retries and leaves the waits; a job without waits gets those of
    /// [`Retry::exponential`].
    pub fn retries_max(mut self, retries: u32) -> Self {
        self.retries_max = Some(retries);
        self
    }

    /// Sets the timeout of a run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(TimeoutEdit::Of(timeout));
        self
    }

    /// Removes the job's own timeout; the process's default applies.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = Some(TimeoutEdit::Default);
        self
    }

    /// Sets how missed occurrences are treated.
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = Some(misfire);
        self
    }

    /// Returns the overrides of a job after this edit; fails when they cannot work.
    pub fn overrides(&self, record: &JobRecord, now: Timestamp) -> Result<Overrides> {
        let name = &record.job.name;
        let refuse = |error: &dyn fmt::Display| {
            Error::invalid(format!("the job {name:?} cannot be edited: {error}")).with("job", name)
        };
        if *self == Self::default() {
            return Err(refuse(&"the edit changes nothing; set at least one field"));
        }
        let mut overrides = record.overrides.clone();
        if let Some(schedule) = self.schedule_over(&record.job).map_err(|error| refuse(&error))? {
            if schedule.next(now).is_none() {
                let problem = format!("the schedule \"{schedule}\" has no occurrence after {now}");
                return Err(refuse(&problem));
            }
            overrides.schedule = Some(schedule);
        }
        if let Some(retry) = self.retry_over(&record.job) {
            retry.check().map_err(|error| refuse(&error))?;
            overrides.retry = Some(retry);
        }
        match self.timeout {
            None => {}
            Some(TimeoutEdit::Of(Duration::ZERO)) => {
                let problem =
                    "a timeout of zero fails every run at once; remove the timeout instead";
                return Err(refuse(&problem));
            }
            Some(TimeoutEdit::Of(timeout)) => overrides.timeout = Some(Some(timeout)),
            Some(TimeoutEdit::Default) => overrides.timeout = Some(None),
        }
        if let Some(misfire) = &self.misfire {
            misfire.check().map_err(|error| refuse(&error))?;
            overrides.misfire = Some(misfire.clone());
        }
        Ok(overrides)
    }

    fn schedule_over(&self, job: &Job) -> Result<Option<Schedule>> {
        let old = &job.schedule;
        let invalid = |error: &dyn fmt::Display| Error::invalid(error.to_string());
        let zone = match &self.zone {
            Some(name) => Some(Zone::named(name).map_err(|error| invalid(&error))?),
            None => None,
        };
        let schedule = match (&self.when, zone) {
            (None, None) => return Ok(None),
            (Some(ScheduleEdit::Cron(text)), zone) => {
                let cron =
                    Cron::parse_seeded(text, job.name.as_str()).map_err(|error| invalid(&error))?;
                Schedule::of_cron(cron, zone.unwrap_or_else(|| old.zone()))
            }
            (Some(ScheduleEdit::Every(every)), None) => {
                let anchor = old.as_interval().map_or(Timestamp::UNIX_EPOCH, Interval::anchor);
                let every = Schedule::every(*every, anchor).map_err(|error| invalid(&error))?;
                if old.follows_last_run() { every.following_last_run() } else { every }
            }
            (Some(ScheduleEdit::Schedule(schedule)), None) => {
                return Ok(Some((**schedule).clone()));
            }
            (None, Some(zone)) => match old.as_cron() {
                Some(cron) => Schedule::of_cron(cron.clone(), zone),
                None => return Err(zone_unsupported(&zone, old)),
            },
            (Some(ScheduleEdit::Every(_)), Some(zone)) => {
                return Err(zone_unsupported(&zone, "an interval"));
            }
            (Some(ScheduleEdit::Schedule(schedule)), Some(zone)) => {
                return Err(zone_unsupported(&zone, schedule));
            }
        };
        bounded_like(schedule, old).map(Some).map_err(|error| invalid(&error))
    }

    fn retry_over(&self, job: &Job) -> Option<Retry> {
        let Some(most) = self.retries_max else { return self.retry.clone() };
        let retry = self.retry.as_ref().or(job.handler_options.retry.as_ref());
        let retry = retry.cloned().unwrap_or_else(Retry::none);
        let has_waits =
            !matches!(&retry.backoff, BackOffKind::Intervals(waits) if waits.is_empty());
        let retry = if has_waits || most == 0 { retry } else { Retry::exponential() };
        Some(retry.retries_max(most))
    }
}

fn zone_unsupported(zone: &Zone, schedule: impl fmt::Display) -> Error {
    Error::invalid(format!(
        "the zone {zone} does not apply to {schedule}; only a cron schedule has a zone"
    ))
}

/// Result that an edit would have.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// Definition that would be in force.
    pub job: Job,
    /// Its schedule as a sentence.
    pub description: String,
    /// Next times at which it would run.
    pub next: Vec<Timestamp>,
    /// Fields that would differ from the definition in force now.
    pub changed: Vec<Field>,
}

/// Returns the result that an edit would have, with at most `count` times, by `next` as in [`upcoming`].
pub(crate) fn preview(
    record: &JobRecord,
    edit: &Edit,
    count: usize,
    now: Timestamp,
    next: impl Fn(&Schedule, Timestamp) -> Option<Timestamp>,
) -> Result<Preview> {
    let command = overridden(record, edit.overrides(record, now)?, now);
    let after = record.with_command(&command, now)?;
    let changed = changed_fields(&record.job, &after.job);
    let description = after.job.schedule.describe();
    Ok(Preview { next: upcoming(&after, count, next), description, changed, job: after.job })
}

fn changed_fields(before: &Job, after: &Job) -> Vec<Field> {
    let zone = |job: &Job| job.schedule.as_cron().map(|_| job.schedule.zone());
    let rule = |job: &Job| match job.schedule.as_cron() {
        // Without its zone, which is a separate field.
        Some(cron) => (Some(cron.clone()), None),
        None => (None, Some(job.schedule.clone())),
    };
    let differs = [
        (Field::Schedule, rule(before) != rule(after)),
        (Field::Zone, zone(before) != zone(after)),
        (Field::Retry, before.handler_options.retry != after.handler_options.retry),
        (Field::Timeout, before.handler_options.timeout != after.handler_options.timeout),
        (Field::Misfire, before.misfire != after.misfire),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect()
}

/// Returns when a job will run next: from its cursor on, without skipped occurrences, while runs are left. `next`
/// returns the first time of a schedule after an instant; a caller that has to bound the computation ends it there.
pub(crate) fn upcoming(
    record: &JobRecord,
    count: usize,
    next: impl Fn(&Schedule, Timestamp) -> Option<Timestamp>,
) -> Vec<Timestamp> {
    let schedule = &record.job.schedule;
    let left = usize::try_from(record.runs_left()).unwrap_or(usize::MAX);
    let most = count.min(PREVIEW_MAX).min(left);
    std::iter::successors(record.cursor, |at| next(schedule, *at))
        .filter(|at| !record.overrides.skips.contains(at))
        .take(most)
        .collect()
}

/// Returns the command that resets an operator's values: one field, or all of them.
///
/// Schedule and zone are overridden together, so resetting the schedule resets its zone, while resetting the
/// zone leaves the operator's cron text.
pub(crate) fn reset(
    record: &JobRecord,
    field: Option<Field>,
    now: Timestamp,
) -> Result<JobCommand> {
    let mut overrides = record.overrides.clone();
    match field {
        None => overrides = overrides.reset(),
        Some(Field::Schedule) => overrides.schedule = None,
        Some(Field::Zone) => overrides.schedule = without_zone(record),
        Some(Field::Retry) => overrides.retry = None,
        Some(Field::Timeout) => overrides.timeout = None,
        Some(Field::Misfire) => overrides.misfire = None,
        Some(Field::Enabled) => {
            return Err(Error::invalid(format!(
                "the field enabled of the job {:?} cannot be reset; use resume to end a pause",
                record.job.name
            )));
        }
    }
    Ok(overridden(record, overrides, now))
}

/// Returns the operator's schedule in the zone of the layer below; none when it differed in its zone only.
fn without_zone(record: &JobRecord) -> Option<Schedule> {
    let own = record.overrides.schedule.as_ref()?;
    let below = record.configured.as_ref().unwrap_or(&record.declared.schedule);
    let Some(cron) = own.as_cron() else { return Some(own.clone()) };
    let schedule = bounded_like(Schedule::of_cron(cron.clone(), below.zone()), own).ok()?;
    (schedule != *below).then_some(schedule)
}

#[cfg(test)]
mod tests;
