//! Reconcile: decides from a declaration and the stored record what is written for a job. Three layers make the
//! definition in force: code declares, configuration may replace the cron text, an operator may override more.
//! Each layer is stored separately, so that removing one restores the one below. A deploy that changes nothing
//! writes nothing, and the cursor moves only when the schedule changes: occurrences missed meanwhile are left
//! to the misfire policy. Pausing belongs to the operator alone; nothing here ends a pause or deletes a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::model::{
    HandlerOptions, Job, JobCommand, JobName, JobRecord, Origin, Overrides, Retirement,
};
use crate::schedule::{Cron, Schedule, ScheduleError};

/// Declaration of a job by an application.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declaration {
    /// Job as declared.
    pub job: Job,
    /// Schedule that the configuration sets instead; see [`configured_schedule`].
    pub configured: Option<Schedule>,
    /// Application; other applications do not change its jobs.
    pub app: String,
    /// Number that grows with every release; an older release changes nothing.
    pub release: u64,
    /// Origin of the declaration.
    pub origin: Origin,
}

/// All jobs that an application declares in one release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredSet<'a> {
    /// Application.
    pub app: &'a str,
    /// Number that grows with every release.
    pub release: u64,
    /// Names of its jobs.
    pub names: &'a BTreeSet<JobName>,
    /// Whether an empty set is intended. Otherwise it is treated as a mistake and retires nothing.
    pub allow_empty: bool,
}

/// Decision about a declaration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reconciliation {
    /// The job is new; this is its first record.
    Create(Box<JobRecord>),
    /// The job differs; this is its new record.
    Change(Box<JobRecord>),
    /// Nothing differs, so nothing is written.
    Unchanged,
    /// A newer release has declared the job already.
    Outdated,
    /// The name belongs to a job of this other application.
    Foreign(String),
}

/// Returns the definition in force: declared, then configured, then overridden.
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

/// Returns the schedule of a declared job with a configured cron text: only the text is replaced; the zone, the
/// bounds and the calendars stay.
pub(crate) fn configured_schedule(declared: &Job, cron_text: &str) -> Result<Schedule> {
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

/// Returns a schedule with the bounds and the calendars of another one.
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
/// A seeded declaration only creates a missing job: afterwards the storage is the authority. A declaration in
/// code takes over a name that is no longer declared, or that was made at run time. A job made at run time
/// never takes over the job of another owner.
pub(crate) fn reconcile(
    stored: Option<&JobRecord>,
    declaration: &Declaration,
    now: Timestamp,
) -> Reconciliation {
    let Some(stored) = stored else {
        return Reconciliation::Create(Box::new(new_record(declaration, now)));
    };
    if declaration.origin == Origin::Seeded {
        return Reconciliation::Unchanged;
    }
    let same_owner = stored.app == declaration.app && stored.origin == declaration.origin;
    let removed = stored.retired == Some(Retirement::Removed);
    let is_foreign = match declaration.origin {
        // A job made at run time gives way to the code, but not to another application.
        Origin::Runtime if stored.origin == Origin::Runtime => stored.app != declaration.app,
        _ => stored.origin == Origin::Declared && !same_owner,
    };
    if is_foreign && !removed {
        return Reconciliation::Foreign(stored.app.clone());
    }
    if same_owner && declaration.release < stored.release {
        return Reconciliation::Outdated;
    }
    let record = changed_record(stored, declaration, now);
    // A newer release that declares the same writes nothing, not even its number.
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

/// Returns the jobs of an application that are no longer declared, as retired records.
pub(crate) fn retire_vanished(
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

/// Returns the command that sets an operator's values on a job, or resets them with empty ones.
///
/// A different schedule applies strictly after now and after the last occurrence decided about: editing never
/// replays the past. The same schedule continues where it was. A job that is no longer declared gets its cursor
/// when it is declared again.
pub(crate) fn overridden(record: &JobRecord, overrides: Overrides, now: Timestamp) -> JobCommand {
    let (job, kept) = merge(record, &record.declared, record.configured.as_ref(), &overrides);
    let cursor = if kept || record.retired == Some(Retirement::Removed) {
        record.cursor
    } else {
        first_cursor(&job.schedule, record, now)
    };
    JobCommand::Override { overrides: Box::new(overrides), job: Box::new(job), cursor }
}

/// Returns the cursor of a job when its pause ends: the first occurrence after its end, so that the paused time
/// is never made up for. A cursor still to come stays, also for a clock that is behind; a one-time job keeps
/// its instant and runs even if it has passed.
pub(crate) fn cursor_after_pause(record: &JobRecord, end: Timestamp) -> Option<Timestamp> {
    let schedule = &record.job.schedule;
    match record.cursor {
        Some(cursor) if cursor > end || schedule.as_once().is_some() => Some(cursor),
        None if schedule.as_once().is_some() => None,
        _ => schedule.next(end),
    }
}

fn new_record(declaration: &Declaration, now: Timestamp) -> JobRecord {
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
    with_first_cursor(record, now)
}

fn changed_record(stored: &JobRecord, declaration: &Declaration, now: Timestamp) -> JobRecord {
    let Declaration { job: declared, configured, app, release, origin } = declaration;
    let (job, kept) = merge(stored, declared, configured.as_ref(), &stored.overrides);
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
        // The same schedule continues as it was, also when it is over.
        None | Some(Retirement::Finished) if kept => record,
        _ => with_first_cursor(record, now),
    }
}

/// Returns the definition in force, and whether its schedule is the one of the record.
///
/// A misfire may have moved the anchor of an interval that follows its last run. That is progress of the job,
/// not a declaration, so layers are compared with layers and the moved schedule is kept. Any other interval is
/// as declared.
fn merge(
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

/// Returns the record with its cursor on the first occurrence after now, or finished when there is none. The
/// cursor never returns to an occurrence that was decided about: a clock that is behind must not fire it again.
fn with_first_cursor(record: JobRecord, now: Timestamp) -> JobRecord {
    let cursor = first_cursor(&record.job.schedule, &record, now);
    let retired = match cursor {
        Some(_) => None,
        None => Some(Retirement::Finished),
    };
    JobRecord { cursor, retired, ..record }
}

/// Returns the first occurrence of a schedule after now and after the last one decided about, while runs are
/// left.
fn first_cursor(schedule: &Schedule, record: &JobRecord, now: Timestamp) -> Option<Timestamp> {
    let has_runs_left = schedule.runs_max().is_none_or(|most| record.runs < most);
    let decided = record.last_nominal.map_or(now, |last| last.max(now));
    schedule.next(decided).filter(|_| has_runs_left)
}

#[cfg(test)]
mod tests;
