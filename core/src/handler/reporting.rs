//! What a handler says while it runs: how far it is, lines for people, and whether it succeeded. All of
//! it is bounded and kept in memory; what is stored with the execution is decided elsewhere, and what a
//! report means for the attempt in `contract.rs`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::Context;
use crate::event::Event;
use crate::model;

/// The most characters of a note or a line that are kept.
const TEXT_LEN_MAX: usize = 1_000;
/// The most lines of one attempt that are kept; the newest.
const LINES_MAX: usize = 100;

/// How far a handler is. Made from a note, a percentage, or both.
///
/// ```
/// use punctual::handler::ProgressReport;
///
/// assert_eq!(ProgressReport::from((140, "packing")).percent, Some(100));
/// assert_eq!(ProgressReport::from("packing").percent, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressReport {
    /// How much is done, 0 to 100, when it was said.
    pub percent: Option<u8>,
    /// In words; empty when nothing was said.
    pub note: Arc<str>,
}

impl ProgressReport {
    fn new(percent: Option<u8>, note: &str) -> Self {
        Self { percent: percent.map(|percent| percent.min(100)), note: cut(note) }
    }
}

impl ProgressReport {
    /// The same as it is stored.
    pub(crate) fn at(self, at: Timestamp) -> model::Progress {
        let note = Some(self.note).filter(|note| !note.is_empty());
        model::Progress { percent: self.percent, note, at }
    }
}

impl From<u8> for ProgressReport {
    fn from(percent: u8) -> Self {
        Self::new(Some(percent), "")
    }
}

impl From<&str> for ProgressReport {
    fn from(note: &str) -> Self {
        Self::new(None, note)
    }
}

impl From<String> for ProgressReport {
    fn from(note: String) -> Self {
        Self::new(None, &note)
    }
}

impl From<&String> for ProgressReport {
    fn from(note: &String) -> Self {
        Self::new(None, note)
    }
}

impl<T: AsRef<str>> From<(u8, T)> for ProgressReport {
    fn from((percent, note): (u8, T)) -> Self {
        Self::new(Some(percent), note.as_ref())
    }
}

/// What a handler reported about its own success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelfReport {
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
    progress: Option<ProgressReport>,
    is_written: bool,
    reported: Option<SelfReport>,
    lines: VecDeque<Arc<str>>,
    is_replied: bool,
}

impl Said {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self, progress: ProgressReport) {
        let mut inner = self.lock();
        inner.progress = Some(progress);
        inner.is_written = false;
    }

    /// How far it is, if that is news since the last time.
    pub(super) fn take_unwritten(&self) -> Option<ProgressReport> {
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

    pub(super) fn progressed(&self) -> Option<ProgressReport> {
        self.lock().progress.clone()
    }

    pub(super) fn success(&self, message: &str) {
        self.lock().reported = Some(SelfReport::Success(cut(message)));
    }

    pub(super) fn failure(&self, error: &str) {
        self.lock().reported = Some(SelfReport::Failure(cut(error)));
    }

    pub(super) fn reported(&self) -> Option<SelfReport> {
        self.lock().reported.clone()
    }

    pub(super) fn replied(&self) {
        self.lock().is_replied = true;
    }

    pub(super) fn has_replied(&self) -> bool {
        self.lock().is_replied
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
    let end = text.char_indices().nth(TEXT_LEN_MAX).map_or(text.len(), |(index, _)| index);
    Arc::from(&text[..end])
}

impl Context {
    /// Says how far the handler is: a note, a percentage, or both. The last one is kept.
    ///
    /// ```
    /// # fn example(context: punctual::Context) {
    /// context.progress("reading");
    /// context.progress(40);
    /// context.progress((90, "writing"));
    /// # }
    /// ```
    pub fn progress(&self, progress: impl Into<ProgressReport>) {
        let progress = progress.into();
        self.parts().said.progress(progress.clone());
        self.parts().publisher.process().progressed.notify();
        self.parts().events.emit(Event::AttemptProgressed {
            message: self.message_id(),
            execution: self.execution_id(),
            percent: progress.percent,
            note: progress.note,
        });
    }

    /// How far the handler said it is.
    pub fn progressed(&self) -> Option<ProgressReport> {
        self.parts().said.progressed()
    }

    /// Reports success, with a message that goes into the history; it may be empty. The last report
    /// counts. An error that is returned afterwards is a failure all the same.
    pub fn report_success(&self, message: impl AsRef<str>) {
        self.parts().said.success(message.as_ref());
    }

    /// Reports a failure: the attempt fails with this text, also when the handler then says that it
    /// is done.
    pub fn report_failure(&self, error: impl AsRef<str>) {
        self.parts().said.failure(error.as_ref());
    }

    /// What was reported, when something was.
    pub fn reported(&self) -> Option<SelfReport> {
        self.parts().said.reported()
    }

    /// Writes a line for people. The newest 100 lines of an attempt are kept, 1,000 characters of
    /// each.
    pub fn log(&self, line: impl AsRef<str>) {
        self.parts().said.log(line.as_ref());
    }

    /// The lines written so far, oldest first. Whoever stores an execution takes them from here.
    pub fn logged(&self) -> Vec<Arc<str>> {
        self.parts().said.logged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(said.logged()[LINES_MAX - 1].chars().count(), TEXT_LEN_MAX);
        assert_eq!(ProgressReport::from((255, "x")).percent, Some(100));
        said.success("first");
        said.failure("second");
        assert_eq!(said.reported(), Some(SelfReport::Failure(Arc::from("second"))));
    }
}
