//! Verdict: what happens next with a message after an attempt. Every way an attempt can end is one
//! [`Report`], and [`judge`] is the only place that turns it into a decision. The attempt after the
//! last allowed one never happens: the nth failure of n attempts is the end. What the loss of a
//! process leads to is decided in [`rescue`](super::rescue()).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{EffectiveTerms, RetryFacts};
use crate::clock::{add, between};
use crate::model::{DeadReason, Ending, Message, OnTimeout, SkipReason, StateChange};

/// The most bytes of an error or a note that are kept; the rest is cut off.
pub const NOTE_LENGTH_MAX: usize = 4_096;
/// How long a process gives a message back that it has no handler for, before the message is dead.
pub const NO_HANDLER_BUDGET: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest and the longest wait before such a message is due again. Between them it waits as long as
/// it has been given back already.
const NO_HANDLER_WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

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
        why: Why,
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
            Self::Again { why: Why::Retry, .. } => StateChange::Retry,
            Self::Again { why: Why::Snooze, .. } => StateChange::Snooze,
            Self::Again { why: Why::Release | Why::NoHandler, .. } => StateChange::Release,
            Self::Again { why: Why::Rescue, .. } => StateChange::Rescue,
            Self::Dead { .. } => StateChange::Bury,
            Self::Cancelled => StateChange::Cancel,
        }
    }
}

/// Why a message is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
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
pub enum Report {
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
        /// When this process first gave the message back for that reason.
        since: Timestamp,
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
    /// It would have begun later than its terms allow.
    Expired,
    /// Somebody else has the lock of its job, and it may be skipped.
    Overlapped,
    /// The handler stopped because an operator asked for it.
    CancelledByOperator,
}

/// What a decision about a message is based on.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What was sent.
    pub message: &'a Message,
    /// Which attempt has ended, from 1.
    pub attempt: u32,
    /// Processes lost before.
    pub crashes: u32,
    /// Snoozes before.
    pub snoozes: u32,
    /// The terms in force.
    pub terms: &'a EffectiveTerms,
    /// Whether an operator asked to cancel it.
    pub cancel_requested: bool,
    /// When the attempt ended.
    pub now: Timestamp,
}

/// What happens next, and how the attempt goes into the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
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
pub fn judge(case: &Case<'_>, report: Report) -> Judged {
    let judged = match report {
        Report::Done => Judged { verdict: Verdict::Done, ending: Ending::Succeeded, note: None },
        Report::RetryAfter { wait, note } => {
            let note = note.unwrap_or_else(|| Arc::from("the handler asked for another try"));
            case.failure(Ending::Failed, &note, Some(wait))
        }
        Report::Snooze { wait } => case.snooze(wait),
        Report::Discard { reason } => {
            return dead(DeadReason::Discarded, Ending::Discarded, &reason);
        }
        Report::Cancel | Report::CancelledByOperator => cancelled(None),
        Report::Failed { error } => case.failure(Ending::Failed, &error, None),
        Report::TimedOut { timeout } => case.timed_out(timeout),
        Report::Panicked { error } => case.failure(Ending::Panicked, &error, None),
        Report::NoHandler { since } => case.no_handler(since),
        Report::Poison { error } => return dead(DeadReason::Poison, Ending::Poison, &error),
        Report::Spent => {
            let error = format!("delivery {} is one too many; the last one was lost", case.attempt);
            return dead(DeadReason::AttemptsSpent, Ending::Lost, &Arc::from(error));
        }
        Report::Expired => skipped(SkipReason::Expired),
        Report::Overlapped => skipped(SkipReason::Overlap),
        Report::Interrupted => Judged {
            verdict: case.given_back().again(case.now, Why::Release, None),
            ending: Ending::Released,
            note: None,
        },
    };
    match judged.verdict {
        Verdict::Again { .. } | Verdict::Dead { .. } if case.cancel_requested => {
            cancelled(judged.note)
        }
        _ => judged,
    }
}

/// Whether a message is too late to be useful: strictly later than its terms allow.
pub fn is_expired(message: &Message, terms: &EffectiveTerms, now: Timestamp) -> bool {
    terms.expires_after.is_some_and(|late| now > add(message.due_at, late))
}

