//! What applications call: publish messages, declare and trigger jobs, look and steer.

mod admin;
mod batch;
mod end;
mod job_options;
mod jobs;
mod leave;
mod once;
mod one_time_job;
mod outbound;
mod publish;
mod publisher;
mod queues;
mod remote;
mod request;
mod requests;
mod subscriptions;
mod ties;
mod via;

pub use admin::{
    Admin, Backfill, BackfillOrder, Backfilled, Counted, OCCURRENCES_MAX, PauseRequest, Reconciled,
    SWEEP_MAX, Swept, Trigger, Triggered, Which,
};
pub use batch::{BATCH_MEMBERS_MAX, Batch, Batched};
pub use job_options::Exclusion;
pub use jobs::{JobBuilder, Jobs};
pub use once::Once;
pub use one_time_job::OneTimeJob;
pub use outbound::Sending;
pub(crate) use outbound::{Outbound, Sends};
pub use publish::{Publish, Published};
pub use publisher::Publisher;
pub use queues::{QueueStatus, Queues};
pub use remote::{
    Ask, Assigned, REMOTE_BATCH_MAX, REMOTE_LEASE_MAX, REMOTE_TOPICS_MAX, REMOTE_WAIT_MAX, Remote,
    Report, Ticket,
};
pub use request::{REPLY_TIMEOUT_DEFAULT, Reply, Request};
pub use subscriptions::Subscriptions;
