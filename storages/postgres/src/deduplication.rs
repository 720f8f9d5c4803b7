//! Deduplication: decides for each entry of a batch whether it is stored, given what is known of its ids and
//! keys. The memory storage is the reference. Pure; the statements around it only read and write.

use std::collections::HashMap;

use punctual::model::{Message, MessageId, MessageRecord, MessageState, Unique};
use punctual::storage::{EnqueueResult, Entry};
use punctual_columns::instant::{instant, micros};

use crate::relations::needs_lookup;

/// Stored messages with the ids and deduplication keys of a batch.
#[derive(Default)]
pub(crate) struct KnownMessages {
    states: HashMap<MessageId, MessageState>,
    finished: HashMap<MessageId, MessageRecord>,
    dedupes: HashMap<String, MessageId>,
    /// Messages that have reserved a key for a period.
    reservations: HashMap<String, MessageId>,
}

impl KnownMessages {
    pub(crate) fn alive(&mut self, id: MessageId, dedupe: Option<String>, state: MessageState) {
        self.states.insert(id, state);
        if let Some(dedupe) = dedupe {
            self.dedupes.insert(dedupe, id);
        }
    }

    pub(crate) fn ended(&mut self, record: MessageRecord) {
        let id = record.message.id;
        self.states.entry(id).or_insert(record.state);
        self.finished.insert(id, record);
    }

    pub(crate) fn reserve(&mut self, dedupe: String, id: MessageId) {
        self.reservations.insert(dedupe, id);
    }

    /// Returns the message that makes this one a duplicate.
    fn duplicate_of(&self, message: &Message) -> Option<MessageId> {
        let itself = self.states.get(&message.id).is_some_and(|state| {
            let finished = matches!(state, MessageState::Done | MessageState::Cancelled);
            let may_return = finished && message.may_return();
            let kept = self.finished.get(&message.id).filter(|_| may_return);
            kept.is_none_or(|kept| kept.message.is_same_sending(&as_stored(message)))
        });
        if itself {
            return Some(message.id);
        }
        let dedupe = message.dedupe.as_ref()?.as_str();
        let holder = || self.reservations.get(dedupe).filter(|holder| **holder != message.id);
        self.dedupes.get(dedupe).or_else(holder).copied()
    }
}

/// Decisions on a batch: what to write, and the result of each entry.
#[derive(Default)]
pub(crate) struct DedupePlan {
    pub(crate) results: Vec<EnqueueResult>,
    /// Indexes in the batch of the entries that are stored.
    pub(crate) stored: Vec<usize>,
    /// Pending messages that are replaced.
    pub(crate) replaced: Vec<MessageId>,
    /// Finished messages that were sent again.
    pub(crate) returned: Vec<MessageId>,
}

/// Decides on the entries of a batch in the order given.
pub(crate) fn plan_batch(entries: &[Entry], mut known: KnownMessages) -> DedupePlan {
    let mut plan = DedupePlan::default();
    let mut indexes: HashMap<MessageId, usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let message = &*entry.message;
        let result = match known.duplicate_of(message) {
            None => EnqueueResult::Stored,
            Some(twin)
                if entry.replace
                    && twin != message.id
                    && known.states.get(&twin) == Some(&MessageState::Pending) =>
            {
                known.states.remove(&twin);
                // A message of the same batch is simply not written.
                match indexes.remove(&twin) {
                    Some(earlier) => plan.stored.retain(|index| *index != earlier),
                    None => plan.replaced.push(twin),
                }
                EnqueueResult::Replaced(twin)
            }
            Some(twin) => {
                plan.results.push(EnqueueResult::Duplicate(twin));
                continue;
            }
        };
        if known.states.insert(message.id, MessageState::Pending).is_some() {
            plan.returned.push(message.id);
        }
        if let Some(dedupe) = &message.dedupe {
            known.dedupes.insert(dedupe.as_str().to_owned(), message.id);
            if matches!(message.unique(), Unique::For(_)) {
                known.reserve(dedupe.as_str().to_owned(), message.id);
            }
        }
        indexes.insert(message.id, index);
        plan.stored.push(index);
        plan.results.push(result);
    }
    plan
}

/// Returns the message as it would read back: columns cut instants to the microsecond.
fn as_stored(message: &Message) -> Message {
    let cut = |at| instant(micros(at)).unwrap_or(at);
    let (due_at, created_at) = (cut(message.due_at), cut(message.created_at));
    Message { due_at, created_at, ..message.clone() }
}

/// Returns whether an entry can be stored without reading what is known of it.
pub(crate) fn is_plain(entry: &Entry) -> bool {
    !entry.replace && !entry.message.may_return() && !needs_lookup(entry)
}

/// Decides which imported records are new here, and the result of each.
pub(crate) fn plan_import(
    records: &[MessageRecord],
    mut known: KnownMessages,
) -> (Vec<EnqueueResult>, Vec<&MessageRecord>) {
    let (mut results, mut kept) = (Vec::with_capacity(records.len()), Vec::new());
    for record in records {
        let id = record.message.id;
        let dedupe = record.message.dedupe.as_ref().filter(|_| record.state.is_alive());
        let twin = dedupe.and_then(|dedupe| known.dedupes.get(dedupe.as_str()).copied());
        let itself = known.states.contains_key(&id).then_some(id);
        if let Some(duplicate) = itself.or(twin) {
            results.push(EnqueueResult::Duplicate(duplicate));
            continue;
        }
        known.states.insert(id, record.state);
        if let Some(dedupe) = dedupe {
            known.dedupes.insert(dedupe.as_str().to_owned(), id);
        }
        kept.push(record);
        results.push(EnqueueResult::Stored);
    }
    (results, kept)
}
