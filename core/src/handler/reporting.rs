//! What a handler says while it runs: how far it is, lines for people, and whether it succeeded. All of
//! it is bounded and kept in memory; what is stored with the execution is decided elsewhere. With the
//! contract "must report", returning in silence is a failure.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arguments::Wrapped;
use super::function::Function;
use super::{HandlerResult, Outcome};
use crate::policy::Report;

/// The most characters of a note or a line that are kept.
const TEXT_LENGTH_MAX: usize = 1_000;
/// The most lines of one attempt that are kept; the newest.
const LINES_MAX: usize = 100;

/// How far a handler is. Made from a note, a percentage, or both.
///
/// ```
/// use punctual::handler::Progress;
///
/// assert_eq!(Progress::from((140, "packing")).percent, Some(100));
/// assert_eq!(Progress::from("packing").percent, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How much is done, 0 to 100, when it was said.
    pub percent: Option<u8>,
    /// In words; empty when nothing was said.
    pub note: Arc<str>,
}

impl Progress {
    fn new(percent: Option<u8>, note: &str) -> Self {
        Self { percent: percent.map(|percent| percent.min(100)), note: cut(note) }
    }
}

impl From<u8> for Progress {
    fn from(percent: u8) -> Self {
        Self::new(Some(percent), "")
    }
}

impl From<&str> for Progress {
    fn from(note: &str) -> Self {
        Self::new(None, note)
    }
}

impl From<String> for Progress {
    fn from(note: String) -> Self {
        Self::new(None, &note)
    }
}

impl From<&String> for Progress {
    fn from(note: &String) -> Self {
        Self::new(None, note)
    }
}

impl<T: AsRef<str>> From<(u8, T)> for Progress {
    fn from((percent, note): (u8, T)) -> Self {
        Self::new(Some(percent), note.as_ref())
    }
}

/// What a handler reported about its own success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It succeeded, with a message that may be empty.
    Success(Arc<str>),
    /// It failed.
    Failure(Arc<str>),
}

/// Everything a handler said in one attempt.
#[derive(Debug, Default)]
pub(crate) struct Said {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    progress: Option<Progress>,
    is_written: bool,
    reported: Option<Reported>,
    lines: VecDeque<Arc<str>>,
}

impl Said {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self, progress: Progress) {
        let mut inner = self.lock();
        inner.progress = Some(progress);
        inner.is_written = false;
    }

    /// How far it is, if that is news since the last time.
    pub(super) fn take_unwritten(&self) -> Option<Progress> {
        let mut inner = self.lock();
        let progress = inner.progress.clone().filter(|_| !inner.is_written);
        inner.is_written = true;
        progress
    }

    /// The lines, one under the other; none without any.
    pub(super) fn text(&self) -> Option<Arc<str>> {
        let inner = self.lock();
        let lines: Vec<&str> = inner.lines.iter().map(|line| &**line).collect();
        (!lines.is_empty()).then(|| Arc::from(lines.join("\n")))
    }

    pub(super) fn progressed(&self) -> Option<Progress> {
        self.lock().progress.clone()
    }

    pub(super) fn success(&self, message: &str) {
        self.lock().reported = Some(Reported::Success(cut(message)));
    }

    pub(super) fn failure(&self, error: &str) {
        self.lock().reported = Some(Reported::Failure(cut(error)));
    }

    pub(super) fn reported(&self) -> Option<Reported> {
        self.lock().reported.clone()
    }

    pub(super) fn log(&self, line: &str) {
        let mut inner = self.lock();
        if inner.lines.len() == LINES_MAX {
            inner.lines.pop_front();
        }
        inner.lines.push_back(cut(line));
    }

    pub(super) fn logged(&self) -> Vec<Arc<str>> {
        self.lock().lines.iter().cloned().collect()
    }
}

fn cut(text: &str) -> Arc<str> {
    let end = text.char_indices().nth(TEXT_LENGTH_MAX).map_or(text.len(), |(index, _)| index);
    Arc::from(&text[..end])
}

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

    #[test]
    fn what_is_said_is_bounded() {
        let said = Said::default();
        for number in 0..250 {
            said.log(&format!("line {number}"));
        }
        let lines = said.logged();
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!((&*lines[0], &*lines[LINES_MAX - 1]), ("line 150", "line 249"));
        said.log(&"é".repeat(5_000));
        assert_eq!(said.logged()[LINES_MAX - 1].chars().count(), TEXT_LENGTH_MAX);
        assert_eq!(Progress::from((255, "x")).percent, Some(100));
        said.success("first");
        said.failure("second");
        assert_eq!(said.reported(), Some(Reported::Failure(Arc::from("second"))));
    }
}
