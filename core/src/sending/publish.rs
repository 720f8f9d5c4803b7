//! Publish: builder of a message to send. Nothing happens until it is awaited, or stored in a transaction.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::routing::Via;
use super::{Publisher, Sending};
use crate::error::{Error, Result};
use crate::model::time::{add, subtract};
use crate::model::{
    Body, HandlerOptions, Headers, Key, MessageId, Occurrence, Priority, Queue, Relations, Retry,
    Source, Topic, WhenInterrupted,
};
use crate::outbox::Outbox;
use crate::storage::{EnqueueResult, Entry};

/// A message that is sent when it is awaited.
#[must_use = "a message is sent when it is awaited"]
pub struct Publish {
    pub(crate) publisher: Publisher,
    pub(crate) draft: Result<Draft>,
}

/// The result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishResult {
    /// Id of the message.
    pub id: MessageId,
    /// The message that is alive under the same deduplication key, when this one was not stored.
    pub duplicate_of: Option<MessageId>,
}

impl PublishResult {
    pub(crate) fn new(id: MessageId, result: EnqueueResult) -> Self {
        let duplicate_of = match result {
            EnqueueResult::Duplicate(alive) if alive != id => Some(alive),
            _ => None,
        };
        Self { id, duplicate_of }
    }
}

#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) topic: Topic,
    pub(crate) body: Body,
    pub(crate) due: Due,
    pub(crate) allow_past: bool,
    pub(crate) id: Option<MessageId>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) queue: Queue,
    pub(crate) priority: Priority,
    pub(crate) source: Source,
    pub(crate) key: Option<Key>,
    pub(crate) dedupe: Option<Key>,
    pub(crate) replace: bool,
    pub(crate) headers: Headers,
    pub(crate) correlation: Option<Arc<str>>,
    pub(crate) occurrence: Option<Occurrence>,
    pub(crate) handler_options: HandlerOptions,
    pub(crate) relations: Relations,
    pub(crate) via: Via,
    pub(crate) group: Option<String>,
    pub(crate) sending: Option<Sending>,
}

impl Draft {
    pub(crate) fn new(topic: Topic, body: Body) -> Self {
        Self {
            topic,
            body,
            due: Due::Now,
            allow_past: false,
            id: None,
            created_at: None,
            queue: Queue::default(),
            priority: Priority::default(),
            source: Source::Published,
            key: None,
            dedupe: None,
            replace: false,
            headers: Headers::new(),
            correlation: None,
            occurrence: None,
            handler_options: HandlerOptions::default(),
            relations: Relations::default(),
            via: Via::Routed,
            group: None,
            sending: None,
        }
    }

    /// Returns whether it is due later than now, so that the time at which it is sent matters.
    pub(crate) fn is_delayed(&self) -> bool {
        !matches!(self.due, Due::Now | Due::After(Duration::ZERO))
    }
}

/// When a draft is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    Now,
    After(Duration),
    At(Timestamp),
}

impl Due {
    /// Returns the due instant; fails when it is in the past by more than a tolerance. A delay counts from the
    /// latest instant that the current time can be, so that it is never too short.
    pub(crate) fn at(
        self,
        (now, latest): (Timestamp, Timestamp),
        tolerance: Duration,
        allow_past: bool,
    ) -> Result<Timestamp> {
        match self {
            Self::Now | Self::After(Duration::ZERO) => Ok(now),
            Self::After(wait) if add(latest, wait) == Timestamp::MAX => {
                Err(Error::invalid(format!(
                    "a delay of {wait:?} reaches beyond the end of the year 9999; give a shorter one"
                )))
            }
            Self::After(wait) => Ok(add(latest, wait)),
            Self::At(instant) if allow_past || instant >= subtract(now, tolerance) => Ok(instant),
            Self::At(instant) => Err(Error::invalid(format!(
                "the instant {instant} is in the past (it is {now}); give a later one, or allow_past() to run it immediately"
            ))),
        }
    }
}

impl Publish {
    pub(crate) fn set(mut self, change: impl FnOnce(&mut Draft) -> Result<()>) -> Self {
        if let Ok(draft) = &mut self.draft
            && let Err(error) = change(draft)
        {
            self.draft = Err(error);
        }
        self
    }

    /// Makes awaiting it fail with an error.
    #[cfg(feature = "chrono")]
    pub(crate) fn refused(self, error: Error) -> Self {
        self.set(|_| Err(error))
    }

    pub(crate) fn edit(self, change: impl FnOnce(&mut Draft)) -> Self {
        self.set(|draft| {
            change(draft);
            Ok(())
        })
    }

