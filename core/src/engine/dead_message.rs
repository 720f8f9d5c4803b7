//! Dead message: reports a message that became a dead letter. Emits the event with everything an alert needs
//! to name the run, then calls the hooks of the application.

use std::sync::Arc;

use super::Process;
use crate::event::Event;
use crate::model::{DeadReason, Message};

/// Largest number of lines of the last attempt's log in the event; the newest are kept.
const OUTPUT_LINES_MAX: usize = 20;
/// Largest size of these lines in bytes.
const OUTPUT_BYTES_MAX: usize = 2_000;

/// A message that became a dead letter.
pub(crate) struct DeadMessage<'a> {
    pub(crate) message: &'a Message,
    /// Number of attempts made.
    pub(crate) attempts: u32,
    pub(crate) reason: DeadReason,
    /// The last failure.
    pub(crate) error: Option<Arc<str>>,
    /// Log of the last attempt.
    pub(crate) log: Option<&'a str>,
}

impl Process {
    /// Emits the event and calls the hooks.
    pub(crate) fn report_dead_message(&self, dead: DeadMessage<'_>) {
        let DeadMessage { message, attempts, reason, error, log } = dead;
        let occurrence = message.occurrence.as_ref();
        let base = self.env.options.dashboard_url.as_deref();
        self.env.events.emit(Event::MessageDead {
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
        self.runner.hooks.exhausted(message, reason, error.as_deref());
    }
}

/// Returns the last lines of a log within both limits; `None` when it is empty.
fn tail(log: &str) -> Option<Arc<str>> {
    let log = log.trim_end();
    let breaks = log.rmatch_indices('\n').map(|(index, _)| index + 1);
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
