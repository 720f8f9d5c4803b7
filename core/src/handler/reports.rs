//! Reports of a handler while it runs: progress, log lines, and success or failure. They are bounded and kept in
//! memory; `must_report.rs` decides what a report means for the attempt.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::Context;
use crate::event::Event;
use crate::model;

/// Largest length of a note or a line, in characters; the rest is cut off.
const TEXT_LEN_MAX: usize = 1_000;
/// Largest number of lines of one attempt; the oldest are dropped.
const LINES_MAX: usize = 100;

/// Progress of a handler, created from a note, a percentage, or both.
///
/// ```
/// use punctual::handler::ProgressReport;
///
/// assert_eq!(ProgressReport::from((140, "packing")).percent, Some(100));
/// assert_eq!(ProgressReport::from("packing").percent, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressReport {
    /// Percentage that is done, 0 to 100.
    pub percent: Option<u8>,
    /// Note about the progress; may be empty.
    pub note: Arc<str>,
}

impl ProgressReport {
    fn new(percent: Option<u8>, note: &str) -> Self {
        Self { percent: percent.map(|percent| percent.min(100)), note: cut(note) }
    }
}

impl ProgressReport {
    /// Returns the progress as it is stored.
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

/// A handler's own report of its success or failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelfReport {
    /// Success, with a message that may be empty.
    Success(Arc<str>),
    /// Failure, with its error.
    Failure(Arc<str>),
}

/// All reports of a handler in one attempt.
#[derive(Debug, Default)]
pub(crate) struct AttemptReports {
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

impl AttemptReports {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_progress(&self, progress: ProgressReport) {
        let mut inner = self.lock();
        inner.progress = Some(progress);
        inner.is_written = false;
    }

    /// Returns the progress when it has changed since the last call.
    pub(super) fn take_unwritten(&self) -> Option<ProgressReport> {
        let mut inner = self.lock();
        let progress = inner.progress.clone().filter(|_| !inner.is_written);
        inner.is_written = true;
        progress
    }

    /// Returns the lines as one text; `None` without lines.
    pub(super) fn text(&self) -> Option<Arc<str>> {
        let inner = self.lock();
        let lines: Vec<&str> = inner.lines.iter().map(|line| &**line).collect();
        (!lines.is_empty()).then(|| Arc::from(lines.join("\n")))
    }

    pub(super) fn progress(&self) -> Option<ProgressReport> {
        self.lock().progress.clone()
    }

    pub(super) fn set_success(&self, message: &str) {
        self.lock().reported = Some(SelfReport::Success(cut(message)));
    }

    pub(super) fn set_failure(&self, error: &str) {
        self.lock().reported = Some(SelfReport::Failure(cut(error)));
    }

    pub(super) fn reported(&self) -> Option<SelfReport> {
        self.lock().reported.clone()
    }

    pub(super) fn set_replied(&self) {
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

    pub(super) fn lines(&self) -> Vec<Arc<str>> {
        self.lock().lines.iter().cloned().collect()
    }
}

fn cut(text: &str) -> Arc<str> {
    let end = text.char_indices().nth(TEXT_LEN_MAX).map_or(text.len(), |(index, _)| index);
    Arc::from(&text[..end])
}

impl Context {
    /// Reports the progress of the handler: a note, a percentage, or both. The last one is stored.
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
        self.parts().reports.set_progress(progress.clone());
        self.parts().publisher.sender().env.progress_notifier.notify();
        self.parts().events.emit(Event::AttemptProgressed {
            message: self.message_id(),
            execution: self.execution_id(),
            topic: self.topic().clone(),
            percent: progress.percent,
            note: progress.note,
        });
    }

    /// Returns the last reported progress.
    pub fn progressed(&self) -> Option<ProgressReport> {
        self.parts().reports.progress()
    }

    /// Reports success, with a message for the history that may be empty. The last report counts. An error that
    /// is returned afterwards is a failure nevertheless.
    pub fn report_success(&self, message: impl AsRef<str>) {
        self.parts().reports.set_success(message.as_ref());
    }

    /// Reports a failure: the attempt fails with this text, also when the handler then returns `Done`.
    pub fn report_failure(&self, error: impl AsRef<str>) {
        self.parts().reports.set_failure(error.as_ref());
    }

    /// Returns the last report of success or failure.
    pub fn reported(&self) -> Option<SelfReport> {
        self.parts().reports.reported()
    }

    /// Appends a line to the log of the attempt. The newest 100 lines are stored with the execution, 1,000
    /// characters of each.
    pub fn log(&self, line: impl AsRef<str>) {
        self.parts().reports.log(line.as_ref());
    }

    /// Returns the log lines so far, oldest first.
    pub fn logged(&self) -> Vec<Arc<str>> {
        self.parts().reports.lines()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_texts_are_bounded() {
        let reports = AttemptReports::default();
        for number in 0..250 {
            reports.log(&format!("line {number}"));
        }
        let lines = reports.lines();
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!((&*lines[0], &*lines[LINES_MAX - 1]), ("line 150", "line 249"));
        reports.log(&"é".repeat(5_000));
        assert_eq!(reports.lines()[LINES_MAX - 1].chars().count(), TEXT_LEN_MAX);
        assert_eq!(ProgressReport::from((255, "x")).percent, Some(100));
        reports.set_success("first");
        reports.set_failure("second");
        assert_eq!(reports.reported(), Some(SelfReport::Failure(Arc::from("second"))));
    }
}
