//! Messages as columns. Fields that every message has are columns of their own; rarely used fields share one JSON
//! column, which is NULL for most messages.

use std::borrow::Cow;
use std::sync::Arc;

use punctual::bytes::Bytes;
use punctual::model::{
    Body, Correlation, DeadReason, DueTime, END_OF_TIME, HandlerOptions, Headers, Key, Lease,
    MessageId, MessagePause, MessageRecord, MessageState, Occurrence, Priority, ProcessId,
    Progress, Queue, Relations, Route, Source, Topic,
};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind, Message, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::instant::{instant, micros_up};

const JSON: &str = "application/json";

/// Rarely used fields of a message: the content of the JSON column.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Extra<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Cow<'a, Headers>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "trail")]
    correlation: Option<Cow<'a, Correlation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<Cow<'a, Occurrence>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "terms")]
    handler_options: Option<Arc<HandlerOptions>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "ties")]
    relations: Option<Arc<Relations>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<Arc<Route>>,
}

/// Serializes the JSON column of a message; returns none for most messages.
pub fn extra(message: &Message) -> Result<Option<String>> {
    let route = message.route.as_ref().filter(|route| !route.is_plain());
    let plain = message.body.content_type == JSON
        && message.headers.is_empty()
        && message.correlation == Correlation::default()
        && message.occurrence.is_none()
        && message.handler_options.is_none()
        && message.relations.is_none()
        && route.is_none();
    if plain {
        return Ok(None);
    }
    let content_type = &message.body.content_type;
    let extra = Extra {
        content_type: (content_type != JSON).then(|| Cow::Borrowed(&**content_type)),
        headers: (!message.headers.is_empty()).then_some(Cow::Borrowed(&message.headers)),
        correlation: (message.correlation != Correlation::default())
            .then_some(Cow::Borrowed(&message.correlation)),
        occurrence: message.occurrence.as_ref().map(Cow::Borrowed),
        handler_options: message.handler_options.clone(),
        relations: message.relations.clone(),
        route: route.cloned(),
    };
    serde_json::to_string(&extra).map(Some).map_err(|error| {
        Error::internal(format!("the message {} cannot be serialized: {error}", message.id))
            .caused_by(error)
    })
}

/// Name of the pause in the JSON column.
const PAUSED: &str = "paused";

/// Serializes the JSON column of a record: that of its message, with its pause.
pub fn extra_of(record: &MessageRecord) -> Result<Option<String>> {
    let extra = extra(&record.message)?;
    match &record.paused {
        None => Ok(extra),
        paused => with_pause(extra.as_deref(), paused.as_ref()),
    }
}

/// Replaces or removes the pause in a JSON column and keeps the other fields.
pub fn with_pause(extra: Option<&str>, paused: Option<&MessagePause>) -> Result<Option<String>> {
    let damaged = |error: serde_json::Error| {
        Error::new(ErrorKind::Corrupt, format!("the JSON column of a message is damaged: {error}"))
    };
    let mut object: serde_json::Map<String, serde_json::Value> =
        extra.map_or_else(|| Ok(serde_json::Map::new()), serde_json::from_str).map_err(damaged)?;
    match paused {
        Some(paused) => {
            object.insert(PAUSED.to_owned(), serde_json::to_value(paused).map_err(damaged)?);
        }
        None => {
            object.remove(PAUSED);
        }
    }
    if object.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&object).map(Some).map_err(damaged)
}

/// Decodes the due time of a message, with its pause. Only a message that is due at the end of time can be paused,
/// so the JSON column of all others is not parsed.
pub fn due_time(due_at: i64, extra: Option<&str>) -> Result<DueTime> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PauseField {
        paused: Option<MessagePause>,
    }
    let paused = match extra {
        Some(text) if due_at == micros_up(END_OF_TIME) => {
            let field: PauseField = serde_json::from_str(text).map_err(|error| {
                let text = format!("the pause of a message cannot be read: {error}");
                Error::new(ErrorKind::Corrupt, text)
            })?;
            field.paused
        }
        _ => None,
    };
    Ok(DueTime { due_at: instant(due_at)?, paused })
}

