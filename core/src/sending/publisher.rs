//! Publisher: creates messages with their id, due time and correlation, and dispatches them to a transport or to the
//! storage.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::Sender;
use super::dispatch::{Destination, dispatch, entry};
use super::middleware_chain::{CaptureEnd, DispatchEnd};
use super::publish::{Draft, Publish, PublishResult};
use super::routing::Via;
use crate::compression::compress;
use crate::error::{Error, Result};
use crate::handler::{Context, States};
use crate::middleware::NextPublish;
use crate::model::time::whole_microseconds;
use crate::model::{
    Body, Correlation, GROUP_DEFAULT, IntoTopic, Message, MessageId, Occurrence, Queue, Relations,
};
use crate::outbox::Outbox;
use crate::storage::Entry;

/// Sends messages. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    sender: Arc<Sender>,
    /// The attempt whose messages it publishes.
    attempt: Option<Context>,
    /// Content type of payloads, when it is not the default.
    content_type: Option<Arc<str>>,
}

impl Publisher {
    pub(crate) fn new(sender: Arc<Sender>) -> Self {
        Self { sender, attempt: None, content_type: None }
    }

    pub(crate) fn sender(&self) -> &Arc<Sender> {
        &self.sender
    }

    /// Returns the largest size of a body in bytes.
    pub(crate) fn payload_max(&self) -> usize {
        self.sender.env.options.payload_max
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.sender.env.now()
    }

