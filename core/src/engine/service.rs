//! Service loop: a service does a bounded turn of work and returns when it wants the next; one function owns
//! sleeping, waking, error back-off and stopping for all services, so that tests call `turn` with any time
//! and nothing else in the engine sleeps.

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
    /// When woken; the poller is the safety net.
    WhenWoken,
}

/// A background service.
#[async_trait]
pub trait Service: Send {
    /// Returns its name, for logs and health.
    fn name(&self) -> &str;

    /// Does a bounded amount of work as of `now`.
    async fn turn(&mut self, now: Timestamp) -> Result<Turn>;
}

/// State that the loop needs besides the service.
pub(crate) struct LoopContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Arc<Events>,
    pub(crate) turns: Arc<Turns>,
    /// Longest pause after failures.
    pub(crate) pause_max: Duration,
    pub(crate) wakeups: Vec<Wakeup>,
    pub(crate) stop: Stop,
}

impl LoopContext {
    /// Creates the context of a process's service, with its wakeups.
    pub(crate) fn new(process: &Process, wakeups: Vec<Wakeup>) -> Self {
        Self {
            clock: process.clock.clone(),
            events: process.events.clone(),
            turns: process.turns.clone(),
            pause_max: PAUSE_MAX,
            wakeups,
            stop: process.stop.clone(),
        }
    }
}

/// Runs a service until a stop is requested. A turn that has started is finished.
pub(crate) async fn run(mut service: Box<dyn Service>, mut context: LoopContext) {
    let mut failures = 0;
    while !context.stop.is_requested() {
        let now = context.clock.now();
        let turn = service.turn(now).await;
        match &turn {
            Ok(_) => context.turns.succeeded(service.name(), now),
            Err(error) => context.turns.failed(service.name(), error.to_string()),
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
                    () = context.stop.requested() => {}
                    () = any_notified(&mut context.wakeups) => {}
                    () = context.clock.sleep_until(until) => {}
                }
            }
            Err(error) => {
                failures += 1;
                let again_at = add(now, backoff(failures).min(context.pause_max));
                context.events.emit(Event::ServiceFailed {
                    service: service.name().to_owned(),
                    error: error.to_string(),
                    again_at,
                });
                // Notifications are ignored: a storage that fails must not be called at every one.
                tokio::select! {
                    biased;
                    () = context.stop.requested() => {}
                    () = context.clock.sleep_until(again_at) => {}
                }
            }
        }
    }
}

/// Waits for the first notification of several wakeups; for ever when there are none.
async fn any_notified(wakeups: &mut [Wakeup]) {
    match wakeups {
        [] => std::future::pending().await,
        [only] => only.notified().await,
        several => {
            select_all(several.iter_mut().map(|wakeup| Box::pin(wakeup.notified()))).await;
        }
    }
}

/// Returns the delay after a number of failures in a row: 100 ms, doubled each time, at most 30 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(100);
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(PAUSE_MAX)
}

/// Longest pause after failures, unless a service sets its own.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Stop signal for every loop of a process.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    state: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    requested: AtomicBool,
    ended: AtomicBool,
    waiting: Notify,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default() }
    }

    /// Requests the stop.
    pub(crate) fn request(&self) {
        self.state.requested.store(true, Ordering::Release);
        self.state.waiting.notify_waiters();
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.state.requested.load(Ordering::Acquire)
    }

    /// Records that the shutdown is over.
    pub(crate) fn end(&self) {
        self.state.ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::Acquire)
    }

    /// Waits until a stop is requested. Cancel-safe.
    pub(crate) async fn requested(&self) {
        let mut waiting = std::pin::pin!(self.state.waiting.notified());
        // Registered before the check, so that a request between the two is not missed.
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
