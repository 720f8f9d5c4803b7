//! Errors of a call and their meaning: an error for the caller, a reason to retry on another connection, or a
//! sign of a pooler. Every error of the driver is mapped here.

use punctual::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

/// Error inside a storage call, before it is mapped for the caller.
#[derive(Debug)]
pub(crate) enum StorageError {
    /// Error of the database or of the connection to it.
    Database(tokio_postgres::Error),
    /// Another transaction changed the same rows; the whole call is repeated.
    Raced,
    /// Error that is returned to the caller as it is.
    Mapped(Error),
}

impl From<tokio_postgres::Error> for StorageError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for StorageError {
    fn from(error: Error) -> Self {
        Self::Mapped(error)
    }
}

impl StorageError {
    /// Returns whether the same call, repeated at once, is likely to succeed.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::Raced => true,
            Self::Database(error) => matches!(
                error.code(),
                Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE)
            ),
            Self::Mapped(_) => false,
        }
    }

    /// Returns whether a prepared statement was missing or existed already: a pooler gives each transaction
    /// another session.
    pub(crate) fn indicates_pooler(&self) -> bool {
        let Self::Database(error) = self else { return false };
        matches!(
            error.code(),
            Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT)
        )
    }

    /// Returns whether a unique index refused a row.
    pub(crate) fn is_unique_violation(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Returns whether the connection is unusable: closed, or to a server that no longer accepts writes.
    pub(crate) fn is_connection_lost(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.is_closed()
            || match error.code() {
                None => true,
                Some(code) => {
                    *code == SqlState::READ_ONLY_SQL_TRANSACTION
                        || code.code().starts_with("08")
                        || code.code().starts_with("57P")
                }
            }
    }

    pub(crate) fn error_for_caller(self) -> Error {
        match self {
            Self::Database(error) => from_statement(error),
            Self::Raced => Error::unavailable(
                "too many concurrent transactions changed the same rows; try again",
            ),
            Self::Mapped(error) => error,
        }
    }
}

/// SQLSTATE codes and classes after which a later try can succeed.
const RETRYABLE: [&str; 7] = ["08", "53", "55P03", "57", "58", "40", "25"];

/// Maps the error of a statement.
fn from_statement(error: tokio_postgres::Error) -> Error {
    let Some(reason) = error.as_db_error() else {
        let kind =
            if is_conversion_error(&error) { ErrorKind::Internal } else { ErrorKind::Unavailable };
        let sentence = match std::error::Error::source(&error) {
            Some(source) => format!("the connection to PostgreSQL failed: {source}"),
            None => format!("the connection to PostgreSQL failed: {error}"),
        };
        return Error::new(kind, sentence).caused_by(error);
    };
    let code = reason.code().code().to_owned();
    let message = reason.message().to_owned();
    let (kind, sentence) = classify(&code, &message);
    Error::new(kind, sentence).with("code", code).caused_by(error)
}

/// Maps SQLSTATE and message of the server to a kind and a sentence with the remedy.
pub(crate) fn classify(code: &str, message: &str) -> (ErrorKind, String) {
    match code {
        "57014" => (
            ErrorKind::Unavailable,
            "the statement took longer than statement_timeout; check for locks and long transactions"
                .to_owned(),
        ),
        "25006" => (
            ErrorKind::Unavailable,
            "the server is read-only, probably a standby; the call succeeds again once the primary is back".to_owned(),
        ),
        "42501" => (
            ErrorKind::Invalid,
            format!("the role may not do this: {message}; grant it the rights on the schema"),
        ),
        "42P01" | "3F000" | "42703" => (
            ErrorKind::Unavailable,
            format!("the tables do not exist: {message}; they were probably dropped while in use, restart to create them"),
        ),
        _ if RETRYABLE.iter().any(|class| code.starts_with(class)) => {
            (ErrorKind::Unavailable, format!("PostgreSQL refused the statement for now: {message}"))
        }
        _ => (ErrorKind::Internal, format!("PostgreSQL refused the statement: {message}")),
    }
}

/// Returns whether a value did not fit its column: a defect of this crate, not of the connection.
fn is_conversion_error(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing") || text.starts_with("error deserializing")
}

/// Maps the error of a connection attempt; the sentence says what to change.
pub(crate) fn from_connect(error: tokio_postgres::Error, place: &str) -> Error {
    let code = error.code().map(|code| code.code().to_owned());
    let (kind, sentence) = match code.as_deref() {
        Some("28P01" | "28000") => (
            ErrorKind::Invalid,
            format!("PostgreSQL at {place} rejected the user or password; check both"),
        ),
        Some("3D000") => (
            ErrorKind::NotFound,
            format!(
                "PostgreSQL at {place} does not have this database; create it or correct the address"
            ),
        ),
        Some("53300") => (
            ErrorKind::Unavailable,
            format!(
                "PostgreSQL at {place} has no connection left; lower pool_size or raise max_connections"
            ),
        ),
        None if error.to_string().starts_with("error performing TLS handshake") => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let why = source.unwrap_or_else(|| error.to_string());
            (
                ErrorKind::Invalid,
                format!(
                    "PostgreSQL at {place} and this program do not agree on TLS: {why}; check sslmode and sslrootcert"
                ),
            )
        }
        _ => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let message = error.as_db_error().map(|reason| reason.message().to_owned());
            let why = message.or(source).unwrap_or_else(|| error.to_string());
            (ErrorKind::Unavailable, format!("PostgreSQL at {place} cannot be reached: {why}"))
        }
    };
    Error::new(kind, sentence).caused_by(error)
}
