//! Telling that a message was given up: the event with everything an alert needs to name the run, then the
//! hooks of the application.

use std::sync::Arc;

use super::Process;
use crate::event::Event;
use crate::model::{DeadReason, Message};

/// The most lines of the last attempt's log that the event carries, the newest.
const OUTPUT_LINES_MAX: usize = 20;
/// The most bytes of them.
const OUTPUT_BYTES_MAX: usize = 2_000;

/// A message that was given up.
pub(crate) struct GivenUp<'a> {
    pub(crate) message: &'a Message,
    /// How many attempts were made.
    pub(crate) attempts: u32,
    pub(crate) reason: DeadReason,
    /// The last failure.
    pub(crate) error: Option<Arc<str>>,
    /// What the last attempt logged.
    pub(crate) log: Option<&'a str>,
}

impl Process {
    /// Emits the event and calls the hooks.
    pub(crate) fn tell_given_up(&self, given_up: GivenUp<'_>) {
        let GivenUp { message, attempts, reason, error, log } = given_up;
        let occurrence = message.occurrence.as_ref();
        let base = self.options.dashboard_url.as_deref();
        self.events.emit(Event::MessageDead {
            message: message.id,
            topic: message.topic.clone(),
            queue: message.queue.clone(),
            job: occurrence.map(|occurrence| occurrence.job.clone()),
            nominal: occurrence.map(|occurrence| occurrence.nominal),
            attempts,
            reason,
            error: error.clone(),
            output: log.and_then(tail),
            link: base
                .map(|base| format!("{}/#/messages/{}", base.trim_end_matches('/'), message.id)),
        });
        self.hooks.exhausted(message, reason, error.as_deref());
    }
}

/// The last lines of a log, within both bounds; nothing when it is empty.
fn tail(log: &str) -> Option<Arc<str>> {
    let log = log.trim_end();
    let breaks = log.rmatch_indices('\n').map(|(place, _)| place + 1);
    let by_lines = breaks.take(OUTPUT_LINES_MAX).nth(OUTPUT_LINES_MAX - 1).unwrap_or(0);
    let by_bytes = log.ceil_char_boundary(log.len().saturating_sub(OUTPUT_BYTES_MAX));
    let tail = &log[by_lines.max(by_bytes)..];
    (!tail.is_empty()).then(|| Arc::from(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_log_is_its_last_lines_within_both_bounds() {
        assert_eq!(tail(" \n"), None);
        assert_eq!(tail("one\ntwo\n").as_deref(), Some("one\ntwo"));
        let lines: Vec<String> = (0..50).map(|number| format!("line {number}")).collect();
        let cut = tail(&lines.join("\n")).unwrap();
        assert_eq!(cut.lines().count(), OUTPUT_LINES_MAX);
        assert!(cut.starts_with("line 30\n") && cut.ends_with("line 49"), "{cut}");
        let long = tail(&"é".repeat(3_000)).unwrap();
        assert_eq!(long.len(), OUTPUT_BYTES_MAX);
    }
}
