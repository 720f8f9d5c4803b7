//! Edit: what an operator wants different about a job, checked before anything is stored. It becomes
//! overrides, which win over configuration and code until they are taken back, field by field or all at
//! once. An edit never replays the past, and the zone, bounds and days left out of a schedule stay
//! unless they are named.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::reconcile::{bounded_like, overridden};
use super::spelling::plain;
use super::{Backoff, Misfire, Retry};
use crate::error::{Error, Result};
use crate::model::{Job, JobCommand, JobRecord, Overrides};
use crate::schedule::{Cron, Interval, Schedule, Zone};

/// The most times a preview lists.
pub const PREVIEW_MAX: usize = 1_000;

/// A part of a definition that more than one layer may have a say in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// When it runs.
    Schedule,
    /// The zone its cron text is read in.
    Zone,
    /// How often a failed run is tried again, and when.
    Retry,
    /// How long a run may take.
    Timeout,
    /// What happens with occurrences that were missed.
    Misfire,
    /// Whether it fires at all.
    Enabled,
}

impl Field {
    /// Every field.
    pub const ALL: [Self; 6] =
        [Self::Schedule, Self::Zone, Self::Retry, Self::Timeout, Self::Misfire, Self::Enabled];

    /// The field in one lower-case word.
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
        let wanted = plain(text);
        Self::ALL.into_iter().find(|field| field.as_str() == wanted).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|field| field.as_str()).collect();
            Error::invalid(format!(
                "{text:?} is no field of a job; use one of {}",
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

/// What is to be different about a job. What is not said stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "an edit does nothing until it is given to the admin"]
pub struct Edit {
    when: Option<When>,
    zone: Option<String>,
    retry: Option<Retry>,
    retries_max: Option<u32>,
    timeout: Option<Limit>,
    misfire: Option<Misfire>,
}

#[derive(Clone, Debug, PartialEq)]
enum When {
    Cron(String),
    Every(Duration),
    Schedule(Box<Schedule>),
}

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Of(Duration),
    Default,
}

impl Edit {
    /// An edit that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs by another cron text, in the zone it has unless [`Edit::zone`] names one.
    pub fn cron(mut self, text: impl Into<String>) -> Self {
        self.when = Some(When::Cron(text.into()));
        self
    }

    /// Runs every so often, on the grid it has when it is an interval already, else counted from the epoch.
    pub fn every(mut self, every: Duration) -> Self {
        self.when = Some(When::Every(every));
        self
    }

    /// Runs by a schedule made before, its own bounds included.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.when = Some(When::Schedule(Box::new(schedule)));
        self
    }

    /// Reads the cron text in another IANA zone.
    pub fn zone(mut self, name: impl Into<String>) -> Self {
        self.zone = Some(name.into());
        self
    }

    /// Tries failed runs again in another way.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Tries failed runs again so many times, with the waits there are; a job without any gets the usual
    /// ones of [`Retry::exponential`].
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.retries_max = Some(retries);
        self
    }

    /// Gives a run this long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(Limit::Of(timeout));
        self
    }

    /// Takes the job's own timeout away; the process's default applies.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = Some(Limit::Default);
        self
    }

    /// Treats missed occurrences in another way.
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = Some(misfire);
        self
    }

    /// The overrides that a job has with this edit; refuses what cannot work.
    pub fn overrides(&self, record: &JobRecord, now: Timestamp) -> Result<Overrides> {
        let name = &record.job.name;
        let refuse = |error: &dyn fmt::Display| {
            Error::invalid(format!("the job {name:?} cannot be edited: {error}")).with("job", name)
        };
        if *self == Self::default() {
            return Err(refuse(&"the edit changes nothing; say at least one field"));
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
            Some(Limit::Of(Duration::ZERO)) => {
                let problem = "a timeout of zero fails every run at once; take it away instead";
                return Err(refuse(&problem));
            }
            Some(Limit::Of(timeout)) => overrides.timeout = Some(Some(timeout)),
            Some(Limit::Default) => overrides.timeout = Some(None),
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
            (Some(When::Cron(text)), zone) => {
                let cron =
                    Cron::parse_seeded(text, job.name.as_str()).map_err(|error| invalid(&error))?;
                Schedule::of_cron(cron, zone.unwrap_or_else(|| old.zone()))
            }
            (Some(When::Every(every)), None) => {
                let anchor = old.as_interval().map_or(Timestamp::UNIX_EPOCH, Interval::anchor);
                let every = Schedule::every(*every, anchor).map_err(|error| invalid(&error))?;
                if old.follows_last_run() { every.following_last_run() } else { every }
            }
            (Some(When::Schedule(schedule)), None) => return Ok(Some((**schedule).clone())),
            (None, Some(zone)) => match old.as_cron() {
                Some(cron) => Schedule::of_cron(cron.clone(), zone),
                None => return Err(no_zone(&zone, old)),
            },
            (Some(When::Every(_)), Some(zone)) => return Err(no_zone(&zone, "an interval")),
            (Some(When::Schedule(schedule)), Some(zone)) => return Err(no_zone(&zone, schedule)),
        };
        bounded_like(schedule, old).map(Some).map_err(|error| invalid(&error))
    }

    fn retry_over(&self, job: &Job) -> Option<Retry> {
        let Some(most) = self.retries_max else { return self.retry.clone() };
        let retry = self.retry.as_ref().or(job.handler_options.retry.as_ref());
        let retry = retry.cloned().unwrap_or_else(Retry::none);
        let has_waits = !matches!(&retry.backoff, Backoff::Intervals(waits) if waits.is_empty());
        let retry = if has_waits || most == 0 { retry } else { Retry::exponential() };
        Some(retry.max_retries(most))
    }
}

