//! Reporting contract: combines the returned result and the report of a handler, and allows a handler to require an
//! explicit report.

use std::sync::Arc;

use super::arguments::WrappedArguments;
use super::function::Function;
use super::{HandlerResult, Outcome, SelfReport};
use crate::policy::AttemptEnd;

/// Returns the end of an attempt from the result of its handler and its report.
///
/// A reported failure fails an attempt that returned `Done`; an error fails it regardless of the report. Snooze,
/// retry, discard and cancel need no report.
pub(crate) fn conclude(
    result: HandlerResult,
    reported: Option<SelfReport>,
    must_report: bool,
) -> AttemptEnd {
    let failure = match &reported {
        Some(SelfReport::Failure(text)) => Some(text.clone()),
        _ => None,
    };
    match (result, failure) {
        (Ok(Outcome::Done), Some(error)) => AttemptEnd::Failed { error },
        (Ok(Outcome::Done), None) if must_report && reported.is_none() => {
            AttemptEnd::Failed { error: Arc::from(NO_REPORT) }
        }
        (Ok(Outcome::Done), None) => AttemptEnd::Done,
        (Ok(Outcome::RetryAfter(wait)), note) => AttemptEnd::RetryAfter { wait, note },
        (Ok(Outcome::Snooze(wait)), _) => AttemptEnd::Snooze { wait },
        (Ok(Outcome::Discard(reason)), _) => AttemptEnd::Discard { reason: Arc::from(reason) },
        (Ok(Outcome::Cancel), _) => AttemptEnd::Cancel,
        (Err(error), None) => AttemptEnd::Failed { error: error.text().clone() },
        (Err(error), Some(text)) if text.contains(&**error.text()) => {
            AttemptEnd::Failed { error: text }
        }
        (Err(error), Some(text)) => {
            AttemptEnd::Failed { error: Arc::from(format!("{text}: {error}")) }
        }
    }
}

const NO_REPORT: &str = "the handler must report and returned without report_success() or report_failure(); progress alone is no report";

/// A handler that must report, made by [`must_report`].
#[derive(Debug)]
pub struct MustReport<H> {
    handler: Arc<H>,
}

/// Requires a handler to report: returning without
/// [`Context::report_success`](super::Context::report_success) or
/// [`report_failure`](super::Context::report_failure) is a failure.
///
/// ```
/// use punctual::{Context, Punctual, must_report};
///
/// async fn import(path: String, context: Context) {
///     context.progress((50, "half of the lines"));
///     context.report_success(format!("{path}: 812 lines"));
/// }
///
/// let punctual = Punctual::builder().handler("import", must_report(import)).build();
/// assert!(punctual.is_ok());
/// ```
pub fn must_report<H>(handler: H) -> MustReport<H> {
    MustReport { handler: Arc::new(handler) }
}

impl<H: Function<A>, A> Function<WrappedArguments<A>> for MustReport<H> {
    type Future = H::Future;

    fn call(this: &Arc<Self>, wrapped: WrappedArguments<A>) -> Self::Future {
        H::call(&this.handler, wrapped.arguments)
    }

    fn must_report(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::handler::HandlerError;

    fn failed(error: &str) -> AttemptEnd {
        AttemptEnd::Failed { error: Arc::from(error) }
    }

    // spec: T-5, T-9, T-11
    #[test]
    fn the_report_and_the_returned_result_are_combined() {
        let success = || Some(SelfReport::Success(Arc::from("812 lines")));
        let failure = || Some(SelfReport::Failure(Arc::from("card declined")));
        let error = |text: &str| Err(HandlerError::new(text));
        for must in [false, true] {
            assert_eq!(conclude(Ok(Outcome::Done), success(), must), AttemptEnd::Done);
            assert_eq!(conclude(Ok(Outcome::Done), failure(), must), failed("card declined"));
            assert_eq!(conclude(error("no route"), None, must), failed("no route"));
            assert_eq!(conclude(error("no route"), success(), must), failed("no route"));
            assert_eq!(
                conclude(error("no route"), failure(), must),
                failed("card declined: no route")
            );
            assert_eq!(conclude(error("declined"), failure(), must), failed("card declined"));
            let wait = Duration::from_secs(9);
            assert_eq!(
                conclude(Ok(Outcome::Snooze(wait)), None, must),
                AttemptEnd::Snooze { wait }
            );
            assert_eq!(
                conclude(Ok(Outcome::RetryAfter(wait)), failure(), must),
                AttemptEnd::RetryAfter { wait, note: Some(Arc::from("card declined")) }
            );
        }
        assert_eq!(conclude(Ok(Outcome::Done), None, false), AttemptEnd::Done);
        assert_eq!(conclude(Ok(Outcome::Done), None, true), failed(NO_REPORT));
    }
}
