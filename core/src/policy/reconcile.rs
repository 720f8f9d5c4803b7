//! Reconcile: three layers make the definition in force. Code declares, configuration may replace the
//! cron text, an operator may override more; each layer is kept apart, so that taking one away brings
//! the one below back. A deploy that changes nothing writes nothing, and the cursor moves only when
//! the schedule does: what was missed meanwhile is left to the misfire policy. Pausing belongs to the
//! operator alone; nothing here ends a pause or deletes a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::model::{
    HandlerOptions, Job, JobCommand, JobName, JobRecord, Origin, Overrides, Retirement,
};
use crate::schedule::{Cron, Schedule, ScheduleError};

/// What an application declares at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The job as declared.
    pub job: Job,
    /// The schedule that configuration puts over it; see [`configured_schedule`].
    pub configured: Option<Schedule>,
    /// The application; others leave its jobs alone.
    pub app: String,
    /// Grows with every release; an older one changes nothing.
    pub release: u64,
    /// Where the declaration comes from.
    pub origin: Origin,
}

/// All that an application declares in one release.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredSet<'a> {
    /// The application.
    pub app: &'a str,
    /// Grows with every release.
    pub release: u64,
    /// The names of its jobs.
    pub names: &'a BTreeSet<JobName>,
    /// Whether an empty set is meant. Otherwise it is taken for a mistake and retires nothing.
    pub allow_empty: bool,
}

/// What a declaration means for what is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciliation {
    /// The job is new.
    Create(Box<JobRecord>),
    /// The job differs; this is its record from now on.
    Change(Box<JobRecord>),
    /// Nothing differs, nothing is to be written.
    Unchanged,
    /// A newer release has spoken already.
    Outdated,
    /// The name belongs to a job that somebody else declares: this application.
    Foreign(String),
}

/// The definition in force: declared, then configured, then overridden.
pub fn effective(declared: &Job, configured: Option<&Schedule>, overrides: &Overrides) -> Job {
    let mut job = declared.clone();
    if let Some(schedule) = overrides.schedule.as_ref().or(configured) {
        job.schedule = schedule.clone();
    }
    if let Some(misfire) = &overrides.misfire {
        job.misfire = misfire.clone();
    }
    if overrides.retry.is_some() || overrides.timeout.is_some() {
        let over = HandlerOptions {
            retry: overrides.retry.clone(),
            timeout: overrides.timeout.map(Option::unwrap_or_default),
            ..HandlerOptions::default()
        };
        job.handler_options = Arc::new(declared.handler_options.overlaid(&over));
    }
    job
}

/// The schedule that a configured cron text makes of a declared job: only the text is replaced, the
/// zone, the bounds and the calendars stay.
pub fn configured_schedule(declared: &Job, cron_text: &str) -> Result<Schedule> {
    let old = &declared.schedule;
    let refuse = |error: &dyn std::error::Error| {
        Error::invalid(format!(
            "the configured cron text of job {:?} is wrong, so it is not used: {error}",
            declared.name
        ))
        .with("job", &declared.name)
    };
    let cron =
        Cron::parse_seeded(cron_text, declared.name.as_str()).map_err(|error| refuse(&error))?;
    bounded_like(Schedule::of_cron(cron, old.zone()), old).map_err(|error| refuse(&error))
}

/// A schedule within the bounds of another one, and without the days it leaves out.
pub(super) fn bounded_like(
    mut schedule: Schedule,
    old: &Schedule,
) -> Result<Schedule, ScheduleError> {
    if let Some(start_at) = old.start_at() {
        schedule = schedule.starting(start_at)?;
    }
    if let Some(end_at) = old.end_at() {
        schedule = schedule.ending(end_at)?;
    }
    if let Some(runs_max) = old.runs_max() {
        schedule = schedule.at_most(runs_max);
    }
    Ok(old.calendars().iter().cloned().fold(schedule, Schedule::excluding))
}

/// Compares a declaration with what is stored under its name.
///
/// What is seeded only fills a gap: afterwards the storage is the authority. What is declared in code
/// follows the code, and takes over a name that nobody declares any more, or that was made at run time.
/// What is made at run time never takes over what others declare or have made.
pub fn reconcile(
    stored: Option<&JobRecord>,
    declaration: &Declaration,
    now: Timestamp,
) -> Reconciliation {
    let Some(stored) = stored else {
        return Reconciliation::Create(Box::new(created(declaration, now)));
    };
    if declaration.origin == Origin::Seeded {
        return Reconciliation::Unchanged;
    }
    let same_owner = stored.app == declaration.app && stored.origin == declaration.origin;
    let removed = stored.retired == Some(Retirement::Removed);
    let is_anothers = match declaration.origin {
        // What was made at run time is nobody's against the code, and its maker's against others.
        Origin::Runtime if stored.origin == Origin::Runtime => stored.app != declaration.app,
        _ => stored.origin == Origin::Declared && !same_owner,
    };
    if is_anothers && !removed {
        return Reconciliation::Foreign(stored.app.clone());
    }
    if same_owner && declaration.release < stored.release {
        return Reconciliation::Outdated;
    }
    let record = changed(stored, declaration, now);
    // A newer release that declares the same writes nothing, not even its stamp.
    let same = JobRecord {
        release: stored.release,
        updated_at: stored.updated_at,
        version: stored.version,
        ..record.clone()
    };
    if same == *stored {
        Reconciliation::Unchanged
    } else {
        Reconciliation::Change(Box::new(record))
    }
}

