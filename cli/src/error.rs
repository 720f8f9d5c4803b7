//! Errors of commands: a message, a hint and the exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use punctual::ErrorKind;

use crate::terminal::{notice, print_error};

/// Meaning of the exit codes, for `--help`.
pub(crate) const EXIT_CODES_HELP: &str = "\
Exit codes:
  0  success
  1  failure
  2  invalid input: an argument, a file or a value
  3  not found
  4  refused: the current state does not allow it, or it was not confirmed
  5  the server or the storage is unreachable
  6  forbidden: log in, or request a larger role";

/// Reason of a failure, as the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Any other failure.
    Failed = 1,
    /// An argument, a file or a value is invalid.
    InvalidInput = 2,
    /// The named thing does not exist.
    NotFound = 3,
    /// The current state does not allow it, or it was not confirmed.
    Refused = 4,
    /// The server or the storage is unreachable.
    Unreachable = 5,
    /// Not logged in, or the role is too small.
    Forbidden = 6,
}

/// Error of a command, with a hint on how to resolve it.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) code: Code,
    text: String,
    hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: None }
    }

    /// Creates an error about invalid input.
    pub(crate) fn invalid_input(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, text)
    }

    /// Adds a hint on how to resolve the error.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for CommandError {}

/// Prints an error with its hint and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(closed) {
        // The reader of the pipe has closed it.
        return ExitCode::SUCCESS;
    }
    print_error(error);
    if let Some(hint) = error.downcast_ref::<CommandError>().and_then(|error| error.hint.as_ref()) {
        notice(&format!("hint: {hint}"));
    }
    ExitCode::from(code(error) as u8)
}

fn code(error: &anyhow::Error) -> Code {
    if let Some(error) = error.downcast_ref::<CommandError>() {
        return error.code;
    }
    match error.downcast_ref::<punctual::Error>().map(punctual::Error::kind) {
        Some(ErrorKind::Invalid | ErrorKind::Unsupported) => Code::InvalidInput,
        Some(ErrorKind::NotFound) => Code::NotFound,
        Some(ErrorKind::Conflict) => Code::Refused,
        Some(ErrorKind::Unavailable) => Code::Unreachable,
        _ => Code::Failed,
    }
}
