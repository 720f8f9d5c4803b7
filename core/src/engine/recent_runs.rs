//! Recent runs of each job, kept in memory beside the stored record, so that a list of jobs need not read the
//! history and can be shown while the storage is unreachable. Runs of a job and the number of jobs are
//! limited; the job that has not run for longest is dropped first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::{Execution, JobName};

/// Largest number of runs kept of a job.
pub const RECENT_RUNS_MAX: usize = 50;
/// Largest number of jobs with kept runs.
const JOBS_MAX: usize = 2_000;

/// Latest runs of jobs in this process.
#[derive(Default)]
pub(crate) struct RecentRuns {
    histories: Mutex<Histories>,
}

#[derive(Default)]
struct Histories {
    jobs: HashMap<JobName, JobRuns>,
    /// Jobs in the order of their last run.
    order: BTreeMap<u64, JobName>,
    next: u64,
}

#[derive(Default)]
struct JobRuns {
    last: u64,
    runs: VecDeque<Arc<Execution>>,
}

impl RecentRuns {
    /// Adds a run of a job; executions of other messages are ignored.
    pub(crate) fn push(&self, execution: &Arc<Execution>) {
        let Some(job) = &execution.job else { return };
        let forgotten = self.lock().push(job, execution.clone());
        // Outside the lock: it may be the last owner of many records.
        drop(forgotten);
    }

    /// Returns the runs of a job, newest first.
    pub(crate) fn of(&self, job: &JobName) -> Vec<Arc<Execution>> {
        let histories = self.lock();
        histories
            .jobs
            .get(job)
            .into_iter()
            .flat_map(|history| history.runs.iter().rev().cloned())
            .collect()
    }

    /// Returns the newest run of a job.
    pub(crate) fn last(&self, job: &JobName) -> Option<Arc<Execution>> {
        self.lock().jobs.get(job)?.runs.back().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Histories> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Histories {
    /// Adds a run; returns the history that was dropped for it, if any.
    fn push(&mut self, job: &JobName, execution: Arc<Execution>) -> Option<JobRuns> {
        let number = self.next;
        self.next += 1;
        let mut forgotten = None;
        if let Some(history) = self.jobs.get(job) {
            self.order.remove(&history.last);
        } else if self.jobs.len() >= JOBS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            forgotten = self.jobs.remove(&oldest);
        }
        self.order.insert(number, job.clone());
        let history = self.jobs.entry(job.clone()).or_default();
        history.last = number;
        if history.runs.len() >= RECENT_RUNS_MAX {
            history.runs.pop_front();
        }
        history.runs.push_back(execution);
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Ending, ExecutionId, Queue, Source, Topic};
    use jiff::Timestamp;
    use uuid::Uuid;

    fn run(job: &str, number: u64) -> Arc<Execution> {
        let at = Timestamp::UNIX_EPOCH;
        Arc::new(Execution {
            id: ExecutionId::from_uuid(Uuid::from_u64_pair(0, number)),
            message: None,
            topic: Topic::new(job).unwrap(),
            queue: Queue::default(),
            key: None,
            job: Some(JobName::new(job).unwrap()),
            nominal: None,
            source: Source::Scheduled,
            attempt: 1,
            attempts_max: None,
            process: None,
            due_at: at,
            started_at: at,
            ended_at: at,
            ending: Ending::Succeeded,
            note: None,
            log: None,
        })
    }

    // spec: T-55
    #[test]
    fn the_last_fifty_runs_of_a_job_are_kept_newest_first() {
        let recent = RecentRuns::default();
        for number in 0..120 {
            recent.push(&run("often", number));
        }
        recent.push(&run("rare", 7));
        let often = recent.of(&JobName::new("often").unwrap());
        assert_eq!(often.len(), RECENT_RUNS_MAX);
        assert_eq!((often[0].id, often[49].id), (run("x", 119).id, run("x", 70).id));
        assert_eq!(recent.last(&JobName::new("rare").unwrap()).unwrap().id, run("x", 7).id);
        assert!(recent.last(&JobName::new("never").unwrap()).is_none());
    }

    #[test]
    fn the_job_that_has_not_run_for_longest_is_forgotten_first() {
        let recent = RecentRuns::default();
        for number in 0..JOBS_MAX {
            recent.push(&run(&format!("job-{number}"), 0));
        }
        recent.push(&run("job-0", 1));
        recent.push(&run("new", 2));
        let known = |name: &str| recent.last(&JobName::new(name).unwrap()).is_some();
        assert!(known("job-0") && known("new") && !known("job-1") && known("job-2"));
        assert_eq!(recent.lock().order.len(), JOBS_MAX);
    }
}
