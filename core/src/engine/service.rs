//! Service loop: a service does a bounded turn of work and returns when it needs the next; one function owns
//! sleeping, waking, error back-off and stopping for all services, so that tests call `turn` with any time
//! and nothing else in the engine sleeps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_all;
use jiff::Timestamp;

use super::{Process, Turns};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Event, Events};
use crate::model::time::add;
use crate::policy::{PAUSE_MAX, backoff};
use crate::stop::Stop;
use crate::storage::Wakeup;

/// When a service needs its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// At once: there is more to do.
    Again,
    /// At an instant, or when woken before.
    At(Timestamp),
    /// When woken; the poller is the safety net.
    WhenWoken,
}

/// A background service.
#[async_trait]
pub(crate) trait Service: Send {
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
            clock: process.env.clock.clone(),
            events: process.env.events.clone(),
            turns: process.turns.clone(),
            pause_max: PAUSE_MAX,
            wakeups,
            stop: process.env.stop.clone(),
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
