//! What can go wrong with a call, and what it means: an error for the caller, a reason to try again
//! on another connection, or a sign that a pooler stands between. The one place that maps errors.

use punctual::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The database or the connection to it said so.
    Database(tokio_postgres::Error),
    /// Somebody else was faster; the whole call is made again.
    Raced,
    /// The answer for the caller.
    Answer(Error),
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

impl Failure {
    /// Whether the same call, made again at once, may well succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Raced => true,
            Self::Database(error) => matches!(
                error.code(),
                Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE)
            ),
            Self::Answer(_) => false,
        }
    }

    /// Whether a prepared statement was not there, or there already: a pooler gives each transaction
    /// another session.
    pub(crate) fn is_pooler(&self) -> bool {
        let Self::Database(error) = self else { return false };
        matches!(
            error.code(),
            Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT)
        )
    }

    /// Whether a row that had to be the only one was not.
    pub(crate) fn is_duplicate(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the connection is of no further use: closed, or to a server that no longer writes.
    pub(crate) fn is_connection(&self) -> bool {
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

    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Database(error) => from_database(error),
            Self::Raced => Error::unavailable(
                "too many others changed the same rows at the same time; try again",
            ),
            Self::Answer(error) => error,
        }
    }
}

/// Codes and classes of codes after which a later try can succeed.
const PASSING: [&str; 7] = ["08", "53", "55P03", "57", "58", "40", "25"];

/// The error of a statement.
fn from_database(error: tokio_postgres::Error) -> Error {
    let Some(reason) = error.as_db_error() else {
        let kind = if is_of_ours(&error) { ErrorKind::Internal } else { ErrorKind::Unavailable };
        let sentence = match std::error::Error::source(&error) {
            Some(source) => format!("the connection to PostgreSQL failed: {source}"),
            None => format!("the connection to PostgreSQL failed: {error}"),
        };
        return Error::new(kind, sentence).caused_by(error);
    };
    let code = reason.code().code().to_owned();
    let told = reason.message().to_owned();
    let (kind, sentence) = explained(&code, &told);
    Error::new(kind, sentence).with("code", code).caused_by(error)
}

/// What the code and the words of the server mean.
pub(crate) fn explained(code: &str, told: &str) -> (ErrorKind, String) {
    match code {
        "57014" => (
            ErrorKind::Unavailable,
            "the statement took longer than statement_timeout; look for locks and long transactions"
                .to_owned(),
        ),
        "25006" => (
            ErrorKind::Unavailable,
            "the server is read-only, as a standby is; waiting for the primary".to_owned(),
        ),
        "42501" => (
            ErrorKind::Invalid,
            format!("the role may not do this: {told}; grant it the rights on the schema"),
        ),
        "42P01" | "3F000" | "42703" => (
            ErrorKind::Unavailable,
            format!("the tables are not there: {told}; were they dropped while in use?"),
        ),
        _ if PASSING.iter().any(|class| code.starts_with(class)) => {
            (ErrorKind::Unavailable, format!("PostgreSQL refused for now: {told}"))
        }
        _ => (ErrorKind::Internal, format!("PostgreSQL refused: {told}")),
    }
}

/// Whether a value did not fit its column: a defect of this crate, not of the connection.
fn is_of_ours(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing") || text.starts_with("error deserializing")
}

/// The error of an attempt to connect, in words that say what to change.
pub(crate) fn from_connect(error: tokio_postgres::Error, place: &str) -> Error {
    let code = error.code().map(|code| code.code().to_owned());
    let (kind, sentence) = match code.as_deref() {
        Some("28P01" | "28000") => (
            ErrorKind::Invalid,
            format!("PostgreSQL at {place} refuses this user or password; check both"),
        ),
        Some("3D000") => (
            ErrorKind::NotFound,
            format!("PostgreSQL at {place} has no such database; create it or correct the address"),
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
                    "PostgreSQL at {place} and we do not agree on TLS: {why}; check sslmode and sslrootcert"
                ),
            )
        }
        _ => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let told = error.as_db_error().map(|reason| reason.message().to_owned());
            let why = told.or(source).unwrap_or_else(|| error.to_string());
            (ErrorKind::Unavailable, format!("PostgreSQL at {place} cannot be reached: {why}"))
        }
    };
    Error::new(kind, sentence).caused_by(error)
}
