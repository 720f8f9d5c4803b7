//! What applications call: publish messages, declare and trigger jobs, look and steer.

mod admin;
mod jobs;
mod publish;
mod publisher;

pub use admin::{
    Admin, Backfill, BackfillOrder, Backfilled, Counted, OCCURRENCES_MAX, PauseRequest, SWEEP_MAX,
    Swept, Triggered, Which,
};
pub use jobs::{JobBuilder, Jobs, Once};
pub use publish::{Publish, Published};
pub use publisher::Publisher;
