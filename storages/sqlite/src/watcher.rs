//! Notices that somebody else wrote to the same file. It only looks at the journal's time and length,
//! which costs no statement; when they changed, the writer finds out whether it was somebody else and
//! what there is to do now.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use punctual::Result;

use crate::settings::Settings;
use crate::writer::{Writer, spawn};

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// How often the writer is asked after a change: a commit is seen a moment after its file changes.
const ECHOES: u8 = 2;

/// When the journal was last written, and how long it is.
type Stamp = (SystemTime, u64);

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    _end: Sender<()>,
}

impl Watcher {
    pub(crate) fn start(settings: &Settings, writer: Writer) -> Result<Self> {
        let (end, ended) = channel();
        let path = settings.wal_path();
        // Before the storage is handed out, so that nothing written afterwards is taken for old.
        let seen = stamp(&path);
        spawn("punctual-sqlite-watcher", move || watch(&path, seen, &writer, &ended))?;
        Ok(Self { _end: end })
    }
}

fn watch(path: &Path, mut seen: Option<Stamp>, writer: &Writer, ended: &Receiver<()>) {
    let mut echoes = 0;
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = stamp(path);
        if seen != now {
            seen = now;
            echoes = ECHOES;
        }
        if echoes > 0 {
            echoes -= 1;
            writer.look();
        }
    }
}

/// Nothing while there is no journal.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
