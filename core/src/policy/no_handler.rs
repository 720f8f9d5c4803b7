//! No handler: decides from how long a message was put off already what happens when a process claimed it and
//! has no handler for it. It is released at no cost, because another process may have the handler, as during a
//! deployment. How long it was put off for that reason is part of its note and stored with it, so that neither
//! a restart nor another process starts counting again. Only these waits count: not the time in which no
//! process ran, nor a pause.

use std::sync::Arc;
use std::time::Duration;

use super::verdict::{AgainReason, AttemptDecision, AttemptFacts, dead};
use crate::model::time::add;
use crate::model::{DeadReason, Ending, Topic};

/// Total time that a message is put off because it had no handler before it is dead.
pub(super) const NO_HANDLER_BUDGET: Duration = Duration::from_secs(24 * 60 * 60);
/// Shortest and longest wait before such a message is due again. Between them it waits as long as it was put
/// off already.
const NO_HANDLER_WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

const NOTE_BEGIN: &str = "no handler here has the topic ";
const NOTE_WAITED: &str = "; put off for ";
const NOTE_END: &str = " s in all";

impl AttemptFacts<'_> {
    /// Releases the message at no cost for another process, until the budget is spent.
    pub(super) fn no_handler(&self, waited: Duration) -> AttemptDecision {
        let topic = &self.message.topic;
        if waited >= NO_HANDLER_BUDGET {
            let hours = NO_HANDLER_BUDGET.as_secs() / 3_600;
            let error = format!(
                "no handler anywhere: in {hours} hours no process had one for the topic {topic:?}"
            );
            return dead(DeadReason::NoHandler, Ending::NoHandler, &Arc::from(error));
        }
        let [shortest, longest] = NO_HANDLER_WAITS;
        let wait = waited.clamp(shortest, longest);
        let note = note(topic, waited + wait);
        AttemptDecision {
            verdict: self.without_this_attempt().again(
                add(self.now, wait),
                AgainReason::NoHandler,
                Some(note.clone()),
            ),
            ending: Ending::Released,
            note: Some(note),
        }
    }
}

/// Returns the note of a released message, with the total time it was put off.
fn note(topic: &Topic, waited: Duration) -> Arc<str> {
    let seconds = waited.as_secs();
    Arc::from(format!("{NOTE_BEGIN}{topic:?}{NOTE_WAITED}{seconds}{NOTE_END}"))
}

/// Returns how long a message was put off because it had no handler, from the last note about it; zero when that
/// note is about something else.
pub(crate) fn put_off(note: &str) -> Duration {
    let seconds = note
        .strip_prefix(NOTE_BEGIN)
        .and_then(|rest| rest.strip_suffix(NOTE_END))
        .and_then(|rest| rest.rsplit_once(NOTE_WAITED))
        .and_then(|(_, seconds)| seconds.parse().ok());
    seconds.map_or(Duration::ZERO, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_how_long_a_message_was_put_off() {
        for topic in ["mail", "a \"quoted\" one; put off for 7 s in all"] {
            let note = note(&Topic::stored(topic).unwrap(), Duration::from_secs(3_723));
            assert_eq!(put_off(&note), Duration::from_secs(3_723), "{note}");
        }
        for other in [
            "",
            "connection refused",
            "no handler here has the topic \"mail\"",
            "no handler here has the topic \"mail\"; put off for ever s in all",
            "it failed; put off for 9 s in all",
        ] {
            assert_eq!(put_off(other), Duration::ZERO, "{other}");
        }
    }
}
