//! Outcome of a handler. Every type that a handler may return converts into an [`Outcome`] or an error.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The decision of a handler about its message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Handled.
    Done,
    /// Failed; retried after this delay. Spends an attempt.
    RetryAfter(Duration),
    /// Not ready; handled again after this delay. Spends no attempt.
    Snooze(Duration),
    /// Not processable; becomes a dead letter with this reason.
    Discard(String),
    /// No longer needed; the message is cancelled.
    Cancel,
}

/// The result of a handler.
pub type HandlerResult = std::result::Result<Outcome, HandlerError>;

/// A failed attempt, as text for people, with the whole chain of causes.
///
/// Every error type, and plain text, converts into it with `?`.
pub struct HandlerError {
    text: Arc<str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    advice: Option<Outcome>,
}

impl HandlerError {
    /// Creates a failure with a text.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self { text: Arc::from(text.as_ref()), source: None, advice: None }
    }

    /// Marks the failure as permanent: the message becomes a dead letter immediately.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.advice = Some(Outcome::Discard(self.text.to_string()));
        self
    }

    /// Sets the delay of the next attempt, in place of the retry policy's. Spends an attempt.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.advice = Some(Outcome::RetryAfter(wait));
        self
    }

    /// Returns the outcome that the error itself requests.
    pub(crate) fn advice(&self) -> Option<&Outcome> {
        self.advice.as_ref()
    }

    /// Returns the error it was created from, or one of its causes, of this type.
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

    /// Returns the text of the failure.
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

/// The most causes in the text of a failure.
const CAUSES_MAX: usize = 16;

// `HandlerError` does not implement `std::error::Error`, because this would conflict with `From<T> for T`.
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

/// A type that a handler may return: `()`, [`Outcome`], or a `Result` of either.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "return `()`, `Outcome`, or a `Result` of either with any error type"
)]
pub trait IntoOutcome {
    /// Converts it into an outcome or a failure.
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
    fn every_returned_type_converts_into_an_outcome() {
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
