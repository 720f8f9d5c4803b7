//! Declarations of jobs while a process runs: one by one, or the whole set of a source such as a configuration
//! file. `policy/reconcile.rs` decides how they change the stored jobs, as it does at a start.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Admin;
use crate::client::JobBuilder;
use crate::client::{check_jobs, jobs, schedules};
use crate::config::resolve;
use crate::engine::{DeclareOutcome, declare, declare_one, retire, stored};
use crate::error::{Error, Result};
use crate::model::{JobCommand, JobName, JobRecord, Origin, Retirement};
use crate::policy::{Declaration, DeclaredSet, Reconciliation as Decided, reconcile};
use crate::storage::DeclareResult;

/// The result of declaring the jobs of a source, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclareReport {
    /// Jobs that are new.
    pub created: Vec<JobName>,
    /// Jobs that differed, or had been retired.
    pub changed: Vec<JobName>,
    /// Jobs that did not differ, or that a newer release has declared.
    pub unchanged: Vec<JobName>,
    /// Jobs that are no longer in the set.
    pub retired: Vec<JobName>,
}

impl Admin {
    /// Creates a job, or changes its definition. It belongs to this application, persists across restarts, and
    /// only [`Admin::retire`] retires it. Edits and pauses by operators stay. Fails with a conflict when code,
    /// a source or another application declares the name.
    ///
    /// Its handler is found by its topic, in this or another process. For a job that an external caller
    /// creates, set [`JobBuilder::topic`] to a topic that has a handler.
    pub async fn declare(&self, job: JobBuilder) -> Result<(JobRecord, DeclareResult)> {
        let declared = self.declare_if(job, |_| true).await?;
        declared.ok_or_else(|| Error::internal("the declaration of a job returned no job"))
    }

    /// Declares a job like [`Admin::declare`] if a condition holds for exactly the record that is replaced, or
    /// for none; returns `None` and stores nothing otherwise.
    pub async fn declare_if(
        &self,
        job: JobBuilder,
        condition: impl Fn(Option<&JobRecord>) -> bool + Sync,
    ) -> Result<Option<(JobRecord, DeclareResult)>> {
        let app = self.process.env.app.clone();
        // Release 0, because no deployment brings such a job: the last declaration wins.
        let declarations = self.declarations(vec![job], &app, 0, Origin::Runtime)?;
        let now = self.process.now();
        let Some(declaration) = declarations.first() else {
            return Err(Error::internal("a job builder returned no declaration"));
        };
        let seen = self.inspect.job(&declaration.job.name).await?;
        match declare_one(&self.process, declaration, seen, &condition, now).await? {
            DeclareOutcome::Stored(record, declared) => Ok(Some((*record, declared))),
            DeclareOutcome::Outdated(record) => Ok(Some((*record, DeclareResult::Unchanged))),
            DeclareOutcome::Foreign(owner) => Err(foreign(&[(&declaration.job.name, &owner)])),
            DeclareOutcome::Different => Ok(None),
        }
    }

    /// Retires a job: it fires no more, current runs continue, and its history stays. Its next declaration
    /// reactivates it: the next start for a job of code, the next set for a job of a source, else
    /// [`Admin::declare`].
    pub async fn retire(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        self.command_job(
            job.as_ref(),
            JobCommand::Retire { reason: Retirement::Removed },
            "retired",
        )
        .await
    }

    /// Replaces all jobs of a source, such as a configuration file that was read again. Jobs that are no longer
    /// in the set are retired, jobs that had been retired become active, and edits and pauses by operators
    /// stay. An empty set retires all jobs of the source.
    ///
    /// The set is checked as a whole before it is written: it is refused when a job is invalid, or when code,
    /// another source or another application declares one of the names. A job that was created by
    /// [`Admin::declare`] is taken over.
    ///
    /// The source is the application of its jobs, so its name must differ from other applications.
    pub async fn reconcile(&self, source: &str, jobs: Vec<JobBuilder>) -> Result<DeclareReport> {
        let process = &*self.process;
        let (mut reconciled, names) = self.declare_set(source, jobs).await?;
        let set = DeclaredSet {
            app: source,
            release: process.declared.release,
            names: &names,
            allow_empty: true,
        };
        reconciled.retired = retire(process, &set, process.now()).await?.into_iter().collect();
        Ok(reconciled)
    }

