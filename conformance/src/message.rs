//! A message of which only the parts that matter are said.

use punctual::jiff::Timestamp;
use punctual::model::{
    Body, Correlation, Headers, IdSource, Ids, Message, MessageId, Priority, Queue, Source, Topic,
};

/// A message that is published and due at an instant, to a topic, with a body and nothing else.
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
    }
}
