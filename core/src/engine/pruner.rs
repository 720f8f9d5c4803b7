//! Pruner: deletes history past its retention. Off unless an application turns it on, by option or by hand.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Service, Turn};
use crate::error::Result;
use crate::event::{Event, Events};
use crate::model::time::{add, subtract};
use crate::storage::{Prune, Storage};

/// Interval of the pruner when there is nothing left to delete.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Largest number of rows of each kind in one turn.
const BATCH: usize = 1_000;

/// Service that deletes finished messages and history older than the retention. Dead letters stay.
pub(crate) struct Pruner {
    storage: Arc<dyn Storage>,
    events: Arc<Events>,
    retention: Duration,
}

impl Pruner {
    /// Creates a pruner of a storage.
    pub(crate) fn new(storage: Arc<dyn Storage>, events: Arc<Events>, retention: Duration) -> Self {
        Self { storage, events, retention }
    }
}

#[async_trait]
impl Service for Pruner {
    fn name(&self) -> &'static str {
        "pruner"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        let prune = Prune { before: subtract(now, self.retention), limit: BATCH, dead: false };
        let pruned = self.storage.prune(prune, now).await?;
        if pruned.messages + pruned.executions > 0 {
            self.events.emit(Event::HistoryPruned {
                messages: pruned.messages,
                executions: pruned.executions,
            });
        }
        let full = pruned.messages.max(pruned.executions) >= BATCH as u64;
        Ok(if full { Turn::Again } else { Turn::At(add(now, INTERVAL)) })
    }
}
