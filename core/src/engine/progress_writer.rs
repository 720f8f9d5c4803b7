//! The scribe: writes down how far handlers say they are, for people who look at another process. At
//! most once a second for all of them together; the last word of an attempt may be missing, because
//! its end says more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Process, Service, Turn};
use crate::clock::add;
use crate::error::Result;
use crate::storage::{ProgressUpdate, Storage, Wakeup};

/// How often progress is written down at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes progress down.
pub(crate) struct ProgressWriter {
    process: Arc<Process>,
    next_at: Timestamp,
}

impl ProgressWriter {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, next_at: Timestamp::MIN }
    }

    /// Rings when a handler said something.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.process.progressed.wakeup()
    }
}

#[async_trait]
impl Service for ProgressWriter {
    fn name(&self) -> &'static str {
        "scribe"
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        if now < self.next_at {
            return Ok(Turn::At(self.next_at));
        }
        let mut by_storage: Vec<(Arc<dyn Storage>, Vec<ProgressUpdate>)> = Vec::new();
        for in_hand in self.process.in_flight.leases() {
            let Some(progress) = in_hand.context.unwritten_progress(now) else { continue };
            let keep = ProgressUpdate {
                lease: in_hand.held.lease,
                progress: Some(progress),
                checkpoint: None,
            };
            let storage = &in_hand.held.storage;
            match by_storage.iter_mut().find(|(known, _)| Arc::ptr_eq(known, storage)) {
                Some((_, keeps)) => keeps.push(keep),
                None => by_storage.push((storage.clone(), vec![keep])),
            }
        }
        if by_storage.is_empty() {
            return Ok(Turn::WhenWoken);
        }
        self.next_at = add(now, INTERVAL);
        for (storage, keeps) in by_storage {
            storage.save_progress(keeps, now).await?;
        }
        Ok(Turn::WhenWoken)
    }
}