/// A text of at most [`NOTE_LENGTH_MAX`] bytes, cut between characters and marked where it was cut.
pub fn bounded(text: &Arc<str>) -> Arc<str> {
    const CUT: &str = "…";
    if text.len() <= NOTE_LENGTH_MAX {
        return text.clone();
    }
    let end = text.floor_char_boundary(NOTE_LENGTH_MAX - CUT.len());
    Arc::from(format!("{}{CUT}", &text[..end]))
}

impl Case<'_> {
    /// The same with the running attempt not counted.
    pub(super) fn given_back(&self) -> Self {
        Self { attempt: self.attempt.saturating_sub(1), ..*self }
    }

    /// The message due again with the counts of this case.
    pub(super) fn again(&self, due_at: Timestamp, why: Why, error: Option<Arc<str>>) -> Verdict {
        let Self { attempt, crashes, snoozes, .. } = *self;
        Verdict::Again { due_at, attempt, crashes, snoozes, error, why }
    }

    /// When the retry policy wants the next attempt, or nothing when there is none.
    pub(super) fn retry_at(&self, own_wait: Option<Duration>) -> Option<Timestamp> {
        let retry = &self.terms.retry;
        if retry.is_exhausted(self.attempt) {
            return None;
        }
        let facts =
            RetryFacts { message: self.message.id, original_delay: self.message.original_delay() };
        let wait = own_wait.unwrap_or_else(|| retry.delay(self.attempt, facts));
        Some(add(self.now, wait))
    }

    fn failure(&self, ending: Ending, error: &Arc<str>, own_wait: Option<Duration>) -> Judged {
        let error = bounded(error);
        let verdict = match self.retry_at(own_wait) {
            Some(due_at) => self.again(due_at, Why::Retry, Some(error.clone())),
            None => Verdict::Dead { reason: DeadReason::AttemptsSpent, error: Some(error.clone()) },
        };
        Judged { verdict, ending, note: Some(error) }
    }

    fn snooze(&self, wait: Duration) -> Judged {
        if self.snoozes >= self.terms.snoozes_max {
            let error =
                format!("snoozed more often than the {} times allowed", self.terms.snoozes_max);
            return self.failure(Ending::Failed, &Arc::from(error), Some(wait));
        }
        let counted = Self { snoozes: self.snoozes + 1, ..self.given_back() };
        Judged {
            verdict: counted.again(add(self.now, wait), Why::Snooze, None),
            ending: Ending::Snoozed,
            note: None,
        }
    }

    /// Gives the message back at no cost for another process, until the budget of that is spent.
    fn no_handler(&self, since: Timestamp) -> Judged {
        let (topic, waited) = (&self.message.topic, between(since, self.now));
        if waited >= NO_HANDLER_BUDGET {
            let hours = NO_HANDLER_BUDGET.as_secs() / 3_600;
            let error = format!(
                "no handler anywhere: in {hours} hours no process had one for the topic {topic:?}"
            );
            return dead(DeadReason::NoHandler, Ending::NoHandler, &Arc::from(error));
        }
        let [shortest, longest] = NO_HANDLER_WAITS;
        let due_at = add(self.now, waited.clamp(shortest, longest));
        let note: Arc<str> = Arc::from(format!("no handler here has the topic {topic:?}"));
        Judged {
            verdict: self.given_back().again(due_at, Why::NoHandler, Some(note.clone())),
            ending: Ending::Released,
            note: Some(note),
        }
    }

    fn timed_out(&self, timeout: Duration) -> Judged {
        let error = Arc::from(format!("took longer than the {timeout:?} allowed"));
        match self.terms.on_timeout {
            OnTimeout::Retry => self.failure(Ending::TimedOut, &error, None),
            OnTimeout::Fail => dead(DeadReason::TimedOut, Ending::TimedOut, &error),
        }
    }
}

fn dead(reason: DeadReason, ending: Ending, error: &Arc<str>) -> Judged {
    let error = bounded(error);
    Judged {
        verdict: Verdict::Dead { reason, error: Some(error.clone()) },
        ending,
        note: Some(error),
    }
}

fn skipped(reason: SkipReason) -> Judged {
    Judged { verdict: Verdict::Cancelled, ending: Ending::Skipped(reason), note: None }
}

fn cancelled(note: Option<Arc<str>>) -> Judged {
    Judged { verdict: Verdict::Cancelled, ending: Ending::Cancelled, note }
}

#[cfg(test)]
pub(super) mod tests;
