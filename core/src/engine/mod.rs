//! The five services and what they share. Each service does a bounded turn of work and says when it
//! wants the next; none of them is a leader, and the storage decides every race.

mod attempt;
mod crew;
mod follow;
mod hooks;
mod in_flight;
mod jump;
mod locked;
mod lookout;
mod options;
mod process;
mod pruner;
mod pulse;
mod queues;
mod rates;
mod recent;
mod reconciler;
mod registry;
mod relay;
pub(crate) mod remote;
mod rescuer;
mod roles;
mod scheduler;
mod scribe;
mod service;
mod settle;
mod subscription;
mod turns;
mod unhandled;
mod worker;

pub(crate) use attempt::handle;
pub(crate) use crew::Crew;
pub(crate) use follow::follow;
pub(crate) use hooks::Hooks;
pub use hooks::{Exhausted, Failure};
pub(crate) use in_flight::{InFlight, Slot, Slots};
pub(crate) use jump::jump;
pub(crate) use lookout::{Lookout, Watched};
pub use options::Options;
pub(crate) use process::Process;
pub use pruner::Pruner;
pub use pulse::BEATS_MISSED;
pub(crate) use pulse::{PULSE_REST_MAX, Pulse, alive, goodbye};
pub(crate) use queues::QueueBoard;
pub use queues::QueueStatus;
pub use recent::RECENT_RUNS_MAX;
pub(crate) use recent::Recent;
pub(crate) use reconciler::{Came, Reconciler, declare, declare_one, retire, stored};
pub(crate) use registry::{Registration, Registry};
pub(crate) use relay::Relay;
pub(crate) use remote::Remotes;
pub(crate) use rescuer::Rescuer;
pub use roles::Roles;
pub(crate) use scheduler::{Decision, Scheduler, occurrence_message, resume};
pub(crate) use scribe::Scribe;
pub(crate) use service::{Pace, Stop, backoff, run};
pub use service::{Service, Turn};
pub(crate) use settle::Settler;
pub(crate) use subscription::{
    Control, Subscribed, SubscriptionWorker, Surroundings, Switchboard, Unchecked, subscribe,
};
pub use turns::LastTurn;
pub(crate) use turns::Turns;
pub(crate) use unhandled::Unhandled;
pub(crate) use worker::{QueueWorker, Worked};
