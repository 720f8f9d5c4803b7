//! What a handler says. Everything a handler may return turns into an [`Outcome`] or an error.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a handler says about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Handled.
    Done,
    /// Not this time; again after this long. Spends an attempt.
    RetryAfter(Duration),
    /// Not yet; again after this long. Spends no attempt.
    Snooze(Duration),
    /// Never; keep it as a dead letter with this reason.
    Discard(String),
    /// No longer wanted; stop it.
    Cancel,
}

/// What a handler returns in the end.
pub type HandlerResult = std::result::Result<Outcome, HandlerError>;

/// A failed attempt, as text for people, with the whole chain of causes.
///
/// Anything that is an error, and plain text, turns into one with `?`.
pub struct HandlerError {
    text: Arc<str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    advice: Option<Outcome>,
}

impl HandlerError {
    /// A failure in words.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: Arc::from(text.as_ref()), source: None, advice: None }
    }

    /// Trying again will not help: the message becomes a dead letter at once.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.advice = Some(Outcome::Discard(self.text.to_string()));
        self
    }

    /// Try again after this long, instead of what the retry policy says. Spends an attempt.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.advice = Some(Outcome::RetryAfter(wait));
        self
    }

    /// What the error itself says should happen.
    pub(crate) fn advice(&self) -> Option<&Outcome> {
        self.advice.as_ref()
    }

    /// The error it was made from, or a cause of it, when it is of this type.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let mut current: Option<&(dyn StdError + 'static)> = match &self.source {
            Some(source) => Some(&**source),
            None => None,
        };
        for _ in 0..=CAUSES_MAX {
            let error = current?;
            if let Some(found) = error.downcast_ref::<E>() {
                return Some(found);
            }
            current = error.source();
        }
        None
    }

    /// The failure in words.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerError").field(&self.text).finish()
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The most causes that are written down.
const CAUSES_MAX: usize = 16;

// `HandlerError` is on purpose no `std::error::Error`; otherwise this would clash with `From<T> for T`.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        for _ in 0..CAUSES_MAX {
            let Some(current) = cause else { break };
            let line = current.to_string();
            // Many errors repeat their source in their own text.
            if !text.contains(&line) {
                text.push_str(": ");
                text.push_str(&line);
            }
            cause = current.source();
        }
        Self { text: Arc::from(text), source: Some(error), advice: None }
    }
}

/// What a handler may return: `()`, [`Outcome`], or a `Result` of either.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `()`, `Outcome`, or a `Result` of either with any error type"
)]
pub trait IntoOutcome {
    /// The outcome, or the failure.
    fn into_outcome(self) -> HandlerResult;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> HandlerResult {
        Ok(Outcome::Done)
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> HandlerResult {
        Ok(self)
    }
}

impl<T: IntoOutcome, E: Into<HandlerError>> IntoOutcome for std::result::Result<T, E> {
    fn into_outcome(self) -> HandlerResult {
        self.map_err(Into::into)?.into_outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_a_handler_may_return_turns_into_an_outcome() {
        assert_eq!(().into_outcome().unwrap(), Outcome::Done);
        assert_eq!(Ok::<(), String>(()).into_outcome().unwrap(), Outcome::Done);
        assert_eq!(
            Ok::<_, std::io::Error>(Outcome::Cancel).into_outcome().unwrap(),
            Outcome::Cancel
        );
        let error = Err::<(), _>("no route").into_outcome().unwrap_err();
        assert_eq!(error.to_string(), "no route");
    }

    #[test]
    fn a_failure_keeps_the_chain_of_causes_once() {
        let inner = crate::Error::unavailable("connection refused");
        let outer = crate::Error::internal("the report was not sent").caused_by(inner);
        assert_eq!(
            HandlerError::from(outer).to_string(),
            "the report was not sent: connection refused"
        );
    }
}
