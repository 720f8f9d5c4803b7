//! Status view: every job that a process declares or its storage contains, with its next occurrence, its last
//! run, its current runs and its problems, in one list. The list is complete on a new deployment, where no job
//! ever ran, and while the storage is unreachable, where it shows the declarations and the recent runs of the
//! process itself. Pure: a function from the facts to the list.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::config::ConfigProblem;
use crate::model::{Execution, JobName, JobPhase, JobRecord, Pause, Retirement, Topic};
use crate::policy::{Declaration, Field, Layer, Reconciliation, layers, reconcile, upcoming};
use crate::schedule::Schedule;

/// Status of all jobs.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Instant of the status.
    pub at: Timestamp,
    /// Error of the storage; the list then contains the declarations of this process only.
    pub storage_error: Option<String>,
    /// Every job, by name.
    pub jobs: Vec<JobStatus>,
    /// Problems of the configuration.
    pub misconfigured: Vec<ConfigProblem>,
}

/// Status of a job.
#[derive(Clone, Debug, Serialize)]
pub struct JobStatus {
    /// Name of the job.
    pub name: JobName,
    /// The application it belongs to.
    pub app: String,
    /// Description of its purpose.
    pub description: Option<String>,
    /// Tags by which it can be found.
    pub tags: Vec<String>,
    /// Its schedule as text.
    pub schedule: String,
    /// Its schedule in words.
    pub in_words: String,
    /// Whether it is active, paused or retired.
    pub phase: JobPhase,
    /// The next occurrence; `None` while it does not fire.
    pub next_at: Option<Timestamp>,
    /// The last run that ended; `None` when it never ran or its history was pruned.
    pub last: Option<Arc<Execution>>,
    /// Duration of that run in milliseconds.
    pub last_took_ms: Option<u64>,
    /// Whether it never ran.
    pub never_run: bool,
    /// Number of its current runs.
    pub running: u64,
    /// The pause: operator, reason and end.
    pub paused: Option<Pause>,
    /// Why it no longer fires.
    pub retired: Option<Retirement>,
    /// Fields that an operator changed.
    pub overridden: Vec<Field>,
    /// Future occurrences that will be skipped.
    pub skips: Vec<Timestamp>,
    /// Why it cannot run in this process.
    pub broken: Option<String>,
    /// The problem of its configured cron text.
    pub misconfigured: Option<String>,
    /// The stored record; for a job that is not stored yet, the record that will be stored.
    #[serde(skip)]
    pub record: Box<JobRecord>,
}

impl JobStatus {
    /// Returns the status in one or two words, the most important aspect first.
    pub fn word(&self) -> &'static str {
        match (self.retired, &self.paused) {
            _ if self.running > 0 => "running",
            (Some(Retirement::Removed), _) => "removed",
            (Some(Retirement::Finished), _) => "finished",
            (None, Some(_)) => "paused",
            (None, None) if self.broken.is_some() => "broken",
            (None, None) if self.never_run => "never run",
            (None, None) => self.last.as_ref().map_or("waiting", |last| last.ending.as_str()),
        }
    }
}

/// The facts from which a status is built.
pub(crate) struct StatusFacts<'a> {
    /// The application of this process.
    pub(crate) app: &'a str,
    /// The declarations of this process.
    pub(crate) declarations: &'a [Declaration],
    /// The stored jobs, or the error of the storage.
    pub(crate) stored: Result<Vec<JobRecord>, String>,
    /// The last known run of each job.
    pub(crate) latest: BTreeMap<JobName, Arc<Execution>>,
    /// Number of running messages of each job.
    pub(crate) running: BTreeMap<JobName, u64>,
    /// Problems of the configuration.
    pub(crate) misconfigured: &'a [ConfigProblem],
}

impl StatusFacts<'_> {
    /// Builds the status; `handles` returns whether this process has a handler for a topic.
    pub(crate) fn status(mut self, handles: impl Fn(&Topic) -> bool, now: Timestamp) -> Status {
        let stored = std::mem::replace(&mut self.stored, Ok(Vec::new()));
        let (stored, storage_error) = match stored {
            Ok(stored) => (stored, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let mut records: BTreeMap<JobName, JobRecord> =
            stored.into_iter().map(|record| (record.job.name.clone(), record)).collect();
        for declaration in self.declarations {
            let name = &declaration.job.name;
            // The record that will be stored when the storage is reachable.
            if !records.contains_key(name)
                && let Reconciliation::Create(record) = reconcile(None, declaration, now)
            {
                records.insert(name.clone(), *record);
            }
        }
        let jobs = records.into_values().map(|record| self.job(record, &handles)).collect();
        Status { at: now, storage_error, jobs, misconfigured: self.misconfigured.to_vec() }
    }

    fn job(&self, record: JobRecord, handles: impl Fn(&Topic) -> bool) -> JobStatus {
        let name = record.job.name.clone();
        let last = self.latest.get(&name).cloned();
        // Handlers of other applications' jobs are not known here.
        let is_ours = record.app == self.app;
        let broken = (is_ours && !handles(&record.job.topic))
            .then(|| format!("this process has no handler for the topic {:?}", record.job.topic));
        let wrong =
            self.misconfigured.iter().find(|wrong| wrong.job.as_deref() == Some(name.as_str()));
        JobStatus {
            phase: record.phase(),
            next_at: upcoming(&record, 1, Schedule::next)
                .first()
                .copied()
                .filter(|_| record.paused.is_none()),
            never_run: last.is_none() && record.runs == 0 && !self.running.contains_key(&name),
            last_took_ms: last
                .as_ref()
                .map(|last| u64::try_from(last.took().as_millis()).unwrap_or(u64::MAX)),
            last,
            running: self.running.get(&name).copied().unwrap_or(0),
            overridden: overridden(&record),
            skips: record.overrides.skips.iter().copied().collect(),
            broken,
            misconfigured: wrong.map(|wrong| wrong.problem.clone()),
            schedule: record.job.schedule.to_string(),
            in_words: record.job.schedule.describe(),
            app: record.app.clone(),
            description: record.job.description.clone(),
            tags: record.job.tags.clone(),
            paused: record.paused.clone(),
            retired: record.retired,
            name,
            record: Box::new(record),
        }
    }
}

fn overridden(record: &JobRecord) -> Vec<Field> {
    let is_overridden = |layer: &Layer| layer.field != Field::Enabled && layer.overridden.is_some();
    layers(record).into_iter().filter(is_overridden).map(|layer| layer.field).collect()
}
