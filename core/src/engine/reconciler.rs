//! Reconciler: brings the stored jobs in line with the declarations of the code and the overrides of the
//! configuration. It runs while the process starts, then inside the scheduler's turns until it succeeds, so
//! that a storage that is down at the start delays only scheduling. Declarations while a process runs take
//! the same two steps, [`declare`] and [`retire`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;

use super::{Process, Service, Turn, ensure_alive};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::JobFilter;
use crate::model::{JobName, JobRecord};
use crate::policy::{Declaration, DeclaredSet, Reconciliation, reconcile, retire_vanished};
use crate::storage::DeclareResult;

/// Largest number of tries for one job when other processes write it at the same time.
const TRIES_MAX: usize = 10;
/// Largest number of jobs written at once; storages share a commit between concurrent writes.
const CONCURRENT_WRITES_MAX: usize = 64;

/// Brings the storage in line with the declarations, once.
pub(crate) struct Reconciler {
    process: Arc<Process>,
    done: bool,
}

/// Used as a service by a process that fires no jobs: declares its jobs until the storage has them.
#[async_trait]
impl Service for Reconciler {
    fn name(&self) -> &'static str {
        "reconciler"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        let now = ensure_alive(&self.process, now).await?;
        self.reconcile(now).await?;
        Ok(Turn::WhenWoken)
    }
}

impl Reconciler {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, done: false }
    }

    /// Declares and retires jobs; does nothing once that has succeeded.
    pub(crate) async fn reconcile(&mut self, now: Timestamp) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let process = &*self.process;
        let declarations = &process.declared.declarations;
        if !declarations.is_empty() {
            let stored = stored(process).await?;
            for (declaration, outcome) in
                declarations.iter().zip(declare(process, declarations, &stored, now).await?)
            {
                if let DeclareOutcome::Foreign(owner) = outcome {
                    // A name of another application must not prevent the declaration of the other jobs.
                    let job = declaration.job.name.clone();
                    process.env.events.emit(Event::JobNameConflict { job, owner });
                }
            }
        }
        self.done = !process.env.options.scheduling;
        if self.done {
            // It only declares its own jobs; the processes that fire know which jobs their application dropped.
            return Ok(());
        }
        let names = declarations.iter().map(|declaration| declaration.job.name.clone()).collect();
        let set = DeclaredSet {
            app: &process.env.app,
            release: process.declared.release,
            names: &names,
            allow_empty: process.env.options.allow_empty_reconcile,
        };
        retire(process, &set, now).await?;
        self.done = true;
        Ok(())
    }
}

/// Outcome of a declaration.
pub(crate) enum DeclareOutcome {
    /// The declaration is stored; this is the record now.
    Stored(Box<JobRecord>, DeclareResult),
    /// A newer release has declared the job already.
    Outdated(Box<JobRecord>),
    /// The name belongs to a job that this application declares.
    Foreign(String),
    /// The stored job does not meet the caller's condition.
    Different,
}

/// Returns every stored job, by name.
pub(crate) async fn stored(process: &Process) -> Result<BTreeMap<JobName, JobRecord>> {
    let records = process.env.inspect.jobs(JobFilter::default()).await?;
    Ok(records.into_iter().map(|record| (record.job.name.clone(), record)).collect())
}

/// Stores declarations that differ from the given records; returns the outcome of each.
pub(crate) async fn declare(
    process: &Process,
    declarations: &[Declaration],
    known: &BTreeMap<JobName, JobRecord>,
    now: Timestamp,
) -> Result<Vec<DeclareOutcome>> {
    let mut outcomes = Vec::with_capacity(declarations.len());
    for some in declarations.chunks(CONCURRENT_WRITES_MAX) {
        let declared = some.iter().map(|declaration| {
            let known = known.get(&declaration.job.name).cloned();
            declare_one(process, declaration, known, &|_| true, now)
        });
        outcomes.extend(try_join_all(declared).await?);
    }
    Ok(outcomes)
}

/// Stores one declaration if the record that it replaces meets a condition.
pub(crate) async fn declare_one(
    process: &Process,
    declaration: &Declaration,
    mut known: Option<JobRecord>,
    condition: &(dyn Fn(Option<&JobRecord>) -> bool + Sync),
    now: Timestamp,
) -> Result<DeclareOutcome> {
    let name = &declaration.job.name;
    for _ in 0..TRIES_MAX {
        if !condition(known.as_ref()) {
            return Ok(DeclareOutcome::Different);
        }
        let record = match (reconcile(known.as_ref(), declaration, now), known.take()) {
            (Reconciliation::Foreign(owner), _) => return Ok(DeclareOutcome::Foreign(owner)),
            (Reconciliation::Unchanged, Some(known)) => {
                return Ok(DeclareOutcome::Stored(Box::new(known), DeclareResult::Unchanged));
            }
            (Reconciliation::Outdated, Some(known)) => {
                return Ok(DeclareOutcome::Outdated(Box::new(known)));
            }
            (Reconciliation::Create(record), _) => (record, None),
            (Reconciliation::Change(record), known) => (record, known),
            // Nothing is unchanged or outdated that was never stored.
            (Reconciliation::Unchanged | Reconciliation::Outdated, None) => continue,
        };
        let (record, before) = record;
        let version = before.as_ref().map(|before| before.version);
        let result = process.env.storage.declare((*record).clone(), version, now).await?;
        let change = match result {
            DeclareResult::Created => "created",
            DeclareResult::Changed => "changed",
            DeclareResult::Unchanged => {
                let record = before.map_or(record, Box::new);
                return Ok(DeclareOutcome::Stored(record, DeclareResult::Unchanged));
            }
            DeclareResult::Raced => {
                known = process.env.inspect.job(name).await?;
                continue;
            }
        };
        let (job, cursor) = (name.clone(), record.cursor);
        process.env.events.emit(Event::JobDeclared { job, change, cursor });
        return Ok(DeclareOutcome::Stored(record, result));
    }
    Err(Error::unavailable(format!("the job {name:?} kept changing while it was declared"))
        .during("reconcile"))
}

/// Retires jobs that an application no longer declares; returns their names.
pub(crate) async fn retire(
    process: &Process,
    set: &DeclaredSet<'_>,
    now: Timestamp,
) -> Result<BTreeSet<JobName>> {
    let filter = JobFilter { app: Some(set.app.to_owned()), ..JobFilter::default() };
    let stored = process.env.inspect.jobs(filter).await?;
    let mut retired = BTreeSet::new();
    for record in retire_vanished(&stored, set, now) {
        let (job, known) = (record.job.name.clone(), record.version - 1);
        if process.env.storage.declare(record, Some(known), now).await? == DeclareResult::Changed {
            process.env.events.emit(Event::JobRetired { job: job.clone(), reason: "removed" });
            retired.insert(job);
        }
    }
    Ok(retired)
}
