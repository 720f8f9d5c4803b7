//! Verdict: decides from how an attempt ended and from the facts of its message what happens to the message
//! next. Every way an attempt can end is one [`AttemptEnd`], and [`judge`] is the only function that turns it
//! into a decision. The attempt after the last allowed one never happens: the nth failure of n attempts is
//! final. The loss or the shutdown of a process is decided in [`rescue`](super::rescue()), a missing handler in
//! `no_handler`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::EffectiveHandlerOptions;
use super::rescue::interrupted;
use crate::model::time::add;
use crate::model::{DeadReason, Ending, Message, OnTimeout, RetryFacts, SkipReason, StateChange};

/// Largest size of a stored error or note in bytes; the rest is cut off.
pub const NOTE_LEN_MAX: usize = 4_096;

/// Final decision about a message. A storage stores it and decides nothing itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The message was handled.
    Done,
    /// The same message is due again.
    Again {
        /// When it is due.
        due_at: Timestamp,
        /// Attempts counted from now on.
        attempt: u32,
        /// Crashes counted from now on.
        crashes: u32,
        /// Snoozes counted from now on.
        snoozes: u32,
        /// Failure that caused it, for people.
        error: Option<Arc<str>>,
        /// Reason; a storage need not store it.
        why: AgainReason,
    },
    /// The message is given up and becomes a dead letter.
    Dead {
        /// Reason.
        reason: DeadReason,
        /// Last failure, for people.
        error: Option<Arc<str>>,
    },
    /// The message was cancelled.
    Cancelled,
}

impl Verdict {
    /// Returns when the message is due again, if it is.
    pub fn again_at(&self) -> Option<Timestamp> {
        if let Self::Again { due_at, .. } = self { Some(*due_at) } else { None }
    }

    /// Returns the change of state; legal for every running message.
    pub fn change(&self) -> StateChange {
        match self {
            Self::Done => StateChange::Done,
            Self::Again { why: AgainReason::Retry, .. } => StateChange::Retry,
            Self::Again { why: AgainReason::Snooze, .. } => StateChange::Snooze,
            Self::Again { why: AgainReason::Release | AgainReason::NoHandler, .. } => {
                StateChange::Release
            }
            Self::Again { why: AgainReason::Rescue, .. } => StateChange::Rescue,
            Self::Dead { .. } => StateChange::Dead,
            Self::Cancelled => StateChange::Cancel,
        }
    }
}

/// Reason why a message is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgainReason {
    /// The attempt failed, and attempts are left.
    Retry,
    /// Its handler snoozed it, at no cost.
    Snooze,
    /// A shutdown released it.
    Release,
    /// A process without its handler released it.
    NoHandler,
    /// Its process was lost.
    Rescue,
}

/// End of an attempt, as the engine observed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The handler succeeded.
    Done,
    /// The handler requested a retry, which spends this attempt.
    RetryAfter {
        /// Wait, instead of that of the retry policy.
        wait: Duration,
        /// Reason, for people.
        note: Option<Arc<str>>,
    },
    /// The handler snoozed the message, at no cost.
    Snooze {
        /// Wait until the next call.
        wait: Duration,
    },
    /// The handler discarded the message.
    Discard {
        /// Reason.
        reason: Arc<str>,
    },
    /// The handler cancelled the message.
    Cancel,
    /// The handler returned an error.
    Failed {
        /// Its error.
        error: Arc<str>,
    },
    /// The attempt exceeded its timeout.
    TimedOut {
        /// The timeout.
        timeout: Duration,
    },
    /// The handler panicked.
    Panicked {
        /// Message of the panic.
        error: Arc<str>,
    },
    /// This process has no handler for the topic; another one may have, as during a deployment.
    NoHandler {
        /// How long the message was put off for that reason before, by any process.
        waited: Duration,
    },
    /// The body could not be read.
    Poison {
        /// Error of the decoder.
        error: Arc<str>,
    },
    /// It was delivered more often than it may be handled: the process of the last delivery never settled it.
    Spent,
    /// A shutdown interrupted it.
    Interrupted,
    /// An HTTP worker released it.
    Released,
    /// It would have started later than its options allow.
    Expired,
    /// Another process has the lock of its job, and the occurrence may be skipped.
    Overlapped,
    /// The handler stopped because an operator cancelled the message.
    CancelledByOperator,
}

