//! Hooks: application callbacks for every failed attempt and every message that was given up. A hook runs in
//! the task that reports the event, so it must be quick; a panic in it is caught. Work that must not be lost
//! belongs into a link that follows a failure.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{DeadReason, Execution, Message};

/// An attempt that failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// The message that was attempted.
    pub message: &'a Message,
    /// The attempt, with its error in the note.
    pub execution: &'a Execution,
    /// When it is tried again; none when it was the last attempt.
    pub again_at: Option<Timestamp>,
}

/// A message that was given up.
#[derive(Debug)]
#[non_exhaustive]
pub struct GivenUpMessage<'a> {
    /// The message.
    pub message: &'a Message,
    /// Why it was given up.
    pub reason: DeadReason,
    /// Error of the last attempt.
    pub error: Option<&'a str>,
}

pub(crate) type OnFailure = Arc<dyn Fn(&FailedAttempt<'_>) + Send + Sync>;
pub(crate) type OnExhausted = Arc<dyn Fn(&GivenUpMessage<'_>) + Send + Sync>;

/// The hooks of an application.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) failure: Vec<OnFailure>,
    pub(crate) exhausted: Vec<OnExhausted>,
}

impl Hooks {
    pub(crate) fn failed(
        &self,
        message: &Message,
        execution: &Execution,
        again_at: Option<Timestamp>,
    ) {
        let failure = FailedAttempt { message, execution, again_at };
        for hook in &self.failure {
            let _ = catch_unwind(AssertUnwindSafe(|| hook(&failure)));
        }
    }

    pub(crate) fn exhausted(&self, message: &Message, reason: DeadReason, error: Option<&str>) {
        let exhausted = GivenUpMessage { message, reason, error };
        for hook in &self.exhausted {
            let _ = catch_unwind(AssertUnwindSafe(|| hook(&exhausted)));
        }
    }
}
