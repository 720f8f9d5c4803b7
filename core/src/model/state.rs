//! States of a message: the state machine, as data. Five states are stored; the others that people see
//! (scheduled, ready, retrying, stale) are phases, computed at an instant. `docs/states.md` is rendered from
//! the table below, and a test fails when it is outdated.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Stored state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Due now or later.
    Pending,
    /// Claimed by a process under a lease.
    Running,
    /// Handled with success.
    Done,
    /// Failed and stored as a dead letter.
    Dead,
    /// Cancelled by an operator or by its handler.
    Cancelled,
}

impl MessageState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Running, Self::Done, Self::Dead, Self::Cancelled];

    /// Returns whether it is not final.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Returns the state as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the state after a change; none when the change is not legal.
    pub fn after(self, change: StateChange) -> Option<Self> {
        TRANSITIONS
            .iter()
            .find(|(from, by, _, _)| *from == self && *by == change)
            .map(|(_, _, to, _)| *to)
    }
}

/// Change of state of a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateChange {
    /// A process claims a due message.
    Claim,
    /// The handler succeeded.
    Done,
    /// The attempt failed and is retried later.
    Retry,
    /// The handler is called again later, at no cost.
    Snooze,
    /// The message was released, as at a shutdown.
    Release,
    /// Its process was lost, and it is run again.
    Rescue,
    /// Dead letter: attempts used up, discarded or unreadable.
    Dead,
    /// An operator or its handler cancelled it.
    Cancel,
    /// An operator sent it again.
    Redrive,
}

impl StateChange {
    /// Every change.
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Done,
        Self::Retry,
        Self::Snooze,
        Self::Release,
        Self::Rescue,
        Self::Dead,
        Self::Cancel,
        Self::Redrive,
    ];

    /// Returns the change as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Done => "done",
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Release => "release",
            Self::Rescue => "rescue",
            Self::Dead => "dead",
            Self::Cancel => "cancel",
            Self::Redrive => "redrive",
        }
    }
}

/// Every legal change: from, by, to, and a note. All others are refused.
const TRANSITIONS: [(MessageState, StateChange, MessageState, &str); 12] = [
    (
        MessageState::Pending,
        StateChange::Claim,
        MessageState::Running,
        "only when due; a lease is given and the attempt counted",
    ),
    (
        MessageState::Running,
        StateChange::Done,
        MessageState::Done,
        "leaves the hot table; the execution stays as history",
    ),
    (MessageState::Running, StateChange::Retry, MessageState::Pending, "a new due time"),
    (
        MessageState::Running,
        StateChange::Snooze,
        MessageState::Pending,
        "a new due time; the attempt is not counted",
    ),
    (
        MessageState::Running,
        StateChange::Release,
        MessageState::Pending,
        "due immediately; the attempt is not counted",
    ),
    (
        MessageState::Running,
        StateChange::Rescue,
        MessageState::Pending,
        "the lease expired or its process is gone; one crash counted",
    ),
    (MessageState::Running, StateChange::Dead, MessageState::Dead, "the reason is kept"),
    (MessageState::Pending, StateChange::Cancel, MessageState::Cancelled, "immediately"),
    (
        MessageState::Running,
        StateChange::Cancel,
        MessageState::Cancelled,
        "requested first, then when the handler stops",
    ),
    (
        MessageState::Done,
        StateChange::Redrive,
        MessageState::Pending,
        "by an operator only; attempts are counted from zero",
    ),
    (
        MessageState::Dead,
        StateChange::Redrive,
        MessageState::Pending,
        "by an operator only; attempts are counted from zero",
    ),
    (
        MessageState::Cancelled,
        StateChange::Redrive,
        MessageState::Pending,
        "by an operator only; attempts are counted from zero",
    ),
];

