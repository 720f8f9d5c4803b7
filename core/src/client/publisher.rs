//! The publisher: messages now and later. A message gets its identity, its due time and its trail
//! here; whether it goes straight to a transport or waits in the storage is the hold policy's word.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use crate::clock::{add, between, subtract};
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::Context;
use crate::middleware::{NextPublish, PublishEnd};
use crate::model::{
    Body, Headers, Key, Message, MessageId, Occurrence, Priority, Queue, Source, Terms, Topic,
    Trail, TransportName,
};
use crate::policy::{Hold, Means, cannot_wait, hold};
use crate::storage::{Enqueued, Entry};
use crate::transport::{Delay, Outgoing};

/// Sends messages. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    process: Arc<Process>,
    within: Option<Context>,
}

impl Publisher {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, within: None }
    }

    /// The same publisher inside an attempt: its messages carry the story on.
    pub(crate) fn within(mut self, context: Context) -> Self {
        self.within = Some(context);
        self
    }

    /// A message for a topic, sent when it is awaited.
    ///
    /// ```
    /// # async fn example(publisher: punctual::Publisher) -> punctual::Result<()> {
    /// use std::time::Duration;
    ///
    /// publisher.publish("welcome", "ada@example.com").await?;
    /// publisher.publish("reminder", "ada@example.com").after(Duration::from_secs(24 * 60 * 60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish<T: Serialize + ?Sized>(&self, topic: impl AsRef<str>, payload: &T) -> Publish {
        self.start(topic, Body::json(payload))
    }

    /// The same with a body that is already bytes.
    pub fn publish_body(&self, topic: impl AsRef<str>, body: Body) -> Publish {
        self.start(topic, Ok(body))
    }

    fn start(&self, topic: impl AsRef<str>, body: Result<Body>) -> Publish {
        let draft = Topic::new(topic).and_then(|topic| Ok(Draft::new(topic, body?)));
        Publish { publisher: self.clone(), draft }
    }

    /// Sends many messages; those for the storage in one step, all or nothing. Through middleware, and
    /// to a transport, each goes by itself.
    pub async fn publish_all(&self, messages: Vec<Publish>) -> Result<Vec<Published>> {
        let now = self.process.now();
        let (mut entries, mut places, mut published) = (Vec::new(), Vec::new(), Vec::new());
        for publish in messages {
            let (message, via, replace) = self.message(publish.draft?, now)?;
            if via.is_some() || !self.process.middleware.is_empty() {
                published.push(self.send(message, via, replace, now).await?);
            } else {
                check_wait(&self.process, &message, now)?;
                places.push(published.len());
                published.push(Published { id: message.id, duplicate_of: None });
                entries.push(Entry { message: Arc::new(message), replace });
            }
        }
        let answers = self.process.storage.enqueue(entries.clone(), now).await?;
        for ((entry, place), answer) in entries.iter().zip(places).zip(answers) {
            published[place] = tell(&self.process, &entry.message, answer);
        }
        Ok(published)
    }

    /// Checks a draft and gives it identity and time.
    fn message(
        &self,
        draft: Draft,
        now: Timestamp,
    ) -> Result<(Message, Option<TransportName>, bool)> {
        draft.body.check(self.process.options.payload_max)?;
        if let Some(terms) = &draft.terms {
            terms.retry.check()?;
        }
        let due_at = draft.due.at(now, self.process.options.past_tolerance, draft.allow_past)?;
        if let Some(name) =
            draft.via.as_ref().filter(|name| !self.process.transports.contains_key(*name))
        {
            return Err(Error::not_found(format!(
                "there is no transport {name:?}; give it to the builder first"
            )));
        }
        let mut trail = self.within.as_ref().map_or_else(Trail::default, Context::next_trail);
        if let Some(correlation) = draft.correlation {
            trail.correlation = Some(correlation);
        }
        let occurrence =
            draft.occurrence.map(|occurrence| Occurrence { nominal: due_at, ..occurrence });
        let message = Message {
            id: draft.id.unwrap_or_else(|| self.process.message_id(now)),
            queue: draft.via.as_ref().map_or(draft.queue, Queue::of_relay),
            topic: draft.topic,
            priority: draft.priority,
            due_at,
            created_at: now,
            source: draft.source,
            key: draft.key,
            dedupe: draft.dedupe,
            exclusive: false,
            body: draft.body,
            headers: draft.headers,
            trail,
            occurrence,
            terms: draft.terms.map(Arc::new),
        };
        Ok((message, draft.via, draft.replace))
    }

    async fn send(
        &self,
        message: Message,
        via: Option<TransportName>,
        replace: bool,
        now: Timestamp,
    ) -> Result<Published> {
        let end = End { process: &self.process, via, replace, now, published: Mutex::new(None) };
        let id = message.id;
        NextPublish::new(&self.process.middleware, &end).run(message).await?;
        let published = end.published.into_inner().unwrap_or_else(PoisonError::into_inner);
        published.ok_or_else(|| {
            Error::conflict("a middleware did not pass the message on").with("message", id)
        })
    }
}

