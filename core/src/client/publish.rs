//! A message on its way: what it is, when it is due, and the ways to send it. Nothing happens until it
//! is awaited, or stored inside a transaction.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::via::Via;
use super::{Publisher, Sending};
use crate::clock::{add, subtract};
use crate::error::{Error, Result};
use crate::model::{
    Body, HandlerOptions, Headers, Key, MessageId, Occurrence, Priority, Queue, Relations, Source,
    Topic, WhenInterrupted,
};
use crate::outbox::Outbox;
use crate::policy::Retry;
use crate::storage::{EnqueueResult, Entry};

/// A message that is sent when it is awaited.
#[must_use = "a message is sent when it is awaited"]
pub struct Publish {
    pub(super) publisher: Publisher,
    pub(super) draft: Result<Draft>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishResult {
    /// Its identity.
    pub id: MessageId,
    /// The message that is alive under the same deduplication key, when this one was not stored.
    pub duplicate_of: Option<MessageId>,
}

impl PublishResult {
    pub(super) fn new(id: MessageId, answer: EnqueueResult) -> Self {
        let duplicate_of = match answer {
            EnqueueResult::Duplicate(alive) if alive != id => Some(alive),
            _ => None,
        };
        Self { id, duplicate_of }
    }
}

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) topic: Topic,
    pub(super) body: Body,
    pub(super) due: Due,
    pub(super) allow_past: bool,
    pub(super) id: Option<MessageId>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) queue: Queue,
    pub(super) priority: Priority,
    pub(super) source: Source,
    pub(super) key: Option<Key>,
    pub(super) dedupe: Option<Key>,
    pub(super) replace: bool,
    pub(super) headers: Headers,
    pub(super) correlation: Option<Arc<str>>,
    pub(super) occurrence: Option<Occurrence>,
    pub(super) handler_options: HandlerOptions,
    pub(super) relations: Relations,
    pub(super) via: Via,
    pub(super) group: Option<String>,
    pub(super) sending: Option<Sending>,
}

impl Draft {
    pub(super) fn new(topic: Topic, body: Body) -> Self {
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

    /// Whether it is meant for later, so that the time at which it is sent matters.
    pub(super) fn is_delayed(&self) -> bool {
        !matches!(self.due, Due::Now | Due::After(Duration::ZERO))
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
    /// Returns the instant; refuses one that lies in the past by more than a tolerance. A delay counts from
    /// the latest instant that it may be, so that it is never shorter than was asked for.
    pub(super) fn at(
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

    /// The same, but wrong: awaiting it answers the error.
    #[cfg(feature = "chrono")]
    pub(crate) fn refused(self, error: Error) -> Self {
        self.set(|_| Err(error))
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

    /// Counts as made at an instant that has passed: delays count from it, and whether [`Publish::at`] lies in
    /// the past is judged by it. With [`Publish::id`] the repeat of a call makes an equal message.
    pub fn created_at(self, instant: Timestamp) -> Self {
        self.edit(|draft| draft.created_at = Some(instant))
    }

    /// What it says itself about its attempts. Each field that is set wins over the handler's; the others,
    /// and those set on it before, stay.
    pub fn handler_options(self, handler_options: HandlerOptions) -> Self {
        self.edit(|draft| draft.handler_options = draft.handler_options.overlaid(&handler_options))
    }

    /// How often it is tried again, and when; wins over its handler's retries.
    pub fn retry(self, retry: Retry) -> Self {
        self.edit(|draft| draft.handler_options.retry = Some(retry))
    }

    /// How long an attempt may take; wins over its handler's timeout. Zero takes that one away, so that the
    /// default of the process applies.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.edit(|draft| draft.handler_options.timeout = Some(timeout))
    }

    /// Whether it is handled again when a crash or a shutdown has cut off an attempt; wins over what its
    /// handler says. What a broker delivers is delivered again after a crash, whatever is said here; see
    /// [`Subscribe::at_most_once`](crate::Subscribe::at_most_once).
    pub fn when_interrupted(self, when_interrupted: WhenInterrupted) -> Self {
        self.edit(|draft| draft.handler_options.when_interrupted = Some(when_interrupted))
    }
}

impl Publish {
    /// Stores it inside the caller's own transaction, together with the caller's writes: invisible
    /// until the commit, gone after a rollback. One bound for a transport waits in the storage for the
    /// relay, so that it is sent if and only if the transaction commits.
    ///
    /// The outbox is made by the storage from the open transaction. Middleware has seen the message;
    /// no event tells of it, because nobody knows yet whether it will be.
    pub async fn in_tx<O: Outbox>(self, outbox: &mut O) -> Result<PublishResult> {
        let publisher = self.publisher.clone();
        let entry = self.prepare().await?;
        let (id, now) = (entry.message.id, publisher.now());
        let answers = outbox.enqueue(vec![entry], now).await?;
        Ok(PublishResult::new(id, answers.first().copied().unwrap_or(EnqueueResult::Stored)))
    }

    /// The message as it would be stored: checked, with identity and due time, and past the
    /// middleware. For an outbox that is not asynchronous.
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
