//! Facts about a message from the storage, from which [`why`](super::why) explains its state.

use crate::error::Result;
use crate::inspect::{Inspect, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{JobName, JobRecord, MessageRecord, MessageState, ProcessId};

/// Stored facts about a message.
#[derive(Debug)]
pub(crate) struct StoredFacts {
    /// The job, if the message is a run of one.
    pub(crate) job: Option<JobRecord>,
    pub(crate) running: RunningCounts,
    /// Number of unfinished messages of the batch it waits for.
    pub(crate) batch_alive: u64,
}

/// Numbers of running messages related to a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningCounts {
    /// Number of running messages of its job.
    pub(crate) job: u64,
    /// Number of running messages that share its limit.
    pub(crate) limit: u64,
    /// Number of messages of its queue that run in other processes.
    pub(crate) elsewhere: u64,
}

impl StoredFacts {
    /// Reads the facts about a message, for a process.
    pub(crate) async fn read(
        inspect: &dyn Inspect,
        record: &MessageRecord,
        this: ProcessId,
    ) -> Result<Self> {
        let message = &record.message;
        let name = message.occurrence.as_ref().map(|occurrence| &occurrence.job);
        let job = match name {
            Some(name) => inspect.job(name).await?,
            None => None,
        };
        let running = RunningCounts::read(inspect, record, (name, this)).await?;
        let batch_alive = match message.waits_for() {
            Some(batch) => {
                let counts = inspect.batch(batch).await?;
                counts.iter().filter(|(state, _)| state.is_alive()).map(|(_, count)| count).sum()
            }
            None => 0,
        };
        Ok(Self { job, running, batch_alive })
    }
}

impl RunningCounts {
    /// Counts running messages on the first page.
    async fn read(
        inspect: &dyn Inspect,
        record: &MessageRecord,
        (job, this): (Option<&JobName>, ProcessId),
    ) -> Result<Self> {
        if record.state != MessageState::Pending {
            return Ok(Self::default());
        }
        let filter =
            MessageFilter { states: vec![MessageState::Running], ..MessageFilter::default() };
        let running = inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?.rows;
        let limit = record.message.limit().map(|limit| &limit.name);
        let mut counts = Self::default();
        for running in running {
            let other = &running.message;
            let is_here = running.lease.is_some_and(|lease| lease.owner == this);
            let other_job = other.occurrence.as_ref().map(|occurrence| &occurrence.job);
            counts.job += u64::from(job.is_some() && job == other_job);
            let other_limit = other.limit().map(|limit| &limit.name);
            counts.limit += u64::from(limit.is_some() && limit == other_limit);
            counts.elsewhere += u64::from(!is_here && other.queue == record.message.queue);
        }
        Ok(counts)
    }
}
