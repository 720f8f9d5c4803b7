//! Enqueue by the rules of the contract.

use std::sync::Arc;

use punctual::backend::storage::{EnqueueResult, Entry};
use punctual::model::{Message, MessageId, MessageState};

use super::Ledger;

impl Ledger {
    pub(crate) fn enqueued(&mut self, entries: &[Entry], answers: &[EnqueueResult]) {
        for (entry, answer) in entries.iter().zip(answers) {
            let expected = self.enqueue(entry);
            self.must(*answer == expected, "enqueue follows its contract", || {
                format!("{} returned {answer:?}, expected {expected:?}", entry.message.id)
            });
        }
    }

    fn enqueue(&mut self, entry: &Entry) -> EnqueueResult {
        let id = entry.message.id;
        if let Some(known) = self.messages.get(&id) {
            // Only a message forwarded by a relay may be stored again; a repeated publish is a duplicate.
            let finished = matches!(known.state, MessageState::Done | MessageState::Cancelled);
            let relayed = entry.message.queue.is_relay();
            let sent = Message { source: known.message.source, ..(*entry.message).clone() };
            if !(finished && relayed && *known.message != sent) {
                return EnqueueResult::Duplicate(id);
            }
        }
        let twin = entry.message.dedupe.as_ref().and_then(|key| self.alive_keys.get(key)).copied();
        let answer = match twin {
            Some(twin) if entry.replace && self.state_of(twin) == Some(MessageState::Pending) => {
                let retry = self.carried.contains_key(&id);
                self.must(!retry, "a retry that is held replaces no other message", || {
                    format!("{id} replaces {twin}")
                });
                self.release_key(&Arc::clone(&self.messages[&twin].message));
                self.messages.remove(&twin);
                self.removed.insert(twin);
                EnqueueResult::Replaced(twin)
            }
            Some(twin) => return EnqueueResult::Duplicate(twin),
            None => EnqueueResult::Stored,
        };
        self.insert(entry.message.clone());
        answer
    }

    pub(crate) fn state_of(&self, id: MessageId) -> Option<MessageState> {
        self.messages.get(&id).map(|record| record.state)
    }
}
