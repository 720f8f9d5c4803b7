//! Progress writer: stores the progress that handlers report, so that it is visible from other processes. At
//! most once a second for all handlers together; the last report of an attempt may be missing, because its
//! end says more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Process, Service, Turn};
use crate::error::Result;
use crate::model::time::add;
use crate::storage::{ProgressUpdate, Storage, Wakeup};

/// Shortest interval between two writes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Service that stores the progress of handlers.
pub(crate) struct ProgressWriter {
    process: Arc<Process>,
    next_at: Timestamp,
}

impl ProgressWriter {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, next_at: Timestamp::MIN }
    }

    /// Returns the wakeup for reported progress.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.process.env.progress_notifier.wakeup()
    }
}

#[async_trait]
impl Service for ProgressWriter {
    fn name(&self) -> &'static str {
        "progress writer"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        if now < self.next_at {
            return Ok(Turn::At(self.next_at));
        }
        let mut by_storage: Vec<(Arc<dyn Storage>, Vec<ProgressUpdate>)> = Vec::new();
        for in_flight in self.process.runner.in_flight.leases() {
            let Some(progress) = in_flight.context.unwritten_progress(now) else { continue };
            let update = ProgressUpdate {
                lease: in_flight.lease.lease_ref,
                progress: Some(progress),
                checkpoint: None,
            };
            let storage = &in_flight.lease.storage;
            match by_storage.iter_mut().find(|(known, _)| Arc::ptr_eq(known, storage)) {
                Some((_, updates)) => updates.push(update),
                None => by_storage.push((storage.clone(), vec![update])),
            }
        }
        if by_storage.is_empty() {
            return Ok(Turn::WhenWoken);
        }
        self.next_at = add(now, INTERVAL);
        for (storage, updates) in by_storage {
            storage.save_progress(updates, now).await?;
        }
        Ok(Turn::WhenWoken)
    }
}
