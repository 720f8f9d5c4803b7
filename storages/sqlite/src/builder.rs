//! Builder of a storage: the path of the file and the options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::{Clock, Error, Result, SystemClock};

use crate::storage::SqliteStorage;

/// Default time that a call waits for the write lock of another process.
pub const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default number of threads that read.
pub const READERS_DEFAULT: usize = 2;
/// Most threads that read.
const READERS_MAX: usize = 64;

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every commit is on the disk before the call returns: it survives a killed process, a crash of the
    /// operating system and a loss of power.
    #[default]
    Full,
    /// A commit is with the operating system when the call returns: it survives a killed process. A crash of
    /// the operating system or a loss of power may lose the last commits; the file stays intact.
    Normal,
}

impl Durability {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

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

/// Settings with which a file is opened; shared by the writer, the readers and the watcher.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) readers: usize,
    pub(crate) pages_max: Option<u32>,
}

impl Settings {
    /// Returns the path of the write-ahead log.
    pub(crate) fn wal_path(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push("-wal");
        PathBuf::from(name)
    }
}
