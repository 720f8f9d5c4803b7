//! What the services of one process share. Its identity is new at every start, so that two processes
//! with the same configuration are two owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;

use super::in_flight::InFlight;
use super::recent::Recent;
use super::{
    Hooks, Options, QueueBoard, Registry, Remotes, Stop, Switchboard, TermLayers, Turns, Watched,
};
use crate::client::Outbound;
use crate::clock::{Clock, StorageClock};
use crate::config::{Configuration, MisconfiguredList};
use crate::event::Events;
use crate::handler::{Rules, States};
use crate::health::Lifecycle;
use crate::inspect::Inspect;
use crate::lock::Locks;
use crate::middleware::Middleware;
use crate::model::{ExecutionId, IdSource, Job, Message, MessageId, ProcessId, TransportName};
use crate::policy::{Declaration, EffectiveHandlerOptions};
use crate::schedule::Calendar;
use crate::storage::{Notifier, Storage};
use crate::transport::Transport;

/// Everything that is the same for all services of a process.
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) app: String,
    pub(crate) options: Options,
    pub(crate) clock: Arc<StorageClock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) events: Arc<Events>,
    pub(crate) storage: Arc<dyn Storage>,
    /// Every storage messages are claimed from: our own, and those behind transports.
    pub(crate) storages: Vec<Arc<dyn Storage>>,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) holds: bool,
    pub(crate) transports: BTreeMap<TransportName, Arc<dyn Transport>>,
    /// What is the same for everything it sends.
    pub(crate) outbound: Outbound,
    pub(crate) registry: Registry,
    pub(crate) switchboard: Switchboard,
    pub(crate) queues: QueueBoard,
    pub(crate) remotes: Remotes,
    /// What the lookout looks at.
    pub(crate) watched: Watched,
    pub(crate) states: States,
    pub(crate) rules: Rules,
    pub(crate) hooks: Hooks,
    pub(crate) locks: Option<Arc<dyn Locks>>,
    /// Rings when a handler says how far it is.
    pub(crate) progressed: Notifier,
    pub(crate) middleware: Vec<Arc<dyn Middleware>>,
    /// What the layers of options say beside handlers and messages.
    pub(crate) option_layers: TermLayers,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) stop: Stop,
    pub(crate) turns: Arc<Turns>,
    pub(crate) recent: Recent,
    /// What this process declares, and the stamp it does so under.
    pub(crate) declarations: Vec<Declaration>,
    pub(crate) release: u64,
    /// What jobs may name, and what the configuration says about them, also about those to come.
    pub(crate) calendars: Vec<Calendar>,
    pub(crate) configurations: Vec<Configuration>,
    /// What of the configuration could not be used.
    pub(crate) misconfigured: MisconfiguredList,
    /// Until when the others believe us alive; see [`alive`](super::heartbeat::alive).
    pub(crate) alive_until: watch::Sender<Timestamp>,
}

impl Process {
    /// The present instant, corrected by the storage.
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

    /// Returns the terms in force for a message, from what the layers say.
    pub(crate) fn handler_options(&self, message: &Message) -> Arc<EffectiveHandlerOptions> {
        self.option_layers.effective(message, self.registry.get(&message.topic))
    }

    /// Returns the terms in force for the runs of a job, as far as this process knows its handler.
    pub(crate) fn terms_of_job(&self, job: &Job) -> EffectiveHandlerOptions {
        self.option_layers.of_job(job, self.registry.get(&job.topic))
    }
}
