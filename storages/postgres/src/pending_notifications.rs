//! Pending notifications: what a transaction changed that others wait for. Collected by its statements, and sent when it
//! has committed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use punctual::backend::storage::WakeSource;
use punctual::model::{JobRecord, Message, Queue};
use punctual_columns::instant::micros_up;

use crate::inner::{Inner, attempt};
use crate::operations::batches::DueQueues;
use crate::operations::relations::lane_of;
use crate::operations::waiting_queues::FreedSlots;
use crate::value::Micros;

/// Notifications to send when a transaction has committed.
#[derive(Debug, Default)]
pub(crate) struct PendingNotifications {
    /// Queues with due messages, and the earliest due time of each.
    pub(crate) due: HashMap<Queue, i64>,
    /// Jobs and limits of which a message stopped running.
    pub(crate) turns: FreedSlots,
    /// Queues with new messages that share a limit.
    limited: HashSet<Queue>,
    /// Earliest due time of the changed jobs.
    jobs_due: Option<i64>,
    /// Whether a running message was requested to cancel.
    pub(crate) leases: bool,
}

impl PendingNotifications {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.turns.is_empty() && self.jobs_due.is_none() && !self.leases
    }

    /// Adds a message that was stored.
    pub(crate) fn add_message(&mut self, message: &Message) {
        if lane_of(message).is_some() && !self.limited.contains(&message.queue) {
            self.limited.insert(message.queue.clone());
        }
        self.add_due(&message.queue, micros_up(message.due_at));
    }

    /// Adds a job that was stored.
    pub(crate) fn add_job(&mut self, record: &JobRecord) {
        let due_at = record.due_at().map(micros_up);
        self.jobs_due = self.jobs_due.into_iter().chain(due_at).min();
    }

    /// Adds queues whose waiting messages may run now.
    pub(crate) fn add_waiting(&mut self, queues: HashSet<String>) {
        for queue in queues {
            self.add_due(&Queue::from(queue), Micros::MIN.0);
        }
    }

    pub(crate) fn add_due(&mut self, queue: &Queue, at: i64) {
        match self.due.get_mut(queue) {
            Some(first) => *first = at.min(*first),
            None => drop(self.due.insert(queue.clone(), at)),
        }
    }

    pub(crate) fn add_due_queues(&mut self, freed: DueQueues) {
        for (queue, at) in freed {
            self.add_due(&queue, at);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (queue, at) in &other.due {
            self.add_due(queue, *at);
        }
        self.turns.add(other.turns);
        self.limited.extend(other.limited);
        self.jobs_due = self.jobs_due.into_iter().chain(other.jobs_due).min();
        self.leases |= other.leases;
    }
}

impl Inner {
    /// Sends the notifications of a transaction that has committed.
    pub(crate) async fn notify_committed(self: &Arc<Self>, notifications: PendingNotifications) {
        let PendingNotifications { due, turns, limited, jobs_due, leases } = notifications;
        for queue in &limited {
            self.cursors.set_limited(queue, true);
        }
        for (queue, due_at) in due {
            self.notify(WakeSource::Queue(queue), due_at);
        }
        if let Some(due_at) = jobs_due {
            self.notify(WakeSource::Jobs, due_at);
        }
        if leases {
            self.notify(WakeSource::Leases, Micros::MIN.0);
        }
        self.notify_freed_slots(&turns).await;
    }

    /// Notifies the queues whose messages waited for a job or a limit of which a message stopped running.
    async fn notify_freed_slots(self: &Arc<Self>, turns: &FreedSlots) {
        if turns.is_empty() {
            return;
        }
        let query = async { attempt!(self, |session| self.waiting(session, turns, false)) };
        match query.await {
            Ok(waiting) => {
                for queue in waiting {
                    self.notify(WakeSource::Queue(Queue::from(queue)), Micros::MIN.0);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "waiting queues were not notified; their messages are found by polling");
            }
        }
    }
}