    /// Declares jobs of a source like [`Admin::reconcile`] but retires none. For a process that fires none and
    /// may not know all jobs of the source.
    pub async fn declare_all(&self, source: &str, jobs: Vec<JobBuilder>) -> Result<DeclareReport> {
        Ok(self.declare_set(source, jobs).await?.0)
    }

    /// Stores the jobs of a source; returns the result and all their names.
    async fn declare_set(
        &self,
        source: &str,
        jobs: Vec<JobBuilder>,
    ) -> Result<(DeclareReport, BTreeSet<JobName>)> {
        let process = &*self.process;
        if source.trim().is_empty() || source == process.env.app {
            return Err(Error::invalid(format!(
                "the source {source:?} needs a name that is not empty and not that of the application"
            )));
        }
        let release = process.declared.release;
        let declarations = self.declarations(jobs, source, release, Origin::Declared)?;
        process.declared.misconfigured.report_unknown_names(&process.env.events);
        let (now, stored) = (process.now(), stored(process).await?);
        let taken: Vec<(&JobName, String)> =
            declarations.iter().filter_map(|declared| taken(declared, &stored, now)).collect();
        if !taken.is_empty() {
            let taken: Vec<_> = taken.iter().map(|(name, owner)| (*name, owner.as_str())).collect();
            return Err(foreign(&taken));
        }
        let mut reconciled = DeclareReport::default();
        let came = declare(process, &declarations, &stored, now).await?;
        for (declaration, came) in declarations.iter().zip(came) {
            let name = &declaration.job.name;
            let names = match came {
                DeclareOutcome::Stored(_, DeclareResult::Created) => &mut reconciled.created,
                DeclareOutcome::Stored(_, DeclareResult::Changed) => &mut reconciled.changed,
                DeclareOutcome::Stored(..) | DeclareOutcome::Outdated(_) => {
                    &mut reconciled.unchanged
                }
                // Another process took the name after the check; the next set is refused as a whole.
                DeclareOutcome::Foreign(owner) => return Err(foreign(&[(name, &owner)])),
                // Impossible: there is no condition.
                DeclareOutcome::Different => continue,
            };
            names.push(name.clone());
        }
        let names = declarations.iter().map(|declaration| declaration.job.name.clone()).collect();
        Ok((reconciled, names))
    }

    /// Converts builders into checked declarations, with the schedules of the configuration.
    fn declarations(
        &self,
        builders: Vec<JobBuilder>,
        app: &str,
        release: u64,
        origin: Origin,
    ) -> Result<Vec<Declaration>> {
        let process = &*self.process;
        let jobs = jobs(builders, &process.declared.calendars)?;
        check_jobs(&jobs, process.env.has_storage, &process.env.options)?;
        let texts = resolve(&process.declared.configurations, &jobs).texts;
        let keys: Vec<String> = texts.iter().map(|(_, key, _)| key.clone()).collect();
        let (configured, wrong) = schedules(&jobs, texts, &process.env.events);
        process.declared.misconfigured.replace(&jobs, &keys, wrong);
        let declared = jobs.into_iter().zip(configured).map(|(job, configured)| {
            let app = app.to_owned();
            Declaration { job, configured, app, release, origin }
        });
        Ok(declared.collect())
    }
}

/// Returns the name and the owner of a job that another source or application declares.
fn taken<'a>(
    declaration: &'a Declaration,
    stored: &BTreeMap<JobName, JobRecord>,
    now: Timestamp,
) -> Option<(&'a JobName, String)> {
    let name = &declaration.job.name;
    match reconcile(stored.get(name), declaration, now) {
        Decided::Foreign(owner) => Some((name, owner)),
        _ => None,
    }
}

/// The most names in an error.
const NAMED_MAX: usize = 10;

fn foreign(taken: &[(&JobName, &str)]) -> Error {
    let named: Vec<String> = taken
        .iter()
        .take(NAMED_MAX)
        .map(|(name, owner)| format!("{name:?} of {owner:?}"))
        .collect();
    let more = match taken.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Error::conflict(format!(
        "another source declares the job {}{more}; choose another name, or remove it there first",
        named.join(", ")
    ))
}