/// Without a storage there is nowhere to wait.
fn check_wait(process: &Process, message: &Message, now: Timestamp) -> Result<()> {
    let wanted = between(now, message.due_at);
    let means = Means { native: Delay::None, storage: process.holds, prefer_storage: true };
    match hold(wanted, means) {
        Hold::Refuse => Err(cannot_wait(message.id, wanted, Delay::None)),
        _ => Ok(()),
    }
}

/// A message that is sent when it is awaited.
#[must_use = "a message is sent when it is awaited"]
pub struct Publish {
    publisher: Publisher,
    draft: Result<Draft>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its identity.
    pub id: MessageId,
    /// The message that is alive under the same deduplication key, when this one was not stored.
    pub duplicate_of: Option<MessageId>,
}

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) topic: Topic,
    pub(super) body: Body,
    pub(super) due: Due,
    pub(super) allow_past: bool,
    pub(super) id: Option<MessageId>,
    pub(super) queue: Queue,
    pub(super) priority: Priority,
    pub(super) source: Source,
    pub(super) key: Option<Key>,
    pub(super) dedupe: Option<Key>,
    pub(super) replace: bool,
    pub(super) headers: Headers,
    pub(super) correlation: Option<Arc<str>>,
    pub(super) occurrence: Option<Occurrence>,
    pub(super) terms: Option<Terms>,
    pub(super) via: Option<TransportName>,
}

impl Draft {
    fn new(topic: Topic, body: Body) -> Self {
        Self {
            topic,
            body,
            due: Due::Now,
            allow_past: false,
            id: None,
            queue: Queue::default(),
            priority: Priority::default(),
            source: Source::Published,
            key: None,
            dedupe: None,
            replace: false,
            headers: Headers::new(),
            correlation: None,
            occurrence: None,
            terms: None,
            via: None,
        }
    }
}

/// When a draft is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    Now,
    After(Duration),
    At(Timestamp),
}

impl Due {
    /// The instant, refused when it lies in the past by more than a tolerance.
    fn at(self, now: Timestamp, tolerance: Duration, allow_past: bool) -> Result<Timestamp> {
        match self {
            Self::Now => Ok(now),
            Self::After(wait) if add(now, wait) == Timestamp::MAX => Err(Error::invalid(format!(
                "a delay of {wait:?} reaches beyond the end of the year 9999; give a shorter one"
            ))),
            Self::After(wait) => Ok(add(now, wait)),
            Self::At(instant) if allow_past || instant >= subtract(now, tolerance) => Ok(instant),
            Self::At(instant) => Err(Error::invalid(format!(
                "the instant {instant} lies in the past (it is {now}); give a later one, or allow_past() to run it at once"
            ))),
        }
    }
}

impl Publish {
    pub(super) fn set(mut self, change: impl FnOnce(&mut Draft) -> Result<()>) -> Self {
        if let Ok(draft) = &mut self.draft
            && let Err(error) = change(draft)
        {
            self.draft = Err(error);
        }
        self
    }

    pub(super) fn edit(self, change: impl FnOnce(&mut Draft)) -> Self {
        self.set(|draft| {
            change(draft);
            Ok(())
        })
    }

    /// Not before this much later. Zero is at once.
    pub fn after(self, wait: Duration) -> Self {
        self.edit(|draft| draft.due = Due::After(wait))
    }

    /// Not before an instant. One in the past is refused, unless [`Publish::allow_past`] is given.
    pub fn at(self, instant: Timestamp) -> Self {
        self.edit(|draft| draft.due = Due::At(instant))
    }

    /// An instant in the past means at once.
    pub fn allow_past(self) -> Self {
        self.edit(|draft| draft.allow_past = true)
    }

