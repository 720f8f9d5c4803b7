//! Operator commands on messages by the rules of the contract.

use std::sync::Arc;

use punctual::backend::storage::{Command, CommandResult};
use punctual::jiff::Timestamp;
use punctual::model::{DueTime, Message, MessageId, MessageRecord, MessageState, Source};

use super::Ledger;

impl Ledger {
    pub(crate) fn commanded(&mut self, command: &Command, now: Timestamp, answer: CommandResult) {
        self.tally.commands += 1;
        let expected = match command {
            Command::Cancel(id) => self.cancel(*id, now),
            Command::CancelKey { topic, key } => {
                let about = |record: &&MessageRecord| {
                    let message = &record.message;
                    record.state == MessageState::Pending
                        && message.topic == *topic
                        && message.key.as_ref() == Some(key)
                        && message.occurrence.is_some()
                };
                let ids: Vec<_> =
                    self.messages.values().filter(about).map(|record| record.message.id).collect();
                for id in &ids {
                    self.cancel(*id, now);
                }
                CommandResult::Applied(ids.len() as u64)
            }
            Command::Redrive { id, due_at } => self.redrive(*id, *due_at),
            Command::Pause { id, pause } => self.edit_due(*id, |due| due.paused_by(pause.clone())),
            Command::Resume { id, due_at } => self.edit_due(*id, |due| due.resumed(*due_at, now)),
            Command::Reschedule { id, due_at } => {
                self.edit_due(*id, |due| Some(due.rescheduled(*due_at)))
            }
            Command::Reassign { id, to } => self.edit_pending(*id, |record| {
                let message = Arc::make_mut(&mut record.message);
                message.queue = to.queue.clone().unwrap_or_else(|| message.queue.clone());
                message.priority = to.priority.unwrap_or(message.priority);
            }),
            Command::Discard(id)
                if self.state_of(*id).is_some_and(|state| state != MessageState::Dead) =>
            {
                self.state_of(*id).map_or(CommandResult::Unknown, CommandResult::Refused)
            }
            Command::Delete(id) | Command::Discard(id) => match self.state_of(*id) {
                None => CommandResult::Unknown,
                Some(MessageState::Running) => CommandResult::Refused(MessageState::Running),
                Some(_) => {
                    self.release_key(&Arc::clone(&self.messages[id].message));
                    self.messages.remove(id);
                    self.removed.insert(*id);
                    self.done.remove(id);
                    CommandResult::Applied(1)
                }
            },
        };
        self.must(answer == expected, "commands follow their contract", || {
            format!("{command:?} returned {answer:?}, expected {expected:?}")
        });
    }

    fn edit_due(
        &mut self,
        id: MessageId,
        change: impl FnOnce(DueTime) -> Option<DueTime>,
    ) -> CommandResult {
        match self.messages.get(&id) {
            Some(record) if record.state == MessageState::Pending => {
                match change(record.due_time()) {
                    None => CommandResult::Applied(0),
                    Some(DueTime { due_at, paused }) => self.edit_pending(id, |record| {
                        record.due_at = due_at;
                        record.paused.clone_from(&paused);
                    }),
                }
            }
            _ => self.edit_pending(id, |_| {}),
        }
    }

    fn edit_pending(&mut self, id: MessageId, edit: impl Fn(&mut MessageRecord)) -> CommandResult {
        match self.messages.get_mut(&id) {
            None => CommandResult::Unknown,
            Some(record) if record.state == MessageState::Pending => {
                edit(record);
                CommandResult::Applied(1)
            }
            Some(record) => CommandResult::Refused(record.state),
        }
    }

    pub(super) fn cancel(&mut self, id: MessageId, now: Timestamp) -> CommandResult {
        let Some(record) = self.messages.get_mut(&id) else {
            return CommandResult::Unknown;
        };
        match record.state {
            MessageState::Running => {
                record.cancel_requested = true;
                CommandResult::Requested
            }
            MessageState::Pending => {
                record.state = MessageState::Cancelled;
                record.ended_at = Some(now);
                let message = record.message.clone();
                self.release_key(&message);
                CommandResult::Applied(1)
            }
            state => CommandResult::Refused(state),
        }
    }

    fn redrive(&mut self, id: MessageId, due_at: Timestamp) -> CommandResult {
        let Some(record) = self.messages.get(&id) else {
            return CommandResult::Unknown;
        };
        let (state, message) = (record.state, record.message.clone());
        let twin = message.dedupe.as_ref().and_then(|key| self.alive_keys.get(key));
        if state.is_alive() || twin.is_some() {
            return CommandResult::Refused(state);
        }
        let again = Message { source: Source::Redriven, ..(*message).clone() };
        self.redriven.insert(id);
        self.insert(Arc::new(again));
        if let Some(record) = self.messages.get_mut(&id) {
            record.due_at = due_at;
        }
        CommandResult::Applied(1)
    }
}
