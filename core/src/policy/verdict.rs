//! Verdict: what happens next with a message after an attempt. Every way an attempt can end is one
//! [`Report`], and [`judge`] is the only place that turns it into a decision. The attempt after the
//! last allowed one never happens: the nth failure of n attempts is the end. What the loss or the
//! shutdown of a process leads to is decided in [`rescue`](super::rescue()), what a missing handler leads to in
//! `no_handler`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::rescue::interrupted;
use super::{EffectiveHandlerOptions, RetryFacts};
use crate::clock::add;
use crate::model::{DeadReason, Ending, Message, OnTimeout, SkipReason, StateChange};

/// The most bytes of an error or a note that are kept; the rest is cut off.
pub const NOTE_LEN_MAX: usize = 4_096;

/// A finished decision about a message. A storage stores it and decides nothing itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Handled.
    Done,
    /// The same message, due at another instant.
    Again {
        /// When.
        due_at: Timestamp,
        /// Attempts spent from now on.
        attempt: u32,
        /// Crashes counted from now on.
        crashes: u32,
        /// Snoozes counted from now on.
        snoozes: u32,
        /// The failure behind it, for people.
        error: Option<Arc<str>>,
        /// What brought it back; a storage need not keep it.
        why: AgainReason,
    },
    /// Given up.
    Dead {
        /// Why.
        reason: DeadReason,
        /// The last failure, for people.
        error: Option<Arc<str>>,
    },
    /// Stopped on request.
    Cancelled,
}

impl Verdict {
    /// When the message is due again, if it is.
    pub fn again_at(&self) -> Option<Timestamp> {
        if let Self::Again { due_at, .. } = self { Some(*due_at) } else { None }
    }

    /// The change of state it makes; legal for every running message.
    pub fn change(&self) -> StateChange {
        match self {
            Self::Done => StateChange::Done,
            Self::Again { why: AgainReason::Retry, .. } => StateChange::Retry,
            Self::Again { why: AgainReason::Snooze, .. } => StateChange::Snooze,
            Self::Again { why: AgainReason::Release | AgainReason::NoHandler, .. } => {
                StateChange::Release
            }
            Self::Again { why: AgainReason::Rescue, .. } => StateChange::Rescue,
            Self::Dead { .. } => StateChange::Bury,
            Self::Cancelled => StateChange::Cancel,
        }
    }
}

/// Why a message is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgainReason {
    /// The attempt failed, and there are more.
    Retry,
    /// Its handler asked to be called later, at no cost.
    Snooze,
    /// Shutdown gave it back.
    Release,
    /// A process without its handler gave it back.
    NoHandler,
    /// Its process was lost.
    Rescue,
}

/// How an attempt ended, as the engine saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The handler was done.
    Done,
    /// The handler asked for another try, which spends this attempt.
    RetryAfter {
        /// How long to wait, instead of what the retry policy says.
        wait: Duration,
        /// Why, for people.
        note: Option<Arc<str>>,
    },
    /// The handler asked to be called later, at no cost.
    Snooze {
        /// How long to wait.
        wait: Duration,
    },
    /// The handler gave up on purpose.
    Discard {
        /// Why.
        reason: Arc<str>,
    },
    /// The handler says that there is nothing to do any more.
    Cancel,
    /// The handler returned an error.
    Failed {
        /// What it said.
        error: Arc<str>,
    },
    /// The attempt took longer than it may.
    TimedOut {
        /// How long it was allowed to take.
        timeout: Duration,
    },
    /// The handler panicked.
    Panicked {
        /// What it said.
        error: Arc<str>,
    },
    /// This process has no handler for the topic; another one may have, as during a deployment.
    NoHandler {
        /// For how long the message was put off for that reason before, by any process.
        waited: Duration,
    },
    /// The body could not be read.
    Poison {
        /// What is wrong with it.
        error: Arc<str>,
    },
    /// It was delivered more often than it may be handled: whoever had it last never answered.
    Spent,
    /// Shutdown stopped it.
    Interrupted,
    /// A worker elsewhere gave it back.
    Released,
    /// It would have begun later than its terms allow.
    Expired,
    /// Somebody else has the lock of its job, and it may be skipped.
    Overlapped,
    /// The handler stopped because an operator asked for it.
    CancelledByOperator,
}

