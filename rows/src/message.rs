//! A message as columns. What every message has is a column of its own; what few have is in one JSON
//! column, which is empty for most.

use std::borrow::Cow;
use std::sync::Arc;

use punctual::bytes::Bytes;
use punctual::model::{
    Body, DeadReason, Headers, Key, Lease, MessageId, MessageRecord, Occurrence, Priority,
    ProcessId, Progress, Queue, Source, State, Terms, Ties, Topic, Trail,
};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind, Message, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::instant::instant;

const JSON: &str = "application/json";

/// What few messages have.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Extra<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Cow<'a, Headers>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trail: Option<Cow<'a, Trail>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<Cow<'a, Occurrence>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terms: Option<Arc<Terms>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ties: Option<Arc<Ties>>,
}

/// The JSON column of a message; none for most.
pub fn extra(message: &Message) -> Result<Option<String>> {
    let plain = message.body.content_type == JSON
        && message.headers.is_empty()
        && message.trail == Trail::default()
        && message.occurrence.is_none()
        && message.terms.is_none()
        && message.ties.is_none();
    if plain {
        return Ok(None);
    }
    let content_type = &message.body.content_type;
    let extra = Extra {
        content_type: (content_type != JSON).then(|| Cow::Borrowed(&**content_type)),
        headers: (!message.headers.is_empty()).then_some(Cow::Borrowed(&message.headers)),
        trail: (message.trail != Trail::default()).then_some(Cow::Borrowed(&message.trail)),
        occurrence: message.occurrence.as_ref().map(Cow::Borrowed),
        terms: message.terms.clone(),
        ties: message.ties.clone(),
    };
    serde_json::to_string(&extra).map(Some).map_err(|error| {
        Error::internal(format!("the message {} cannot be written down: {error}", message.id))
            .caused_by(error)
    })
}

/// The columns of what was sent, as they were read.
pub struct Sent<'a> {
    /// The id.
    pub id: Uuid,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue: &'a str,
    /// The priority, 0 to 9.
    pub priority: i16,
    /// When it was first meant to be due.
    pub planned_at: i64,
    /// When it was made.
    pub created_at: i64,
    /// The code of its source.
    pub source: i16,
    /// What it is about.
    pub key: Option<&'a str>,
    /// The deduplication key.
    pub dedupe: Option<&'a str>,
    /// Whether it waits for its job's other messages.
    pub exclusive: bool,
    /// The body's bytes.
    pub body: Bytes,
    /// The JSON column.
    pub extra: Option<&'a str>,
}

/// The names of the message read last: the next one mostly has the same and shares them.
#[derive(Default)]
pub struct Names {
    topic: Option<Topic>,
    queue: Option<Queue>,
}

impl Names {
    fn topic(&mut self, text: &str) -> Result<Topic> {
        match &self.topic {
            Some(topic) if topic.as_str() == text => Ok(topic.clone()),
            _ => Ok(self.topic.insert(Topic::stored(text)?).clone()),
        }
    }

    fn queue(&mut self, text: &str) -> Queue {
        match &self.queue {
            Some(queue) if queue.as_str() == text => queue.clone(),
            _ => self.queue.insert(Queue::from(text.to_owned())).clone(),
        }
    }
}

impl Sent<'_> {
    /// The message these columns hold.
    pub fn message(self) -> Result<Message> {
        self.message_with(&mut Names::default())
    }

    /// The same, sharing the names of the one before.
    pub fn message_with(self, names: &mut Names) -> Result<Message> {
        let id = MessageId::from_uuid(self.id);
        let extra: Extra<'_> = match self.extra {
            None => Extra::default(),
            Some(text) => serde_json::from_str(text).map_err(|error| {
                corrupt(id, &format!("its JSON column cannot be read: {error}"))
            })?,
        };
        let content_type =
            extra.content_type.map_or(Cow::Borrowed(JSON), |given| Cow::Owned(given.into_owned()));
        Ok(Message {
            id,
            topic: names.topic(self.topic).map_err(|error| corrupt(id, &error.to_string()))?,
            queue: names.queue(self.queue),
            priority: u8::try_from(self.priority)
                .ok()
                .and_then(|level| Priority::new(level).ok())
                .ok_or_else(|| corrupt(id, &format!("its priority is {}", self.priority)))?,
            due_at: instant(self.planned_at)?,
            created_at: instant(self.created_at)?,
            source: Source::from_code(self.source)?,
            key: self.key.map(Key::written),
            dedupe: self.dedupe.map(Key::written),
            exclusive: self.exclusive,
            body: Body { bytes: self.body, content_type },
            headers: extra.headers.map(Cow::into_owned).unwrap_or_default(),
            trail: extra.trail.map(Cow::into_owned).unwrap_or_default(),
            occurrence: extra.occurrence.map(Cow::into_owned),
            terms: extra.terms,
            ties: extra.ties,
        })
    }
}

