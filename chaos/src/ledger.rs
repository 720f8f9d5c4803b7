//! The ledger: what each process saw, a line at a time, in a file of its own.
//!
//! A line is handed to the operating system in one call before the process goes on. A killed process
//! therefore loses nothing it has written, and at most the line it was about to write. The last line may
//! be half a line only when the disk is full.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use punctual::model::MessageId;

/// What a process saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A publish returned: from now on the message must not be lost.
    Acknowledged(MessageId),
    /// A claim returned with the message, under this token.
    Claimed(MessageId, u64),
    /// The message of a lost process was taken over, under this token.
    Reclaimed(MessageId, u64),
    /// The handler began, as this attempt, under this token.
    Started(MessageId, u32, u64),
    /// The handler came to its end.
    Finished(MessageId),
    /// The settlement of this token was answered: stored, the message is done.
    Done(MessageId, u64),
    /// The settlement of this token was answered: stored, the message is due again.
    Again(MessageId, u64),
    /// The process found out that the lease is somebody else's by now, or may be.
    LeaseLost(MessageId),
}

impl fmt::Display for Line {
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

impl FromStr for Line {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split(' ');
        let word = words.next().unwrap_or_default();
        let id: MessageId = words.next().context("a line names a message")?.parse()?;
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
            other => anyhow::bail!("{other:?} is no kind of line"),
        })
    }
}

/// A ledger that is written.
#[derive(Debug)]
pub struct Ledger {
    file: Mutex<File>,
}

impl Ledger {
    /// The file of a process.
    pub fn path(folder: &Path, process: &str) -> PathBuf {
        folder.join(format!("{process}.ledger"))
    }

    /// Begins the ledger of a process, which must not have one.
    pub fn create(folder: &Path, process: &str) -> Result<Self> {
        let path = Self::path(folder, process);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = Mutex::new(file.with_context(|| format!("create {}", path.display()))?);
        Ok(Self { file })
    }

    /// Writes lines in one go. A ledger that cannot be written proves nothing, so that ends the process.
    pub fn write(&self, lines: impl IntoIterator<Item = Line>) {
        let mut text = String::new();
        for line in lines {
            // Into a string, which takes everything.
            let _ = writeln!(text, "{line}");
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_all(text.as_bytes()).is_err() {
            std::process::abort();
        }
    }

    /// Reads the ledger of a process; one that was killed before it began has none.
    pub fn read(folder: &Path, process: &str) -> Result<Vec<Line>> {
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
            Line::Acknowledged(id),
            Line::Claimed(id, 9),
            Line::Reclaimed(id, 10),
            Line::Started(id, 2, 9),
            Line::Finished(id),
            Line::Done(id, 9),
            Line::Again(id, 9),
            Line::LeaseLost(id),
        ];
        for line in lines {
            assert_eq!(line.to_string().parse::<Line>().unwrap(), line);
        }
        assert!("started".parse::<Line>().is_err());
        assert!(format!("dreamt {id}").parse::<Line>().is_err());
    }

    #[test]
    fn a_process_has_one_ledger_and_a_missing_one_is_empty() {
        let folder = std::env::temp_dir().join(format!("punctual-ledger-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let id = MessageId::from_uuid(Uuid::from_u128(7));
        let ledger = Ledger::create(&folder, "w1").unwrap();
        ledger.write([Line::Finished(id), Line::Acknowledged(id)]);
        assert!(Ledger::create(&folder, "w1").is_err());
        assert_eq!(Ledger::read(&folder, "w1").unwrap().len(), 2);
        assert_eq!(Ledger::read(&folder, "w2").unwrap(), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
