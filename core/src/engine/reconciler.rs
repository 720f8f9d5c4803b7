//! The reconciler: what the code declares, what the configuration overrides and what the storage
//! remembers become one. It runs inside the scheduler's first turn and is tried again until it
//! succeeds, so that a storage that is down at start delays scheduling and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Process;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::inspect::JobFilter;
use crate::model::JobName;
use crate::policy::{Declaration, DeclaredSet, Reconciled, reconcile, retire_vanished};
use crate::storage::Declared;

/// How often one job is read and decided again when others write at the same time.
const TRIES_MAX: usize = 10;

/// Brings the storage in line with the declarations, once.
pub(crate) struct Reconciler {
    process: Arc<Process>,
    done: bool,
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
        for declaration in &self.process.declarations {
            self.declare(declaration, now).await?;
        }
        self.retire(now).await?;
        self.done = true;
        Ok(())
    }

    async fn declare(&self, declaration: &Declaration, now: Timestamp) -> Result<()> {
        let name = &declaration.job.name;
        for _ in 0..TRIES_MAX {
            let stored = self.process.inspect.job(name).await?;
            let record = match reconcile(stored.as_ref(), declaration, now) {
                Reconciled::Unchanged | Reconciled::Outdated => return Ok(()),
                Reconciled::Foreign(owner) => {
                    // One job of another application must not keep ours from being declared.
                    self.process.events.emit(Event::JobForeign { job: name.clone(), owner });
                    return Ok(());
                }
                Reconciled::Create(record) | Reconciled::Change(record) => record,
            };
            let cursor = record.cursor;
            let seen = stored.as_ref().map(|stored| stored.version);
            let change = match self.process.storage.declare(*record, seen, now).await? {
                Declared::Created => "created",
                Declared::Changed => "changed",
                Declared::Unchanged => return Ok(()),
                Declared::Raced => continue,
            };
            self.process.events.emit(Event::JobDeclared { job: name.clone(), change, cursor });
            return Ok(());
        }
        Err(Error::unavailable(format!("the job {name:?} kept changing while it was declared"))
            .during("reconcile"))
    }

    async fn retire(&self, now: Timestamp) -> Result<()> {
        let app = &self.process.app;
        let stored = self
            .process
            .inspect
            .jobs(JobFilter { app: Some(app.clone()), ..JobFilter::default() })
            .await?;
        let declared = &self.process.declarations;
        let names: BTreeSet<JobName> =
            declared.iter().map(|declaration| declaration.job.name.clone()).collect();
        let allow_empty = self.process.options.allow_empty_reconcile;
        let release = self.process.release;
        let set = DeclaredSet { app, release, names: &names, allow_empty };
        for record in retire_vanished(&stored, &set, now) {
            let (job, seen) = (record.job.name.clone(), record.version - 1);
            if self.process.storage.declare(record, Some(seen), now).await? == Declared::Changed {
                self.process.events.emit(Event::JobRetired { job, reason: "removed" });
            }
        }
        Ok(())
    }
}
