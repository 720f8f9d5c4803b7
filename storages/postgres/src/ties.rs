//! What ties messages to others, as columns: the limit they share, the batch they are of or wait for,
//! and whether their deduplication key is free from the first claim on. Nearly all have none of it, so
//! nothing is sent for a batch of messages without.

use punctual::model::{BatchId, Message, Unique};
use punctual::storage::Entry;
use punctual_rows::message::column;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::value::Param;

/// The names of the columns, behind those that every message has.
pub(crate) const COLUMNS: &str = "lane, lane_max, batch, waits_for, released";

/// The ties of one message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tied<'a> {
    /// The limit it shares, and how many of it may run.
    pub(crate) lane: Option<(&'a str, i32)>,
    pub(crate) batch: Option<Uuid>,
    pub(crate) waits_for: Option<Uuid>,
    /// False when the key is held until the first claim only.
    pub(crate) released: Option<bool>,
}

impl<'a> Tied<'a> {
    pub(crate) fn of(message: &'a Message) -> Self {
        if message.ties.is_none() {
            return Self::default();
        }
        Self {
            lane: lane_of(message),
            batch: message.batch().map(BatchId::as_uuid),
            waits_for: message.waits_for().map(BatchId::as_uuid),
            released: (message.unique() == Unique::WhilePending).then_some(false),
        }
    }
}

/// The limit for what runs at once, and how many it allows. One for starts only is the engine's.
pub(crate) fn lane_of(message: &Message) -> Option<(&str, i32)> {
    let limit = message.limit()?;
    Some((limit.name.as_str(), column(limit.running_max?)))
}

/// Whether a column says what ties a message to others.
pub(crate) fn is_tied(message: &Message) -> bool {
    Tied::of(message) != Tied::default()
}

/// Whether an entry has to be stored with a look at others: at the batch it waits for, or at who holds
/// its key for a time.
pub(crate) fn needs_care(entry: &Entry) -> bool {
    let message = &entry.message;
    message.ties.is_some()
        && (message.waits_for().is_some() || matches!(message.unique(), Unique::For(_)))
}

/// The ties of messages, one array for each column. As long as none is tied they stay empty, which
/// reads as NULL for each.
#[derive(Default)]
pub(crate) struct Ties<'a> {
    untied: usize,
    lanes: Vec<Option<&'a str>>,
    lanes_max: Vec<Option<i32>>,
    pub(crate) batches: Vec<Option<Uuid>>,
    waits_for: Vec<Option<Uuid>>,
    released: Vec<Option<bool>>,
}

impl<'a> Ties<'a> {
    pub(crate) fn push(&mut self, message: &'a Message) {
        let tied = Tied::of(message);
        if self.lanes.is_empty() && tied == Tied::default() {
            self.untied += 1;
            return;
        }
        for _ in 0..std::mem::take(&mut self.untied) {
            self.add(Tied::default());
        }
        self.add(tied);
    }

    fn add(&mut self, tied: Tied<'a>) {
        self.lanes.push(tied.lane.map(|(name, _)| name));
        self.lanes_max.push(tied.lane.map(|(_, most)| most));
        self.batches.push(tied.batch);
        self.waits_for.push(tied.waits_for);
        self.released.push(tied.released);
    }

    pub(crate) fn params(&self) -> [Param<'_>; 5] {
        [
            (&self.lanes, Type::TEXT_ARRAY),
            (&self.lanes_max, Type::INT4_ARRAY),
            (&self.batches, Type::UUID_ARRAY),
            (&self.waits_for, Type::UUID_ARRAY),
            (&self.released, Type::BOOL_ARRAY),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::jiff::Timestamp;
    use punctual::model::{Body, Headers, MessageId, Priority, Queue, Source, Topic, Trail};

    use super::*;

    fn message(ties: punctual::model::Ties) -> Message {
        Message {
            id: MessageId::from_uuid(Uuid::from_u128(7)),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: Timestamp::UNIX_EPOCH,
            created_at: Timestamp::UNIX_EPOCH,
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::empty(),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: Some(Arc::new(ties)),
        }
    }

    #[test]
    fn nothing_is_sent_until_one_is_tied_and_then_a_place_for_each() {
        let batch = BatchId::from_uuid(Uuid::from_u128(9));
        let untied = message(punctual::model::Ties::default());
        let tied = message(punctual::model::Ties { batch: Some(batch), ..Default::default() });
        let mut ties = Ties::default();
        ties.push(&untied);
        ties.push(&untied);
        assert!(ties.batches.is_empty() && ties.released.is_empty());
        ties.push(&tied);
        ties.push(&untied);
        assert_eq!(ties.batches, [None, None, Some(batch.as_uuid()), None]);
        assert_eq!((ties.lanes.len(), ties.lanes_max.len(), ties.released.len()), (4, 4, 4));
    }
}
