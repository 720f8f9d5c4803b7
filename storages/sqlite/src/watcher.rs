//! Watcher: notices writes of other processes to the file. It only reads time and size of the journal, which
//! needs no statement; when they change, the writer finds out whether another process wrote, and which sources
//! are due.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use punctual::Result;

use crate::builder::Settings;
use crate::writer::{Writer, spawn};

/// Interval between two checks.
const INTERVAL: Duration = Duration::from_millis(100);
/// Number of checks by the writer after a change: a commit becomes visible a moment after its file changes.
const CHECKS_AFTER_CHANGE: u8 = 2;

/// Modification time and size of the journal.
type Stamp = (SystemTime, u64);

/// Handle that ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    _end: Sender<()>,
}

impl Watcher {
    pub(crate) fn start(settings: &Settings, writer: Writer) -> Result<Self> {
        let (end, ended) = channel();
        let path = settings.wal_path();
        // Read before the storage is returned, so that nothing written afterwards counts as old.
        let seen = stamp(&path);
        spawn("punctual-sqlite-watcher", move || watch(&path, seen, &writer, &ended))?;
        Ok(Self { _end: end })
    }
}

fn watch(path: &Path, mut seen: Option<Stamp>, writer: &Writer, ended: &Receiver<()>) {
    let mut checks = 0;
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = stamp(path);
        if seen != now {
            seen = now;
            checks = CHECKS_AFTER_CHANGE;
        }
        if checks > 0 {
            checks -= 1;
            writer.check_for_writes();
        }
    }
}

/// Returns none while there is no journal.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
