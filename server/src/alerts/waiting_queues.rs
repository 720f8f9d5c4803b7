//! Waiting queues: queues whose due messages are not handled, because no process works on them, because they are
//! paused, or because the workers are too slow.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use punctual::backend::storage::WakeSource;
use punctual::clock::between;
use punctual::model::{MessageState, Queue};
use punctual::schedule::format_duration;

use super::{Alert, AlertKind};
use crate::app::App;
use crate::queues::{QueueSettings, all_settings};
use crate::{live, process_registry};

/// Largest number of queues that are checked.
const QUEUES_MAX: usize = 500;
/// How long a message may be due in a paused queue, or in one that no process works on.
const STOPPED_MAX: Duration = Duration::from_secs(10);
/// How long a message may be due in any queue.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);

/// A queue with due messages.
#[derive(Debug, Default)]
struct WaitingQueue {
    /// How long the oldest message has been due.
    age: Duration,
    /// Whether a known process works on it, or one of its messages is running.
    served: bool,
    /// The operator who paused it.
    paused_by: Option<String>,
}

/// Returns the alerts about waiting queues.
pub(super) async fn find(app: &App) -> Result<Vec<Alert>> {
    let counts = live::counts_now(app).await?;
    let of_state = |state_filter: MessageState| {
        let of_state = counts.messages.iter().filter(move |((_, state), _)| *state == state_filter);
        of_state.filter(|(_, count)| **count > 0).map(|((queue, _), _)| queue)
    };
    let queues: Vec<&Queue> = of_state(MessageState::Pending).take(QUEUES_MAX).collect();
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let running: BTreeSet<&Queue> = of_state(MessageState::Running).collect();
    let sources: Vec<WakeSource> =
        queues.iter().map(|queue| WakeSource::Queue((*queue).clone())).collect();
    let (dues, settings, served) =
        (app.storage.next_due_all(&sources).await?, all_settings(app).await?, served(app).await?);
    let (now, nothing) = (app.clock.now(), QueueSettings::default());
    let waiting = queues.into_iter().zip(dues).filter_map(|(queue, due)| {
        let due = due.filter(|due| *due <= now)?;
        // A relay queue has no workers; its transport drains it.
        let is_served = queue.is_relay() || served.contains(queue.as_str());
        let known = WaitingQueue {
            age: between(due, now),
            served: is_served || running.contains(queue),
            paused_by: paused_by(settings.get(queue).unwrap_or(&nothing), now),
        };
        known.alert(queue)
    });
    Ok(waiting.collect())
}

fn paused_by(settings: &QueueSettings, now: Timestamp) -> Option<String> {
    settings.pause(now).map(|pause| pause.by.clone())
}

/// Returns the queues that running processes work on.
async fn served(app: &App) -> Result<BTreeSet<String>> {
    let processes = process_registry::all(app).await?;
    let working = processes.into_values().map(|(process, _)| process);
    let working = working.filter(|process| !process.stopping && !process.quiet);
    let queues = working.flat_map(|process| process.queues);
    Ok(queues.filter(|queue| queue.concurrency > 0).map(|queue| queue.name).collect())
}

impl WaitingQueue {
    fn alert(&self, queue: &Queue) -> Option<Alert> {
        let age = format_duration(Duration::from_secs(self.age.as_secs()));
        let waits = format!("its oldest message has been due for {age}");
        let (kind, text) = match &self.paused_by {
            Some(by) if self.age >= STOPPED_MAX => {
                let text = format!("the queue {queue:?} is paused by {by}, and {waits}");
                (AlertKind::QueuePaused, text)
            }
            None if !self.served && self.age >= STOPPED_MAX => {
                let text = format!("no process works on the queue {queue:?}, and {waits}");
                (AlertKind::QueueWithoutWorker, text)
            }
            None if self.age >= WAIT_MAX => {
                (AlertKind::QueueLate, format!("the queue {queue:?} is late: {waits}"))
            }
            _ => return None,
        };
        Some(Alert::about(kind, queue.as_str(), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_the_wait_decides_the_alert() {
        let queue = Queue::new("mail").unwrap();
        let kind = |seconds, served, paused: Option<&str>| {
            let age = Duration::from_secs(seconds);
            let waiting = WaitingQueue { age, served, paused_by: paused.map(ToOwned::to_owned) };
            waiting.alert(&queue).map(|alert| alert.kind)
        };
        assert_eq!(kind(9, false, None), None, "a worker may be on its way");
        assert_eq!(kind(10, false, None), Some(AlertKind::QueueWithoutWorker));
        assert_eq!(kind(10, true, Some("ada")), Some(AlertKind::QueuePaused));
        assert_eq!(kind(59, true, None), None);
        assert_eq!(kind(60, true, None), Some(AlertKind::QueueLate));
        let waiting =
            WaitingQueue { age: Duration::from_millis(75_250), ..WaitingQueue::default() };
        let text = waiting.alert(&queue).unwrap().text;
        assert!(text.ends_with("its oldest message has been due for 1m 15s"), "{text}");
    }
}