/// Facts that a decision about a message is based on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptFacts<'a> {
    /// Message that was sent.
    pub message: &'a Message,
    /// Number of the attempt that has ended, from 1.
    pub attempt: u32,
    /// Number of crashes before.
    pub crashes: u32,
    /// Number of snoozes before.
    pub snoozes: u32,
    /// Options in force.
    pub handler_options: &'a EffectiveHandlerOptions,
    /// Whether an operator requested to cancel it.
    pub cancel_requested: bool,
    /// Instant at which the attempt ended.
    pub now: Timestamp,
}

/// Decision about a message, and the ending of the attempt for the history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptDecision {
    /// Verdict on the message.
    pub verdict: Verdict,
    /// Ending of the attempt.
    pub ending: Ending,
    /// Error or note for people, cut to [`NOTE_LEN_MAX`].
    pub note: Option<Arc<str>>,
}

/// Decides what the end of an attempt means for its message.
///
/// A requested cancel ends the message wherever it would be tried again or has failed; a message that is done
/// stays done, and one that was discarded or is poison stays a dead letter.
pub(crate) fn judge(facts: &AttemptFacts<'_>, end: AttemptEnd) -> AttemptDecision {
    let decision = match end {
        AttemptEnd::Done => {
            AttemptDecision { verdict: Verdict::Done, ending: Ending::Succeeded, note: None }
        }
        AttemptEnd::RetryAfter { wait, note } => {
            let note = note.unwrap_or_else(|| Arc::from("the handler requested a retry"));
            facts.failure(Ending::Failed, &note, Some(wait))
        }
        AttemptEnd::Snooze { wait } => facts.snooze(wait),
        AttemptEnd::Discard { reason } => {
            return dead(DeadReason::Discarded, Ending::Discarded, &reason);
        }
        AttemptEnd::Cancel | AttemptEnd::CancelledByOperator => cancelled(None),
        AttemptEnd::Failed { error } => facts.failure(Ending::Failed, &error, None),
        AttemptEnd::TimedOut { timeout } => facts.timed_out(timeout),
        AttemptEnd::Panicked { error } => facts.failure(Ending::Panicked, &error, None),
        AttemptEnd::NoHandler { waited } => facts.no_handler(waited),
        AttemptEnd::Poison { error } => return dead(DeadReason::Poison, Ending::Poison, &error),
        AttemptEnd::Spent => {
            let error =
                format!("delivery {} is one too many; the last one was lost", facts.attempt);
            return dead(DeadReason::AttemptsSpent, Ending::Lost, &Arc::from(error));
        }
        AttemptEnd::Expired => skipped(SkipReason::Expired),
        AttemptEnd::Overlapped => skipped(SkipReason::Overlap),
        AttemptEnd::Interrupted => interrupted(facts),
        AttemptEnd::Released => facts.released(),
    };
    match decision.verdict {
        Verdict::Again { .. } | Verdict::Dead { .. } if facts.cancel_requested => {
            cancelled(decision.note)
        }
        _ => decision,
    }
}

/// Returns whether a message is too late: strictly later than its options allow.
pub(crate) fn is_expired(
    message: &Message,
    handler_options: &EffectiveHandlerOptions,
    now: Timestamp,
) -> bool {
    handler_options.expires_after.is_some_and(|late| now > add(message.due_at, late))
}

