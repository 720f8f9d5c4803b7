//! Builder of a storage: the path of the file and the options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock, Error, Result, SystemClock};

use crate::settings::{Durability, Settings};
use crate::storage::SqliteStorage;

/// Default time that a call waits for the write lock of another process.
pub const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default number of threads that read.
pub const READERS_DEFAULT: usize = 2;
/// Most threads that read.
const READERS_MAX: usize = 64;

/// Options of a [`SqliteStorage`]; created by [`SqliteStorage::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteBuilder {
    settings: Settings,
}

impl SqliteBuilder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings {
                path: path.into(),
                durability: Durability::default(),
                timeout: BUSY_TIMEOUT_DEFAULT,
                clock: Arc::new(SystemClock),
                readers: READERS_DEFAULT,
                pages_max: None,
            },
        }
    }

    /// Sets what a commit survives; default [`Durability::Full`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// Sets how long a call waits while another process has the write lock of the file, before it fails as
    /// unavailable; default [`BUSY_TIMEOUT_DEFAULT`]. Zero fails at once.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Sets the clock of [`Storage::time`](punctual::Storage::time); default is the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets the number of threads that read; default [`READERS_DEFAULT`].
    pub fn readers(mut self, count: usize) -> Self {
        self.settings.readers = count;
        self
    }

    /// Sets the maximum number of pages of 4 KiB of the file; unlimited by default. Calls that need more fail
    /// as unavailable.
    pub fn pages_max(mut self, count: u32) -> Self {
        self.settings.pages_max = Some(count);
        self
    }

    /// Opens the file, creates or migrates the tables, and starts the threads.
    pub async fn open(self) -> Result<SqliteStorage> {
        let Settings { path, readers, .. } = &self.settings;
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(Error::invalid(format!(
                "\"{}\" is not the path of a file; for a storage in memory use punctual::MemoryStorage",
                path.display()
            )));
        }
        if !(1..=READERS_MAX).contains(readers) {
            return Err(Error::invalid(format!(
                "readers {readers} is out of range, use 1 to {READERS_MAX}"
            )));
        }
        SqliteStorage::start(self.settings).await
    }
}
