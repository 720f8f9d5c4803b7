//! Limiter of password hashing. A hash takes much memory and processor time on purpose, so only a few are computed at
//! once. The wait queue is bounded, and each network has a share of it, so that a flood of guesses delays others by a
//! second and not by a minute.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use punctual::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::throttle::network;
use crate::problem::{ApiResult, Problem};

/// How many passwords are hashed in parallel; each takes 19 MiB.
const CONCURRENCY: usize = 2;
/// Largest number of slots: passwords that wait or are being hashed.
const SLOTS_MAX: usize = 64;
/// Largest number of slots of one network.
const SHARE_MAX: usize = 16;
/// Additional slots for known browsers and for callers who are logged in.
const RESERVED: usize = 16;

/// Permits of hashing and the wait queue before them.
#[derive(Clone)]
pub(super) struct HashLimiter {
    permits: Arc<Semaphore>,
    queue: Arc<Mutex<WaitQueue>>,
}

#[derive(Default)]
struct WaitQueue {
    slots: usize,
    shares: BTreeMap<Option<IpAddr>, usize>,
}

/// A slot in the wait queue, released when dropped.
pub(super) struct HashSlot {
    limiter: HashLimiter,
    network: Option<IpAddr>,
}

impl Default for HashLimiter {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(CONCURRENCY)), queue: Arc::default() }
    }
}

impl HashLimiter {
    /// Takes a slot, or refuses immediately when there is none. Some slots are reserved for known callers.
    pub(super) fn enter(&self, from: Option<IpAddr>, is_known: bool) -> ApiResult<HashSlot> {
        let network = from.map(network);
        let mut queue = self.lock();
        let slots_max = if is_known { SLOTS_MAX + RESERVED } else { SLOTS_MAX };
        if queue.slots >= slots_max {
            let sentence = "too many passwords are waiting to be checked; try again in a second";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence).retry_after(1));
        }
        let share = queue.shares.entry(network).or_default();
        if *share >= SHARE_MAX {
            let sentence = format!(
                "{SHARE_MAX} passwords from this address are already waiting to be checked; try again in a second"
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(1));
        }
        *share += 1;
        queue.slots += 1;
        drop(queue);
        Ok(HashSlot { limiter: self.clone(), network })
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HashSlot {
    /// Waits for a permit.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let permit = self.limiter.permits.clone().acquire_owned().await;
        permit.map_err(|_| Error::unavailable("the server is shutting down"))
    }
}

impl Drop for HashSlot {
    fn drop(&mut self) {
        let mut queue = self.limiter.lock();
        queue.slots = queue.slots.saturating_sub(1);
        if let Some(share) = queue.shares.get_mut(&self.network) {
            *share = share.saturating_sub(1);
            if *share == 0 {
                queue.shares.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(entered: ApiResult<HashSlot>) -> Option<StatusCode> {
        entered.err().map(|problem| problem.status())
    }

    #[test]
    fn slots_are_bounded_in_all_and_per_network() {
        let limiter = HashLimiter::default();
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let enter = |last: u8| limiter.enter(address(last), false);
        let mut slots: Vec<HashSlot> = (0..SHARE_MAX).map(|_| enter(1).unwrap()).collect();
        assert_eq!(status(enter(1)), Some(StatusCode::TOO_MANY_REQUESTS));
        for last in 2..5 {
            slots.extend((0..SHARE_MAX).map(|_| enter(last).unwrap()));
        }
        assert_eq!(status(enter(9)), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert!(limiter.enter(address(9), true).is_ok(), "known callers have reserved slots");
        slots.clear();
        assert!(enter(1).is_ok());
        assert!(limiter.lock().shares.is_empty() && limiter.lock().slots == 0);
    }
}
