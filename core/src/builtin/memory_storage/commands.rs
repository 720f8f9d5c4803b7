//! What an operator asks of messages. Whether a state allows it is asked of the state table alone.

use std::sync::Arc;

use jiff::Timestamp;

use super::index::Index;
use super::memory::Memory;
use super::records::Stored;
use crate::model::{Assignment, Message, MessageId, MessageRecord, Source, State, StateChange};
use crate::storage::{Command, Commanded};

impl Memory {
    pub(super) fn command(&mut self, command: &Command, now: Timestamp) -> Commanded {
        let answer = match command {
            Command::Cancel(id) => self.cancel(*id, now),
            Command::CancelKey { topic, key } => {
                let about = self.names.about(topic, key);
                let jobs = about.into_iter().filter(|id| self.is_of_job(*id)).collect::<Vec<_>>();
                let cancelled = jobs.into_iter().filter(|id| self.cancel_pending(*id, now));
                Commanded::Applied(cancelled.count() as u64)
            }
            Command::Redrive { id, due_at } => self.redrive(*id, *due_at),
            Command::Reschedule { id, due_at } => self.reschedule(*id, *due_at),
            Command::Reassign { id, to } => self.reassign(*id, to),
            Command::Delete(id) => self.delete(*id),
            Command::Discard(id) => match self.state_of(*id) {
                Some(state) if state != State::Dead => Commanded::Refused(state),
                _ => self.delete(*id),
            },
        };
        self.trim();
        answer
    }

    /// Stops a message: a pending one at once, a running one by a flag that its owner will see.
    pub(super) fn cancel(&mut self, id: MessageId, now: Timestamp) -> Commanded {
        if let Some(stored) = self.records.get_mut(id)
            && stored.record.state == State::Running
        {
            stored.record.cancel_requested = true;
            self.index.leases.ring();
            return Commanded::Requested;
        }
        answered(self.change(id, StateChange::Cancel, |record| {
            record.ended_at = Some(now);
        }))
    }

    fn cancel_pending(&mut self, id: MessageId, now: Timestamp) -> bool {
        self.state_of(id) == Some(State::Pending) && self.cancel(id, now) == Commanded::Applied(1)
    }

    /// Sends a finished message again, under its id, with every count at zero.
    fn redrive(&mut self, id: MessageId, due_at: Timestamp) -> Commanded {
        let Some(stored) = self.records.get(id) else {
            return Commanded::Unknown;
        };
        let state = stored.record.state;
        if self.names.twin(&stored.record.message).is_some() {
            return Commanded::Refused(state);
        }
        let message = Message { source: Source::Redriven, ..(*stored.record.message).clone() };
        let fresh = MessageRecord { due_at, ..MessageRecord::new(Arc::new(message)) };
        answered(self.change(id, StateChange::Redrive, |record| *record = fresh))
    }

    fn reschedule(&mut self, id: MessageId, due_at: Timestamp) -> Commanded {
        self.edit_pending(id, |stored, _| stored.record.due_at = due_at)
    }

    fn reassign(&mut self, id: MessageId, to: &Assignment) -> Commanded {
        self.edit_pending(id, |stored, index| {
            let message = Arc::make_mut(&mut stored.record.message);
            if let Some(queue) = &to.queue {
                stored.lane = index.make_lane(queue);
                message.queue = queue.clone();
            }
            message.priority = to.priority.unwrap_or(message.priority);
        })
    }

    /// Changes where a pending message stands.
    fn edit_pending(
        &mut self,
        id: MessageId,
        edit: impl FnOnce(&mut Stored, &mut Index),
    ) -> Commanded {
        let Some(stored) = self.records.get_mut(id) else {
            return Commanded::Unknown;
        };
        if stored.record.state != State::Pending {
            return Commanded::Refused(stored.record.state);
        }
        self.index.leave(stored);
        edit(stored, &mut self.index);
        self.index.enter(stored);
        Commanded::Applied(1)
    }

    fn delete(&mut self, id: MessageId) -> Commanded {
        match self.state_of(id) {
            None => Commanded::Unknown,
            Some(State::Running) => Commanded::Refused(State::Running),
            Some(_) => {
                self.remove(id);
                self.history.forget(id);
                Commanded::Applied(1)
            }
        }
    }

    fn is_of_job(&self, id: MessageId) -> bool {
        self.records.get(id).is_some_and(|stored| stored.record.message.occurrence.is_some())
    }

    fn state_of(&self, id: MessageId) -> Option<State> {
        self.records.get(id).map(|stored| stored.record.state)
    }
}

fn answered(changed: Result<(), Option<State>>) -> Commanded {
    match changed {
        Ok(()) => Commanded::Applied(1),
        Err(Some(state)) => Commanded::Refused(state),
        Err(None) => Commanded::Unknown,
    }
}