    /// Returns the instant from which drafts count. Before the first delayed draft the time of the storage is
    /// read, because a wrong clock of the machine would end a delay early and give a broker a wrong instant. A
    /// started process has read it already.
    async fn sent_at<'a>(&self, drafts: impl IntoIterator<Item = &'a Draft>) -> Timestamp {
        let sender = &self.sender;
        if sender.env.has_storage && drafts.into_iter().any(Draft::is_delayed) {
            sender.env.clock.follow_first(&*sender.env.storage).await;
        }
        sender.env.now()
    }

    /// Returns the states of the handlers.
    pub(crate) fn states(&self) -> &States {
        &self.sender.states
    }

    /// Returns the publisher of an attempt: its messages inherit the correlation.
    pub(crate) fn within(mut self, context: Context) -> Self {
        self.attempt = Some(context);
        self
    }

    /// Creates a message for a topic, sent when it is awaited: every subscribed group receives a copy.
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
    pub fn publish<T: Serialize + ?Sized>(&self, topic: impl IntoTopic, payload: &T) -> Publish {
        self.start(topic, self.written(payload))
    }

    /// Creates a message for the group [`GROUP_DEFAULT`] only, sent when it is awaited: one process receives it.
    /// By the storage, where a topic has one handler, it is the same as [`Publisher::publish`].
    pub fn send<T: Serialize + ?Sized>(&self, topic: impl IntoTopic, payload: &T) -> Publish {
        self.publish(topic, payload).group(GROUP_DEFAULT)
    }

    /// Creates a message like [`Publisher::publish`] from a serialized body.
    pub fn publish_body(&self, topic: impl IntoTopic, body: Body) -> Publish {
        self.start(topic, Ok(body))
    }

    /// Creates a message like [`Publisher::send`] from a serialized body.
    pub fn send_body(&self, topic: impl IntoTopic, body: Body) -> Publish {
        self.publish_body(topic, body).group(GROUP_DEFAULT)
    }

    /// Returns a publisher that serializes payloads as this content type; the builder must have a codec for it.
    ///
    /// ```
    /// # async fn example(publisher: punctual::Publisher) -> punctual::Result<()> {
    /// publisher.writing("application/msgpack").publish("reading", &[20.5, 21.0]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn writing(&self, content_type: impl Into<String>) -> Self {
        Self { content_type: Some(Arc::from(content_type.into())), ..self.clone() }
    }

    pub(super) fn start(&self, topic: impl IntoTopic, body: Result<Body>) -> Publish {
        let draft = topic.into_topic().and_then(|topic| Ok(Draft::new(topic, body?)));
        Publish { publisher: self.clone(), draft }
    }

    pub(crate) fn written<T: Serialize + ?Sized>(&self, payload: &T) -> Result<Body> {
        self.sender.outbound.codecs.write(payload, self.content_type.as_deref())
    }

    /// Sends many messages: those for the storage in one step, all or none, then one batch to each transport.
    /// With middleware each message is sent by itself. After an error any of the messages for transports may
    /// have been sent.
    pub async fn publish_all(&self, messages: Vec<Publish>) -> Result<Vec<PublishResult>> {
        let drafts = messages.iter().filter_map(|publish| publish.draft.as_ref().ok());
        let now = self.sent_at(drafts).await;
        let mut ready = Vec::with_capacity(messages.len());
        for publish in messages {
            ready.push(self.message(publish.draft?, now)?);
        }
        if !self.sender.middleware.is_empty() {
            let mut published = Vec::with_capacity(ready.len());
            for (message, destination) in ready {
                published.push(self.send_message(message, destination, now).await?);
            }
            return Ok(published);
        }
        dispatch(&self.sender, ready, now).await
    }

    /// Stores many messages in the caller's own transaction; see [`Publish::in_tx`].
    pub async fn publish_all_in_tx<O: Outbox>(
        &self,
        messages: Vec<Publish>,
        outbox: &mut O,
    ) -> Result<Vec<PublishResult>> {
        let mut entries = Vec::with_capacity(messages.len());
        for publish in messages {
            entries.push(publish.prepare().await?);
        }
        let now = self.sender.env.now();
        let ids: Vec<MessageId> = entries.iter().map(|entry| entry.message.id).collect();
        let results = outbox.enqueue(entries, now).await?;
        Ok(ids
            .into_iter()
            .zip(results)
            .map(|(id, result)| PublishResult::new(id, result))
            .collect())
    }

    /// Returns the destination of a draft.
    fn destination(&self, draft: &mut Draft) -> Result<Destination> {
        let via = match std::mem::replace(&mut draft.via, Via::Storage) {
            Via::Storage => None,
            Via::Routed => self.sender.outbound.route(&draft.topic).cloned(),
            Via::Transport(name) if self.sender.transports.contains_key(&name) => Some(name),
            Via::Transport(name) => {
                return Err(Error::not_found(format!(
                    "there is no transport {name:?}; give it to the builder first"
                )));
            }
        };
        let sending = draft.sending.unwrap_or(self.sender.outbound.sending);
        Ok(Destination { via, group: draft.group.take(), sending, replace: draft.replace })
    }

    /// Checks a draft and creates its message, with id and due time.
    fn message(&self, mut draft: Draft, now: Timestamp) -> Result<(Message, Destination)> {
        draft.body.check(self.sender.env.options.payload_max)?;
        draft.handler_options.check()?;
        draft.relations.check()?;
        let tolerance = self.sender.env.options.past_tolerance;
        // A given creation time makes a repeated call create an equal message.
        let latest = draft.created_at.unwrap_or_else(|| now.max(self.sender.env.clock.latest()));
        let now = draft.created_at.unwrap_or(now);
        let due_at = draft.due.at((now, latest), tolerance, draft.allow_past)?;
        let destination = self.destination(&mut draft)?;
        let mut correlation =
            self.attempt.as_ref().map_or_else(Correlation::default, Context::next_correlation);
        if let Some(id) = draft.correlation {
            correlation.id = Some(id);
        }
        let nominal = whole_microseconds(due_at);
        let occurrence = draft.occurrence.map(|occurrence| Occurrence { nominal, ..occurrence });
        let message = Message {
            id: draft.id.unwrap_or_else(|| self.sender.env.message_id(now)),
            queue: destination.via.as_ref().map_or(draft.queue, Queue::of_relay),
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
            correlation,
            occurrence,
            handler_options: (!draft.handler_options.is_empty())
                .then(|| Arc::new(draft.handler_options)),
            relations: (draft.relations != Relations::default()).then(|| Arc::new(draft.relations)),
            route: None,
        };
        Ok((message, destination))
    }

    /// Sends the message of a draft.
    pub(super) async fn publish_draft(&self, draft: Draft) -> Result<PublishResult> {
        let now = self.sent_at([&draft]).await;
        let (message, destination) = self.message(draft, now)?;
        self.send_message(message, destination, now).await
    }

    /// Returns the entry of a draft, which the caller stores.
    pub(super) async fn prepare(&self, draft: Draft) -> Result<Entry> {
        let (mut message, destination) = self.pass_middleware(draft).await?;
        compress(&mut message, self.sender.env.options.compress_above_bytes)?;
        Ok(entry(message, &destination))
    }

    /// Returns the message of a draft after the middleware, with its destination.
    async fn pass_middleware(&self, draft: Draft) -> Result<(Message, Destination)> {
        let now = self.sent_at([&draft]).await;
        let (message, destination) = self.message(draft, now)?;
        let id = message.id;
        let end = CaptureEnd::default();
        NextPublish::new(&self.sender.middleware, &end).run(message).await?;
        Ok((end.message().ok_or_else(|| not_passed_on(id))?, destination))
    }

    /// Stores the messages of drafts in one step, all or none, after the middleware has seen each.
    pub(super) async fn store_all(&self, messages: Vec<Publish>) -> Result<Vec<PublishResult>> {
        let mut ready = Vec::with_capacity(messages.len());
        for publish in messages {
            ready.push(self.pass_middleware(publish.draft?).await?);
        }
        dispatch(&self.sender, ready, self.sender.env.now()).await
    }

    /// Sends a message through the middleware.
    async fn send_message(
        &self,
        message: Message,
        destination: Destination,
        now: Timestamp,
    ) -> Result<PublishResult> {
        let end = DispatchEnd::new(&self.sender, destination, now);
        let id = message.id;
        NextPublish::new(&self.sender.middleware, &end).run(message).await?;
        end.published().ok_or_else(|| not_passed_on(id))
    }
}

fn not_passed_on(id: MessageId) -> Error {
    Error::conflict("a middleware did not pass the message on").with("message", id)
}
