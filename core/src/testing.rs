//! For the tests of applications: a whole process on a clock that stands still until it is told to move.
//! Nothing sleeps, so a schedule of a week passes in a moment, and what was published, executed and given
//! up can be asked for afterwards.
//!
//! ```
//! use std::time::Duration;
//! use punctual::testing::TestHarness;
//! use punctual::{Retry, model::HandlerOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> punctual::Result<()> {
//! let day = Duration::from_secs(24 * 60 * 60);
//! let terms = HandlerOptions::new().retry(Retry::intervals([day; 6]));
//! let rehearsal = TestHarness::start(|builder| {
//!     builder.handler_with("dunning", terms, async |_: String| Err::<(), _>("still not paid"))
//! })
//! .await?;
//! rehearsal.publisher().publish("dunning", "invoice 7").await?;
//! rehearsal.advance(6 * day).await;
//! rehearsal.assert_executed("dunning", 7);
//! rehearsal.assert_dead("dunning", 1);
//! # Ok(())
//! # }
//! ```

mod failing;
mod looking;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;

use self::failing::FailNext;
use crate::builtin::{ManualClock, MemoryStorage};
use crate::clock::{Clock, SystemClock, add};
use crate::error::Result;
use crate::inspect::Inspect;
use crate::model::Ids;
use crate::punctual::{Builder, Punctual};
use crate::storage::{Storage, WakeSource};

/// When a rehearsal begins unless it says otherwise.
pub const START: Timestamp = Timestamp::constant(1_772_434_800, 0); // 2026-03-02T07:00:00Z, a Monday

const HOUR: Duration = Duration::from_secs(3_600);
/// How many turns of the runtime without any event mean that nothing more happens by itself.
const QUIET_TURNS: usize = 64;
/// How many times a rehearsal looks whether something happened before it gives up.
const LOOKS_MAX: usize = 100_000;
/// How long one look waits for threads beside the runtime.
const LOOK: Duration = Duration::from_millis(1);
/// How long attempts are waited for that are busy with something else than this clock.
const TIMEOUT: Duration = Duration::from_millis(20);

/// A started process for a test. It is a [`Punctual`], on a clock and a storage of its own.
pub struct TestHarness {
    clock: Arc<ManualClock>,
    storage: Arc<MemoryStorage>,
    punctual: Punctual,
    failing: FailNext,
    timeout: Duration,
}

impl TestHarness {
    /// Starts a process at [`START`]. The builder comes with clock and storage; add handlers and jobs.
    pub async fn start(build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        Self::start_at(START, build).await
    }

    /// The same at another instant.
    pub async fn start_at(
        instant: Timestamp,
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(instant));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        Self::begin(clock, storage, build).await
    }

    /// One more process on the same clock and storage, as another node would be.
    pub async fn another(&self, build: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        Self::begin(self.clock.clone(), self.storage.clone(), build).await
    }

    async fn begin(
        clock: Arc<ManualClock>,
        storage: Arc<MemoryStorage>,
        build: impl FnOnce(Builder) -> Builder,
    ) -> Result<Self> {
        let failing = FailNext::default();
        let builder = Punctual::builder()
            .clock(clock.clone())
            .storage(storage.clone())
            .ids(Arc::new(Ids::random()))
            // Nobody else writes here and nobody crashes unnoticed, so there is little to look for; what
            // wakes up every few seconds would make a week long.
            .options(|options| {
                options.poll_interval = HOUR;
                options.heartbeat_interval = HOUR;
                options.rescue_interval = HOUR;
                options.lease_duration = 3 * HOUR;
            })
            .middleware(failing.clone());
        let punctual = build(builder).build()?;
        punctual.start().await?;
        let rehearsal = Self { clock, storage, punctual, failing, timeout: TIMEOUT };
        rehearsal.run_due().await;
        Ok(rehearsal)
    }

    /// Waits so long, in real time, for handlers that are busy with something else than this clock, such
    /// as a connection. Without it a moment.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    /// The storage.
    pub fn storage(&self) -> &Arc<MemoryStorage> {
        &self.storage
    }

    /// Lets everything happen that is due now, and whatever follows from it at once. A handler that waits
    /// for time goes on waiting.
    pub async fn run_due(&self) {
        let real = SystemClock;
        let mut waits_until = add(real.now(), self.timeout);
        let mut seen = self.happened();
        for _ in 0..LOOKS_MAX {
            for _ in 0..QUIET_TURNS {
                tokio::task::yield_now().await;
            }
            let now_seen = self.happened();
            if now_seen != seen {
                seen = now_seen;
                waits_until = add(real.now(), self.timeout);
            } else if self.is_done() || real.now() >= waits_until {
                return;
            } else {
                real.sleep_until(add(real.now(), LOOK)).await;
            }
        }
    }

    /// Moves time on, from one thing that is due to the next, and lets each happen.
    pub async fn advance(&self, length: Duration) {
        self.advance_to(add(self.clock.now(), length)).await;
    }

    /// The same up to an instant.
    pub async fn advance_to(&self, instant: Timestamp) {
        self.run_due().await;
        while let Some(wake) = self.clock.next_wake().filter(|wake| *wake <= instant) {
            self.clock.set(wake.max(self.clock.now()));
            self.run_due().await;
        }
        self.clock.set(instant.max(self.clock.now()));
        self.run_due().await;
    }

    /// Lets the next attempts of a topic fail with a text, before its handler is called.
    pub fn fail_next(&self, topic: &str, times: usize, error: &str) {
        self.failing.add(topic, times, error);
    }

    /// Whether nothing runs and nothing is due that somebody could take. Work that nobody here takes is
    /// waited for in vain, for a moment.
    fn is_done(&self) -> bool {
        let now = self.clock.now();
        let is_due = |line: &WakeSource| {
            // The storage in memory never waits.
            let next = self.storage.next_due(line).now_or_never();
            matches!(next, Some(Ok(Some(due_at))) if due_at <= now)
        };
        let counts = self.storage.counts(now).now_or_never();
        let Some(Ok(counts)) = counts else { return false };
        let topics = self.punctual.process().registry.filter();
        let queues = counts.messages.into_keys().map(|(queue, _)| queue);
        // The lines of transports are emptied whatever the topic.
        let mut lines = queues.map(|queue| {
            if queue.is_reserved() {
                WakeSource::Queue(queue)
            } else {
                WakeSource::Topics(queue, topics.clone())
            }
        });
        self.punctual.is_resting() && !is_due(&WakeSource::Jobs) && !lines.any(|line| is_due(&line))
    }

    /// How much has happened so far.
    fn happened(&self) -> u64 {
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