    /// Delays it by at least this duration. Zero means now.
    pub fn after(self, wait: Duration) -> Self {
        self.edit(|draft| draft.due = Due::After(wait))
    }

    /// Delays it until at least an instant. An instant in the past is refused, unless
    /// [`Publish::allow_past`] is set.
    pub fn at(self, instant: Timestamp) -> Self {
        self.edit(|draft| draft.due = Due::At(instant))
    }

    /// Sends immediately when the instant is in the past.
    pub fn allow_past(self) -> Self {
        self.edit(|draft| draft.allow_past = true)
    }

    /// Sets the key of the message: its entity, such as an order number.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.key = Some(Key::new(key)?);
            Ok(())
        })
    }

    /// Sets a deduplication key: while a message with the same key is alive, this one is not stored.
    pub fn unique(self, value: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.dedupe = Some(Key::new(value)?);
            Ok(())
        })
    }

    /// Replaces a pending message with the same [`Publish::unique`] value.
    pub fn replace(self) -> Self {
        self.edit(|draft| draft.replace = true)
    }

    /// Sets its queue.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.set(|draft| {
            draft.queue = Queue::new(queue)?;
            Ok(())
        })
    }

    /// Sets its priority, 0 (last) to 9 (first).
    pub fn priority(self, level: u8) -> Self {
        self.set(|draft| {
            draft.priority = Priority::new(level)?;
            Ok(())
        })
    }

    /// Adds a header.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|draft| draft.headers.insert(name, value))
    }

    /// Sets its correlation id; overrides the one inherited from a handler.
    pub fn correlation(self, correlation: impl AsRef<str>) -> Self {
        self.edit(|draft| draft.correlation = Some(Arc::from(correlation.as_ref())))
    }

    /// Sets its id, so that sending it twice stores it once.
    pub fn id(self, id: MessageId) -> Self {
        self.edit(|draft| draft.id = Some(id))
    }

    /// Sets the instant at which it counts as created: delays count from it, and [`Publish::at`] is compared
    /// with it. Together with [`Publish::id`], a repeated call creates an equal message.
    pub fn created_at(self, instant: Timestamp) -> Self {
        self.edit(|draft| draft.created_at = Some(instant))
    }

    /// Sets options of its attempts. Each field that is set overrides the handler's; fields set before stay
    /// unless they are set again.
    pub fn handler_options(self, handler_options: HandlerOptions) -> Self {
        self.edit(|draft| draft.handler_options = draft.handler_options.overlaid(&handler_options))
    }

    /// Sets its retries; overrides those of its handler.
    pub fn retry(self, retry: Retry) -> Self {
        self.edit(|draft| draft.handler_options.retry = Some(retry))
    }

    /// Sets the timeout of an attempt; overrides that of its handler. Zero removes the handler's timeout, so
    /// that the default of the process applies.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.edit(|draft| draft.handler_options.timeout = Some(timeout))
    }

    /// Sets whether it is handled again when a crash or a shutdown interrupted an attempt; overrides its
    /// handler's choice. A broker delivers its messages again after a crash regardless of this; see
    /// [`Subscribe::at_most_once`](crate::Subscribe::at_most_once).
    pub fn when_interrupted(self, when_interrupted: WhenInterrupted) -> Self {
        self.edit(|draft| draft.handler_options.when_interrupted = Some(when_interrupted))
    }
}

impl Publish {
    /// Stores it in the caller's own transaction: invisible until the commit, discarded by a rollback. A
    /// message for a transport is stored for the relay, so that it is sent if and only if the transaction
    /// commits.
    ///
    /// The storage creates the outbox from the open transaction. Middleware runs; no event is emitted, because
    /// the transaction may still roll back.
    pub async fn in_tx<O: Outbox>(self, outbox: &mut O) -> Result<PublishResult> {
        let publisher = self.publisher.clone();
        let entry = self.prepare().await?;
        let (id, now) = (entry.message.id, publisher.now());
        let results = outbox.enqueue(vec![entry], now).await?;
        Ok(PublishResult::new(id, results.first().copied().unwrap_or(EnqueueResult::Stored)))
    }

    /// Returns the message as it would be stored: checked, with id and due time, after the middleware. For
    /// an outbox that is not asynchronous.
    pub async fn prepare(self) -> Result<Entry> {
        self.publisher.prepare(self.draft?).await
    }
}

impl IntoFuture for Publish {
    type Output = Result<PublishResult>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.publisher.publish_draft(self.draft?).await })
    }
}
