//! Rules for errors: what an error of a type means, whatever handler returned it. Without one, an
//! error is a failure and the retry policy decides.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::{HandlerError, Outcome};

type Rule = Arc<dyn Fn(&HandlerError) -> Option<Outcome> + Send + Sync>;

/// The rules of a process, in the order they were given.
#[derive(Clone, Default)]
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    /// Adds a rule for errors of a type, wherever in the chain of causes they are.
    pub(crate) fn add<E: StdError + 'static>(
        &mut self,
        rule: impl Fn(&E) -> Option<Outcome> + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(move |error| error.downcast_ref::<E>().and_then(&rule)));
    }

    /// What an error means: what it says itself, else the first rule that knows.
    pub(crate) fn outcome(&self, error: &HandlerError) -> Option<Outcome> {
        error.advice().cloned().or_else(|| self.0.iter().find_map(|rule| rule(error)))
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules").field(&self.0.len()).finish()
    }
}
