//! Process: the state that the services of one process share. Its identity is new at every start, so that two
//! processes with the same configuration are two owners.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

use super::in_flight::InFlightAttempts;
use super::recent_runs::RecentRuns;
use super::{
    Controls, Hooks, HttpWorkerState, OptionLayers, QueueControls, Registry, Turns, WatchList,
};
use crate::config::{Configuration, MisconfiguredList};
use crate::environment::Environment;
use crate::handler::ErrorRules;
use crate::lock::Locks;
use crate::model::{Job, Message};
use crate::policy::{Declaration, EffectiveHandlerOptions};
use crate::schedule::Calendar;
use crate::sending::Sender;
use crate::storage::Storage;

/// Number of walks over schedules for people that run at once; others wait.
const WALKS_AT_ONCE: usize = 2;

/// State of one process.
pub(crate) struct Process {
    pub(crate) env: Arc<Environment>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) runner: Runner,
    pub(crate) declared: JobDeclarations,
    /// Every storage messages are claimed from: its own, and those behind transports.
    pub(crate) storages: Vec<Arc<dyn Storage>>,
    pub(crate) controls: Controls,
    pub(crate) queues: QueueControls,
    pub(crate) http_workers: HttpWorkerState,
    pub(crate) watch_list: WatchList,
    pub(crate) turns: Arc<Turns>,
    /// Permits of walks over schedules for people.
    pub(crate) walks: Arc<Semaphore>,
    /// Instant until which other processes consider this one alive; see [`ensure_alive`](super::ensure_alive).
    pub(crate) alive_until: watch::Sender<Timestamp>,
}

/// What attempts are run with, and those that run.
pub(crate) struct Runner {
    pub(crate) registry: Registry,
    pub(crate) option_layers: OptionLayers,
    pub(crate) rules: ErrorRules,
    pub(crate) hooks: Hooks,
    pub(crate) locks: Option<Arc<dyn Locks>>,
    pub(crate) in_flight: Arc<InFlightAttempts>,
    pub(crate) recent_runs: RecentRuns,
}

/// Jobs that this process declares, and their configuration.
pub(crate) struct JobDeclarations {
    pub(crate) declarations: Vec<Declaration>,
    /// Release of the application, with which it declares.
    pub(crate) release: u64,
    pub(crate) calendars: Vec<Calendar>,
    /// Configuration of jobs, also of those that are declared later.
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) misconfigured: MisconfiguredList,
}

impl Process {
    /// Creates the state of a process that is not started.
    pub(crate) fn new(
        sender: Sender,
        runner: Runner,
        declared: JobDeclarations,
        (queues, controls): (QueueControls, Controls),
    ) -> Self {
        Self {
            env: sender.env.clone(),
            storages: distinct_storages(&sender),
            sender: Arc::new(sender),
            runner,
            declared,
            controls,
            queues,
            http_workers: HttpWorkerState::default(),
            watch_list: WatchList::default(),
            turns: Arc::default(),
            walks: Arc::new(Semaphore::new(WALKS_AT_ONCE)),
            alive_until: watch::Sender::new(Timestamp::MIN),
        }
    }

    /// Returns the present instant, corrected by the storage.
    pub(crate) fn now(&self) -> Timestamp {
        self.env.now()
    }

    /// Returns the options in force for a message.
    pub(crate) fn handler_options(&self, message: &Message) -> Arc<EffectiveHandlerOptions> {
        self.runner.option_layers.effective(message, self.runner.registry.get(&message.topic))
    }

    /// Returns the options in force for the runs of a job, as far as this process knows its handler.
    pub(crate) fn options_of_job(&self, job: &Job) -> EffectiveHandlerOptions {
        self.runner.option_layers.of_job(job, self.runner.registry.get(&job.topic))
    }
}

/// Returns the storage of the process, then those behind transports, each once.
fn distinct_storages(sender: &Sender) -> Vec<Arc<dyn Storage>> {
    let mut storages = vec![sender.env.storage.clone()];
    for storage in sender.transports.values().filter_map(|transport| transport.storage()) {
        if !storages.iter().any(|known| Arc::ptr_eq(known, &storage)) {
            storages.push(storage);
        }
    }
    storages
}
