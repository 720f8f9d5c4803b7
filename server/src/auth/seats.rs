//! The line before the hashing of passwords. A hash takes much memory and processor time on purpose, so only a few
//! are computed at once. What waits is bounded, and each network has a share of it, so that a flood of guesses makes
//! others wait a second and not a minute.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use punctual::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::throttle::network;
use crate::problem::{Answer, Problem};

/// How many are hashed at once; each takes 19 MiB for a moment.
const AT_ONCE: usize = 2;
/// The most that wait or are hashed.
const PLACES_MAX: usize = 64;
/// The most of them from one network.
const SHARE_MAX: usize = 16;
/// So many places more for browsers that logged in before, and for callers who are logged in.
const RESERVED: usize = 16;

/// The seats, and the line before them.
#[derive(Clone)]
pub(super) struct Seats {
    seats: Arc<Semaphore>,
    line: Arc<Mutex<Line>>,
}

#[derive(Default)]
struct Line {
    places: usize,
    shares: BTreeMap<Option<IpAddr>, usize>,
}

/// A place in the line, which is left when this is dropped.
pub(super) struct Place {
    seats: Seats,
    network: Option<IpAddr>,
}

impl Default for Seats {
    fn default() -> Self {
        Self { seats: Arc::new(Semaphore::new(AT_ONCE)), line: Arc::default() }
    }
}

impl Seats {
    /// Takes a place in the line, or refuses at once. Some places are only for callers who are known.
    pub(super) fn enter(&self, from: Option<IpAddr>, is_known: bool) -> Answer<Place> {
        let network = from.map(network);
        let mut line = self.lock();
        let places_max = if is_known { PLACES_MAX + RESERVED } else { PLACES_MAX };
        if line.places >= places_max {
            let sentence = "as many passwords wait to be checked as may; try again in a second";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence).retry_after(1));
        }
        let share = line.shares.entry(network).or_default();
        if *share >= SHARE_MAX {
            let sentence = format!(
                "{SHARE_MAX} passwords from this address wait to be checked already; try again in a second"
            );
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, sentence).retry_after(1));
        }
        *share += 1;
        line.places += 1;
        drop(line);
        Ok(Place { seats: self.clone(), network })
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits for a seat; those before it in the line are at most as many as there are places.
    pub(super) async fn seat(&self) -> Result<OwnedSemaphorePermit> {
        let seat = self.seats.seats.clone().acquire_owned().await;
        seat.map_err(|_| Error::unavailable("the server is shutting down"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut line = self.seats.lock();
        line.places = line.places.saturating_sub(1);
        if let Some(share) = line.shares.get_mut(&self.network) {
            *share = share.saturating_sub(1);
            if *share == 0 {
                line.shares.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(entered: Answer<Place>) -> Option<StatusCode> {
        entered.err().map(|problem| problem.status())
    }

    #[test]
    fn one_network_has_a_share_and_the_line_an_end() {
        let seats = Seats::default();
        let address = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let enter = |last: u8| seats.enter(address(last), false);
        let mut places: Vec<Place> = (0..SHARE_MAX).map(|_| enter(1).unwrap()).collect();
        assert_eq!(status(enter(1)), Some(StatusCode::TOO_MANY_REQUESTS));
        for last in 2..5 {
            places.extend((0..SHARE_MAX).map(|_| enter(last).unwrap()));
        }
        assert_eq!(status(enter(9)), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert!(seats.enter(address(9), true).is_ok(), "who is known has places left");
        places.clear();
        assert!(enter(1).is_ok());
        assert!(seats.lock().shares.is_empty() && seats.lock().places == 0);
    }
}
