//! What the tests share: a process on a manual clock, and a way to let it come to rest. Tests never
//! sleep; they move the clock and wait until nobody has anything left to do.

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

/// A clock and a storage at the usual beginning of time.
pub(crate) fn world() -> (Arc<ManualClock>, Arc<MemoryStorage>) {
    let clock = Arc::new(ManualClock::new(instant("2026-03-02T07:00:00Z")));
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    (clock, storage)
}

impl Bench {
    /// A started process in a world of its own.
    pub(crate) async fn start(build: impl FnOnce(Builder) -> Builder) -> Self {
        Self::start_in(world(), build).await
    }

    /// A started process in a world that others may share.
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
        bench.rest().await;
        bench
    }

    /// Lets every task run until nothing more happens at this instant.
    pub(crate) async fn rest(&self) {
        rest().await;
    }

    /// Moves time on in steps small enough that everything due on the way happens in its order.
    pub(crate) async fn advance(&self, length: Duration) {
        let end = self.clock.now() + punctual::jiff::SignedDuration::try_from(length).unwrap();
        loop {
            self.rest().await;
            match self.clock.next_wake() {
                Some(wake) if wake <= end => self.clock.set(wake.max(self.clock.now())),
                _ => break,
            }
        }
        self.clock.set(end);
        self.rest().await;
    }

    pub(crate) async fn message(&self, id: MessageId) -> MessageRecord {
        self.storage.message(id).await.unwrap().expect("the message is known")
    }
}

/// Enough turns of a single-threaded runtime for any chain of wake-ups in these tests.
pub(crate) async fn rest() {
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
