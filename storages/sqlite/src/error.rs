//! Errors of the file, and how they are mapped: each cause has a kind and a sentence with the remedy. An error
//! of the file affects the whole batch; an error of a single call affects that call alone.

use std::path::Path;
use std::time::Duration;

use punctual::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// Error inside a storage call, before it is mapped for the caller.
#[derive(Debug)]
pub(crate) enum StorageError {
    /// Error of SQLite.
    Database(rusqlite::Error),
    /// Error that is returned to the caller as it is.
    Mapped(Error),
}

/// Result of every function that uses the database.
pub(crate) type StorageResult<T> = Result<T, StorageError>;

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<rusqlite::types::FromSqlError> for StorageError {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Database(error.into())
    }
}

impl From<Error> for StorageError {
    fn from(error: Error) -> Self {
        Self::Mapped(error)
    }
}

/// Returns none for a row that cannot be decoded: a damaged row, or one of a newer version, must not stop those
/// behind it. The row stays in the table, and a query by its id returns the error.
pub(crate) fn skip_corrupt<T>(read: StorageResult<T>) -> StorageResult<Option<T>> {
    match read {
        Err(StorageError::Mapped(error)) if error.kind() == ErrorKind::Corrupt => {
            tracing::warn!(%error, "a row that cannot be decoded is skipped");
            Ok(None)
        }
        read => read.map(Some),
    }
}

impl StorageError {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Database(error) => error.sqlite_error_code(),
            Self::Mapped(_) => None,
        }
    }

    /// Returns whether another process or connection has the lock.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Returns whether the disk or the file is full.
    pub(crate) fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }

    /// Returns whether the error concerns the file and not only the call.
    pub(crate) fn affects_whole_batch(&self) -> bool {
        self.is_busy() || self.is_full() || self.breaks_connection()
    }

    /// Returns whether a new connection may succeed.
    pub(crate) fn breaks_connection(&self) -> bool {
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

    /// Maps the error for a caller. Several callers may receive it, so it is not consumed.
    pub(crate) fn error_for_caller(&self, path: &Path, timeout: Duration) -> Error {
        match self {
            Self::Mapped(error) => copy_of(error),
            Self::Database(error) => {
                let (kind, sentence) = classify(error, path, timeout);
                Error::new(kind, sentence).caused_by(error.to_string())
            }
        }
    }
}

/// Copies an error; facts and the source are reduced to the sentence.
fn copy_of(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}

fn classify(error: &rusqlite::Error, path: &Path, timeout: Duration) -> (ErrorKind, String) {
    let file = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            format!(
                "another process had the write lock of {file} for longer than {timeout:?}; look for a \
                 process with an open write transaction (an application, a sqlite3 shell, a backup) and end \
                 it, or raise busy_timeout"
            ),
        ),
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Unavailable,
            format!(
                "no space left to write to {file}; nothing of this call was stored, calls succeed again after some \
                 space is freed"
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
                "reading or writing {file} failed ({error}); check the disk and its free space"
            ),
        ),
        Some(ErrorCode::OutOfMemory) => {
            (ErrorKind::Unavailable, format!("out of memory while working on {file}"))
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
            "the tables of Punctual in {file} are damaged or were changed ({error}); check the file"
        );
        (ErrorKind::Corrupt, sentence)
    } else {
        (ErrorKind::Internal, format!("a statement on {file} failed: {error}"))
    }
}
