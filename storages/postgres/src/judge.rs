//! What becomes of each entry of a batch, given what is known of its ids and keys: the reference is
//! the memory storage. Pure; the statements around it only look and write.

use std::collections::HashMap;

use punctual::model::{Message, MessageId, MessageRecord, Source, State, Unique};
use punctual::storage::{Enqueued, Entry};
use punctual_rows::instant::{instant, micros};

use crate::ties::needs_care;

/// What is known of the ids and deduplication keys of a batch.
#[derive(Default)]
pub(crate) struct Known {
    states: HashMap<MessageId, State>,
    finished: HashMap<MessageId, MessageRecord>,
    dedupes: HashMap<String, MessageId>,
    /// Who keeps others out for a time.
    holders: HashMap<String, MessageId>,
}

impl Known {
    pub(crate) fn alive(&mut self, id: MessageId, dedupe: Option<String>, state: State) {
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

    pub(crate) fn holds(&mut self, dedupe: String, id: MessageId) {
        self.holders.insert(dedupe, id);
    }

    /// The message that makes this one a duplicate.
    fn duplicate_of(&self, message: &Message) -> Option<MessageId> {
        let itself = self.states.get(&message.id).is_some_and(|state| {
            let returns = message.queue.is_relay() || message.source == Source::Redriven;
            let finished = matches!(state, State::Done | State::Cancelled);
            let kept = self.finished.get(&message.id).filter(|_| finished && returns);
            kept.is_none_or(|kept| is_same(&kept.message, message))
        });
        if itself {
            return Some(message.id);
        }
        let dedupe = message.dedupe.as_ref()?.as_str();
        let holder = || self.holders.get(dedupe).filter(|holder| **holder != message.id);
        self.dedupes.get(dedupe).or_else(holder).copied()
    }
}

/// What has to be written for a batch, and what is answered.
#[derive(Default)]
pub(crate) struct Judged {
    pub(crate) answers: Vec<Enqueued>,
    /// The places in the batch of what is stored.
    pub(crate) stored: Vec<usize>,
    /// Pending messages that give way.
    pub(crate) replaced: Vec<MessageId>,
    /// Finished messages that came back.
    pub(crate) returned: Vec<MessageId>,
}

/// Judges a batch in the order given.
pub(crate) fn judge(entries: &[Entry], mut known: Known) -> Judged {
    let mut judged = Judged::default();
    let mut places: HashMap<MessageId, usize> = HashMap::new();
    for (place, entry) in entries.iter().enumerate() {
        let message = &*entry.message;
        let answer = match known.duplicate_of(message) {
            None => Enqueued::Stored,
            Some(twin)
                if entry.replace
                    && twin != message.id
                    && known.states.get(&twin) == Some(&State::Pending) =>
            {
                known.states.remove(&twin);
                // One of this very batch is simply not written.
                match places.remove(&twin) {
                    Some(earlier) => judged.stored.retain(|place| *place != earlier),
                    None => judged.replaced.push(twin),
                }
                Enqueued::Replaced(twin)
            }
            Some(twin) => {
                judged.answers.push(Enqueued::Duplicate(twin));
                continue;
            }
        };
        if known.states.insert(message.id, State::Pending).is_some() {
            judged.returned.push(message.id);
        }
        if let Some(dedupe) = &message.dedupe {
            known.dedupes.insert(dedupe.as_str().to_owned(), message.id);
            if matches!(message.unique(), Unique::For(_)) {
                known.holds(dedupe.as_str().to_owned(), message.id);
            }
        }
        places.insert(message.id, place);
        judged.stored.push(place);
        judged.answers.push(answer);
    }
    judged
}

/// Whether two messages are one sending; a redrive changes the source only, and a column cuts what is
/// below the microsecond.
fn is_same(kept: &Message, sent: &Message) -> bool {
    let cut = |at| instant(micros(at)).unwrap_or(at);
    let sent = Message {
        source: kept.source,
        due_at: cut(sent.due_at),
        created_at: cut(sent.created_at),
        ..sent.clone()
    };
    *kept == sent
}

/// Whether an entry can be stored without asking what is known of it in detail.
pub(crate) fn is_plain(entry: &Entry) -> bool {
    let message = &entry.message;
    let returns = message.queue.is_relay() || message.source == Source::Redriven;
    !entry.replace && !returns && !needs_care(entry)
}

/// Which records of another storage are new here, and what is answered for each.
pub(crate) fn judge_moved(
    records: &[MessageRecord],
    mut known: Known,
) -> (Vec<Enqueued>, Vec<&MessageRecord>) {
    let (mut answers, mut kept) = (Vec::with_capacity(records.len()), Vec::new());
    for record in records {
        let id = record.message.id;
        let dedupe = record.message.dedupe.as_ref().filter(|_| record.state.is_alive());
        let twin = dedupe.and_then(|dedupe| known.dedupes.get(dedupe.as_str()).copied());
        let itself = known.states.contains_key(&id).then_some(id);
        if let Some(duplicate) = itself.or(twin) {
            answers.push(Enqueued::Duplicate(duplicate));
            continue;
        }
        known.states.insert(id, record.state);
        if let Some(dedupe) = dedupe {
            known.dedupes.insert(dedupe.as_str().to_owned(), id);
        }
        kept.push(record);
        answers.push(Enqueued::Stored);
    }
    (answers, kept)
}
