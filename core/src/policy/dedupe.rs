//! Deduplication: decides whether an entry is stored, given the stored messages with its id and its
//! deduplication key. Every storage calls this function; it only reads the facts and applies the decision.

use crate::model::{Message, MessageId, MessageRecord, MessageState};

/// The stored messages that can make an entry a duplicate.
#[derive(Clone, Copy, Debug, Default)]
pub struct DedupeFacts<'a> {
    /// The message with the same id.
    pub same_id: Option<SameId<'a>>,
    /// The alive message with the same deduplication key, and its state. A message that has released its key
    /// does not count.
    pub same_key: Option<(MessageId, MessageState)>,
    /// The message that has reserved the key for a duration that is not over.
    pub reserved_by: Option<MessageId>,
}

/// The stored message with the id of an entry.
#[derive(Clone, Copy, Debug)]
pub enum SameId<'a> {
    /// It is pending, running or dead.
    AliveOrDead,
    /// It is done or cancelled.
    Finished(&'a Message),
}

impl<'a> From<&'a MessageRecord> for SameId<'a> {
    fn from(record: &'a MessageRecord) -> Self {
        match record.state {
            MessageState::Done | MessageState::Cancelled => Self::Finished(&record.message),
            MessageState::Pending | MessageState::Running | MessageState::Dead => Self::AliveOrDead,
        }
    }
}

/// The decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupeDecision {
    /// Stored; a finished message with the same id is deleted.
    Insert,
    /// Stored as after [`DedupeDecision::Insert`], and this pending message is deleted.
    Replace(MessageId),
    /// Not stored, because of this message.
    Duplicate(MessageId),
}

/// Decides whether a message is stored. `replace`: a pending message with its deduplication key gives way.
///
/// The id counts before the key: a repeated call returns the message that it stored the first time. A finished
/// message gives way to one that may return and differs; see [`Message::may_return`].
pub fn dedupe(message: &Message, replace: bool, known: &DedupeFacts<'_>) -> DedupeDecision {
    let is_repeated = known.same_id.is_some_and(|same_id| match same_id {
        SameId::AliveOrDead => true,
        SameId::Finished(stored) => !message.may_return() || stored.is_same_sending(message),
    });
    match (known.same_key, known.reserved_by) {
        _ if is_repeated => DedupeDecision::Duplicate(message.id),
        (Some((id, MessageState::Pending)), _) if replace => DedupeDecision::Replace(id),
        (Some((id, _)), _) => DedupeDecision::Duplicate(id),
        (None, Some(id)) if id != message.id => DedupeDecision::Duplicate(id),
        (None, _) => DedupeDecision::Insert,
    }
}

#[cfg(test)]
mod tests;
