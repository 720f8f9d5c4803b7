//! Test harness for applications: a whole process on a manual clock. Nothing sleeps, so a schedule of a week runs in
//! milliseconds, and the test can then assert on published messages, executions and dead letters.
//!
//! ```
//! use std::time::Duration;
//! use punctual::testing::TestHarness;
//! use punctual::{Retry, model::HandlerOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> punctual::Result<()> {
//! let day = Duration::from_secs(24 * 60 * 60);
//! let options = HandlerOptions::new().retry(Retry::intervals([day; 6]));
//! let harness = TestHarness::start(|builder| {
//!     builder.handler_with("dunning", options, async |_: String| Err::<(), _>("still not paid"))
//! })
//! .await?;
//! harness.publisher().publish("dunning", "invoice 7").await?;
//! harness.advance(6 * day).await;
//! harness.assert_executed("dunning", 7);
//! harness.assert_dead("dunning", 1);
//! # Ok(())
//! # }
//! ```

mod assertions;
mod fail_next;
mod handler_test;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;

use self::fail_next::FailNext;
pub use self::handler_test::{HandlerTest, HandlerTestResult};
use crate::builtin::{ManualClock, MemoryStorage};
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::inspect::Inspect;
use crate::model::Ids;
use crate::model::time::add;
use crate::punctual::{Builder, Punctual};
use crate::storage::{Storage, WakeSource};

/// Default start of a test harness.
pub const START: Timestamp = Timestamp::constant(1_772_434_800, 0); // 2026-03-02T07:00:00Z, a Monday

const HOUR: Duration = Duration::from_secs(3_600);
/// Number of yields to the runtime between two checks for new events.
const YIELDS_PER_CHECK: usize = 64;
/// Largest number of checks before a harness fails.
const CHECKS_MAX: usize = 100_000;
/// Real time between two checks, for threads outside the runtime.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Default real time to wait for attempts that wait for something other than the clock.
const TIMEOUT: Duration = Duration::from_millis(20);

/// A started process for a test. It is a [`Punctual`], on a clock and a storage of its own.
pub struct TestHarness {
    clock: Arc<ManualClock>,
    storage: Arc<MemoryStorage>,
    punctual: Punctual,
    fail_next: FailNext,
    timeout: Duration,
}

impl TestHarness {
    /// Starts a process at [`START`]. The builder has a clock and a storage; add handlers and jobs.
    pub async fn start(build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        Self::start_at(START, build).await
    }

    /// Starts a process at an instant.
    pub async fn start_at(
        instant: Timestamp,
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(instant));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        Self::begin(clock, storage, build).await
    }

    /// Starts another process on the same clock and storage, like another node.
    pub async fn another(&self, build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        Self::begin(self.clock.clone(), self.storage.clone(), build).await
    }

    async fn begin(
        clock: Arc<ManualClock>,
        storage: Arc<MemoryStorage>,
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        let fail_next = FailNext::default();
        let builder = Punctual::builder()
            .clock(clock.clone())
            .storage(storage.clone())
            .ids(Arc::new(Ids::random()))
            // No other process writes or crashes, so polling is not needed; wakeups every few seconds would make
            // a simulated week slow.
            .options(|options| {
                options.poll_interval = HOUR;
                options.heartbeat_interval = HOUR;
                options.rescue_interval = HOUR;
                options.lease_duration = 3 * HOUR;
            })
            .middleware(fail_next.clone());
        let punctual = build(builder).build()?;
        punctual.start().await?;
        let harness = Self { clock, storage, punctual, fail_next, timeout: TIMEOUT };
        harness.run_due().await;
        Ok(harness)
    }

    /// Sets how long to wait, in real time, for handlers that wait for something other than the clock, such as a
    /// connection. Default 20 ms.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    /// Returns the storage.
    pub fn storage(&self) -> &Arc<MemoryStorage> {
        &self.storage
    }

    /// Runs all work that is due now, and work that becomes due because of it. A handler that waits for a later
    /// time continues to wait.
    pub async fn run_due(&self) {
        let real = SystemClock;
        let mut waits_until = add(real.now(), self.timeout);
        let mut events = self.event_count();
        for _ in 0..CHECKS_MAX {
            for _ in 0..YIELDS_PER_CHECK {
                tokio::task::yield_now().await;
            }
            let events_now = self.event_count();
            if events_now != events {
                events = events_now;
                waits_until = add(real.now(), self.timeout);
            } else if self.is_done() || real.now() >= waits_until {
                return;
            } else {
                real.sleep_until(add(real.now(), CHECK_INTERVAL)).await;
            }
        }
    }

    /// Advances the clock by a duration, from one due instant to the next, and runs the work of each.
    pub async fn advance(&self, duration: Duration) {
        self.advance_to(add(self.clock.now(), duration)).await;
    }

    /// Advances the clock to an instant like [`TestHarness::advance`].
    pub async fn advance_to(&self, instant: Timestamp) {
        self.run_due().await;
        while let Some(wake) = self.clock.next_wake().filter(|wake| *wake <= instant) {
            self.clock.set(wake.max(self.clock.now()));
            self.run_due().await;
        }
        self.clock.set(instant.max(self.clock.now()));
        self.run_due().await;
    }

    /// Makes the next attempts of a topic fail with an error, before its handler is called.
    pub fn fail_next(&self, topic: &str, times: usize, error: &str) {
        self.fail_next.add(topic, times, error);
    }

    /// Returns whether nothing runs and nothing is due that this process or a transport can take.
    fn is_done(&self) -> bool {
        let now = self.clock.now();
        let is_due = |source: &WakeSource| {
            // The storage in memory never waits.
            let next = self.storage.next_due(source).now_or_never();
            matches!(next, Some(Ok(Some(due_at))) if due_at <= now)
        };
        let counts = self.storage.counts(now).now_or_never();
        let Some(Ok(counts)) = counts else { return false };
        let topics = self.punctual.process().runner.registry.filter();
        let queues = counts.messages.into_keys().map(|(queue, _)| queue);
        // The queues of transports are processed regardless of topics.
        let mut sources = queues.map(|queue| {
            if queue.is_reserved() {
                WakeSource::Queue(queue)
            } else {
                WakeSource::Topics(queue, topics.clone())
            }
        });
        self.punctual.is_idle()
            && !is_due(&WakeSource::Jobs)
            && !sources.any(|source| is_due(&source))
    }

    /// Returns the number of events so far.
    fn event_count(&self) -> u64 {
        self.punctual.events().counts().map(|(_, count)| count).sum()
    }
}

impl Deref for TestHarness {
    type Target = Punctual;

    fn deref(&self) -> &Punctual {
        &self.punctual
    }
}

impl std::fmt::Debug for TestHarness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestHarness").field("now", &self.clock.now()).finish_non_exhaustive()
    }
}
