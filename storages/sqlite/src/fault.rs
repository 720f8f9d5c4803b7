//! What can go wrong with the file, and how it is told: each cause has a kind and a sentence with the
//! way out. A fault of the file concerns everybody; one of a single call concerns that call alone.

use std::path::Path;
use std::time::Duration;

use punctual::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// What a statement, or what was done with its rows, failed by.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said no.
    Sqlite(rusqlite::Error),
    /// We did.
    Refused(Error),
}

/// The result of everything that touches the database.
pub(crate) type Tried<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// What was read, or nothing when it cannot be read: a damaged row, or one of a newer version, must not
/// stop those behind it. It stays where it is, and whoever asks for it by its id is told.
pub(crate) fn passed_over<T>(read: Tried<T>) -> Tried<Option<T>> {
    match read {
        Err(Fault::Refused(error)) if error.kind() == ErrorKind::Corrupt => {
            tracing::warn!(%error, "a row that cannot be read is passed over");
            Ok(None)
        }
        read => read.map(Some),
    }
}

impl Fault {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            Self::Refused(_) => None,
        }
    }

    /// Whether somebody else has the file for now.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether there is no room left.
    pub(crate) fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }

    /// Whether it says something about the file, not about the call.
    pub(crate) fn concerns_everybody(&self) -> bool {
        self.is_busy() || self.is_full() || self.spoils_the_connection()
    }

    /// Whether a fresh connection may do better.
    pub(crate) fn spoils_the_connection(&self) -> bool {
        matches!(
            self.code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::OutOfMemory
            )
        )
    }

    /// The error for the caller. It can be told to many, so the fault stays.
    pub(crate) fn told(&self, path: &Path, patience: Duration) -> Error {
        match self {
            Self::Refused(error) => repeated(error),
            Self::Sqlite(error) => {
                let (kind, sentence) = explained(error, path, patience);
                Error::new(kind, sentence).caused_by(error.to_string())
            }
        }
    }
}

/// The same error once more; one that has facts or a source is told by its sentence.
fn repeated(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}

fn explained(error: &rusqlite::Error, path: &Path, patience: Duration) -> (ErrorKind, String) {
    let file = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            format!(
                "somebody else held the write lock of {file} for longer than {patience:?}; look for another \
                 process with an open write transaction (an application, a sqlite3 shell, a backup) and end \
                 it, or raise busy_patience"
            ),
        ),
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Unavailable,
            format!(
                "there is no room to write to {file}; nothing of this call was stored, free some space and \
                 it goes on"
            ),
        ),
        Some(ErrorCode::ReadOnly) => (
            ErrorKind::Unavailable,
            format!(
                "{file} cannot be written to; make the file and its folder writable for this user"
            ),
        ),
        Some(ErrorCode::CannotOpen) => cannot_open(path),
        Some(ErrorCode::NotADatabase) => (
            ErrorKind::Invalid,
            format!("{file} is not an SQLite database; choose another path, it was not touched"),
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Corrupt,
            format!("{file} is damaged ({error}); check it, and restore it from a backup"),
        ),
        Some(ErrorCode::SystemIoFailure) => (
            ErrorKind::Unavailable,
            format!(
                "reading or writing {file} failed ({error}); look at the disk and its free space"
            ),
        ),
        Some(ErrorCode::OutOfMemory) => {
            (ErrorKind::Unavailable, format!("there is no memory left to work on {file}"))
        }
        Some(ErrorCode::TooBig) => {
            (ErrorKind::Invalid, format!("a value is too large for {file}: {error}"))
        }
        _ => other(error, path),
    }
}

fn cannot_open(path: &Path) -> (ErrorKind, String) {
    let file = path.display();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        return (ErrorKind::Invalid, format!("{file} is a folder; give the path of a file"));
    }
    match folder {
        Some(folder) if !folder.exists() => (
            ErrorKind::NotFound,
            format!("the folder {} of {file} does not exist; create it first", folder.display()),
        ),
        _ => (
            ErrorKind::Unavailable,
            format!(
                "{file} cannot be opened; this user must be allowed to read and write it, and to create \
                 files in its folder"
            ),
        ),
    }
}

fn other(error: &rusqlite::Error, path: &Path) -> (ErrorKind, String) {
    use rusqlite::Error as Sqlite;
    let file = path.display();
    let is_reading = matches!(
        error,
        Sqlite::FromSqlConversionFailure(..)
            | Sqlite::InvalidColumnType(..)
            | Sqlite::IntegralValueOutOfRange(..)
    );
    let is_schema = error.to_string().contains("no such ");
    if is_reading || is_schema {
        let sentence = format!(
            "the tables of Punctual in {file} are not as they should be ({error}); check the file"
        );
        (ErrorKind::Corrupt, sentence)
    } else {
        (ErrorKind::Internal, format!("a statement on {file} failed: {error}"))
    }
}
