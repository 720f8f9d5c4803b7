//! The publisher: messages now and later. A message gets its identity, its due time and its trail
//! here; whether it goes straight to a transport or waits in the storage is the hold policy's word.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use super::publish::{Draft, Publish, Published};
use crate::clock::between;
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::{Context, States};
use crate::middleware::{NextPublish, PublishEnd};
use crate::model::{
    Body, Message, MessageId, Occurrence, Queue, Ties, Topic, Trail, TransportName,
};
use crate::outbox::Outbox;
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

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The most bytes a body may have.
    pub(crate) fn payload_max(&self) -> usize {
        self.process.options.payload_max
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.process.now()
    }

    /// What the handlers of this process share.
    pub(crate) fn states(&self) -> &States {
        &self.process.states
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

    /// Stores many messages inside the caller's own transaction; see [`Publish::in_tx`].
    pub async fn publish_all_in_tx<O: Outbox>(
        &self,
        messages: Vec<Publish>,
        outbox: &mut O,
    ) -> Result<Vec<Published>> {
        let now = self.process.now();
        let mut entries = Vec::with_capacity(messages.len());
        for publish in messages {
            entries.push(publish.prepare().await?);
        }
        let ids: Vec<MessageId> = entries.iter().map(|entry| entry.message.id).collect();
        let answers = outbox.enqueue(entries, now).await?;
        Ok(ids.into_iter().zip(answers).map(|(id, answer)| Published::new(id, answer)).collect())
    }

    /// Stores what was prepared, in one step, all or nothing.
    pub(super) async fn enqueue(&self, entries: Vec<Entry>) -> Result<Vec<Published>> {
        let now = self.process.now();
        for entry in &entries {
            check_wait(&self.process, &entry.message, now)?;
        }
        let answers = self.process.storage.enqueue(entries.clone(), now).await?;
        let told = entries.iter().zip(answers);
        Ok(told.map(|(entry, answer)| tell(&self.process, &entry.message, answer)).collect())
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
        draft.ties.check()?;
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
            ties: (draft.ties != Ties::default()).then(|| Arc::new(draft.ties)),
        };
        Ok((message, draft.via, draft.replace))
    }

    /// Sends what a draft says.
    pub(super) async fn publish_draft(&self, draft: Draft) -> Result<Published> {
        let now = self.process.now();
        let (message, via, replace) = self.message(draft, now)?;
        self.send(message, via, replace, now).await
    }

    /// Makes what a draft says ready to be stored by somebody else.
    pub(super) async fn prepare(&self, draft: Draft) -> Result<Entry> {
        let (message, _, replace) = self.message(draft, self.process.now())?;
        let id = message.id;
        let end = Kept(Mutex::new(None));
        NextPublish::new(&self.process.middleware, &end).run(message).await?;
        let kept = end.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let message = kept.ok_or_else(|| not_passed_on(id))?;
        Ok(Entry { message: Arc::new(message), replace })
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
        published.ok_or_else(|| not_passed_on(id))
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

/// The end of the publish chain of a message that somebody else stores.
struct Kept(Mutex<Option<Message>>);

#[async_trait]
impl PublishEnd for Kept {
    async fn publish(&self, message: Message) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
        Ok(())
    }
}

fn not_passed_on(id: MessageId) -> Error {
    Error::conflict("a middleware did not pass the message on").with("message", id)
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
    let published = Published::new(message.id, answer);
    let topic = message.topic.clone();
    process.events.emit(match published.duplicate_of {
        Some(alive) => Event::MessageDuplicate { message: message.id, alive, topic },
        None => Event::MessageEnqueued {
            message: message.id,
            topic,
            queue: message.queue.clone(),
            due_at: message.due_at,
        },
    });
    published
}
