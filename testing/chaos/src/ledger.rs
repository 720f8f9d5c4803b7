//! Ledger: a file of each process with one event per line.
//!
//! A line is written in one call before the process continues. A killed process therefore loses at most the line it
//! was about to write. The last line is incomplete only when the disk is full.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use punctual::model::MessageId;

/// Event of a message in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerEvent {
    /// A publish was acknowledged: from now on the message must not be lost.
    Acknowledged(MessageId),
    /// A claim returned the message with this token.
    Claimed(MessageId, u64),
    /// The message of a lost process was reclaimed with this token.
    Reclaimed(MessageId, u64),
    /// The handler started, with the attempt and the token.
    Started(MessageId, u32, u64),
    /// The handler ended.
    Finished(MessageId),
    /// The settlement with this token was stored: the message is done.
    Done(MessageId, u64),
    /// The settlement with this token was stored: the message is due again.
    Again(MessageId, u64),
    /// The process learned that another process has, or may have, the lease.
    LeaseLost(MessageId),
}

impl fmt::Display for LedgerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged(id) => write!(f, "acknowledged {id}"),
            Self::Claimed(id, token) => write!(f, "claimed {id} {token}"),
            Self::Reclaimed(id, token) => write!(f, "reclaimed {id} {token}"),
            Self::Started(id, attempt, token) => write!(f, "started {id} {attempt} {token}"),
            Self::Finished(id) => write!(f, "finished {id}"),
            Self::Done(id, token) => write!(f, "done {id} {token}"),
            Self::Again(id, token) => write!(f, "again {id} {token}"),
            Self::LeaseLost(id) => write!(f, "lease-lost {id}"),
        }
    }
}

impl FromStr for LedgerEvent {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split(' ');
        let word = words.next().unwrap_or_default();
        let id: MessageId = words.next().context("a line has a message id")?.parse()?;
        let mut number = || -> Result<u64> {
            Ok(words.next().context("a line of this kind has a number")?.parse()?)
        };
        Ok(match word {
            "acknowledged" => Self::Acknowledged(id),
            "claimed" => Self::Claimed(id, number()?),
            "reclaimed" => Self::Reclaimed(id, number()?),
            "started" => Self::Started(id, u32::try_from(number()?)?, number()?),
            "finished" => Self::Finished(id),
            "done" => Self::Done(id, number()?),
            "again" => Self::Again(id, number()?),
            "lease-lost" => Self::LeaseLost(id),
            other => anyhow::bail!("{other:?} is not a kind of event"),
        })
    }
}

/// Ledger open for writing.
#[derive(Debug)]
pub struct Ledger {
    file: Mutex<File>,
}

impl Ledger {
    /// Returns the path of the ledger of a process.
    pub fn path(folder: &Path, process: &str) -> PathBuf {
        folder.join(format!("{process}.ledger"))
    }

    /// Creates the ledger of a process; fails when it exists.
    pub fn create(folder: &Path, process: &str) -> Result<Self> {
        let path = Self::path(folder, process);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = Mutex::new(file.with_context(|| format!("create {}", path.display()))?);
        Ok(Self { file })
    }

    /// Writes events in one call; aborts the process on failure, since an incomplete ledger proves nothing.
    pub fn write(&self, lines: impl IntoIterator<Item = impl fmt::Display>) {
        let mut text = String::new();
        for line in lines {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_all(text.as_bytes()).is_err() {
            std::process::abort();
        }
    }

    /// Reads the ledger of a process; empty when the process was killed before it created one.
    pub fn read<T>(folder: &Path, process: &str) -> Result<Vec<T>>
    where
        T: FromStr<Err = anyhow::Error>,
    {
        let path = Self::path(folder, process);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.with_context(|| format!("read {}", path.display()))?,
        };
        text.lines().map(str::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::uuid::Uuid;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let id = MessageId::from_uuid(Uuid::from_u128(7));
        let lines = [
            LedgerEvent::Acknowledged(id),
            LedgerEvent::Claimed(id, 9),
            LedgerEvent::Reclaimed(id, 10),
            LedgerEvent::Started(id, 2, 9),
            LedgerEvent::Finished(id),
            LedgerEvent::Done(id, 9),
            LedgerEvent::Again(id, 9),
            LedgerEvent::LeaseLost(id),
        ];
        for line in lines {
            assert_eq!(line.to_string().parse::<LedgerEvent>().unwrap(), line);
        }
        assert!("started".parse::<LedgerEvent>().is_err());
        assert!(format!("unknown {id}").parse::<LedgerEvent>().is_err());
    }

    #[test]
    fn a_process_has_one_ledger_and_a_missing_one_is_empty() {
        let folder = std::env::temp_dir().join(format!("punctual-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let id = MessageId::from_uuid(Uuid::from_u128(7));
        let ledger = Ledger::create(&folder, "w1").unwrap();
        ledger.write([LedgerEvent::Finished(id), LedgerEvent::Acknowledged(id)]);
        assert!(Ledger::create(&folder, "w1").is_err());
        let read = |process: &str| Ledger::read::<LedgerEvent>(&folder, process).unwrap();
        assert_eq!(read("w1").len(), 2);
        assert_eq!(read("w2"), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
