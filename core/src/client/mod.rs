//! Client API: publishes messages, declares and triggers jobs, and controls a process.

mod admin;
mod batch;
mod dispatch;
mod http_workers;
mod job_options;
mod jobs;
mod middleware_chain;
mod once;
mod one_time_job;
mod outbound;
mod planned;
mod publish;
mod publisher;
mod queues;
mod relations;
mod request;
mod requests;
mod routing;
mod subscriptions;

pub use admin::{
    Admin, BULK_MAX, Backfill, BackfillOrder, BackfillResult, BackfillSelection, BulkResult,
    DeclaredJobs, MatchCount, OCCURRENCES_MAX, PauseRequest, Trigger, TriggerResult,
};
pub use batch::{BATCH_MEMBERS_MAX, Batch, BatchResult};
pub use http_workers::{
    AssignedMessage, AttemptTicket, HTTP_WORKER_BATCH_MAX, HTTP_WORKER_LEASE_MAX,
    HTTP_WORKER_TOPICS_MAX, HTTP_WORKER_WAIT_MAX, HttpWorkerClaim, HttpWorkerReport, HttpWorkers,
};
pub use job_options::Exclusion;
pub use jobs::{JobBuilder, Jobs};
pub use once::Once;
pub use one_time_job::OneTimeJob;
pub use outbound::Sending;
pub(crate) use outbound::{Outbound, OutboundSettings};
pub use planned::{PlannedChange, PlannedJobs};
pub use publish::{Publish, PublishResult};
pub use publisher::Publisher;
pub use queues::{QueueStatus, Queues};
pub use request::{REPLY_TIMEOUT_DEFAULT, Reply, Request};
pub use subscriptions::Subscriptions;
