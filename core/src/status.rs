//! The status view: every job a process declares or its storage remembers, with its next time, its last
//! run, what runs now and what is wrong, in one list. It is complete on a fresh deployment, where nothing
//! ever ran, and while the storage is away, where it shows what the process itself knows. Pure: what was
//! found goes in, the list comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::config::ConfigProblem;
use crate::model::{Execution, JobName, JobPhase, JobRecord, Pause, Retirement, Topic};
use crate::policy::{Declaration, Field, Layer, Reconciliation, layers, reconcile, upcoming};

/// How all jobs are.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// When it was looked at.
    pub at: Timestamp,
    /// Why the storage could not be asked; the list is then what this process knows by itself.
    pub storage_error: Option<String>,
    /// Every job, by name.
    pub jobs: Vec<JobStatus>,
    /// What of the configuration is not used.
    pub misconfigured: Vec<ConfigProblem>,
}

/// How one job is.
#[derive(Clone, Debug, Serialize)]
pub struct JobStatus {
    /// Its name.
    pub name: JobName,
    /// The application it belongs to.
    pub app: String,
    /// What it is for.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Its schedule as text.
    pub schedule: String,
    /// Its schedule in words.
    pub in_words: String,
    /// Whether it is active, paused or retired.
    pub phase: JobPhase,
    /// The next occurrence; none while it does not fire.
    pub next_at: Option<Timestamp>,
    /// The last run that ended; none when it never ran, or when nobody remembers.
    pub last: Option<Arc<Execution>>,
    /// How long that took, in milliseconds.
    pub last_took_ms: Option<u64>,
    /// Whether it never ran.
    pub never_run: bool,
    /// How many of its runs are running now.
    pub running: u64,
    /// Who paused it, why and until when.
    pub paused: Option<Pause>,
    /// Why it fires no more.
    pub retired: Option<Retirement>,
    /// What an operator changed.
    pub overridden: Vec<Field>,
    /// Occurrences still to come that will be skipped.
    pub skips: Vec<Timestamp>,
    /// Why it cannot run here, when it cannot.
    pub broken: Option<String>,
    /// What is wrong with its configured cron text, when something is.
    pub misconfigured: Option<String>,
    /// Everything the storage remembers of it, or will when the storage has heard of it.
    #[serde(skip)]
    pub record: Box<JobRecord>,
}

impl JobStatus {
    /// In a word or two, the most telling first.
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

/// What was found about the jobs.
pub(crate) struct Found<'a> {
    /// The application that looks.
    pub(crate) app: &'a str,
    /// What this process declares.
    pub(crate) declarations: &'a [Declaration],
    /// What the storage remembers, or why it could not be asked.
    pub(crate) stored: Result<Vec<JobRecord>, String>,
    /// The last run of each job that is known.
    pub(crate) latest: BTreeMap<JobName, Arc<Execution>>,
    /// How many messages of each job are running.
    pub(crate) running: BTreeMap<JobName, u64>,
    /// What of the configuration is not used.
    pub(crate) misconfigured: &'a [ConfigProblem],
}

impl Found<'_> {
    /// Puts together what was found; `handles` says which topics this process can run.
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
            // As it will be stored when that is possible.
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
        // Another application's jobs are its own affair.
        let is_ours = record.app == self.app;
        let broken = (is_ours && !handles(&record.job.topic))
            .then(|| format!("this process has no handler for the topic {:?}", record.job.topic));
        let wrong =
            self.misconfigured.iter().find(|wrong| wrong.job.as_deref() == Some(name.as_str()));
        JobStatus {
            phase: record.phase(),
            next_at: upcoming(&record, 1).first().copied().filter(|_| record.paused.is_none()),
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
