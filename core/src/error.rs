//! Error: the error type of Punctual, with its kind, the operation, facts, and whether a retry can succeed.
//! Lost leases, duplicates and occurrences that another process fired are *results*, not errors, and never
//! appear here.

use std::error::Error as StdError;
use std::fmt;

/// Result of every fallible function of Punctual.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error: the few that a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller passed a value that can never work.
    Invalid,
    /// The named object does not exist.
    NotFound,
    /// The named object exists already, or is in a state that does not allow the operation.
    Conflict,
    /// The back-end does not support the operation, as declared in its capabilities.
    Unsupported,
    /// The back-end cannot be reached or refused the operation for now.
    Unavailable,
    /// Stored data could not be read back.
    Corrupt,
    /// A defect of Punctual itself.
    Internal,
}

impl ErrorKind {
    /// Returns the kind in lower case, stable for logs and APIs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not found",
            Self::Conflict => "conflict",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Internal => "internal",
        }
    }
}

/// Error with its kind, a message for people, facts, and its source.
///
/// The message is lower case, names the offending value and the way out.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    operation: Option<&'static str>,
    facts: Vec<(&'static str, String)>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error of a kind with its message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), operation: None, facts: Vec::new(), source: None }
    }

    /// Creates an error about a value that can never work.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an error about a name that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Creates an error about a conflict with the present state.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// Creates an error about an operation that the back-end declared it cannot do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Creates an error about a back-end that is out of reach for now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Creates an error about a defect of Punctual itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Names the operation that failed.
    pub fn during(mut self, operation: &'static str) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Adds a fact, such as the id of the message.
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.facts.push((name, value.to_string()));
        self
    }

    /// Sets the source of the error.
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the same call may succeed later without any change.
    pub fn is_temporary(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    /// Returns the facts, in the order they were added.
    pub fn facts(&self) -> &[(&'static str, String)] {
        &self.facts
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.operation {
            write!(f, "{operation}: ")?;
        }
        f.write_str(&self.message)?;
        for (index, (name, value)) in self.facts.iter().enumerate() {
            let open = if index == 0 { " (" } else { ", " };
            write!(f, "{open}{name}: {value}")?;
        }
        if !self.facts.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_operation_sentence_and_facts_on_one_line() {
        let error = Error::unavailable("the storage did not respond")
            .during("settle")
            .with("message", 7)
            .with("queue", "default");
        assert_eq!(
            error.to_string(),
            "settle: the storage did not respond (message: 7, queue: default)"
        );
        assert!(error.is_temporary());
        assert!(!Error::invalid("no").is_temporary());
    }
}
