//! Relations of messages as columns: the limit they share, the batch they belong to or wait for, and whether
//! their deduplication key is released at the first claim. Nearly all messages have none, so a batch of
//! messages without relations sends empty arrays.

use punctual::backend::storage::Entry;
use punctual::model::{BatchId, Message, Unique};
use punctual_columns::message::count_to_column;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::value::Param;

/// Names of the columns, after those that every message has.
pub(crate) const COLUMNS: &str = "lane, lane_max, batch, waits_for, released";

/// Relations of one message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageRelations<'a> {
    /// Shared limit, and how many of its messages may run.
    pub(crate) lane: Option<(&'a str, i32)>,
    pub(crate) batch: Option<Uuid>,
    pub(crate) waits_for: Option<Uuid>,
    /// False when the key is reserved until the first claim only.
    pub(crate) released: Option<bool>,
}

impl<'a> MessageRelations<'a> {
    pub(crate) fn of(message: &'a Message) -> Self {
        if message.relations.is_none() {
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

/// Returns the limit of running messages, and its maximum. A limit of starts only is enforced by the engine.
pub(crate) fn lane_of(message: &Message) -> Option<(&str, i32)> {
    let limit = message.limit()?;
    Some((limit.name.as_str(), count_to_column(limit.running_max?)))
}

/// Returns whether a message has any relation.
pub(crate) fn has_relations(message: &Message) -> bool {
    MessageRelations::of(message) != MessageRelations::default()
}

/// Returns whether storing an entry needs other rows: those of the batch it waits for, or reservations of its
/// key.
pub(crate) fn needs_lookup(entry: &Entry) -> bool {
    let message = &entry.message;
    message.relations.is_some()
        && (message.waits_for().is_some() || matches!(message.unique(), Unique::For(_)))
}

/// Relations of messages, one array for each column. The arrays stay empty as long as no message has any, which
/// reads as NULL for each row.
#[derive(Default)]
pub(crate) struct RelationColumns<'a> {
    without: usize,
    lanes: Vec<Option<&'a str>>,
    lanes_max: Vec<Option<i32>>,
    pub(crate) batches: Vec<Option<Uuid>>,
    waits_for: Vec<Option<Uuid>>,
    released: Vec<Option<bool>>,
}

impl<'a> RelationColumns<'a> {
    pub(crate) fn push(&mut self, message: &'a Message) {
        let relations = MessageRelations::of(message);
        if self.lanes.is_empty() && relations == MessageRelations::default() {
            self.without += 1;
            return;
        }
        for _ in 0..std::mem::take(&mut self.without) {
            self.add(MessageRelations::default());
        }
        self.add(relations);
    }

    fn add(&mut self, relations: MessageRelations<'a>) {
        self.lanes.push(relations.lane.map(|(name, _)| name));
        self.lanes_max.push(relations.lane.map(|(_, most)| most));
        self.batches.push(relations.batch);
        self.waits_for.push(relations.waits_for);
        self.released.push(relations.released);
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
    use punctual::model::{Body, Correlation, Headers, MessageId, Priority, Queue, Source, Topic};

    use super::*;

    fn message(relations: punctual::model::Relations) -> Message {
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
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: Some(Arc::new(relations)),
            route: None,
        }
    }

    #[test]
    fn arrays_are_empty_until_a_message_has_relations_and_then_have_all_rows() {
        let batch = BatchId::from_uuid(Uuid::from_u128(9));
        let unrelated = message(punctual::model::Relations::default());
        let related =
            message(punctual::model::Relations { batch: Some(batch), ..Default::default() });
        let mut columns = RelationColumns::default();
        columns.push(&unrelated);
        columns.push(&unrelated);
        assert!(columns.batches.is_empty() && columns.released.is_empty());
        columns.push(&related);
        columns.push(&unrelated);
        assert_eq!(columns.batches, [None, None, Some(batch.as_uuid()), None]);
        assert_eq!(
            (columns.lanes.len(), columns.lanes_max.len(), columns.released.len()),
            (4, 4, 4)
        );
    }
}