/// Returns a text of at most [`NOTE_LEN_MAX`] bytes, cut between characters and marked where it was cut.
pub(crate) fn bounded(text: &Arc<str>) -> Arc<str> {
    const CUT: &str = "…";
    if text.len() <= NOTE_LEN_MAX {
        return text.clone();
    }
    let end = text.floor_char_boundary(NOTE_LEN_MAX - CUT.len());
    Arc::from(format!("{}{CUT}", &text[..end]))
}

impl AttemptFacts<'_> {
    /// Returns the same facts with the running attempt not counted.
    pub(super) fn without_this_attempt(&self) -> Self {
        Self { attempt: self.attempt.saturating_sub(1), ..*self }
    }

    /// Releases the message: due again at once, at no cost.
    pub(super) fn released(&self) -> AttemptDecision {
        AttemptDecision {
            verdict: self.without_this_attempt().again(self.now, AgainReason::Release, None),
            ending: Ending::Released,
            note: None,
        }
    }

    /// Returns the verdict that the message is due again, with the counts of these facts.
    pub(super) fn again(
        &self,
        due_at: Timestamp,
        why: AgainReason,
        error: Option<Arc<str>>,
    ) -> Verdict {
        let Self { attempt, crashes, snoozes, .. } = *self;
        Verdict::Again { due_at, attempt, crashes, snoozes, error, why }
    }

    /// Returns when the next attempt is due; none when the attempts are spent.
    pub(super) fn retry_at(&self, own_wait: Option<Duration>) -> Option<Timestamp> {
        let retry = &self.handler_options.retry;
        if retry.is_exhausted(self.attempt) {
            return None;
        }
        let facts =
            RetryFacts { message: self.message.id, original_delay: self.message.original_delay() };
        let wait = own_wait.unwrap_or_else(|| retry.delay(self.attempt, facts));
        Some(add(self.now, wait))
    }

    fn failure(
        &self,
        ending: Ending,
        error: &Arc<str>,
        own_wait: Option<Duration>,
    ) -> AttemptDecision {
        let error = bounded(error);
        let verdict = match self.retry_at(own_wait) {
            Some(due_at) => self.again(due_at, AgainReason::Retry, Some(error.clone())),
            None => Verdict::Dead { reason: DeadReason::AttemptsSpent, error: Some(error.clone()) },
        };
        AttemptDecision { verdict, ending, note: Some(error) }
    }

    fn snooze(&self, wait: Duration) -> AttemptDecision {
        if self.snoozes >= self.handler_options.snoozes_max {
            let error = format!(
                "snoozed more often than the {} times allowed",
                self.handler_options.snoozes_max
            );
            return self.failure(Ending::Failed, &Arc::from(error), Some(wait));
        }
        let counted = Self { snoozes: self.snoozes + 1, ..self.without_this_attempt() };
        AttemptDecision {
            verdict: counted.again(add(self.now, wait), AgainReason::Snooze, None),
            ending: Ending::Snoozed,
            note: None,
        }
    }

    fn timed_out(&self, timeout: Duration) -> AttemptDecision {
        let error = Arc::from(format!("took longer than the {timeout:?} allowed"));
        match self.handler_options.on_timeout {
            OnTimeout::Retry => self.failure(Ending::TimedOut, &error, None),
            OnTimeout::Fail => dead(DeadReason::TimedOut, Ending::TimedOut, &error),
        }
    }
}

pub(super) fn dead(reason: DeadReason, ending: Ending, error: &Arc<str>) -> AttemptDecision {
    let error = bounded(error);
    AttemptDecision {
        verdict: Verdict::Dead { reason, error: Some(error.clone()) },
        ending,
        note: Some(error),
    }
}

fn skipped(reason: SkipReason) -> AttemptDecision {
    AttemptDecision { verdict: Verdict::Cancelled, ending: Ending::Skipped(reason), note: None }
}

fn cancelled(note: Option<Arc<str>>) -> AttemptDecision {
    AttemptDecision { verdict: Verdict::Cancelled, ending: Ending::Cancelled, note }
}

#[cfg(test)]
pub(super) mod tests;