/// Columns of a message as it was sent, as read from a row.
pub struct MessageColumns<'a> {
    /// Id of the message.
    pub id: Uuid,
    /// Topic of the message.
    pub topic: &'a str,
    /// Queue of the message.
    pub queue: &'a str,
    /// Priority, 0 to 9.
    pub priority: i16,
    /// Due time at publishing, in microseconds.
    pub planned_at: i64,
    /// Creation time, in microseconds.
    pub created_at: i64,
    /// Code of the source.
    pub source: i16,
    /// Key of the message.
    pub key: Option<&'a str>,
    /// Deduplication key.
    pub dedupe: Option<&'a str>,
    /// Whether the message never runs at the same time as another one of its job.
    pub exclusive: bool,
    /// Bytes of the body.
    pub body: Bytes,
    /// JSON column.
    pub extra: Option<&'a str>,
}

/// Topic and queue of the message read last; the next message usually has the same and shares the allocations.
#[derive(Default)]
pub struct NameCache {
    topic: Option<Topic>,
    queue: Option<Queue>,
}

impl NameCache {
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

impl MessageColumns<'_> {
    /// Decodes the message.
    pub fn message(self) -> Result<Message> {
        self.message_with(&mut NameCache::default())
    }

    /// Decodes the message and shares topic and queue with the message before.
    pub fn message_with(self, names: &mut NameCache) -> Result<Message> {
        let id = MessageId::from_uuid(self.id);
        let extra: Extra<'_> = match self.extra {
            None => Extra::default(),
            Some(text) => serde_json::from_str(text).map_err(|error| {
                corrupt(id, &format!("its JSON column cannot be read: {error}"))
            })?,
        };
        let content_type =
            extra.content_type.map_or(Cow::Borrowed(JSON), |given| Cow::Owned(given.into_owned()));
        let mut message = Message {
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
            key: self.key.map(Key::stored),
            dedupe: self.dedupe.map(Key::stored),
            exclusive: self.exclusive,
            body: Body { bytes: self.body, content_type },
            headers: extra.headers.map(Cow::into_owned).unwrap_or_default(),
            correlation: extra.correlation.map(Cow::into_owned).unwrap_or_default(),
            occurrence: extra.occurrence.map(Cow::into_owned),
            handler_options: extra.handler_options,
            relations: extra.relations,
            route: extra.route,
        };
        message.restore_route();
        Ok(message)
    }
}

/// Columns of the current state of a message, as read from a row.
#[derive(Default)]
pub struct StateColumns<'a> {
    /// Code of the state.
    pub state: i16,
    /// Current due time, in microseconds.
    pub due_at: i64,
    /// JSON column, which contains the pause.
    pub extra: Option<&'a str>,
    /// Attempts so far.
    pub attempt: i32,
    /// Processes that crashed while running the message.
    pub crashes: i32,
    /// Snoozes so far.
    pub snoozes: i32,
    /// Owner, token and end of the lease.
    pub lease: Option<(Uuid, i64, i64)>,
    /// Whether cancellation was requested.
    pub cancel_requested: bool,
    /// Error of the last failed attempt.
    pub error: Option<&'a str>,
    /// Code of the reason of a dead letter.
    pub dead: Option<i16>,
    /// End of the message, in microseconds.
    pub ended_at: Option<i64>,
    /// Progress of the handler, as encoded by [`progress_to_json`].
    pub progress: Option<&'a str>,
    /// Checkpoint from which the handler resumes, as encoded by [`progress_to_json`].
    pub checkpoint: Option<&'a str>,
}

impl StateColumns<'_> {
    /// Builds the record of a message from these columns.
    pub fn record(self, message: Message) -> Result<MessageRecord> {
        let lease = self.lease.map(|(owner, token, until)| lease(owner, token, until));
        let DueTime { due_at, paused } = due_time(self.due_at, self.extra)?;
        Ok(MessageRecord {
            state: MessageState::from_code(self.state)?,
            due_at,
            paused,
            attempt: count_from_column(self.attempt),
            crashes: count_from_column(self.crashes),
            snoozes: count_from_column(self.snoozes),
            lease: lease.transpose()?,
            cancel_requested: self.cancel_requested,
            error: self.error.map(Arc::from),
            dead: self.dead.map(DeadReason::from_code).transpose()?,
            ended_at: self.ended_at.map(instant).transpose()?,
            progress: self.progress.map(progress_from_json::<Progress>).transpose()?,
            checkpoint: self.checkpoint.map(progress_from_json::<Body>).transpose()?,
            message: Arc::new(message),
        })
    }
}

