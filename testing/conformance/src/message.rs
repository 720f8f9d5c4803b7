//! Message for tests with default values in most fields.

use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Correlation, Headers, IdSource, Ids, Message, MessageId, Priority, Queue, Source, Topic,
};

/// Returns a message that is published and due at `now`, with a topic and a body and no other data.
pub(crate) fn plain(ids: &Ids, topic: &str, body: Body, now: Timestamp) -> Message {
    Message {
        id: MessageId::from_uuid(ids.next(now)),
        topic: Topic::new(topic).unwrap(),
        queue: Queue::default(),
        priority: Priority::NORMAL,
        due_at: now,
        created_at: now,
        source: Source::Published,
        key: None,
        dedupe: None,
        exclusive: false,
        body,
        headers: Headers::new(),
        correlation: Correlation::default(),
        occurrence: None,
        handler_options: None,
        relations: None,
        route: None,
    }
}
