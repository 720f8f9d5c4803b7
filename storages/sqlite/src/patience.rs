//! Waiting for a lock somebody else holds. SQLite's own waiting grows to a tenth of a second between
//! two looks, which a busy neighbour makes a long time; this one looks again soon, and for as long.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::fault::Tried;

const WAIT_FIRST: Duration = Duration::from_micros(500);
const WAIT_MAX: Duration = Duration::from_millis(10);

/// Tries again while somebody else has the lock, until the patience is used up.
pub(crate) fn patiently<T>(patience: Duration, mut work: impl FnMut() -> Tried<T>) -> Tried<T> {
    let mut wait = WAIT_FIRST;
    let mut waited = Duration::ZERO;
    loop {
        match work() {
            Err(fault) if fault.is_busy() && waited < patience => {
                pause(wait);
                waited += wait;
                wait = (wait * 2).min(WAIT_MAX);
            }
            answer => return answer,
        }
    }
}

/// Blocks this thread for a moment; nobody will ever signal.
fn pause(length: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    drop(Condvar::new().wait_timeout(guard, length));
}
