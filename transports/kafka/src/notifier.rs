//! Notifier of the reader thread. The client library calls it from its own threads while it holds its own locks, so
//! it has a lock of its own, under which nothing else is done.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Wakes one waiting thread. Notifications are not counted: an early one ends the next wait, and two count as one.
#[derive(Default)]
pub(crate) struct Notifier {
    notified: Mutex<bool>,
    condvar: Condvar,
}

impl Notifier {
    pub(crate) fn notify(&self) {
        let was_notified = std::mem::replace(
            &mut *self.notified.lock().unwrap_or_else(PoisonError::into_inner),
            true,
        );
        // A waiting thread is notified already, and a notification costs a system call.
        if !was_notified {
            self.condvar.notify_one();
        }
    }

    /// Waits for a notification, at most for `at_most`.
    pub(crate) fn wait(&self, at_most: Duration) {
        let notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.condvar.wait_timeout_while(notified, at_most, |notified| !*notified);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}
