//! Client API: publishes messages, declares and triggers jobs, and controls a process.

mod admin;
mod http_workers;
mod job_options;
mod job_set;
mod jobs;
mod once;
mod planned;
mod queues;
mod subscriptions;

pub use admin::{
    Admin, BULK_MAX, Backfill, BackfillOrder, BackfillResult, BackfillSelection, BulkResult,
    DeclareReport, MatchCount, PauseRequest, Trigger, TriggerResult,
};
pub use http_workers::HttpWorkers;
pub use job_options::Exclusion;
pub(crate) use job_set::{check_jobs, jobs, schedules};
pub use jobs::{JobBuilder, Jobs};
pub use once::Once;
pub use planned::{PlannedChange, PlannedJobs};
pub use queues::{QueueStatus, Queues};
pub use subscriptions::Subscriptions;

pub use crate::engine::http_worker::{
    AssignedMessage, AttemptTicket, HTTP_WORKER_BATCH_MAX, HTTP_WORKER_LEASE_MAX,
    HTTP_WORKER_TOPICS_MAX, HTTP_WORKER_WAIT_MAX, HttpWorkerClaim, HttpWorkerReport,
};
pub use crate::engine::{OneTimeJob, RECENT_RUNS_MAX};
pub use crate::sending::{
    Batch, BatchResult, Publish, PublishResult, Publisher, Reply, Request, Sending,
};
