//! Deduplication of a batch: the stored messages with its ids and keys, and which of its entries are stored.
//! [`dedupe`] decides about each. Pure; the statements around it only read and write.

use std::collections::{HashMap, hash_map};

use punctual::backend::policy::{DedupeDecision, DedupeFacts, SameId, dedupe};
use punctual::backend::storage::{EnqueueResult, Entry};
use punctual::model::{Key, Message, MessageId, MessageRecord, MessageState, Unique};

use crate::operations::relations::needs_lookup;

/// Stored messages with the ids and deduplication keys of a batch.
#[derive(Default)]
pub(crate) struct KnownMessages {
    states: HashMap<MessageId, MessageState>,
    /// Messages in the history that are not alive again.
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
        if let hash_map::Entry::Vacant(unknown) = self.states.entry(id) {
            unknown.insert(record.state);
            self.finished.insert(id, record);
        }
    }

    pub(crate) fn reserve(&mut self, dedupe: String, id: MessageId) {
        self.reservations.insert(dedupe, id);
    }

    fn facts(&self, message: &Message) -> DedupeFacts<'_> {
        let same_id = self
            .states
            .get(&message.id)
            .map(|_| self.finished.get(&message.id).map_or(SameId::AliveOrDead, SameId::from));
        let Some(key) = message.dedupe.as_ref().map(Key::as_str) else {
            return DedupeFacts { same_id, ..DedupeFacts::default() };
        };
        let same_key = self.dedupes.get(key).and_then(|id| Some((*id, *self.states.get(id)?)));
        DedupeFacts { same_id, same_key, reserved_by: self.reservations.get(key).copied() }
    }

    /// Adds a message that the batch stores; returns whether a finished one with its id gives way.
    fn store(&mut self, message: &Message) -> bool {
        let dedupe = message.dedupe.as_ref().map(|dedupe| dedupe.as_str().to_owned());
        if let (Some(dedupe), Unique::For(_)) = (&dedupe, message.unique()) {
            self.reserve(dedupe.clone(), message.id);
        }
        self.alive(message.id, dedupe, MessageState::Pending);
        self.finished.remove(&message.id).is_some()
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
        let result = match dedupe(message, entry.replace, &known.facts(message)) {
            DedupeDecision::Insert => EnqueueResult::Stored,
            DedupeDecision::Replace(twin) => {
                known.states.remove(&twin);
                // A message of the same batch is simply not written.
                match indexes.remove(&twin) {
                    Some(earlier) => plan.stored.retain(|index| *index != earlier),
                    None => plan.replaced.push(twin),
                }
                EnqueueResult::Replaced(twin)
            }
            DedupeDecision::Duplicate(twin) => {
                plan.results.push(EnqueueResult::Duplicate(twin));
                continue;
            }
        };
        if known.store(message) {
            plan.returned.push(message.id);
        }
        indexes.insert(message.id, index);
        plan.stored.push(index);
        plan.results.push(result);
    }
    plan
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
