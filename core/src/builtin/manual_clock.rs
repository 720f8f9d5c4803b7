//! A clock that moves only when told to: time for tests, ours and our users'. Sleepers are woken in
//! the order of their instants, then in the order they began to sleep, so a test always sees the
//! same story.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::clock::{self, Clock};

/// A clock moved by hand. Clones show and move the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    dial: Arc<Mutex<Dial>>,
}

#[derive(Debug)]
struct Dial {
    now: Timestamp,
    sleepers: BTreeMap<Place, Waker>,
    registered: u64,
}

/// The instant waited for, and the place among those who wait for it.
type Place = (Timestamp, u64);

impl ManualClock {
    /// A clock that stands at an instant.
    pub fn new(start: Timestamp) -> Self {
        let dial = Dial {
            now: start,
            sleepers: BTreeMap::new(),
            registered: 0,
        };
        Self {
            dial: Arc::new(Mutex::new(dial)),
        }
    }

    /// The present instant; the same as [`Clock::now`] without the trait in scope.
    pub fn now(&self) -> Timestamp {
        lock(&self.dial).now
    }

    /// Moves to an instant, also backwards, and wakes whoever waited for it or for an earlier one.
    ///
    /// It jumps: the woken see the new time, none in between. To go step by step, move to
    /// [`ManualClock::next_wake`] first.
    pub fn set(&self, instant: Timestamp) {
        let woken = {
            let mut dial = lock(&self.dial);
            dial.now = instant;
            let later = dial.sleepers.split_off(&(instant, u64::MAX));
            std::mem::replace(&mut dial.sleepers, later)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Moves forward by a length; stops at the end of time.
    pub fn advance(&self, length: Duration) {
        let instant = clock::add(self.now(), length);
        self.set(instant);
    }

    /// How many sleep and have not been woken.
    pub fn sleepers(&self) -> usize {
        lock(&self.dial).sleepers.len()
    }

    /// The earliest instant somebody sleeps until.
    pub fn next_wake(&self) -> Option<Timestamp> {
        lock(&self.dial)
            .sleepers
            .keys()
            .next()
            .map(|(instant, _)| *instant)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    async fn sleep_until(&self, instant: Timestamp) {
        Sleep {
            dial: &self.dial,
            instant,
            place: None,
        }
        .await;
    }
}

/// Waits for an instant. Dropping it takes its name off the list.
struct Sleep<'a> {
    dial: &'a Mutex<Dial>,
    instant: Timestamp,
    place: Option<Place>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut dial = lock(self.dial);
        let instant = self.instant;
        // Whoever is no longer on the list was woken: the instant came, even if time went back since.
        let was_woken = self
            .place
            .is_some_and(|place| !dial.sleepers.contains_key(&place));
        if was_woken || dial.now >= instant {
            if let Some(place) = self.place.take() {
                dial.sleepers.remove(&place);
            }
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| {
            dial.registered += 1;
            (instant, dial.registered)
        });
        dial.sleepers.insert(place, context.waker().clone());
        drop(dial);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            lock(self.dial).sleepers.remove(&place);
        }
    }
}

fn lock(dial: &Mutex<Dial>) -> MutexGuard<'_, Dial> {
    dial.lock().unwrap_or_else(PoisonError::into_inner)
}
