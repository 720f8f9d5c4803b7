//! The loop. A service does a bounded turn and says when it wants the next; one function owns
//! sleeping, waking, error back-off and stopping for all of them, so that tests call `turn` with the
//! time they like and nothing else in the engine ever sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use jiff::Timestamp;
use tokio::sync::Notify;

use super::{Process, Turns};
use crate::clock::{Clock, add};
use crate::error::Result;
use crate::event::{Event, Events};
use crate::storage::Wakeup;

/// When a service wants its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// At once: there is more to do.
    Again,
    /// At an instant, or when woken before.
    At(Timestamp),
    /// When woken; the lookout is the safety net.
    WhenWoken,
}

/// A background service.
#[async_trait]
pub trait Service: Send {
    /// Its name, for logs and health.
    fn name(&self) -> &str;

    /// Does a bounded amount of work as of `now`.
    async fn turn(&mut self, now: Timestamp) -> Result<Turn>;
}

/// What the loop needs besides the service.
pub(crate) struct Pace {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Arc<Events>,
    pub(crate) turns: Arc<Turns>,
    /// The longest rest after failures.
    pub(crate) rest_max: Duration,
    pub(crate) wakeups: Vec<Wakeup>,
    pub(crate) stop: Stop,
}

impl Pace {
    /// The usual pace of a process's services, with what wakes this one.
    pub(crate) fn new(process: &Process, wakeups: Vec<Wakeup>) -> Self {
        Self {
            clock: process.clock.clone(),
            events: process.events.clone(),
            turns: process.turns.clone(),
            rest_max: REST_MAX,
            wakeups,
            stop: process.stop.clone(),
        }
    }
}

/// Runs a service until it is told to stop. A turn that has begun is finished.
pub(crate) async fn run(mut service: Box<dyn Service>, mut pace: Pace) {
    let mut failures = 0;
    while !pace.stop.is_requested() {
        let now = pace.clock.now();
        let turn = service.turn(now).await;
        match &turn {
            Ok(_) => pace.turns.succeeded(service.name(), now),
            Err(error) => pace.turns.failed(service.name(), error.to_string()),
        }
        match turn {
            Ok(Turn::Again) => {
                failures = 0;
                tokio::task::yield_now().await;
            }
            Ok(turn) => {
                failures = 0;
                let until = if let Turn::At(instant) = turn { instant } else { Timestamp::MAX };
                tokio::select! {
                    biased;
                    () = pace.stop.requested() => {}
                    () = any_rung(&mut pace.wakeups) => {}
                    () = pace.clock.sleep_until(until) => {}
                }
            }
            Err(error) => {
                failures += 1;
                let again_at = add(now, backoff(failures).min(pace.rest_max));
                pace.events.emit(Event::ServiceFailed {
                    service: service.name().to_owned(),
                    error: error.to_string(),
                    again_at,
                });
                // Rings are not listened to: a storage that fails must not be asked at every ring.
                tokio::select! {
                    biased;
                    () = pace.stop.requested() => {}
                    () = pace.clock.sleep_until(again_at) => {}
                }
            }
        }
    }
}

/// Waits for the first of several rings; for ever when there are none.
async fn any_rung(wakeups: &mut [Wakeup]) {
    match wakeups {
        [] => std::future::pending().await,
        [only] => only.notified().await,
        several => {
            select_all(several.iter_mut().map(|wakeup| Box::pin(wakeup.notified()))).await;
        }
    }
}

/// How long to wait after so many failures in a row: 100 ms, doubled each time, at most 30 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(REST_MAX)
}

/// The longest rest after failures, for a service that says nothing else.
pub(crate) const REST_MAX: Duration = Duration::from_secs(30);

/// The signal that ends every loop of a process.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    signal: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Signal {
    given: AtomicBool,
    ended: AtomicBool,
    waiting: Notify,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { signal: Arc::default() }
    }

    /// Gives the signal.
    pub(crate) fn request(&self) {
        self.signal.given.store(true, Ordering::Release);
        self.signal.waiting.notify_waiters();
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.signal.given.load(Ordering::Acquire)
    }

    /// Records that everything has ended.
    pub(crate) fn end(&self) {
        self.signal.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.signal.ended.load(Ordering::Acquire)
    }

    /// Waits for the signal. Cancel-safe.
    pub(crate) async fn requested(&self) {
        let mut waiting = std::pin::pin!(self.signal.waiting.notified());
        // In line before the look, so that a signal between the two is heard.
        waiting.as_mut().enable();
        if !self.is_requested() {
            waiting.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_doubles_and_is_bounded() {
        let delays: Vec<u128> =
            [1, 2, 3, 9, 10, 1_000].map(|failures| backoff(failures).as_millis()).into();
        assert_eq!(delays, [100, 200, 400, 25_600, 30_000, 30_000]);
    }
}
