//! Settings of one file; shared by the writer, the readers and the watcher.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::Clock;

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

/// Settings with which a file is opened.
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