/// Serializes the progress or the checkpoint of a handler for a text column.
pub fn progress_to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::internal(format!("the progress of a handler cannot be serialized: {error}"))
            .caused_by(error)
    })
}

/// Deserializes the progress or the checkpoint of a handler.
pub fn progress_from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the stored progress of a handler is damaged: {error}"),
        )
    })
}

/// Decodes a lease from its three columns.
pub fn lease(owner: Uuid, token: i64, until: i64) -> Result<Lease> {
    let token = u64::try_from(token).map_err(|_| {
        Error::new(ErrorKind::Corrupt, format!("the stored token {token} is negative"))
    })?;
    Ok(Lease { owner: ProcessId::from_uuid(owner), token, until: instant(until)? })
}

/// Converts a count for a column.
pub fn count_to_column(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Decodes the count of a column.
pub fn count_from_column(column: i32) -> u32 {
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
    use punctual::model::{BatchId, ExecutionId, JobName, Rescue, TransportName};

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
            correlation: Correlation {
                id: Some(Arc::from("order-7")),
                causation: Some(ExecutionId::from_uuid(Uuid::from_u128(8))),
                sequence: 3,
            },
            occurrence: Some(Occurrence { job, nominal, schedule: None, misfire: None }),
            handler_options: Some(Arc::new(
                HandlerOptions::new().retry(Retry::proportional()).rescue(Rescue::AsFailure),
            )),
            relations: Some(Arc::new(Relations {
                batch: Some(BatchId::from_uuid(Uuid::from_u128(9))),
                ..Relations::default()
            })),
            route: None,
        }
    }

    fn plain() -> Message {
        Message {
            body: Body::json(&1).unwrap(),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            ..full()
        }
    }

    fn columns() -> MessageColumns<'static> {
        MessageColumns {
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
            extra: None,
        }
    }

    fn read(message: &Message) -> Result<Message> {
        let extra = extra(message)?;
        MessageColumns {
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
        let plain = plain();
        assert_eq!(extra(&plain).unwrap(), None);
        assert_eq!(read(&plain).unwrap(), plain);
    }

    #[test]
    fn a_route_reads_back_and_a_plain_one_follows_from_the_queue() {
        let transport = TransportName::new("post").unwrap();
        let queue = Queue::of_relay(&transport);
        let route = Route::new(transport);
        let returning = Route { group: Some(Arc::from("office")), attempt: 2, ..route.clone() };
        for (route, is_stored) in [(route, false), (returning, true)] {
            let (queue, route) = (queue.clone(), Some(Arc::new(route)));
            let held = Message { queue, route, ..plain() };
            assert_eq!(extra(&held).unwrap().is_some(), is_stored);
            assert_eq!(read(&held).unwrap(), held);
        }
    }

    #[test]
    fn a_route_that_an_earlier_version_stored_in_headers_reads_as_a_route() {
        let extra = r#"{"headers":{"punctual-attempt":"2","punctual-due":"2026-03-02T07:00:00Z",
            "punctual-group":"office","punctual-snoozes":"1","tenant":"acme"}}"#;
        let row = MessageColumns { queue: "~relay/post", extra: Some(extra), ..columns() };
        let message = row.message().unwrap();
        let route = Route {
            group: Some(Arc::from("office")),
            attempt: 2,
            snoozes: 1,
            first_due_at: Some("2026-03-02T07:00:00Z".parse().unwrap()),
            ..Route::new(TransportName::new("post").unwrap())
        };
        assert_eq!(message.route.as_deref(), Some(&route));
        let headers: Vec<_> = message.headers.iter().collect();
        assert_eq!((headers, message.headers.len()), (vec![("tenant", "acme")], 1));
    }

    #[test]
    fn a_damaged_row_is_named_by_its_id() {
        let sent = MessageColumns { extra: Some("{"), ..columns() };
        let error = sent.message().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("000000000007"), "{error}");
    }
}
