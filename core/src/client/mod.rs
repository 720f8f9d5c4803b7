//! What applications call: publish messages, declare and trigger jobs, look and steer.

mod admin;
mod batch;
mod job_options;
mod jobs;
mod publish;
mod publisher;
mod subscriptions;
mod ties;

pub use admin::{
    Admin, Backfill, BackfillOrder, Backfilled, Counted, OCCURRENCES_MAX, PauseRequest, SWEEP_MAX,
    Swept, Triggered, Which,
};
pub use batch::{BATCH_MEMBERS_MAX, Batch, Batched};
pub use job_options::Exclusion;
pub use jobs::{JobBuilder, Jobs, Once};
pub use publish::{Publish, Published};
pub use publisher::Publisher;
pub use subscriptions::Subscriptions;
