//! The bell that wakes the reader's thread. The client library rings it from its own threads, with locks of
//! its own held; so it has a lock of its own, under which nothing else is done.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Rings are not counted: one that comes early is heard at the next wait, two are one.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let was_rung =
            std::mem::replace(&mut *self.rung.lock().unwrap_or_else(PoisonError::into_inner), true);
        // Whoever waits was told, and telling costs a call of the system.
        if !was_rung {
            self.heard.notify_one();
        }
    }

    /// Waits for a ring, but not longer than this.
    pub(crate) fn wait(&self, at_most: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.heard.wait_timeout_while(rung, at_most, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}
