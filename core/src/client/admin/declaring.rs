//! Declaring jobs while a process runs: one by one, or the whole set of a source such as a configuration
//! file. What that means for what is stored is decided in `policy/reconcile.rs`, as at a start.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Admin;
use crate::client::JobBuilder;
use crate::config::resolve;
use crate::engine::{Came, declare, declare_one, retire, stored};
use crate::error::{Error, Result};
use crate::model::{JobCommand, JobName, JobRecord, Origin, Retirement};
use crate::policy::{Declaration, DeclaredSet, Reconciliation as Decided, reconcile};
use crate::punctual::{check_jobs, jobs, schedules};
use crate::storage::DeclareResult;

/// What declaring the whole set of a source came to, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredJobs {
    /// Jobs that are new.
    pub created: Vec<JobName>,
    /// Jobs that differed, or came back.
    pub changed: Vec<JobName>,
    /// Jobs that are as they were, or that a newer release has spoken about.
    pub unchanged: Vec<JobName>,
    /// Jobs that are no longer in the set.
    pub retired: Vec<JobName>,
}

impl Admin {
    /// Creates a job, or changes its definition, now. It belongs to this application, is kept across
    /// restarts, and no start retires it; [`Admin::retire`] does. What operators did to it, pause
    /// included, stays. A name that code, a source or another application has is refused as a conflict.
    ///
    /// Its handler is found by its topic, here or in another process. Who makes such jobs from outside
    /// gives them [`JobBuilder::topic`] with a topic that has a handler.
    pub async fn declare(&self, job: JobBuilder) -> Result<(JobRecord, DeclareResult)> {
        let declared = self.declare_if(job, |_| true).await?;
        declared.ok_or_else(|| Error::internal("no job came of one job"))
    }

    /// The same if what is stored under its name is as it was seen, which is asked about the very record
    /// that is replaced, or about none; answers nothing, and stores nothing, when it is not.
    pub async fn declare_if(
        &self,
        job: JobBuilder,
        is_as_seen: impl Fn(Option<&JobRecord>) -> bool + Sync,
    ) -> Result<Option<(JobRecord, DeclareResult)>> {
        let app = self.process.app.clone();
        // Whoever made it changes it: a release has nothing to say about what no release brings.
        let declarations = self.declarations(vec![job], &app, 0, Origin::Runtime)?;
        let now = self.process.now();
        let Some(declaration) = declarations.first() else {
            return Err(Error::internal("no declaration came of one job"));
        };
        let seen = self.process.inspect.job(&declaration.job.name).await?;
        match declare_one(&self.process, declaration, seen, &is_as_seen, now).await? {
            Came::Stored(record, declared) => Ok(Some((*record, declared))),
            Came::Outdated(record) => Ok(Some((*record, DeclareResult::Unchanged))),
            Came::Foreign(owner) => Err(foreign(&[(&declaration.job.name, &owner)])),
            Came::Different => Ok(None),
        }
    }

    /// Lets a job fire no more; what runs goes on, and its history stays. Declared again it comes back:
    /// one of code at the next start, one of a source with the next set, any other by
    /// [`Admin::declare`].
    pub async fn retire(&self, job: impl AsRef<str>) -> Result<JobRecord> {
        self.steer(job.as_ref(), JobCommand::Retire { reason: Retirement::Removed }, "retired")
            .await
    }

    /// Replaces everything that a source declares, such as a configuration file that was read again. Jobs
    /// that are no longer in the set are retired, those that had been retired come back, and what
    /// operators did stays. An empty set is meant: it retires everything of the source.
    ///
    /// Everything is checked before anything is written: a wrong job, or a name that code, another source
    /// or another application has, refuses the whole set. A job that was made by [`Admin::declare`] is
    /// taken over.
    ///
    /// The source is the application the jobs belong to, so it needs a name of its own.
    pub async fn reconcile(&self, source: &str, jobs: Vec<JobBuilder>) -> Result<DeclaredJobs> {
        let process = &*self.process;
        let (mut reconciled, names) = self.declare_set(source, jobs).await?;
        let set =
            DeclaredSet { app: source, release: process.release, names: &names, allow_empty: true };
        reconciled.retired = retire(process, &set, process.now()).await?.into_iter().collect();
        Ok(reconciled)
    }

    /// Declares jobs of a source like [`Admin::reconcile`] and retires none: for a process that fires none, and may not know
    /// all jobs of the source.
    pub async fn declare_all(&self, source: &str, jobs: Vec<JobBuilder>) -> Result<DeclaredJobs> {
        Ok(self.declare_set(source, jobs).await?.0)
    }

    /// Stores what a source declares; returns the names as well.
    async fn declare_set(
        &self,
        source: &str,
        jobs: Vec<JobBuilder>,
    ) -> Result<(DeclaredJobs, BTreeSet<JobName>)> {
        let process = &*self.process;
        if source.trim().is_empty() || source == process.app {
            return Err(Error::invalid(format!(
                "the source {source:?} needs a name of its own, other than that of the application"
            )));
        }
        let release = process.release;
        let declarations = self.declarations(jobs, source, release, Origin::Declared)?;
        process.misconfigured.tell_unknown_names(&process.events);
        let (now, stored) = (process.now(), stored(process).await?);
        let taken: Vec<(&JobName, String)> =
            declarations.iter().filter_map(|declared| taken(declared, &stored, now)).collect();
        if !taken.is_empty() {
            let taken: Vec<_> = taken.iter().map(|(name, owner)| (*name, owner.as_str())).collect();
            return Err(foreign(&taken));
        }
        let mut reconciled = DeclaredJobs::default();
        let came = declare(process, &declarations, &stored, now).await?;
        for (declaration, came) in declarations.iter().zip(came) {
            let name = &declaration.job.name;
            let names = match came {
                Came::Stored(_, DeclareResult::Created) => &mut reconciled.created,
                Came::Stored(_, DeclareResult::Changed) => &mut reconciled.changed,
                Came::Stored(..) | Came::Outdated(_) => &mut reconciled.unchanged,
                // Somebody was faster; the next set is refused as a whole.
                Came::Foreign(owner) => return Err(foreign(&[(name, &owner)])),
                // Nobody asked for anything in particular.
                Came::Different => continue,
            };
            names.push(name.clone());
        }
        let names = declarations.iter().map(|declaration| declaration.job.name.clone()).collect();
        Ok((reconciled, names))
    }

    /// Builders as declarations, all of them checked, with what the configuration says about them.
    fn declarations(
        &self,
        builders: Vec<JobBuilder>,
        app: &str,
        release: u64,
        origin: Origin,
    ) -> Result<Vec<Declaration>> {
        let process = &*self.process;
        let jobs = jobs(builders, &process.calendars)?;
        check_jobs(&jobs, process.holds, &process.options)?;
        let texts = resolve(&process.configurations, &jobs).texts;
        let keys: Vec<String> = texts.iter().map(|(_, key, _)| key.clone()).collect();
        let (configured, wrong) = schedules(&jobs, texts, &process.events);
        process.misconfigured.replace(&jobs, &keys, wrong);
        let declared = jobs.into_iter().zip(configured).map(|(job, configured)| {
            let app = app.to_owned();
            Declaration { job, configured, app, release, origin }
        });
        Ok(declared.collect())
    }
}

/// Whose job it is already, when it is somebody else's.
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

/// The most names that are spelled out.
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
        "somebody else declares the job {}{more}; choose another name, or remove it there first",
        named.join(", ")
    ))
}
