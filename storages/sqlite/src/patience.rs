//! Waiting for a lock somebody else holds. SQLite's own waiting grows to a tenth of a second between
//! two looks, and a neighbour that writes all the time lets the lock go for a moment only; so this one
//! looks often at first, and seldom once the wait is long anyway.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::fault::Tried;

const WAIT_MIN: Duration = Duration::from_micros(250);
const WAIT_MAX: Duration = Duration::from_millis(10);
/// The next wait is this part of the whole one so far.
const PART: u32 = 64;

/// Tries again while somebody else has the lock, until the patience is used up.
pub(crate) fn patiently<T>(patience: Duration, mut work: impl FnMut() -> Tried<T>) -> Tried<T> {
    let mut waited = Duration::ZERO;
    loop {
        match work() {
            Err(fault) if fault.is_busy() && waited < patience => {
                let wait = (waited / PART).clamp(WAIT_MIN, WAIT_MAX);
                pause(wait);
                waited += wait;
            }
            answer => return answer,
        }
    }
}

/// Blocks this thread for a moment; nobody will ever signal.
pub(crate) fn pause(length: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().unwrap_or_else(PoisonError::into_inner);
    drop(Condvar::new().wait_timeout(guard, length));
}
