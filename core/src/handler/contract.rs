//! The contract of reporting: what the returned and the reported come to together, and the choice that
//! returning in silence is a failure.

use std::sync::Arc;

use super::arguments::Wrapped;
use super::function::Function;
use super::{HandlerResult, Outcome, Reported};
use crate::policy::Report;

/// What an attempt came to: what the handler returned, and what it had reported before.
///
/// A reported failure fails an attempt that says it is done; an error fails it whatever was reported.
/// Snooze, retry, discard and cancel say themselves what is the matter and need no report.
pub(crate) fn conclude(
    result: HandlerResult,
    reported: Option<Reported>,
    must_report: bool,
) -> Report {
    let failure = match &reported {
        Some(Reported::Failure(text)) => Some(text.clone()),
        _ => None,
    };
    match (result, failure) {
        (Ok(Outcome::Done), Some(error)) => Report::Failed { error },
        (Ok(Outcome::Done), None) if must_report && reported.is_none() => {
            Report::Failed { error: Arc::from(SILENT) }
        }
        (Ok(Outcome::Done), None) => Report::Done,
        (Ok(Outcome::RetryAfter(wait)), note) => Report::RetryAfter { wait, note },
        (Ok(Outcome::Snooze(wait)), _) => Report::Snooze { wait },
        (Ok(Outcome::Discard(reason)), _) => Report::Discard { reason: Arc::from(reason) },
        (Ok(Outcome::Cancel), _) => Report::Cancel,
        (Err(error), None) => Report::Failed { error: error.text().clone() },
        (Err(error), Some(text)) if text.contains(&**error.text()) => {
            Report::Failed { error: text }
        }
        (Err(error), Some(text)) => Report::Failed { error: Arc::from(format!("{text}: {error}")) },
    }
}

const SILENT: &str = "the handler must report and returned without report_success() or report_failure(); progress alone is no report";

/// A handler that must report, made by [`must_report`].
#[derive(Debug)]
pub struct MustReport<H> {
    handler: Arc<H>,
}

/// Chooses the contract "must report" for a handler: returning without
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

impl<H: Function<A>, A> Function<Wrapped<A>> for MustReport<H> {
    type Future = H::Future;

    fn call(this: &Arc<Self>, wrapped: Wrapped<A>) -> Self::Future {
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

    fn failed(error: &str) -> Report {
        Report::Failed { error: Arc::from(error) }
    }

    // spec: T-5, T-9, T-11
    #[test]
    fn what_was_reported_and_what_was_returned_make_one_report() {
        let success = || Some(Reported::Success(Arc::from("812 lines")));
        let failure = || Some(Reported::Failure(Arc::from("card declined")));
        let error = |text: &str| Err(HandlerError::new(text));
        for must in [false, true] {
            assert_eq!(conclude(Ok(Outcome::Done), success(), must), Report::Done);
            assert_eq!(conclude(Ok(Outcome::Done), failure(), must), failed("card declined"));
            assert_eq!(conclude(error("no route"), None, must), failed("no route"));
            assert_eq!(conclude(error("no route"), success(), must), failed("no route"));
            assert_eq!(
                conclude(error("no route"), failure(), must),
                failed("card declined: no route")
            );
            assert_eq!(conclude(error("declined"), failure(), must), failed("card declined"));
            let wait = Duration::from_secs(9);
            assert_eq!(conclude(Ok(Outcome::Snooze(wait)), None, must), Report::Snooze { wait });
            assert_eq!(
                conclude(Ok(Outcome::RetryAfter(wait)), failure(), must),
                Report::RetryAfter { wait, note: Some(Arc::from("card declined")) }
            );
        }
        assert_eq!(conclude(Ok(Outcome::Done), None, false), Report::Done);
        assert_eq!(conclude(Ok(Outcome::Done), None, true), failed(SILENT));
    }
}
