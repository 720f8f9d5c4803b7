//! Queues whose messages are due and wait: because no process works on them, because they are paused, or for
//! longer than they should.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use punctual::Result;
use punctual::clock::between;
use punctual::model::{MessageState, Queue};
use punctual::schedule::format_duration;
use punctual::storage::WakeSource;

use super::{Alert, AlertKind};
use crate::app::App;
use crate::queues::{Said, said};
use crate::{live, register};

/// The most queues that are looked at.
const QUEUES_MAX: usize = 500;
/// How long a message may be due in a paused queue, or in one that no process works on.
const STOPPED_MAX: Duration = Duration::from_secs(10);
/// How long a message may be due in any queue.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);

/// What is known of a queue with due messages.
#[derive(Debug, Default)]
struct Waiting {
    /// For how long the oldest message is due.
    age: Duration,
    /// Whether a process works on it that is known, or anything of it runs.
    served: bool,
    /// Who paused it.
    paused_by: Option<String>,
}

/// Finds the queues whose messages wait.
pub(super) async fn find(app: &App) -> Result<Vec<Alert>> {
    let counts = live::counts_now(app).await?;
    let of_state = |wanted: MessageState| {
        let of_state = counts.messages.iter().filter(move |((_, state), _)| *state == wanted);
        of_state.filter(|(_, count)| **count > 0).map(|((queue, _), _)| queue)
    };
    let queues: Vec<&Queue> = of_state(MessageState::Pending).take(QUEUES_MAX).collect();
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let running: BTreeSet<&Queue> = of_state(MessageState::Running).collect();
    let lines: Vec<WakeSource> =
        queues.iter().map(|queue| WakeSource::Queue((*queue).clone())).collect();
    let (dues, said, served) =
        (app.storage.next_due_all(&lines).await?, said(app).await?, served(app).await?);
    let (now, nothing) = (app.clock.now(), Said::default());
    let waiting = queues.into_iter().zip(dues).filter_map(|(queue, due)| {
        let due = due.filter(|due| *due <= now)?;
        // A relay is no queue that people work on; its transport is.
        let is_served = queue.is_relay() || served.contains(queue.as_str());
        let known = Waiting {
            age: between(due, now),
            served: is_served || running.contains(queue),
            paused_by: paused_by(said.get(queue).unwrap_or(&nothing), now),
        };
        known.alert(queue)
    });
    Ok(waiting.collect())
}

fn paused_by(said: &Said, now: Timestamp) -> Option<String> {
    said.pause(now).map(|pause| pause.by.clone())
}

/// Returns the queues that processes work on.
async fn served(app: &App) -> Result<BTreeSet<String>> {
    let processes = register::all(app).await?;
    let working = processes.into_values().map(|(process, _)| process);
    let working = working.filter(|process| !process.stopping && !process.quiet);
    let queues = working.flat_map(|process| process.queues);
    Ok(queues.filter(|queue| queue.concurrency > 0).map(|queue| queue.name).collect())
}

impl Waiting {
    fn alert(&self, queue: &Queue) -> Option<Alert> {
        let age = format_duration(Duration::from_secs(self.age.as_secs()));
        let waits = format!("the oldest message is due for {age}");
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
                (AlertKind::QueueLate, format!("in the queue {queue:?} {waits}"))
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
    fn what_holds_a_queue_up_decides_the_alert() {
        let queue = Queue::new("mail").unwrap();
        let kind = |seconds, served, paused: Option<&str>| {
            let age = Duration::from_secs(seconds);
            let waiting = Waiting { age, served, paused_by: paused.map(ToOwned::to_owned) };
            waiting.alert(&queue).map(|alert| alert.kind)
        };
        assert_eq!(kind(9, false, None), None, "a worker may be on its way");
        assert_eq!(kind(10, false, None), Some(AlertKind::QueueWithoutWorker));
        assert_eq!(kind(10, true, Some("ada")), Some(AlertKind::QueuePaused));
        assert_eq!(kind(59, true, None), None);
        assert_eq!(kind(60, true, None), Some(AlertKind::QueueLate));
        let waiting = Waiting { age: Duration::from_millis(75_250), ..Waiting::default() };
        let text = waiting.alert(&queue).unwrap().text;
        assert!(text.ends_with("the oldest message is due for 1m 15s"), "{text}");
    }
}
