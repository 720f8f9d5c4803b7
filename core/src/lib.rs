//! Messages, delayed messages and scheduled jobs, as one library.
//!
//! Everything Punctual does is **a message that becomes due**. It has six concepts, each built on the ones
//! before:
//!
//! 1. A [`Message`] is a unit of work that is due at an instant: now, or later. It has a topic, a
//!    body, and a due time that moves when it is retried.
//! 2. A [`Storage`] stores messages until they are due and after they are done. It decides every
//!    race: a message is claimed by one owner at a time, under a lease, and only the owner of the
//!    current lease settles it.
//! 3. A [`Handler`] is your code for a topic. It handles one message and returns an [`Outcome`]: done,
//!    retry, snooze, discard, cancel. An error is a failure.
//! 4. A *policy* is a pure function that decides what happens next, which is almost always the same
//!    message, due at another instant: [`Retry`], [`Misfire`], [`Overlap`].
//! 5. A [`Job`] is a name with a [`Schedule`]. Each [`Occurrence`] of the schedule becomes one message,
//!    on any number of nodes.
//! 6. A [`Transport`] carries messages between processes. The storage provides what a transport lacks,
//!    such as delays.
//!
//! So an immediate send, a delayed send, a cron run, a one-time job, a retry, a snooze and a redriven
//! dead letter are one record, one state machine and one history.
//!
//! # An example
//!
//! ```
//! use std::time::Duration;
//! use punctual::{Context, Job, Occurrence, Punctual};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Reminder { to: String }
//!
//! async fn remind(reminder: Reminder, context: Context) -> Result<(), std::io::Error> {
//!     println!("attempt {}: dear {}, it is time", context.attempt(), reminder.to);
//!     Ok(())
//! }
//!
//! async fn report(occurrence: Occurrence) {
//!     println!("the report of {}", occurrence.nominal);
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> punctual::Result<()> {
//! let punctual = Punctual::builder()
//!     .handler("reminder", remind)
//!     .job(Job::cron("nightly-report", "0 2 * * *").zone("Europe/Warsaw"), report)
//!     .build()?;
//! punctual.start().await?;
//!
//! let ada = Reminder { to: "Ada".to_owned() };
//! punctual.publisher().publish("reminder", &ada).after(Duration::from_secs(24 * 60 * 60)).await?;
//!
//! punctual.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! - Handlers: [`handler`] describes their arguments; [`job`] declares a job on a function.
//! - Applications: [`Punctual`], [`Publisher`], [`Jobs`], [`Admin`] and [`Options`].
//! - Questions of operators: [`analysis`], with the results of [`Admin::why`] and its neighbours.
//! - Tests of applications: [`testing`], where a week passes in milliseconds.
//! - Authors of back-ends: [`backend`] has the contracts of storages and transports.
//! - Schedules alone: [`schedule`], which does not depend on the rest.
//!
//! # Guarantees
//!
//! At least once: an accepted message is handled until it is done, dead or cancelled. A crash can repeat an
//! attempt, so handlers must be safe to run twice. Once per occurrence: an occurrence of a job becomes at most
//! one message. With the memory storage all messages and jobs are lost when the process ends.

// The doctests compile the guides and the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/handlers.md")]
mod guide_handlers {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/jobs.md")]
mod guide_jobs {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/publishing.md")]
mod guide_publishing {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/messaging.md")]
mod guide_messaging {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/operating.md")]
mod guide_operating {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/limits-chains-batches.md")]
mod guide_together {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/testing.md")]
mod guide_testing {}
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/telemetry.md")]
mod guide_telemetry {}

pub mod analysis;
pub mod backend;
pub mod builtin;
#[cfg(feature = "chrono")]
pub mod chrono;
pub mod client;
pub mod clock;
pub mod codec;
mod compression;
pub mod config;
#[doc(hidden)]
pub mod declared;
mod documents;
mod engine;
mod environment;
mod error;
pub mod event;
pub mod handler;
pub mod health;
mod inbox;
pub mod inspect;
mod lock;
pub mod measure;
mod middleware;
pub mod model;
mod options;
mod outbox;
pub mod policy;
mod punctual;
mod sending;
pub mod status;
mod stop;
mod storage;
pub mod subscription;
pub mod testing;
pub mod transfer;
mod transport;
mod wire;

pub use crate::builtin::{Deduplicate, ManualClock, MemoryStorage, StoredTransport};
pub use crate::client::{Admin, HttpWorkers, JobBuilder, Jobs, OneTimeJob, Queues, Subscriptions};
pub use crate::clock::{Clock, StorageClock, SystemClock};
pub use crate::codec::Codec;
pub use crate::config::Configuration;
pub use crate::declared::{Declare, DeclaredJob};
pub use crate::documents::DocumentStore;
pub use crate::engine::{FailedAttempt, GivenUpMessage, Heartbeats, Roles};
pub use crate::error::{Error, ErrorKind, Result};
pub use crate::event::{Event, Events};
pub use crate::handler::{
    CancelCause, Cancellation, Context, FromContext, Handler, HandlerError, HandlerResult,
    IntoHandler, IntoOutcome, Outcome, State, blocking, must_report,
};
pub use crate::inbox::{Inbox, InboxResult};
pub use crate::inspect::Inspect;
pub use crate::lock::{Lock, Locks};
pub use crate::middleware::{Middleware, NextHandle, NextPublish};
pub use crate::model::{Job, Message, Misfire, Occurrence, Overlap, Retry};
pub use crate::options::Options;
pub use crate::outbox::Outbox;
#[cfg(feature = "signals")]
pub use crate::punctual::signalled;
pub use crate::punctual::{Builder, Punctual, ShutdownReport};
pub use crate::schedule::Schedule;
pub use crate::sending::{Publisher, Reply, Sending};
pub use crate::storage::Storage;
pub use crate::subscription::{Subscribe, SubscriptionName};
pub use crate::transport::Transport;

#[cfg(feature = "macros")]
pub use punctual_macros::job;
#[doc(inline)]
pub use punctual_schedule as schedule;
pub use {bytes, erased_serde, jiff, serde_json, uuid};
