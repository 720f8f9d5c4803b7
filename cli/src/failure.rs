//! What went wrong, the way out, and the exit code that tells a program which of the two to look at.

use std::fmt;
use std::io;
use std::process::ExitCode;

use punctual::ErrorKind;

use crate::terminal::{complain, tell};

/// What the exit codes mean, for `--help`.
pub(crate) const CODES_HELP: &str = "\
Exit codes:
  0  it is done
  1  it failed
  2  wrong input: an argument, a file or a value that cannot be right
  3  there is no such thing
  4  refused: the present state does not allow it, or nobody said yes
  5  the server or the storage is not reachable
  6  not allowed: log in, or ask for a larger role";

/// Why a command failed, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// It failed.
    Failed = 1,
    /// Wrong input.
    Wrong = 2,
    /// There is no such thing.
    Missing = 3,
    /// The present state does not allow it, or nobody said yes.
    Refused = 4,
    /// The server or the storage is not reachable.
    Unreachable = 5,
    /// Not logged in, or the role is too small.
    Forbidden = 6,
}

/// What went wrong, and the way out.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    text: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: None }
    }

    /// Input that cannot be right.
    pub(crate) fn wrong(text: impl Into<String>) -> Self {
        Self::new(Code::Wrong, text)
    }

    /// Adds the way out.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Says what went wrong, and answers the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(closed) {
        // Whoever reads it has had enough.
        return ExitCode::SUCCESS;
    }
    complain(error);
    if let Some(hint) = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.as_ref()) {
        tell(&format!("hint: {hint}"));
    }
    ExitCode::from(code(error) as u8)
}

fn code(error: &anyhow::Error) -> Code {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.code;
    }
    match error.downcast_ref::<punctual::Error>().map(punctual::Error::kind) {
        Some(ErrorKind::Invalid | ErrorKind::Unsupported) => Code::Wrong,
        Some(ErrorKind::NotFound) => Code::Missing,
        Some(ErrorKind::Conflict) => Code::Refused,
        Some(ErrorKind::Unavailable) => Code::Unreachable,
        _ => Code::Failed,
    }
}
