//! Harness of these tests: a process on a manual clock, and a way to wait until it is idle. Tests never sleep;
//! they move the clock and wait until no task has anything left to do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::model::{Ids, MessageId, MessageRecord};
use punctual::{Builder, Inspect, ManualClock, MemoryStorage, Punctual};

/// A process under test, with its clock and its storage.
pub(crate) struct Bench {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) storage: Arc<MemoryStorage>,
    pub(crate) punctual: Punctual,
}

pub(crate) fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns a clock and a storage at the start time of all tests.
pub(crate) fn world() -> (Arc<ManualClock>, Arc<MemoryStorage>) {
    let clock = Arc::new(ManualClock::new(instant("2026-03-02T07:00:00Z")));
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    (clock, storage)
}

impl Bench {
    /// Starts a process with its own clock and storage.
    pub(crate) async fn start(build: impl FnOnce(Builder) -> Builder) -> Self {
        Self::start_in(world(), build).await
    }

    /// Starts a process with a clock and a storage that other processes may share.
    pub(crate) async fn start_in(
        (clock, storage): (Arc<ManualClock>, Arc<MemoryStorage>),
        build: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        let builder = Punctual::builder()
            .clock(clock.clone())
            .storage(storage.clone())
            .options(|options| options.poll_interval = seconds(60));
        let punctual = build(builder.ids(Arc::new(Ids::random()))).build().unwrap();
        punctual.start().await.unwrap();
        let bench = Self { clock, storage, punctual };
        bench.run_until_idle().await;
        bench
    }

    /// Lets every task run until nothing more happens at this instant.
    pub(crate) async fn run_until_idle(&self) {
        run_until_idle().await;
    }

    /// Advances the clock from one timer to the next, so that everything due happens in order.
    pub(crate) async fn advance(&self, duration: Duration) {
        let end = self.clock.now() + punctual::jiff::SignedDuration::try_from(duration).unwrap();
        loop {
            self.run_until_idle().await;
            match self.clock.next_wake() {
                Some(wake) if wake <= end => self.clock.set(wake.max(self.clock.now())),
                _ => break,
            }
        }
        self.clock.set(end);
        self.run_until_idle().await;
    }

    pub(crate) async fn message(&self, id: MessageId) -> MessageRecord {
        self.storage.message(id).await.unwrap().expect("the message is known")
    }
}

/// Yields often enough on a single-threaded runtime for any chain of wakeups in these tests.
pub(crate) async fn run_until_idle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// A list that handlers write to and tests read.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
