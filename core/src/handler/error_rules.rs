//! Error rules: map errors of a type to outcomes, for all handlers. Without a rule an error is a failure and the retry
//! policy decides.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::{HandlerError, Outcome};

type Rule = Arc<dyn Fn(&HandlerError) -> Option<Outcome> + Send + Sync>;

/// The error rules of a process, in the order of registration.
#[derive(Clone, Default)]
pub(crate) struct ErrorRules(Vec<Rule>);

impl ErrorRules {
    /// Adds a rule for errors of a type, anywhere in the chain of causes.
    pub(crate) fn add<E: StdError + 'static>(
        &mut self,
        rule: impl Fn(&E) -> Option<Outcome> + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(move |error| error.downcast_ref::<E>().and_then(&rule)));
    }

    /// Returns the outcome of an error: its own, else that of the first matching rule.
    pub(crate) fn outcome(&self, error: &HandlerError) -> Option<Outcome> {
        error.advice().cloned().or_else(|| self.0.iter().find_map(|rule| rule(error)))
    }
}

impl fmt::Debug for ErrorRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErrorRules").field(&self.0.len()).finish()
    }
}
