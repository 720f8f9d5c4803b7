//! Messages now, messages later, and work on a schedule.

pub mod builtin;
pub mod client;
pub mod clock;
pub mod engine;
mod error;
pub mod event;
mod handler;
pub mod inspect;
mod middleware;
pub mod model;
pub mod policy;
mod punctual;
pub mod schedule;
pub mod storage;
pub mod transport;

pub use crate::builtin::{ManualClock, MemoryStorage, StoredTransport};
pub use crate::client::{Admin, JobBuilder, Jobs, Publisher};
pub use crate::clock::{Clock, StorageClock, SystemClock};
pub use crate::engine::{Options, Service, Turn};
pub use crate::error::{Error, ErrorKind, Result};
pub use crate::event::{Event, Events};
pub use crate::handler::{
    Cancellation, Cause, Context, Handler, HandlerError, HandlerResult, IntoOutcome, Outcome,
};
pub use crate::inspect::Inspect;
pub use crate::middleware::{Middleware, NextHandle, NextPublish};
pub use crate::model::{Job, Message, Occurrence};
pub use crate::policy::{Misfire, Overlap, Retry};
pub use crate::punctual::{Builder, Punctual, Stopped};
pub use crate::schedule::Schedule;
pub use crate::storage::Storage;
pub use crate::transport::Transport;

pub use {bytes, jiff, serde_json, uuid};