/// What a decision about a message is based on.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFacts<'a> {
    /// What was sent.
    pub message: &'a Message,
    /// Which attempt has ended, from 1.
    pub attempt: u32,
    /// Processes lost before.
    pub crashes: u32,
    /// Snoozes before.
    pub snoozes: u32,
    /// The terms in force.
    pub handler_options: &'a EffectiveHandlerOptions,
    /// Whether an operator asked to cancel it.
    pub cancel_requested: bool,
    /// When the attempt ended.
    pub now: Timestamp,
}

/// What happens next, and how the attempt goes into the history.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptDecision {
    /// What happens next.
    pub verdict: Verdict,
    /// How the attempt ended.
    pub ending: Ending,
    /// The error or note, for people; bounded.
    pub note: Option<Arc<str>>,
}

/// Decides what an attempt's report means for its message.
///
/// A cancel that an operator asked for ends the message wherever it would have been tried again or
/// had failed; what is done stays done, and what was discarded or is poison stays a dead letter.
pub fn judge(case: &AttemptFacts<'_>, report: AttemptEnd) -> AttemptDecision {
    let judged = match report {
        AttemptEnd::Done => {
            AttemptDecision { verdict: Verdict::Done, ending: Ending::Succeeded, note: None }
        }
        AttemptEnd::RetryAfter { wait, note } => {
            let note = note.unwrap_or_else(|| Arc::from("the handler asked for another try"));
            case.failure(Ending::Failed, &note, Some(wait))
        }
        AttemptEnd::Snooze { wait } => case.snooze(wait),
        AttemptEnd::Discard { reason } => {
            return dead(DeadReason::Discarded, Ending::Discarded, &reason);
        }
        AttemptEnd::Cancel | AttemptEnd::CancelledByOperator => cancelled(None),
        AttemptEnd::Failed { error } => case.failure(Ending::Failed, &error, None),
        AttemptEnd::TimedOut { timeout } => case.timed_out(timeout),
        AttemptEnd::Panicked { error } => case.failure(Ending::Panicked, &error, None),
        AttemptEnd::NoHandler { waited } => case.no_handler(waited),
        AttemptEnd::Poison { error } => return dead(DeadReason::Poison, Ending::Poison, &error),
        AttemptEnd::Spent => {
            let error = format!("delivery {} is one too many; the last one was lost", case.attempt);
            return dead(DeadReason::AttemptsSpent, Ending::Lost, &Arc::from(error));
        }
        AttemptEnd::Expired => skipped(SkipReason::Expired),
        AttemptEnd::Overlapped => skipped(SkipReason::Overlap),
        AttemptEnd::Interrupted => interrupted(case),
        AttemptEnd::Released => case.released(),
    };
    match judged.verdict {
        Verdict::Again { .. } | Verdict::Dead { .. } if case.cancel_requested => {
            cancelled(judged.note)
        }
        _ => judged,
    }
}

/// Whether a message is too late to be useful: strictly later than its terms allow.
pub fn is_expired(
    message: &Message,
    handler_options: &EffectiveHandlerOptions,
    now: Timestamp,
) -> bool {
    handler_options.expires_after.is_some_and(|late| now > add(message.due_at, late))
}

/// A text of at most [`NOTE_LEN_MAX`] bytes, cut between characters and marked where it was cut.
pub fn bounded(text: &Arc<str>) -> Arc<str> {
    const CUT: &str = "…";
    if text.len() <= NOTE_LEN_MAX {
        return text.clone();
    }
    let end = text.floor_char_boundary(NOTE_LEN_MAX - CUT.len());
    Arc::from(format!("{}{CUT}", &text[..end]))
}

impl AttemptFacts<'_> {
    /// The same with the running attempt not counted.
    pub(super) fn given_back(&self) -> Self {
        Self { attempt: self.attempt.saturating_sub(1), ..*self }
    }

    /// The message due again at once, at no cost.
    pub(super) fn released(&self) -> AttemptDecision {
        AttemptDecision {
            verdict: self.given_back().again(self.now, AgainReason::Release, None),
            ending: Ending::Released,
            note: None,
        }
    }

    /// The message due again with the counts of this case.
    pub(super) fn again(
        &self,
        due_at: Timestamp,
        why: AgainReason,
        error: Option<Arc<str>>,
    ) -> Verdict {
        let Self { attempt, crashes, snoozes, .. } = *self;
        Verdict::Again { due_at, attempt, crashes, snoozes, error, why }
    }

    /// When the retry policy wants the next attempt, or nothing when there is none.
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
        let counted = Self { snoozes: self.snoozes + 1, ..self.given_back() };
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