/// Phase of a message as shown to people: computed from state, due time, attempt, lease and now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Pending, due later.
    Scheduled,
    /// Pending, due, never tried.
    Ready,
    /// Pending after an attempt.
    Retrying,
    /// Running under a valid lease.
    Running,
    /// Running under an expired lease; the rescuer will take it over.
    Stale,
    /// Handled.
    Done,
    /// A dead letter.
    Dead,
    /// Stopped on request.
    Cancelled,
}

impl Phase {
    /// Every phase with its meaning.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Scheduled, "pending, due later"),
        (Self::Ready, "pending, due, never tried"),
        (Self::Retrying, "pending after an attempt"),
        (Self::Running, "running under a valid lease"),
        (Self::Stale, "running under an expired lease"),
        (Self::Done, "done"),
        (Self::Dead, "dead"),
        (Self::Cancelled, "cancelled"),
    ];

    /// Returns the phase as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Retrying => "retrying",
            Self::Running => "running",
            Self::Stale => "stale",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Reason why a message is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// Its attempts are used up.
    AttemptsSpent,
    /// The handler discarded it.
    Discarded,
    /// The body could not be read.
    Poison,
    /// It timed out and its options do not allow a retry then.
    TimedOut,
    /// Its processes crashed too often.
    CrashLoop,
    /// Its transport rejects it permanently, for example because it is too large.
    Refused,
    /// No process had a handler for its topic.
    NoHandler,
    /// A crash or a shutdown interrupted it, and its options do not allow another run then.
    Interrupted,
}

impl DeadReason {
    /// Returns the reason as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsSpent => "attempts spent",
            Self::Discarded => "discarded",
            Self::Poison => "poison",
            Self::TimedOut => "timed out",
            Self::CrashLoop => "crash loop",
            Self::Refused => "refused",
            Self::NoHandler => "no handler",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Returns the text of `docs/states.md`.
pub fn render_states() -> String {
    let mut text = String::from(
        "# States of a message\n\nRendered from `core/src/model/state.rs` by `cargo xtask generate`; do not edit.\n\n\
         | from | change | to | note |\n|---|---|---|---|\n| - | enqueue | pending | due now or later |\n",
    );
    for (from, change, to, note) in TRANSITIONS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {note} |",
            from.as_str(),
            change.as_str(),
            to.as_str()
        );
    }
    text.push_str("\nEvery other change is refused.\n\n# Phases\n\nComputed at an instant, never stored.\n\n| phase | when |\n|---|---|\n");
    for (phase, meaning) in Phase::ALL {
        let _ = writeln!(text, "| {} | {meaning} |", phase.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: T-33
    #[test]
    fn a_message_has_five_states() {
        let names = MessageState::ALL.map(MessageState::as_str);
        assert_eq!(names, ["pending", "running", "done", "dead", "cancelled"]);
    }

    #[test]
    fn every_state_and_change_has_at_most_one_result_and_final_states_only_redrive() {
        for state in MessageState::ALL {
            for change in StateChange::ALL {
                let rows = TRANSITIONS
                    .iter()
                    .filter(|(from, by, _, _)| *from == state && *by == change)
                    .count();
                assert!(rows <= 1, "{state:?} {change:?}");
                if !state.is_alive() && change != StateChange::Redrive {
                    assert_eq!(state.after(change), None, "{state:?} {change:?}");
                }
            }
        }
        assert_eq!(MessageState::Pending.after(StateChange::Claim), Some(MessageState::Running));
        assert_eq!(MessageState::Running.after(StateChange::Redrive), None);
        assert_eq!(MessageState::Pending.after(StateChange::Done), None);
    }

    // spec: T-34
    #[test]
    fn a_dead_message_is_never_claimed_by_itself() {
        assert_eq!(MessageState::Dead.after(StateChange::Claim), None);
        assert_eq!(MessageState::Dead.after(StateChange::Rescue), None);
        assert_eq!(MessageState::Dead.after(StateChange::Redrive), Some(MessageState::Pending));
    }
}
