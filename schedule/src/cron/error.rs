//! Cron errors: why a text is not a cron expression, in which field and where, and
//! what would be valid. The message is complete on its own; the parts are for tools.

use std::fmt;

use super::field::CronField;

/// A text that is not a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    kind: CronErrorKind,
    field: Option<CronField>,
    position: usize,
    message: String,
}

/// The kinds of mistake in a cron text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CronErrorKind {
    /// An empty text, or only blanks.
    Empty,
    /// A text above the length limit.
    TooLong,
    /// A number of fields other than five or six.
    FieldCount,
    /// An `@word` that is not known.
    Macro,
    /// A value that the field does not have.
    Value,
    /// A step below 1 or above the field's highest value.
    Step,
    /// A character at an invalid position.
    Unexpected,
    /// `H` without a seed to draw its value from.
    SeedMissing,
    /// A search whose start is later than its end.
    Range,
}

impl CronError {
    pub(super) fn new(kind: CronErrorKind, message: String) -> CronError {
        CronError { kind, field: None, position: 0, message }
    }

    pub(super) fn at(mut self, position: usize) -> CronError {
        self.position = position;
        self
    }

    pub(super) fn of(mut self, field: CronField) -> CronError {
        self.field = Some(field);
        self
    }

    /// Returns the kind of mistake.
    pub fn kind(&self) -> CronErrorKind {
        self.kind
    }

    /// Returns the first field at fault, or `None` when the text as a whole is wrong.
    pub fn field(&self) -> Option<CronField> {
        self.field
    }

    /// Returns the position of the mistake in the text, in characters from 0.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => {
                write!(out, "{field} (position {}): {}", self.position + 1, self.message)
            }
            None => out.write_str(&self.message),
        }
    }
}

impl std::error::Error for CronError {}
