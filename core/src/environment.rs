//! Environment of a process: its identity, options, clock, storage and events.

use std::sync::Arc;

use jiff::Timestamp;

use crate::clock::{Clock, StorageClock};
use crate::event::Events;
use crate::inspect::Inspect;
use crate::model::{ExecutionId, IdSource, MessageId, ProcessId};
use crate::options::Options;
use crate::stop::Stop;
use crate::storage::{Notifier, Storage};

/// Shared by everything that a process runs.
pub(crate) struct Environment {
    pub(crate) id: ProcessId,
    pub(crate) app: String,
    pub(crate) options: Options,
    pub(crate) clock: Arc<StorageClock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) events: Arc<Events>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) inspect: Arc<dyn Inspect>,
    /// Whether the application gave a storage; without one nothing may wait.
    pub(crate) has_storage: bool,
    pub(crate) stop: Stop,
    /// Notified when a handler reports progress.
    pub(crate) progress_notifier: Notifier,
}

impl Environment {
    /// Returns the present instant, corrected by the storage.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn message_id(&self, now: Timestamp) -> MessageId {
        MessageId::from_uuid(self.ids.next(now))
    }

    pub(crate) fn execution_id(&self, now: Timestamp) -> ExecutionId {
        ExecutionId::from_uuid(self.ids.next(now))
    }
}
