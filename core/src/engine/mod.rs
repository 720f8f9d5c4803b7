//! Engine: the services of a process and the state they share. Each service does a bounded turn of work and
//! returns when it needs the next; none of them is a leader, and the storage decides every race.

mod attempt;
mod attempt_runner;
mod cursor_move;
mod dead_message;
mod heartbeat;
mod held_message;
mod hooks;
pub(crate) mod http_worker;
mod in_flight;
mod job_lock;
mod one_time_job;
mod option_layers;
mod poller;
mod process;
mod progress_writer;
mod pruner;
mod queues;
mod rates;
mod receipt;
mod recent_runs;
mod reconciler;
mod registry;
mod relay;
mod rescuer;
mod roles;
mod scheduler;
mod service;
mod settle;
mod started_attempt;
mod subscription;
mod tasks;
mod turns;
mod unhandled;
mod worker;

pub(crate) use attempt::handle;
pub(crate) use cursor_move::move_cursor;
pub use heartbeat::Heartbeats;
pub(crate) use heartbeat::{
    HEARTBEAT_PAUSE_MAX, HEARTBEATS_MISSED, HeartbeatService, deregister, ensure_alive,
};
pub(crate) use hooks::Hooks;
pub use hooks::{FailedAttempt, GivenUpMessage};
pub(crate) use http_worker::HttpWorkerState;
pub(crate) use in_flight::InFlightAttempts;
pub use one_time_job::OneTimeJob;
pub(crate) use option_layers::OptionLayers;
pub(crate) use poller::{Poller, WatchList};
pub(crate) use process::{JobDeclarations, Process, Runner};
pub(crate) use progress_writer::ProgressWriter;
pub(crate) use pruner::Pruner;
pub(crate) use queues::QueueControls;
pub use queues::QueueStatus;
pub use recent_runs::RECENT_RUNS_MAX;
pub(crate) use recent_runs::RecentRuns;
pub(crate) use reconciler::{DeclareOutcome, Reconciler, declare, declare_one, retire, stored};
pub(crate) use registry::{Registration, Registry};
pub(crate) use relay::Relay;
pub(crate) use rescuer::Rescuer;
pub use roles::Roles;
pub(crate) use scheduler::{Scheduler, occurrence_message, resume};
pub(crate) use service::{LoopContext, Service, Turn, run};
pub(crate) use settle::Settler;
pub(crate) use subscription::{
    Control, Controls, SubscriptionContext, SubscriptionRequest, SubscriptionSpec,
    SubscriptionWorker, subscribe,
};
pub use subscription::{SubscriptionName, SubscriptionStatus};
pub(crate) use tasks::ProcessTasks;
pub use turns::LastTurn;
pub(crate) use turns::Turns;
pub(crate) use unhandled::Unhandled;
pub(crate) use worker::{QueueWorker, ServedQueue};
