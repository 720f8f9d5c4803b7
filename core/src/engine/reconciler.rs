//! The reconciler: what the code declares, what the configuration overrides and what the storage
//! remembers become one. It is tried while the process starts, then inside the scheduler's turns until it
//! succeeds, so that a storage that is down at start delays scheduling and nothing else. What is
//! declared while a process runs takes the same two steps, [`declare`] and [`retire`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;

use super::{Process, Service, Turn, alive};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::JobFilter;
use crate::model::{JobName, JobRecord};
use crate::policy::{Declaration, DeclaredSet, Reconciliation, reconcile, retire_vanished};
use crate::storage::DeclareResult;

/// How often one job is read and decided again when others write at the same time.
const TRIES_MAX: usize = 10;
/// How many jobs are written at once: storages share a commit between those who wait for one.
const TOGETHER_MAX: usize = 64;

/// Brings the storage in line with the declarations, once.
pub(crate) struct Reconciler {
    process: Arc<Process>,
    done: bool,
}

/// Declares the jobs of a process that fires none, until the storage has them.
#[async_trait]
impl Service for Reconciler {
    fn name(&self) -> &'static str {
        "reconciler"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        let now = alive(&self.process, now).await?;
        self.reconcile(now).await?;
        Ok(Turn::WhenWoken)
    }
}

impl Reconciler {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, done: false }
    }

    /// Does what is left to do; nothing once it has succeeded.
    pub(crate) async fn reconcile(&mut self, now: Timestamp) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let process = &*self.process;
        let declarations = &process.declarations;
        if !declarations.is_empty() {
            let stored = stored(process).await?;
            for (declaration, came) in
                declarations.iter().zip(declare(process, declarations, &stored, now).await?)
            {
                if let Came::Foreign(owner) = came {
                    // One job of another application must not keep ours from being declared.
                    let job = declaration.job.name.clone();
                    process.events.emit(Event::JobForeign { job, owner });
                }
            }
        }
        self.done = !process.options.scheduling;
        if self.done {
            // It declares what it brings; what its application no longer has is known to those that fire.
            return Ok(());
        }
        let names = declarations.iter().map(|declaration| declaration.job.name.clone()).collect();
        let set = DeclaredSet {
            app: &process.app,
            release: process.release,
            names: &names,
            allow_empty: process.options.allow_empty_reconcile,
        };
        retire(process, &set, now).await?;
        self.done = true;
        Ok(())
    }
}

/// What a declaration came to.
pub(crate) enum Came {
    /// It is stored; this is the record now.
    Stored(Box<JobRecord>, DeclareResult),
    /// A newer release has spoken already.
    Outdated(Box<JobRecord>),
    /// The name belongs to a job that this application declares.
    Foreign(String),
    /// What is stored is not what the caller has seen.
    Different,
}

/// Every job that the storage remembers, by name.
pub(crate) async fn stored(process: &Process) -> Result<BTreeMap<JobName, JobRecord>> {
    let records = process.inspect.jobs(JobFilter::default()).await?;
    Ok(records.into_iter().map(|record| (record.job.name.clone(), record)).collect())
}

/// Stores declarations, as far as they differ from what was seen; answers what each came to.
pub(crate) async fn declare(
    process: &Process,
    declarations: &[Declaration],
    seen: &BTreeMap<JobName, JobRecord>,
    now: Timestamp,
) -> Result<Vec<Came>> {
    let mut came = Vec::with_capacity(declarations.len());
    for some in declarations.chunks(TOGETHER_MAX) {
        let declared = some.iter().map(|declaration| {
            let seen = seen.get(&declaration.job.name).cloned();
            declare_one(process, declaration, seen, &|_| true, now)
        });
        came.extend(try_join_all(declared).await?);
    }
    Ok(came)
}

/// Stores one declaration as long as what it replaces is as it should be.
pub(crate) async fn declare_one(
    process: &Process,
    declaration: &Declaration,
    mut seen: Option<JobRecord>,
    is_right: &(dyn Fn(Option<&JobRecord>) -> bool + Sync),
    now: Timestamp,
) -> Result<Came> {
    let name = &declaration.job.name;
    for _ in 0..TRIES_MAX {
        if !is_right(seen.as_ref()) {
            return Ok(Came::Different);
        }
        let record = match (reconcile(seen.as_ref(), declaration, now), seen.take()) {
            (Reconciliation::Foreign(owner), _) => return Ok(Came::Foreign(owner)),
            (Reconciliation::Unchanged, Some(seen)) => {
                return Ok(Came::Stored(Box::new(seen), DeclareResult::Unchanged));
            }
            (Reconciliation::Outdated, Some(seen)) => return Ok(Came::Outdated(Box::new(seen))),
            (Reconciliation::Create(record), _) => (record, None),
            (Reconciliation::Change(record), seen) => (record, seen),
            // Nothing is unchanged or outdated that was never stored.
            (Reconciliation::Unchanged | Reconciliation::Outdated, None) => continue,
        };
        let (record, before) = record;
        let version = before.as_ref().map(|before| before.version);
        let answer = process.storage.declare((*record).clone(), version, now).await?;
        let change = match answer {
            DeclareResult::Created => "created",
            DeclareResult::Changed => "changed",
            DeclareResult::Unchanged => {
                let record = before.map_or(record, Box::new);
                return Ok(Came::Stored(record, DeclareResult::Unchanged));
            }
            DeclareResult::Raced => {
                seen = process.inspect.job(name).await?;
                continue;
            }
        };
        let (job, cursor) = (name.clone(), record.cursor);
        process.events.emit(Event::JobDeclared { job, change, cursor });
        return Ok(Came::Stored(record, answer));
    }
    Err(Error::unavailable(format!("the job {name:?} kept changing while it was declared"))
        .during("reconcile"))
}

/// Retires what an application no longer declares; answers the names.
pub(crate) async fn retire(
    process: &Process,
    set: &DeclaredSet<'_>,
    now: Timestamp,
) -> Result<BTreeSet<JobName>> {
    let filter = JobFilter { app: Some(set.app.to_owned()), ..JobFilter::default() };
    let stored = process.inspect.jobs(filter).await?;
    let mut retired = BTreeSet::new();
    for record in retire_vanished(&stored, set, now) {
        let (job, seen) = (record.job.name.clone(), record.version - 1);
        if process.storage.declare(record, Some(seen), now).await? == DeclareResult::Changed {
            process.events.emit(Event::JobRetired { job: job.clone(), reason: "removed" });
            retired.insert(job);
        }
    }
    Ok(retired)
}
