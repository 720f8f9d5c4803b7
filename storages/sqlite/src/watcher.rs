//! Notices that another process wrote to the same file. It only looks at the journal's time and
//! length, which costs no statement; whether a change was our own is found out by the writer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use punctual::Result;

use crate::bells::Bells;
use crate::settings::Settings;
use crate::writer::{Writer, spawn};

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(100);
/// How many looks after a change tell of it again: a commit is seen a moment after its file changes.
const ECHOES: u8 = 2;

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    _end: Sender<()>,
}

impl Watcher {
    pub(crate) fn start(settings: &Settings, writer: Writer, bells: Arc<Bells>) -> Result<Self> {
        let (end, ended) = channel();
        let path = settings.wal_path();
        spawn("punctual-sqlite-watcher", move || watch(&path, &writer, &bells, &ended))?;
        Ok(Self { _end: end })
    }
}

fn watch(path: &Path, writer: &Writer, bells: &Bells, ended: &Receiver<()>) {
    let mut seen = (stamp(path), writer.commits());
    let mut echoes = 0;
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let commits = writer.commits();
        let now = (stamp(path), commits);
        let wrote_ourselves = seen.1 != commits;
        if seen.0 != now.0 {
            echoes = ECHOES + 1;
        }
        if echoes > 0 {
            echoes -= 1;
            if wrote_ourselves {
                writer.look();
            } else {
                bells.ring_all();
            }
        }
        seen = now;
    }
}

/// When the journal was last written, and how long it is; nothing while there is none.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
