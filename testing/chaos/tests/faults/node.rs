//! Node: a process of Punctual for a test, with a log of handled messages by the system's clock.

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

/// Private database of one case, which waits for the disk.
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

    /// Returns a storage on the database, which need not be running.
    pub(crate) fn storage(&self, clock: Arc<dyn Clock>) -> Result<Arc<PostgresStorage>, Failed> {
        Self::storage_at(&self.server.address(), clock)
    }

    /// Returns a storage on the database at an address.
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

/// Handled messages with the start of each handler.
#[derive(Clone, Default)]
pub(crate) struct HandledLog(Arc<Mutex<Vec<(MessageId, Timestamp)>>>);

impl HandledLog {
    pub(crate) fn all(&self) -> Vec<(MessageId, Timestamp)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn of(&self, id: MessageId) -> Vec<Timestamp> {
        self.all().into_iter().filter(|(of, _)| *of == id).map(|(_, at)| at).collect()
    }

    fn record(&self, id: MessageId) {
        self.0.lock().unwrap().push((id, SystemClock.now()));
    }
}

/// Returns a builder whose handler of the topic `work` waits for the milliseconds in the body.
pub(crate) fn node(
    storage: Arc<PostgresStorage>,
    clock: Arc<dyn Clock>,
    handled: &HandledLog,
) -> Builder {
    let handled = handled.clone();
    Punctual::builder()
        .storage(storage)
        .clock(clock)
        .handler("work", move |milliseconds: u64, context: Context| {
            let handled = handled.clone();
            async move {
                handled.record(context.message_id());
                sleep(Duration::from_millis(milliseconds)).await;
            }
        })
        .options(|options| {
            options.rescue_interval = Duration::from_millis(500);
            options.poll_interval = Duration::from_millis(500);
            options.drain_timeout = Duration::from_secs(5);
        })
}

pub(crate) async fn sleep(duration: Duration) {
    SystemClock.sleep_until(add(SystemClock.now(), duration)).await;
}

/// Polls a condition until it holds or the time is over; returns whether it holds.
pub(crate) async fn eventually(timeout: Duration, holds: impl Fn() -> bool) -> bool {
    let until = add(SystemClock.now(), timeout);
    while !holds() {
        if SystemClock.now() >= until {
            return false;
        }
        sleep(Duration::from_millis(50)).await;
    }
    true
}
