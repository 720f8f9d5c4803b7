//! What an operator asks of messages, as the contract says it.

use std::sync::Arc;

use punctual::jiff::Timestamp;
use punctual::model::{Message, MessageId, MessageRecord, Source, State};
use punctual::storage::{Command, Commanded};

use super::Ledger;

impl Ledger {
    pub(crate) fn commanded(&mut self, command: &Command, now: Timestamp, answer: Commanded) {
        self.tally.commands += 1;
        let expected = match command {
            Command::Cancel(id) => self.cancel(*id, now),
            Command::CancelKey { topic, key } => {
                let about = |record: &&MessageRecord| {
                    let message = &record.message;
                    record.state == State::Pending
                        && message.topic == *topic
                        && message.key.as_ref() == Some(key)
                        && message.occurrence.is_some()
                };
                let ids: Vec<_> =
                    self.messages.values().filter(about).map(|record| record.message.id).collect();
                for id in &ids {
                    self.cancel(*id, now);
                }
                Commanded::Applied(ids.len() as u64)
            }
            Command::Redrive { id, due_at } => self.redrive(*id, *due_at),
            Command::Reschedule { id, due_at } => {
                self.edit_pending(*id, |record| record.due_at = *due_at)
            }
            Command::Reassign { id, to } => self.edit_pending(*id, |record| {
                let message = Arc::make_mut(&mut record.message);
                message.queue = to.queue.clone().unwrap_or_else(|| message.queue.clone());
                message.priority = to.priority.unwrap_or(message.priority);
            }),
            Command::Discard(id)
                if self.state_of(*id).is_some_and(|state| state != State::Dead) =>
            {
                self.state_of(*id).map_or(Commanded::Unknown, Commanded::Refused)
            }
            Command::Delete(id) | Command::Discard(id) => match self.state_of(*id) {
                None => Commanded::Unknown,
                Some(State::Running) => Commanded::Refused(State::Running),
                Some(_) => {
                    self.release_key(&Arc::clone(&self.messages[id].message));
                    self.messages.remove(id);
                    self.gone.insert(*id);
                    self.done.remove(id);
                    Commanded::Applied(1)
                }
            },
        };
        self.must(answer == expected, "commands answer by their contract", || {
            format!("{command:?} was answered {answer:?}, expected {expected:?}")
        });
    }

    fn edit_pending(&mut self, id: MessageId, edit: impl Fn(&mut MessageRecord)) -> Commanded {
        match self.messages.get_mut(&id) {
            None => Commanded::Unknown,
            Some(record) if record.state == State::Pending => {
                edit(record);
                Commanded::Applied(1)
            }
            Some(record) => Commanded::Refused(record.state),
        }
    }

    pub(super) fn cancel(&mut self, id: MessageId, now: Timestamp) -> Commanded {
        let Some(record) = self.messages.get_mut(&id) else {
            return Commanded::Unknown;
        };
        match record.state {
            State::Running => {
                record.cancel_requested = true;
                Commanded::Requested
            }
            State::Pending => {
                record.state = State::Cancelled;
                record.ended_at = Some(now);
                let message = record.message.clone();
                self.release_key(&message);
                Commanded::Applied(1)
            }
            state => Commanded::Refused(state),
        }
    }

    fn redrive(&mut self, id: MessageId, due_at: Timestamp) -> Commanded {
        let Some(record) = self.messages.get(&id) else {
            return Commanded::Unknown;
        };
        let (state, message) = (record.state, record.message.clone());
        let twin = message.dedupe.as_ref().and_then(|key| self.alive_keys.get(key));
        if state.is_alive() || twin.is_some() {
            return Commanded::Refused(state);
        }
        let again = Message { source: Source::Redriven, ..(*message).clone() };
        self.redriven.insert(id);
        self.insert(Arc::new(again));
        if let Some(record) = self.messages.get_mut(&id) {
            record.due_at = due_at;
        }
        Commanded::Applied(1)
    }
}
