//! Stop signal: asks every loop of a process to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use tokio::sync::Notify;

/// Where a process is between its start and its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// It runs.
    #[default]
    Running,
    /// It was asked to stop and takes no new work.
    Stopping,
    /// Its shutdown has finished.
    Stopped,
}

/// Stop signal for every loop of a process.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    state: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    requested: AtomicBool,
    ended: AtomicBool,
    waiting: Notify,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default() }
    }

    /// Requests the stop.
    pub(crate) fn request(&self) {
        self.state.requested.store(true, Ordering::Release);
        self.state.waiting.notify_waiters();
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.state.requested.load(Ordering::Acquire)
    }

    /// Records that the shutdown is over.
    pub(crate) fn end(&self) {
        self.state.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::Acquire)
    }

    /// Waits until a stop is requested. Cancel-safe.
    pub(crate) async fn requested(&self) {
        let mut waiting = std::pin::pin!(self.state.waiting.notified());
        // Registered before the check, so that a request between the two is not missed.
        waiting.as_mut().enable();
        if !self.is_requested() {
            waiting.await;
        }
    }

    /// Returns whether the process runs, is stopping, or has stopped.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        if self.has_ended() {
            Lifecycle::Stopped
        } else if self.is_requested() {
            Lifecycle::Stopping
        } else {
            Lifecycle::Running
        }
    }
}
