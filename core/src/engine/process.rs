//! Process: the state that the services of one process share. Its identity is new at every start, so that two
//! processes with the same configuration are two owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::in_flight::InFlight;
use super::recent_runs::RecentRuns;
use super::{
    Controls, Hooks, HttpWorkerState, OptionLayers, Options, QueueControls, Registry, Stop, Turns,
    WatchList,
};
use crate::client::Outbound;
use crate::clock::{Clock, StorageClock};
use crate::config::{Configuration, MisconfiguredList};
use crate::event::Events;
use crate::handler::{ErrorRules, States};
use crate::health::Lifecycle;
use crate::inspect::Inspect;
use crate::lock::Locks;
use crate::middleware::Middleware;
use crate::model::{ExecutionId, IdSource, Job, Message, MessageId, ProcessId, TransportName};
use crate::policy::{Declaration, EffectiveHandlerOptions};
use crate::schedule::Calendar;
use crate::storage::{Notifier, Storage};
use crate::transport::Transport;

/// State that all services of a process share.
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) app: String,
    pub(crate) options: Options,
    pub(crate) clock: Arc<StorageClock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) events: Arc<Events>,
    pub(crate) storage: Arc<dyn Storage>,
    /// Every storage that messages are claimed from: the process's own, and those behind transports.
    pub(crate) storages: Vec<Arc<dyn Storage>>,
    pub(crate) inspect: Arc<dyn Inspect>,
    /// Whether the process was built with a storage of its own.
    pub(crate) has_storage: bool,
    pub(crate) transports: BTreeMap<TransportName, Arc<dyn Transport>>,
    /// Settings for every message it sends.
    pub(crate) outbound: Outbound,
    pub(crate) registry: Registry,
    pub(crate) controls: Controls,
    pub(crate) queues: QueueControls,
    pub(crate) http_workers: HttpWorkerState,
    /// Wake sources that the poller polls.
    pub(crate) watch_list: WatchList,
    pub(crate) states: States,
    pub(crate) rules: ErrorRules,
    pub(crate) hooks: Hooks,
    pub(crate) locks: Option<Arc<dyn Locks>>,
    /// Notifies the progress writer when a handler reports progress.
    pub(crate) progress_notifier: Notifier,
    pub(crate) middleware: Vec<Arc<dyn Middleware>>,
    /// Layers of handler options beside those of handlers and messages.
    pub(crate) option_layers: OptionLayers,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) stop: Stop,
    pub(crate) turns: Arc<Turns>,
    pub(crate) recent_runs: RecentRuns,
    /// Jobs that this process declares, and the release they belong to.
    pub(crate) declarations: Vec<Declaration>,
    pub(crate) release: u64,
    /// Calendars that jobs may name, and the configuration of jobs, including jobs that are declared later.
    pub(crate) calendars: Vec<Calendar>,
    pub(crate) configurations: Vec<Configuration>,
    /// Entries of the configuration that could not be used.
    pub(crate) misconfigured: MisconfiguredList,
    /// Until when other processes consider this one alive; see [`ensure_alive`](super::heartbeat::ensure_alive).
    pub(crate) alive_until: watch::Sender<Timestamp>,
}

impl Process {
    /// Returns the present instant, corrected by the storage's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn message_id(&self, now: Timestamp) -> MessageId {
        MessageId::from_uuid(self.ids.next(now))
    }

    pub(crate) fn execution_id(&self, now: Timestamp) -> ExecutionId {
        ExecutionId::from_uuid(self.ids.next(now))
    }

    /// Returns whether it runs, is stopping, or has stopped.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        if self.stop.has_ended() {
            Lifecycle::Stopped
        } else if self.stop.is_requested() {
            Lifecycle::Stopping
        } else {
            Lifecycle::Running
        }
    }

    /// Returns the options in force for a message.
    pub(crate) fn handler_options(&self, message: &Message) -> Arc<EffectiveHandlerOptions> {
        self.option_layers.effective(message, self.registry.get(&message.topic))
    }

    /// Returns the options in force for the runs of a job, as far as this process knows its handler.
    pub(crate) fn options_of_job(&self, job: &Job) -> EffectiveHandlerOptions {
        self.option_layers.of_job(job, self.registry.get(&job.topic))
    }
}
