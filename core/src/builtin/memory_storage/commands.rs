//! Message commands: what an operator does with messages. Whether a state allows a command is decided by the
//! state table alone.

use std::sync::Arc;

use jiff::Timestamp;

use super::index::Index;
use super::memory::Memory;
use super::records::StoredRecord;
use crate::model::{
    Assignment, DueTime, Message, MessageId, MessageRecord, MessageState, Source, StateChange,
};
use crate::storage::{Command, CommandResult};

impl Memory {
    pub(super) fn command(&mut self, command: &Command, now: Timestamp) -> CommandResult {
        let result = match command {
            Command::Cancel(id) => self.cancel(*id, now),
            Command::CancelKey { topic, key } => {
                let about = self.lookup.about(topic, key);
                let jobs = about.into_iter().filter(|id| self.is_of_job(*id)).collect::<Vec<_>>();
                let cancelled = jobs.into_iter().filter(|id| self.cancel_pending(*id, now));
                CommandResult::Applied(cancelled.count() as u64)
            }
            Command::Redrive { id, due_at } => self.redrive(*id, *due_at),
            Command::Pause { id, pause } => self.edit_due(*id, |due| due.paused_by(pause.clone())),
            Command::Resume { id, due_at } => self.edit_due(*id, |due| due.resumed(*due_at, now)),
            Command::Reschedule { id, due_at } => {
                self.edit_due(*id, |due| Some(due.rescheduled(*due_at)))
            }
            Command::Reassign { id, to } => self.reassign(*id, to),
            Command::Delete(id) => self.delete(*id),
            Command::Discard(id) => match self.state_of(*id) {
                Some(state) if state != MessageState::Dead => CommandResult::Refused(state),
                _ => self.delete(*id),
            },
        };
        self.trim();
        result
    }

    /// Cancels a message: a pending one immediately, a running one by a flag that its owner reads when it
    /// extends the lease.
    pub(super) fn cancel(&mut self, id: MessageId, now: Timestamp) -> CommandResult {
        if let Some(stored) = self.records.get_mut(id)
            && stored.record.state == MessageState::Running
        {
            stored.record.cancel_requested = true;
            self.index.leases.request_notification();
            return CommandResult::Requested;
        }
        command_result(self.change(id, StateChange::Cancel, |record| {
            record.ended_at = Some(now);
        }))
    }

    fn cancel_pending(&mut self, id: MessageId, now: Timestamp) -> bool {
        self.state_of(id) == Some(MessageState::Pending)
            && self.cancel(id, now) == CommandResult::Applied(1)
    }

    /// Sends a finished message again, under its id, with every count at zero.
    fn redrive(&mut self, id: MessageId, due_at: Timestamp) -> CommandResult {
        let Some(stored) = self.records.get(id) else {
            return CommandResult::Unknown;
        };
        let state = stored.record.state;
        if self.lookup.alive_duplicate(&stored.record.message).is_some() {
            return CommandResult::Refused(state);
        }
        let message = Message { source: Source::Redriven, ..(*stored.record.message).clone() };
        let fresh = MessageRecord { due_at, ..MessageRecord::new(Arc::new(message)) };
        command_result(self.change(id, StateChange::Redrive, |record| *record = fresh))
    }

    /// Changes when a pending message is due; applies to no message when `change` returns none.
    fn edit_due(
        &mut self,
        id: MessageId,
        change: impl FnOnce(DueTime) -> Option<DueTime>,
    ) -> CommandResult {
        let Some(stored) = self.records.get(id) else {
            return CommandResult::Unknown;
        };
        match (stored.record.state, change(stored.record.due_time())) {
            (MessageState::Pending, None) => CommandResult::Applied(0),
            (MessageState::Pending, Some(DueTime { due_at, paused })) => {
                self.edit_pending(id, |stored, _| {
                    stored.record.due_at = due_at;
                    stored.record.paused = paused;
                })
            }
            (state, _) => CommandResult::Refused(state),
        }
    }

    fn reassign(&mut self, id: MessageId, to: &Assignment) -> CommandResult {
        self.edit_pending(id, |stored, index| {
            let message = Arc::make_mut(&mut stored.record.message);
            if let Some(queue) = &to.queue {
                stored.queue_id = index.ensure_queue(queue);
                message.queue = queue.clone();
            }
            message.priority = to.priority.unwrap_or(message.priority);
        })
    }

    /// Edits a pending message and moves it in the index.
    fn edit_pending(
        &mut self,
        id: MessageId,
        edit: impl FnOnce(&mut StoredRecord, &mut Index),
    ) -> CommandResult {
        let Some(stored) = self.records.get_mut(id) else {
            return CommandResult::Unknown;
        };
        if stored.record.state != MessageState::Pending {
            return CommandResult::Refused(stored.record.state);
        }
        self.index.leave(stored);
        edit(stored, &mut self.index);
        self.index.enter(stored);
        CommandResult::Applied(1)
    }

    fn delete(&mut self, id: MessageId) -> CommandResult {
        match self.state_of(id) {
            None => CommandResult::Unknown,
            Some(MessageState::Running) => CommandResult::Refused(MessageState::Running),
            Some(_) => {
                self.remove(id);
                self.history.forget(id);
                CommandResult::Applied(1)
            }
        }
    }

    fn is_of_job(&self, id: MessageId) -> bool {
        self.records.get(id).is_some_and(|stored| stored.record.message.occurrence.is_some())
    }

    fn state_of(&self, id: MessageId) -> Option<MessageState> {
        self.records.get(id).map(|stored| stored.record.state)
    }
}

fn command_result(changed: Result<(), Option<MessageState>>) -> CommandResult {
    match changed {
        Ok(()) => CommandResult::Applied(1),
        Err(Some(state)) => CommandResult::Refused(state),
        Err(None) => CommandResult::Unknown,
    }
}