fn no_zone(zone: &Zone, schedule: impl fmt::Display) -> Error {
    Error::invalid(format!(
        "the zone {zone} is of no use to {schedule}; only a cron text is read in a zone"
    ))
}

/// What an edit would come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// The definition that would be in force.
    pub job: Job,
    /// Its schedule in words.
    pub description: String,
    /// When it would run next.
    pub next: Vec<Timestamp>,
    /// What would differ from the definition in force now.
    pub changed: Vec<Field>,
}

/// What an edit would come to, with at most `count` times.
pub fn preview(record: &JobRecord, edit: &Edit, count: usize, now: Timestamp) -> Result<Preview> {
    let steer = overridden(record, edit.overrides(record, now)?, now);
    let after = record.steered(&steer, now)?;
    let changed = changed(&record.job, &after.job);
    let description = after.job.schedule.describe();
    Ok(Preview { next: upcoming(&after, count), description, changed, job: after.job })
}

fn changed(before: &Job, after: &Job) -> Vec<Field> {
    let zone = |job: &Job| job.schedule.as_cron().map(|_| job.schedule.zone());
    let rule = |job: &Job| match job.schedule.as_cron() {
        // Without its zone, which is a field of its own.
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

/// When a job will run next: from its cursor on, without what is to be skipped, while runs are left.
pub fn upcoming(record: &JobRecord, count: usize) -> Vec<Timestamp> {
    let schedule = &record.job.schedule;
    let left = schedule.runs_max().map_or(u64::MAX, |most| most.saturating_sub(record.runs));
    let most = count.min(PREVIEW_MAX).min(usize::try_from(left).unwrap_or(usize::MAX));
    std::iter::successors(record.cursor, |at| schedule.next(*at))
        .filter(|at| !record.overrides.skips.contains(at))
        .take(most)
        .collect()
}

/// The change that takes an operator's values back: one field, or all of them.
///
/// Schedule and zone are overridden together, so taking the schedule back takes its zone along, while
/// taking the zone back keeps the operator's cron text.
pub fn reset(record: &JobRecord, field: Option<Field>, now: Timestamp) -> Result<JobCommand> {
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
                "a pause of the job {:?} is not taken back but ended; use resume",
                record.job.name
            )));
        }
    }
    Ok(overridden(record, overrides, now))
}

/// The operator's schedule in the zone of the layer below; none when that is all it differed in.
fn without_zone(record: &JobRecord) -> Option<Schedule> {
    let own = record.overrides.schedule.as_ref()?;
    let below = record.configured.as_ref().unwrap_or(&record.declared.schedule);
    let Some(cron) = own.as_cron() else { return Some(own.clone()) };
    let schedule = bounded_like(Schedule::of_cron(cron.clone(), below.zone()), own).ok()?;
    (schedule != *below).then_some(schedule)
}

#[cfg(test)]
mod tests;
