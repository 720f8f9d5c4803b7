//! Busy timeout: waits for a lock of another connection. SQLite's own busy handler sleeps up to a tenth of a
//! second between two tries, and a process that writes all the time releases the lock for a moment only; this
//! one retries often at first, and seldom once the wait is long anyway.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::StorageResult;

const WAIT_MIN: Duration = Duration::from_micros(250);
const WAIT_MAX: Duration = Duration::from_millis(10);
/// Divisor: the next pause is this part of the wait so far.
const DIVISOR: u32 = 64;

/// Retries while another connection has the lock, until the timeout.
pub(crate) fn retry_while_busy<T>(
    timeout: Duration,
    mut work: impl FnMut() -> StorageResult<T>,
) -> StorageResult<T> {
    let mut waited = Duration::ZERO;
    loop {
        match work() {
            Err(error) if error.is_busy() && waited < timeout => {
                let wait = (waited / DIVISOR).clamp(WAIT_MIN, WAIT_MAX);
                pause(wait);
                waited += wait;
            }
            result => return result,
        }
    }
}

/// Blocks this thread for a duration; the condition is never notified.
pub(crate) fn pause(duration: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    drop(Condvar::new().wait_timeout(guard, duration));
}
