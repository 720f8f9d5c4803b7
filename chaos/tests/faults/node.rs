//! A process of Punctual for a test: what it handled, and when, by the system's clock.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::Failed;
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Builder, Clock, Context, Punctual, SystemClock};
use punctual_postgres::PostgresStorage;
use xtask::servers::{Durability, Postgres, Running};

/// A database that waits for the disk, for one case alone.
pub(crate) struct Database {
    pub(crate) server: Running,
    records: PathBuf,
}

impl Database {
    pub(crate) fn start(case: &str) -> Result<Self, Failed> {
        let folder = format!("punctual-faults-{case}-{}", std::process::id());
        let records = std::env::temp_dir().join(folder);
        let server = Running::start(&Postgres, Durability::Durable, &records)?;
        Ok(Self { server, records })
    }

    /// A storage on it, whether it runs or not.
    pub(crate) fn storage(&self, clock: Arc<dyn Clock>) -> Result<Arc<PostgresStorage>, Failed> {
        Self::storage_at(&self.server.address(), clock)
    }

    /// A storage on the database behind an address.
    pub(crate) fn storage_at(
        address: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<PostgresStorage>, Failed> {
        let builder = PostgresStorage::builder(address).clock(clock);
        Ok(Arc::new(builder.connect_lazy()?))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.records);
    }
}

/// What was handled, and when it began.
#[derive(Clone, Default)]
pub(crate) struct Handled(Arc<Mutex<Vec<(MessageId, Timestamp)>>>);

impl Handled {
    pub(crate) fn all(&self) -> Vec<(MessageId, Timestamp)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn of(&self, id: MessageId) -> Vec<Timestamp> {
        self.all().into_iter().filter(|(of, _)| *of == id).map(|(_, at)| at).collect()
    }

    fn note(&self, id: MessageId) {
        self.0.lock().unwrap().push((id, SystemClock.now()));
    }
}

/// A process whose handler of the topic `work` takes so many milliseconds.
pub(crate) fn node(
    storage: Arc<PostgresStorage>,
    clock: Arc<dyn Clock>,
    handled: &Handled,
) -> Builder {
    let handled = handled.clone();
    Punctual::builder()
        .storage(storage)
        .clock(clock)
        .handler("work", move |milliseconds: u64, context: Context| {
            let handled = handled.clone();
            async move {
                handled.note(context.message_id());
                pause(Duration::from_millis(milliseconds)).await;
            }
        })
        .options(|options| {
            options.rescue_interval = Duration::from_millis(500);
            options.poll_interval = Duration::from_millis(500);
            options.drain = Duration::from_secs(5);
        })
}

pub(crate) async fn pause(length: Duration) {
    SystemClock.sleep_until(add(SystemClock.now(), length)).await;
}

/// Looks until it is so, at most this long; answers whether it became so.
pub(crate) async fn eventually(at_most: Duration, is_so: impl Fn() -> bool) -> bool {
    let until = add(SystemClock.now(), at_most);
    while !is_so() {
        if SystemClock.now() >= until {
            return false;
        }
        pause(Duration::from_millis(50)).await;
    }
    true
}