/// The columns of where a message stands, as they were read.
#[derive(Default)]
pub struct Standing<'a> {
    /// The code of its state.
    pub state: i16,
    /// When it is due now.
    pub due_at: i64,
    /// Attempts spent.
    pub attempt: i32,
    /// Processes lost.
    pub crashes: i32,
    /// Snoozes so far.
    pub snoozes: i32,
    /// Owner, token and end of its lease.
    pub lease: Option<(Uuid, i64, i64)>,
    /// Whether a cancel was asked for.
    pub cancel_requested: bool,
    /// The last failure.
    pub error: Option<&'a str>,
    /// The code of why it is dead.
    pub dead: Option<i16>,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// How far its handler is, as [`kept`] wrote it.
    pub progress: Option<&'a str>,
    /// Where its handler goes on, as [`kept`] wrote it.
    pub checkpoint: Option<&'a str>,
}

impl Standing<'_> {
    /// The record these columns hold of a message.
    pub fn record(self, message: Message) -> Result<MessageRecord> {
        let lease = self.lease.map(|(owner, token, until)| lease(owner, token, until));
        Ok(MessageRecord {
            state: State::from_code(self.state)?,
            due_at: instant(self.due_at)?,
            attempt: count(self.attempt),
            crashes: count(self.crashes),
            snoozes: count(self.snoozes),
            lease: lease.transpose()?,
            cancel_requested: self.cancel_requested,
            error: self.error.map(Arc::from),
            dead: self.dead.map(DeadReason::from_code).transpose()?,
            ended_at: self.ended_at.map(instant).transpose()?,
            progress: self.progress.map(read_kept::<Progress>).transpose()?,
            checkpoint: self.checkpoint.map(read_kept::<Body>).transpose()?,
            message: Arc::new(message),
        })
    }
}

/// What a handler said while it worked, for a column of text: its progress, or its checkpoint.
pub fn kept<T: Serialize>(said: &T) -> Result<String> {
    serde_json::to_string(said).map_err(|error| {
        Error::internal(format!("what a handler said cannot be written down: {error}"))
            .caused_by(error)
    })
}

/// The same, read back.
pub fn read_kept<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("what a handler said is damaged: {error}"))
    })
}

/// The lease three columns hold.
pub fn lease(owner: Uuid, token: i64, until: i64) -> Result<Lease> {
    let token = u64::try_from(token).map_err(|_| {
        Error::new(ErrorKind::Corrupt, format!("the stored token {token} is negative"))
    })?;
    Ok(Lease { owner: ProcessId::from_uuid(owner), token, until: instant(until)? })
}

/// A count for a column.
pub fn column(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The count a column holds.
pub fn count(column: i32) -> u32 {
    u32::try_from(column).unwrap_or(0)
}

fn corrupt(id: MessageId, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the stored message {id} is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instant::micros;
    use punctual::Retry;
    use punctual::jiff::Timestamp;
    use punctual::model::{BatchId, ExecutionId, JobName, Rescue};

    fn full() -> Message {
        let nominal = Timestamp::from_second(1_700_000_000).unwrap();
        let job = JobName::new("nightly").unwrap();
        let mut headers = Headers::new();
        headers.insert("tenant", "żółw").unwrap();
        Message {
            id: MessageId::from_uuid(Uuid::from_u128(7)),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::of_group(&Topic::new("mail").unwrap(), "billing"),
            priority: Priority::new(9).unwrap(),
            due_at: nominal,
            created_at: nominal,
            source: Source::Scheduled,
            key: Some(Key::new("ada").unwrap()),
            dedupe: Some(Occurrence::identity(&job, nominal)),
            exclusive: true,
            body: Body::raw(vec![0, 1, 2], "application/octet-stream"),
            headers,
            trail: Trail {
                correlation: Some(Arc::from("story")),
                causation: Some(ExecutionId::from_uuid(Uuid::from_u128(8))),
                sequence: 3,
            },
            occurrence: Some(Occurrence { job, nominal, schedule: None, misfire: None }),
            terms: Some(Arc::new(
                Terms::new().retry(Retry::proportional()).rescue(Rescue::AsFailure),
            )),
            ties: Some(Arc::new(Ties {
                batch: Some(BatchId::from_uuid(Uuid::from_u128(9))),
                ..Ties::default()
            })),
        }
    }

    fn read(message: &Message) -> Result<Message> {
        let extra = extra(message)?;
        Sent {
            id: message.id.as_uuid(),
            topic: message.topic.as_str(),
            queue: message.queue.as_str(),
            priority: i16::from(message.priority.level()),
            planned_at: micros(message.due_at),
            created_at: micros(message.created_at),
            source: message.source.code(),
            key: message.key.as_ref().map(Key::as_str),
            dedupe: message.dedupe.as_ref().map(Key::as_str),
            exclusive: message.exclusive,
            body: message.body.bytes.clone(),
            extra: extra.as_deref(),
        }
        .message()
    }

    #[test]
    fn a_message_with_everything_reads_back() {
        assert_eq!(read(&full()).unwrap(), full());
    }

    #[test]
    fn a_plain_message_has_no_json_column_and_reads_back() {
        let plain = Message {
            body: Body::json(&1).unwrap(),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
            ..full()
        };
        assert_eq!(extra(&plain).unwrap(), None);
        assert_eq!(read(&plain).unwrap(), plain);
    }

    #[test]
    fn a_damaged_row_is_named_by_its_id() {
        let sent = Sent {
            id: Uuid::from_u128(7),
            topic: "mail",
            queue: "default",
            priority: 5,
            planned_at: 0,
            created_at: 0,
            source: 0,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Bytes::new(),
            extra: Some("{"),
        };
        let error = sent.message().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("000000000007"), "{error}");
    }
}
