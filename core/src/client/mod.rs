//! What applications call: publish messages, declare and trigger jobs, look and steer.

mod admin;
mod jobs;
mod publisher;

pub use admin::{Admin, PauseRequest, Triggered};
pub use jobs::{JobBuilder, Jobs, Once};
pub use publisher::{Publish, Published, Publisher};
