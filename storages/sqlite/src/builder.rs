//! How a file is opened, with every setting where a reader looks for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock, Error, Result, SystemClock};

use crate::settings::{Durability, Settings};
use crate::sqlite_storage::SqliteStorage;

/// How long somebody else may hold the file unless said otherwise.
pub const BUSY_PATIENCE_DEFAULT: Duration = Duration::from_secs(30);
/// How many threads read unless said otherwise.
pub const READERS_DEFAULT: usize = 2;
/// The most threads that read.
const READERS_MAX: usize = 64;

/// Opens an SQLite file with settings of your own.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            settings: Settings {
                path: path.into(),
                durability: Durability::default(),
                patience: BUSY_PATIENCE_DEFAULT,
                clock: Arc::new(SystemClock),
                readers: READERS_DEFAULT,
                pages_max: None,
            },
        }
    }

    /// What a commit survives; [`Durability::Full`] unless said otherwise.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// How long a call waits while another process holds the file's write lock, before it is answered
    /// as unavailable; [`BUSY_PATIENCE_DEFAULT`] unless said otherwise. Zero gives up at once.
    pub fn busy_patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// The clock behind [`Storage::time`](punctual::Storage::time); the system's unless said otherwise.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// How many threads read at once; [`READERS_DEFAULT`] unless said otherwise.
    pub fn readers(mut self, count: usize) -> Self {
        self.settings.readers = count;
        self
    }

    /// The most pages of 4 KiB the file may have; without it the disk is the limit. Calls that need
    /// more are answered as unavailable.
    pub fn pages_max(mut self, count: u32) -> Self {
        self.settings.pages_max = Some(count);
        self
    }

    /// Opens the file, creates or migrates the tables, and starts the threads.
    pub async fn open(self) -> Result<SqliteStorage> {
        let Settings { path, readers, .. } = &self.settings;
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(Error::invalid(format!(
                "\"{}\" is no path of a file; for a storage in memory use punctual::MemoryStorage",
                path.display()
            )));
        }
        if !(1..=READERS_MAX).contains(readers) {
            return Err(Error::invalid(format!(
                "readers is {readers}; give it at least 1 and at most {READERS_MAX}"
            )));
        }
        SqliteStorage::start(self.settings).await
    }
}
