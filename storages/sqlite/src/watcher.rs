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

/// The journal, and what we have been doing ourselves.
type Seen = (Option<Stamp>, u64);
/// When the journal was last written, and how long it is.
type Stamp = (SystemTime, u64);

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    _end: Sender<()>,
}

impl Watcher {
    pub(crate) fn start(settings: &Settings, writer: Writer, bells: Arc<Bells>) -> Result<Self> {
        let (end, ended) = channel();
        let path = settings.wal_path();
        // Before the storage is handed out, so that nothing written afterwards is taken for old.
        let seen = (stamp(&path), writer.activity());
        spawn("punctual-sqlite-watcher", move || watch(&path, seen, &writer, &bells, &ended))?;
        Ok(Self { _end: end })
    }
}

fn watch(path: &Path, mut seen: Seen, writer: &Writer, bells: &Bells, ended: &Receiver<()>) {
    let mut echoes = 0;
    let mut may_be_ours = false;
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = (stamp(path), writer.activity());
        if seen.0 != now.0 {
            echoes = 1 + ECHOES;
        }
        // Odd while it writes.
        may_be_ours |= seen.1 != now.1 || now.1 % 2 == 1;
        seen = now;
        if echoes == 0 {
            may_be_ours = false;
            continue;
        }
        echoes -= 1;
        if may_be_ours {
            writer.look();
        } else {
            bells.ring_all();
        }
    }
}

/// Nothing while there is no journal.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some((found.modified().ok()?, found.len()))
}