    /// What the message is about.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.key = Some(Key::new(key)?);
            Ok(())
        })
    }

    /// While a message with the same value is alive, this one is a duplicate and not stored.
    pub fn unique(self, value: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.dedupe = Some(Key::new(value)?);
            Ok(())
        })
    }

    /// Takes the place of a pending message with the same [`Publish::unique`] value.
    pub fn replace(self) -> Self {
        self.edit(|draft| draft.replace = true)
    }

    /// The line it waits in.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.queue = Queue::new(queue)?;
            Ok(())
        })
    }

    /// How urgent it is, 0 (last) to 9 (first).
    pub fn priority(self, level: u8) -> Self {
        self.set(|draft| {
            draft.priority = Priority::new(level)?;
            Ok(())
        })
    }

    /// A header that travels along.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|draft| draft.headers.insert(name, value))
    }

    /// The story it belongs to; wins over the one inherited from a handler.
    pub fn correlation(self, correlation: impl AsRef<str>) -> Self {
        self.edit(|draft| draft.correlation = Some(Arc::from(correlation.as_ref())))
    }

    /// Its identity, so that sending it twice stores it once.
    pub fn id(self, id: MessageId) -> Self {
        self.edit(|draft| draft.id = Some(id))
    }

    /// The terms it is handled under, instead of its handler's.
    pub fn terms(self, terms: Terms) -> Self {
        self.edit(|draft| draft.terms = Some(terms))
    }

    /// The transport that carries it; without one the storage does.
    pub fn via(self, transport: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.via = Some(TransportName::new(transport)?);
            Ok(())
        })
    }
}

impl IntoFuture for Publish {
    type Output = Result<Published>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let publisher = self.publisher;
            let now = publisher.process.now();
            let (message, via, replace) = publisher.message(self.draft?, now)?;
            publisher.send(message, via, replace, now).await
        })
    }
}

/// The end of the publish chain: the transport, or the storage.
struct End<'a> {
    process: &'a Arc<Process>,
    via: Option<TransportName>,
    replace: bool,
    now: Timestamp,
    published: Mutex<Option<Published>>,
}

#[async_trait]
impl PublishEnd for End<'_> {
    async fn publish(&self, message: Message) -> Result<()> {
        let published = if let Some(name) = &self.via {
            self.carry(name, message).await?
        } else {
            check_wait(self.process, &message, self.now)?;
            self.store(message).await?
        };
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = Some(published);
        Ok(())
    }
}

impl End<'_> {
    async fn store(&self, message: Message) -> Result<Published> {
        let entry = Entry { message: Arc::new(message), replace: self.replace };
        let answers = self.process.storage.enqueue(vec![entry.clone()], self.now).await?;
        let answer = answers.first().copied().unwrap_or(Enqueued::Stored);
        Ok(tell(self.process, &entry.message, answer))
    }

    async fn carry(&self, name: &TransportName, message: Message) -> Result<Published> {
        let Some(transport) = self.process.transports.get(name) else {
            return Err(Error::not_found(format!("there is no transport {name:?}")));
        };
        let wanted = between(self.now, message.due_at);
        let native = transport.capabilities().publish_delay;
        let delay = match hold(
            wanted,
            Means { native, storage: self.process.holds, prefer_storage: false },
        ) {
            Hold::Send => Duration::ZERO,
            Hold::SendDelayed(delay) => delay,
            Hold::Keep(_) => {
                let (id, due_at) = (message.id, message.due_at);
                let published = self.store(message).await?;
                self.process.events.emit(Event::MessageHeld {
                    message: id,
                    transport: name.clone(),
                    due_at,
                });
                return Ok(published);
            }
            Hold::Refuse => return Err(cannot_wait(message.id, wanted, native)),
        };
        let id = message.id;
        let outgoing = Outgoing { message: Arc::new(message), delay, attempt: 0, group: None };
        transport.publish(vec![outgoing], self.now).await?;
        self.process.events.emit(Event::MessageRelayed { message: id, transport: name.clone() });
        Ok(Published { id, duplicate_of: None })
    }
}

/// Emits what the storage answered.
fn tell(process: &Process, message: &Message, answer: Enqueued) -> Published {
    match answer {
        Enqueued::Duplicate(alive) if alive != message.id => {
            let topic = message.topic.clone();
            process.events.emit(Event::MessageDuplicate { message: message.id, alive, topic });
            Published { id: message.id, duplicate_of: Some(alive) }
        }
        _ => {
            process.events.emit(Event::MessageEnqueued {
                message: message.id,
                topic: message.topic.clone(),
                queue: message.queue.clone(),
                due_at: message.due_at,
            });
            Published { id: message.id, duplicate_of: None }
        }
    }
}
