//! Batch of messages published together, and its confirmations so far.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::error::{ConnectionError, REFUSAL, UNMATCHED};

/// A batch in progress.
pub(super) struct Batch {
    left: AtomicUsize,
    unmatched: AtomicUsize,
    error: Mutex<Option<ConnectionError>>,
    pub(super) done: Notify,
}

impl Batch {
    pub(super) fn of(count: usize) -> Self {
        Self {
            left: AtomicUsize::new(count),
            unmatched: AtomicUsize::new(0),
            error: Mutex::default(),
            done: Notify::new(),
        }
    }

    /// Returns how many messages are unconfirmed.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Records that one message was confirmed or refused.
    pub(super) fn confirm(&self, code: u8, needs_subscriber: bool) {
        if code >= REFUSAL {
            self.record(ConnectionError::Refused("publish", code));
        } else if code == UNMATCHED && needs_subscriber {
            self.unmatched.fetch_add(1, Ordering::Relaxed);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.notify_waiters();
        }
    }

    /// Fails the unconfirmed rest.
    pub(super) fn fail(&self, error: ConnectionError) {
        self.record(error);
        self.left.store(0, Ordering::Release);
        self.done.notify_waiters();
    }

    /// Returns the first error, or the number of messages without a subscriber; none while messages are unconfirmed.
    pub(super) fn result(&self) -> Option<Result<usize, ConnectionError>> {
        if self.left() > 0 {
            return None;
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(error.map_or_else(|| Ok(self.unmatched.load(Ordering::Relaxed)), Err))
    }

    fn record(&self, error: ConnectionError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }
}
