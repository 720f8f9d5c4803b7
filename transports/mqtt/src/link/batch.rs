//! Messages that were published together, and what has come back of them so far.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::fault::{REFUSAL, Trouble, UNMATCHED};

/// A batch on its way.
pub(super) struct Batch {
    left: AtomicUsize,
    unmatched: AtomicUsize,
    trouble: Mutex<Option<Trouble>>,
    pub(super) done: Notify,
}

impl Batch {
    pub(super) fn of(count: usize) -> Self {
        Self {
            left: AtomicUsize::new(count),
            unmatched: AtomicUsize::new(0),
            trouble: Mutex::default(),
            done: Notify::new(),
        }
    }

    /// How many are not confirmed.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// One of them is confirmed, or refused.
    pub(super) fn confirm(&self, code: u8, is_awaited: bool) {
        if code >= REFUSAL {
            self.note(Trouble::Refused("publish", code));
        } else if code == UNMATCHED && is_awaited {
            self.unmatched.fetch_add(1, Ordering::Relaxed);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.notify_waiters();
        }
    }

    /// The rest of them will not be confirmed.
    pub(super) fn fail(&self, trouble: Trouble) {
        self.note(trouble);
        self.left.store(0, Ordering::Release);
        self.done.notify_waiters();
    }

    /// The first trouble, or how many nobody had subscribed to; none while some are on their way.
    pub(super) fn answer(&self) -> Option<Result<usize, Trouble>> {
        if self.left() > 0 {
            return None;
        }
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(trouble.map_or_else(|| Ok(self.unmatched.load(Ordering::Relaxed)), Err))
    }

    fn note(&self, trouble: Trouble) {
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(trouble);
    }
}
