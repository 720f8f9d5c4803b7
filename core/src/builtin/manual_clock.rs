//! Manual clock: a clock that a test moves. Sleepers are woken in the order of their instants, then in the
//! order they began to sleep, so a test always runs in the same order.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::clock::{self, Clock};

/// A clock that is advanced manually. Clones show and move the same time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    state: Arc<Mutex<ClockState>>,
}

#[derive(Debug)]
struct ClockState {
    now: Timestamp,
    sleepers: BTreeMap<SleeperKey, Waker>,
    registered: u64,
}

/// Instant at which a sleeper is woken, and its position among the sleepers of that instant.
type SleeperKey = (Timestamp, u64);

impl ManualClock {
    /// Returns a clock that shows an instant until it is moved.
    pub fn new(start: Timestamp) -> Self {
        let state = ClockState { now: start, sleepers: BTreeMap::new(), registered: 0 };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the present instant; the same as [`Clock::now`] without the trait in scope.
    pub fn now(&self) -> Timestamp {
        lock(&self.state).now
    }

    /// Moves to an instant, also backwards, and wakes the sleepers of that instant and of earlier ones.
    ///
    /// The clock jumps: woken sleepers read the new time and no time in between. To go step by step, move to
    /// [`ManualClock::next_wake`] first.
    pub fn set(&self, instant: Timestamp) {
        let woken = {
            let mut state = lock(&self.state);
            state.now = instant;
            let later = state.sleepers.split_off(&(instant, u64::MAX));
            std::mem::replace(&mut state.sleepers, later)
        };
        for waker in woken.into_values() {
            waker.wake();
        }
    }

    /// Moves forward by a duration; stops at the end of time.
    pub fn advance(&self, duration: Duration) {
        let instant = clock::add(self.now(), duration);
        self.set(instant);
    }

    /// Returns the number of sleepers that have not been woken.
    pub fn sleepers(&self) -> usize {
        lock(&self.state).sleepers.len()
    }

    /// Returns the earliest instant that a sleeper waits for.
    pub fn next_wake(&self) -> Option<Timestamp> {
        lock(&self.state).sleepers.keys().next().map(|(instant, _)| *instant)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    async fn sleep_until(&self, instant: Timestamp) {
        Sleep { state: &self.state, instant, place: None }.await;
    }
}

/// Waits for an instant. Dropping it removes it from the list of sleepers.
struct Sleep<'a> {
    state: &'a Mutex<ClockState>,
    instant: Timestamp,
    place: Option<SleeperKey>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(self.state);
        let instant = self.instant;
        // A sleeper that is no longer on the list was woken: its instant came, even if the clock went back
        // since.
        let was_woken = self.place.is_some_and(|place| !state.sleepers.contains_key(&place));
        if was_woken || state.now >= instant {
            if let Some(place) = self.place.take() {
                state.sleepers.remove(&place);
            }
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| {
            state.registered += 1;
            (instant, state.registered)
        });
        state.sleepers.insert(place, context.waker().clone());
        drop(state);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            lock(self.state).sleepers.remove(&place);
        }
    }
}

fn lock(state: &Mutex<ClockState>) -> MutexGuard<'_, ClockState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Records its place in the order of waking.
    struct WokenSleeper {
        count: Arc<AtomicUsize>,
        place: AtomicUsize,
    }

    impl Wake for WokenSleeper {
        fn wake(self: Arc<Self>) {
            let place = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            self.place.store(place, Ordering::Relaxed);
        }
    }

    // spec: D-29
    #[test]
    fn sleepers_are_woken_by_their_instants_and_then_in_the_order_they_came() {
        let clock = ManualClock::new(at(0));
        let count = Arc::new(AtomicUsize::new(0));
        let wakers: Vec<Arc<WokenSleeper>> = (0..4)
            .map(|_| {
                Arc::new(WokenSleeper { count: Arc::clone(&count), place: AtomicUsize::new(0) })
            })
            .collect();
        let mut sleeps: Vec<_> =
            [20, 10, 20, 30].map(|second| clock.sleep_until(at(second))).into_iter().collect();
        for (sleep, waker) in sleeps.iter_mut().zip(&wakers) {
            let waker = Waker::from(Arc::clone(waker));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!((clock.sleepers(), clock.next_wake()), (4, Some(at(10))));
        clock.advance(Duration::from_secs(20));
        let places = wakers.iter().map(|waker| waker.place.load(Ordering::Relaxed));
        assert_eq!(places.collect::<Vec<_>>(), [2, 1, 3, 0]);
        assert_eq!((clock.sleepers(), clock.next_wake()), (1, Some(at(30))));
        drop(sleeps);
        assert_eq!(clock.sleepers(), 0, "a sleep that was dropped is forgotten");
    }

    #[test]
    fn a_sleep_ends_when_its_instant_came_even_if_time_went_back_before_it_was_polled() {
        let clock = ManualClock::new(at(0));
        let mut context = Context::from_waker(Waker::noop());
        let mut sleep = pin!(clock.sleep_until(at(10)));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.sleepers(), 1, "polling twice is waiting once");
        clock.set(at(10));
        clock.set(at(-5));
        assert_eq!(clock.now(), at(-5));
        assert!(sleep.as_mut().poll(&mut context).is_ready());
        let mut past = pin!(clock.sleep_until(at(-5)));
        assert!(past.as_mut().poll(&mut context).is_ready(), "what has come is not waited for");
    }

    #[test]
    fn advancing_past_the_end_of_time_stops_there() {
        let clock = ManualClock::new(at(0));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}
