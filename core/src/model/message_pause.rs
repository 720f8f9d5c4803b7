//! Message pause: a message that an operator paused, and its due time without the pause. While a message is
//! paused it is due at the end of time, so that no release claims it; its own due time is stored here.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Pause;

/// Due time of a message that waits for another event than its time.
pub const END_OF_TIME: Timestamp = Timestamp::constant(253_402_207_200, 0);

/// Pause of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagePause {
    /// Operator, time and reason. It has no end of its own.
    pub pause: Pause,
    /// Due time without the pause.
    pub due_at: Timestamp,
}

/// Due time of a pending message, with its pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTime {
    /// Due time; the [`END_OF_TIME`] while it is paused.
    pub due_at: Timestamp,
    /// Pause, if paused.
    pub paused: Option<MessagePause>,
}

impl DueTime {
    /// Returns the due time of a message that is not paused.
    pub fn at(due_at: Timestamp) -> Self {
        Self { due_at, paused: None }
    }

    /// Returns the due time after a pause; nothing when it is paused already or waits for a batch.
    pub fn paused_by(self, pause: Pause) -> Option<Self> {
        let due_at = self.due_at;
        (due_at < END_OF_TIME)
            .then_some(Self { due_at: END_OF_TIME, paused: Some(MessagePause { pause, due_at }) })
    }

    /// Returns the due time after a move to another instant. A paused message stays paused.
    pub fn rescheduled(self, due_at: Timestamp) -> Self {
        match self.paused {
            Some(MessagePause { pause, .. }) => {
                Self { paused: Some(MessagePause { pause, due_at }), ..self }
            }
            None => Self::at(due_at),
        }
    }

    /// Returns the due time without a pause: the given instant, else its own time, or now if that has passed.
    /// Nothing when it is not paused and no instant is given.
    pub fn resumed(self, due_at: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let kept = self.paused.map(|paused| paused.due_at.max(now));
        due_at.or(kept).map(Self::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pause() -> Pause {
        Pause { by: "ada".to_owned(), reason: "outage".to_owned(), at: at(1), until: None }
    }

    // Decision 3.32.
    // spec: T-75
    #[test]
    fn a_pause_keeps_the_time_or_becomes_now_when_it_passed() {
        let paused = DueTime::at(at(10)).paused_by(pause()).unwrap();
        assert_eq!(paused.due_at, END_OF_TIME);
        assert_eq!(paused.clone().resumed(None, at(2)), Some(DueTime::at(at(10))));
        assert_eq!(paused.clone().resumed(None, at(50)), Some(DueTime::at(at(50))));
        assert_eq!(paused.clone().resumed(Some(at(3)), at(2)), Some(DueTime::at(at(3))));
        assert_eq!(paused.clone().paused_by(pause()), None, "a paused message is not paused again");
        let moved = paused.rescheduled(at(20));
        assert_eq!(moved.due_at, END_OF_TIME, "still paused");
        assert_eq!(moved.resumed(None, at(2)), Some(DueTime::at(at(20))));
    }

    #[test]
    fn only_paused_messages_are_resumed_and_those_waiting_for_a_batch_are_not_paused() {
        assert_eq!(DueTime::at(at(10)).resumed(None, at(50)), None);
        assert_eq!(DueTime::at(at(10)).resumed(Some(at(2)), at(1)), Some(DueTime::at(at(2))));
        assert_eq!(DueTime::at(END_OF_TIME).paused_by(pause()), None);
    }
}