/// The jobs of an application that are no longer declared, retired but kept.
///
/// Only those declared in code, only by the same application, and only when no newer release has
/// declared them; a job that has finished stays finished.
pub fn retire_vanished(
    stored: &[JobRecord],
    set: &DeclaredSet<'_>,
    now: Timestamp,
) -> Vec<JobRecord> {
    if set.names.is_empty() && !set.allow_empty {
        return Vec::new();
    }
    let vanished = stored.iter().filter(|record| {
        record.origin == Origin::Declared
            && record.app == set.app
            && record.release <= set.release
            && record.retired.is_none()
            && !set.names.contains(&record.declared.name)
    });
    let retired = vanished.map(|record| JobRecord {
        retired: Some(Retirement::Removed),
        cursor: None,
        release: set.release,
        updated_at: now,
        version: record.version + 1,
        ..record.clone()
    });
    retired.collect()
}

/// The change that puts an operator's values over a job, or takes them away with empty ones.
///
/// Another schedule is followed strictly after now and after what was decided about: editing never
/// replays the past. The same schedule goes on where it was. A job that is no longer declared gets its
/// cursor when it comes back.
pub fn overridden(record: &JobRecord, overrides: Overrides, now: Timestamp) -> JobCommand {
    let (job, kept) = merged(record, &record.declared, record.configured.as_ref(), &overrides);
    let cursor = if kept || record.retired == Some(Retirement::Removed) {
        record.cursor
    } else {
        first_cursor(&job.schedule, record, now)
    };
    JobCommand::Override { overrides: Box::new(overrides), job: Box::new(job), cursor }
}

/// Where the cursor goes when a pause ends: the first occurrence after its end, so that the paused time
/// is never made up for. An occurrence that is still to come stays the next one, also for a clock that
/// is behind; a one-time job keeps its instant and runs even if it has passed.
pub fn resumed(record: &JobRecord, end: Timestamp) -> Option<Timestamp> {
    let schedule = &record.job.schedule;
    match record.cursor {
        Some(cursor) if cursor > end || schedule.as_once().is_some() => Some(cursor),
        None if schedule.as_once().is_some() => None,
        _ => schedule.next(end),
    }
}

fn created(declaration: &Declaration, now: Timestamp) -> JobRecord {
    let Declaration { job, configured, app, release, origin } = declaration;
    let overrides = Overrides::default();
    let effective = effective(job, configured.as_ref(), &overrides);
    let record = JobRecord {
        declared: job.clone(),
        configured: configured.clone(),
        overrides,
        job: effective,
        origin: *origin,
        app: app.clone(),
        release: *release,
        cursor: None,
        last_nominal: None,
        runs: 0,
        paused: None,
        retired: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    started(record, now)
}

fn changed(stored: &JobRecord, declaration: &Declaration, now: Timestamp) -> JobRecord {
    let Declaration { job: declared, configured, app, release, origin } = declaration;
    let (job, kept) = merged(stored, declared, configured.as_ref(), &stored.overrides);
    let record = JobRecord {
        declared: declared.clone(),
        configured: configured.clone(),
        job,
        origin: *origin,
        app: app.clone(),
        release: *release,
        updated_at: now,
        version: stored.version + 1,
        ..stored.clone()
    };
    match stored.retired {
        // The same schedule goes on as it was, also when it is over.
        None | Some(Retirement::Finished) if kept => record,
        _ => started(record, now),
    }
}

/// The definition in force, and whether its schedule is the one the record runs by.
///
/// A misfire may have moved the anchor of an interval that follows its last run. That is where the job
/// stands, not what anybody declared, so layers are compared with layers and the moved schedule is kept.
/// Any other interval is as declared.
fn merged(
    record: &JobRecord,
    declared: &Job,
    configured: Option<&Schedule>,
    overrides: &Overrides,
) -> (Job, bool) {
    let before = effective(&record.declared, record.configured.as_ref(), &record.overrides);
    let mut job = effective(declared, configured, overrides);
    let moved = job.schedule.follows_last_run();
    let kept = before.schedule == job.schedule && (moved || record.job.schedule == job.schedule);
    if kept {
        job.schedule = record.job.schedule.clone();
    }
    (job, kept)
}

/// The record with its cursor on the first occurrence after now, or finished when there is none.
///
/// Never on one that was decided about: a clock that is behind must not fire an occurrence again.
fn started(record: JobRecord, now: Timestamp) -> JobRecord {
    let cursor = first_cursor(&record.job.schedule, &record, now);
    let retired = match cursor {
        Some(_) => None,
        None => Some(Retirement::Finished),
    };
    JobRecord { cursor, retired, ..record }
}

/// The first occurrence of a schedule after now and after what was decided about, while there are runs
/// left.
fn first_cursor(schedule: &Schedule, record: &JobRecord, now: Timestamp) -> Option<Timestamp> {
    let has_runs_left = schedule.runs_max().is_none_or(|most| record.runs < most);
    let decided = record.last_nominal.map_or(now, |last| last.max(now));
    schedule.next(decided).filter(|_| has_runs_left)
}

#[cfg(test)]
mod tests;
