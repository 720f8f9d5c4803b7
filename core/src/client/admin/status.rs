//! Status of all jobs, read from the storage and from the declarations and recent runs of this process. It only
//! reads, and returns also while the storage does not respond.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::health::timed_out;
use super::{Admin, TIMEOUT};
use crate::clock::{Clock, within};
use crate::error::{Error, Result};
use crate::inspect::{ExecutionFilter, JobFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::time::add;
use crate::model::{Execution, JobName, JobRecord, MessageState, Topic};
use crate::status::{JobStatus, Status, StatusFacts};

/// Number of newest executions that are searched for the last run of each job.
const NEWEST_MAX: usize = 500;
/// Number of further jobs whose last run is read by name.
const BY_NAME_MAX: usize = 100;

/// The stored facts about the jobs.
#[derive(Default)]
struct StoredJobs {
    records: Vec<JobRecord>,
    running: BTreeMap<JobName, u64>,
    latest: BTreeMap<JobName, Arc<Execution>>,
}

impl Admin {
    /// Returns the status of every job that this process declares or the storage contains. Returns within five
    /// seconds also while the storage does not respond, then with the declarations and runs of this process.
    pub async fn status(&self) -> Status {
        let process = &*self.process;
        let clock: &dyn Clock = &*process.env.clock;
        let until = add(clock.now(), TIMEOUT);
        let result = within(clock, until, self.stored_jobs()).await;
        let result = result.unwrap_or_else(|| timed_out(TIMEOUT));
        let (stored, running, latest) = match result {
            Ok(StoredJobs { records, running, latest }) => (Ok(records), running, latest),
            Err(error) => {
                let here = process.declared.declarations.iter().filter_map(|declared| {
                    let name = &declared.job.name;
                    Some((name.clone(), process.runner.recent_runs.last(name)?))
                });
                (Err(error.to_string()), process.runner.in_flight.jobs(), here.collect())
            }
        };
        let (app, declarations) =
            (process.env.app.as_str(), process.declared.declarations.as_slice());
        let misconfigured = &process.declared.misconfigured.list();
        let facts = StatusFacts { app, declarations, stored, latest, running, misconfigured };
        let handles = |topic: &Topic| {
            !process.env.options.handling || process.runner.registry.contains(topic)
        };
        facts.status(handles, clock.now())
    }

    /// Returns the status of a job that this process declares or the storage contains.
    pub async fn status_of(&self, job: impl AsRef<str>) -> Result<JobStatus> {
        let process = &*self.process;
        let name = JobName::new(job)?;
        let record = self.inspect.job(&name).await?;
        let index =
            process.declared.declarations.iter().position(|declared| declared.job.name == name);
        let declarations =
            index.map_or(&[][..], |index| &process.declared.declarations[index..=index]);
        let running = self.running(Some(name.clone())).await?;
        let last = self.inspect.latest_runs(std::slice::from_ref(&name), 1).await?.pop();
        let mut latest: BTreeMap<_, _> =
            last.map(|last| (name.clone(), Arc::new(last))).into_iter().collect();
        let created_at = record.as_ref().map_or(Timestamp::MIN, |record| record.created_at);
        keep_later(&mut latest, self.recent_since(&name, created_at));
        let stored = Ok(record.into_iter().collect());
        let (app, misconfigured) =
            (process.env.app.as_str(), &process.declared.misconfigured.list());
        let facts = StatusFacts { app, declarations, stored, latest, running, misconfigured };
        let handles = |topic: &Topic| {
            !process.env.options.handling || process.runner.registry.contains(topic)
        };
        facts.status(handles, process.now()).jobs.pop().ok_or_else(|| {
            Error::not_found(format!("there is no job {name:?}; jobs() lists the jobs"))
        })
    }

    /// Returns the latest runs of a job in this process, newest first, without reading the storage.
    pub fn recent(&self, job: impl AsRef<str>) -> Result<Vec<Arc<Execution>>> {
        Ok(self.process.runner.recent_runs.of(&JobName::new(job)?))
    }

    async fn stored_jobs(&self) -> Result<StoredJobs> {
        let records = self.inspect.jobs(JobFilter::default()).await?;
        let running = self.running(None).await?;
        let mut latest = self.newest().await?;
        for record in &records {
            let name = &record.job.name;
            keep_later(&mut latest, self.recent_since(name, record.created_at));
        }
        let mut unknown: Vec<&JobRecord> =
            records.iter().filter(|record| !latest.contains_key(&record.job.name)).collect();
        // Jobs that have run come first, so that the bound cuts off the others.
        unknown.sort_by_key(|record| record.runs == 0);
        unknown.truncate(BY_NAME_MAX);
        let unknown: Vec<JobName> =
            unknown.into_iter().map(|record| record.job.name.clone()).collect();
        for last in self.inspect.latest_runs(&unknown, 1).await? {
            latest.extend(last.job.clone().map(|name| (name, Arc::new(last))));
        }
        Ok(StoredJobs { records, running, latest })
    }

    /// Returns the last run of a job in this process, unless it belongs to a deleted job of the same name.
    fn recent_since(
        &self,
        name: &JobName,
        created_at: Timestamp,
    ) -> Option<(JobName, Arc<Execution>)> {
        let last = self
            .process
            .runner
            .recent_runs
            .last(name)
            .filter(|last| last.ended_at >= created_at)?;
        Some((name.clone(), last))
    }

    /// Returns the number of running messages of each job, or of one, on all processes.
    async fn running(&self, job: Option<JobName>) -> Result<BTreeMap<JobName, u64>> {
        let states = vec![MessageState::Running];
        let filter = MessageFilter { states, job, ..MessageFilter::default() };
        let mut running = BTreeMap::new();
        for record in self.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?.rows {
            if let Some(occurrence) = &record.message.occurrence {
                *running.entry(occurrence.job.clone()).or_default() += 1;
            }
        }
        Ok(running)
    }

    /// Returns the last run of each job among the newest executions.
    async fn newest(&self) -> Result<BTreeMap<JobName, Arc<Execution>>> {
        let mut latest: BTreeMap<JobName, Arc<Execution>> = BTreeMap::new();
        for execution in
            self.executions(ExecutionFilter::runs(), PageRequest::first(NEWEST_MAX)).await?.rows
        {
            let Some(job) = execution.job.clone() else { continue };
            match latest.get(&job) {
                Some(known) if known.ended_at >= execution.ended_at => {}
                _ => {
                    latest.insert(job, Arc::new(execution));
                }
            }
        }
        Ok(latest)
    }
}

/// Keeps the later of two runs of a job.
fn keep_later(
    latest: &mut BTreeMap<JobName, Arc<Execution>>,
    here: Option<(JobName, Arc<Execution>)>,
) {
    let Some((name, here)) = here else { return };
    // On a tie the stored execution wins: the storage may have recorded another outcome than this process.
    let known = latest.entry(name).or_insert_with(|| here.clone());
    if here.ended_at > known.ended_at {
        *known = here;
    }
}
