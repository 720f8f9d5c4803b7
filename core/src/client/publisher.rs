//! The publisher: messages now and later. A message gets its identity, its due time and its trail
//! here; whether it goes straight to a transport or waits in the storage is the hold policy's word.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::dispatch::{Leaving, Way, entry, tell};
use super::middleware_chain::{End, Kept};
use super::publish::{Draft, Publish, PublishResult};
use super::via::Via;
use crate::builtin::GROUP_DEFAULT;
use crate::clock::{between, whole_microseconds};
use crate::compression::compress;
use crate::engine::Process;
use crate::error::{Error, Result};
use crate::handler::{Context, States};
use crate::middleware::NextPublish;
use crate::model::{
    Body, Correlation, IntoTopic, Message, MessageId, Occurrence, Queue, Relations,
};
use crate::outbox::Outbox;
use crate::policy::{DelayOptions, HoldDecision, cannot_wait, hold};
use crate::storage::Entry;
use crate::transport::Delay;

/// Sends messages. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    process: Arc<Process>,
    within: Option<Context>,
    /// What payloads are written as, when that was said.
    writing: Option<Arc<str>>,
}

impl Publisher {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, within: None, writing: None }
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

    /// Returns the instant that drafts count from. Before the first one that is delayed, the storage is asked
    /// for its time: by a wrong clock of the machine a delay would end early, and a broker would be given a
    /// wrong instant. A process that was started knows the time already.
    async fn sent_at<'a>(&self, drafts: impl IntoIterator<Item = &'a Draft>) -> Timestamp {
        let process = &self.process;
        if process.holds && drafts.into_iter().any(Draft::is_delayed) {
            process.clock.follow_first(&*process.storage).await;
        }
        process.now()
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

    /// A message for a topic, sent when it is awaited: every group that has subscribed gets a copy.
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

    /// A message for one owner, sent when it is awaited: whoever works for the group
    /// [`GROUP_DEFAULT`] gets it, and nobody else gets a copy. Through the storage, where a topic has one
    /// handler, it is the same as [`Publisher::publish`].
    pub fn send<T: Serialize + ?Sized>(&self, topic: impl IntoTopic, payload: &T) -> Publish {
        self.publish(topic, payload).group(GROUP_DEFAULT)
    }

    /// The same as [`Publisher::publish`] with a body that is already bytes.
    pub fn publish_body(&self, topic: impl IntoTopic, body: Body) -> Publish {
        self.start(topic, Ok(body))
    }

    /// The same as [`Publisher::send`] with a body that is already bytes.
    pub fn send_body(&self, topic: impl IntoTopic, body: Body) -> Publish {
        self.publish_body(topic, body).group(GROUP_DEFAULT)
    }

    /// The same publisher, which writes payloads as this content type; the builder has to know a codec
    /// for it.
    ///
    /// ```
    /// # async fn example(publisher: punctual::Publisher) -> punctual::Result<()> {
    /// publisher.writing("application/msgpack").publish("reading", &[20.5, 21.0]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn writing(&self, content_type: impl Into<String>) -> Self {
        Self { writing: Some(Arc::from(content_type.into())), ..self.clone() }
    }

    pub(super) fn start(&self, topic: impl IntoTopic, body: Result<Body>) -> Publish {
        let draft = topic.into_topic().and_then(|topic| Ok(Draft::new(topic, body?)));
        Publish { publisher: self.clone(), draft }
    }

    pub(crate) fn written<T: Serialize + ?Sized>(&self, payload: &T) -> Result<Body> {
        self.process.outbound.codecs.write(payload, self.writing.as_deref())
    }

    /// Sends many messages: those for the storage in one step, all or nothing, then one batch to each
    /// transport. Through middleware each goes by itself. After an error any part of what was bound for
    /// transports may have been sent.
    pub async fn publish_all(&self, messages: Vec<Publish>) -> Result<Vec<PublishResult>> {
        let drafts = messages.iter().filter_map(|publish| publish.draft.as_ref().ok());
        let now = self.sent_at(drafts).await;
        if !self.process.middleware.is_empty() {
            // All are checked before the first one leaves.
            let mut ready = Vec::with_capacity(messages.len());
            for publish in messages {
                ready.push(self.message(publish.draft?, now)?);
            }
            let mut published = Vec::with_capacity(ready.len());
            for (message, way) in ready {
                published.push(self.pass(message, way, now).await?);
            }
            return Ok(published);
        }
        let mut leaving = Leaving::new(&self.process, now);
        for publish in messages {
            let (message, way) = self.message(publish.draft?, now)?;
            leaving.add(message, way)?;
        }
        leaving.leave().await
    }

    /// Stores many messages inside the caller's own transaction; see [`Publish::in_tx`].
    pub async fn publish_all_in_tx<O: Outbox>(
        &self,
        messages: Vec<Publish>,
        outbox: &mut O,
    ) -> Result<Vec<PublishResult>> {
        let mut entries = Vec::with_capacity(messages.len());
        for publish in messages {
            entries.push(publish.prepare().await?);
        }
        let now = self.process.now();
        let ids: Vec<MessageId> = entries.iter().map(|entry| entry.message.id).collect();
        let answers = outbox.enqueue(entries, now).await?;
        Ok(ids
            .into_iter()
            .zip(answers)
            .map(|(id, answer)| PublishResult::new(id, answer))
            .collect())
    }

    /// Stores what was prepared, in one step, all or nothing.
    pub(super) async fn enqueue(&self, entries: Vec<Entry>) -> Result<Vec<PublishResult>> {
        let now = self.process.now();
        for entry in &entries {
            check_wait(&self.process, &entry.message, now)?;
        }
        let answers = self.process.storage.enqueue(entries.clone(), now).await?;
        let told = entries.iter().zip(answers);
        Ok(told.map(|(entry, answer)| tell(&self.process, &entry.message, answer)).collect())
    }

    /// Who carries a draft.
    fn way(&self, draft: &mut Draft) -> Result<Way> {
        let via = match std::mem::replace(&mut draft.via, Via::Storage) {
            Via::Storage => None,
            Via::Routed => self.process.outbound.route(&draft.topic).cloned(),
            Via::Transport(name) if self.process.transports.contains_key(&name) => Some(name),
            Via::Transport(name) => {
                return Err(Error::not_found(format!(
                    "there is no transport {name:?}; give it to the builder first"
                )));
            }
        };
        let sending = draft.sending.unwrap_or(self.process.outbound.sending);
        Ok(Way { via, group: draft.group.take(), sending, replace: draft.replace })
    }

    /// Checks a draft and gives it identity and time.
    fn message(&self, mut draft: Draft, now: Timestamp) -> Result<(Message, Way)> {
        draft.body.check(self.process.options.payload_max)?;
        draft.handler_options.check()?;
        draft.relations.check()?;
        let tolerance = self.process.options.past_tolerance;
        // What counts as made at a given instant is the same whenever it is made again.
        let latest = draft.created_at.unwrap_or_else(|| now.max(self.process.clock.latest()));
        let now = draft.created_at.unwrap_or(now);
        let due_at = draft.due.at((now, latest), tolerance, draft.allow_past)?;
        let way = self.way(&mut draft)?;
        let mut correlation =
            self.within.as_ref().map_or_else(Correlation::default, Context::next_correlation);
        if let Some(id) = draft.correlation {
            correlation.id = Some(id);
        }
        let nominal = whole_microseconds(due_at);
        let occurrence = draft.occurrence.map(|occurrence| Occurrence { nominal, ..occurrence });
        let message = Message {
            id: draft.id.unwrap_or_else(|| self.process.message_id(now)),
            queue: way.via.as_ref().map_or(draft.queue, Queue::of_relay),
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
        };
        Ok((message, way))
    }

    /// Sends what a draft says.
    pub(super) async fn publish_draft(&self, draft: Draft) -> Result<PublishResult> {
        let now = self.sent_at([&draft]).await;
        let (message, way) = self.message(draft, now)?;
        self.pass(message, way, now).await
    }

    /// Makes what a draft says ready to be stored by somebody else.
    pub(super) async fn prepare(&self, draft: Draft) -> Result<Entry> {
        let now = self.sent_at([&draft]).await;
        let (message, way) = self.message(draft, now)?;
        let id = message.id;
        let end = Kept::default();
        NextPublish::new(&self.process.middleware, &end).run(message).await?;
        let mut message = end.message().ok_or_else(|| not_passed_on(id))?;
        compress(&mut message, self.process.options.compress_above)?;
        Ok(entry(message, &way))
    }

    /// Sends a message through the middleware.
    async fn pass(&self, message: Message, way: Way, now: Timestamp) -> Result<PublishResult> {
        let end = End::new(&self.process, way, now);
        let id = message.id;
        NextPublish::new(&self.process.middleware, &end).run(message).await?;
        end.published().ok_or_else(|| not_passed_on(id))
    }
}

/// Without a storage there is nowhere to wait.
fn check_wait(process: &Process, message: &Message, now: Timestamp) -> Result<()> {
    let wanted = between(now, message.due_at);
    let means = DelayOptions { native: Delay::None, storage: process.holds, prefer_storage: true };
    match hold(wanted, means) {
        HoldDecision::Refuse => Err(cannot_wait(message.id, wanted, Delay::None)),
        _ => Ok(()),
    }
}

fn not_passed_on(id: MessageId) -> Error {
    Error::conflict("a middleware did not pass the message on").with("message", id)
}
