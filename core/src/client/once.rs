//! Once: builder of a one-time job. It has the options of a published message, but is always stored, and a second
//! one with the same key is a conflict.

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::{Body, HandlerOptions, MessageId, Retry, WhenInterrupted};
use crate::outbox::Outbox;
use crate::sending::{Draft, Publish, PublishResult, topic_key};
use crate::storage::Entry;

/// A one-time job that is stored when it is awaited.
#[must_use = "a one-time job is stored when it is awaited"]
pub struct Once {
    publish: Publish,
}

impl Once {
    pub(super) fn new(publish: Publish) -> Self {
        Self { publish }
    }

    fn edit(self, change: impl FnOnce(&mut Draft)) -> Self {
        self.map(|publish| publish.edit(change))
    }

    pub(crate) fn map(self, change: impl FnOnce(Publish) -> Publish) -> Self {
        Self { publish: change(self.publish) }
    }

    /// Sets when it runs. An instant in the past is refused, unless [`Once::allow_past`] is set.
    pub fn at(self, instant: Timestamp) -> Self {
        self.map(|publish| publish.at(instant))
    }

    /// Sets how long from now it runs.
    pub fn after(self, wait: Duration) -> Self {
        self.map(|publish| publish.after(wait))
    }

    /// Runs immediately when the instant is in the past.
    pub fn allow_past(self) -> Self {
        self.map(Publish::allow_past)
    }

    /// Sets its key. While a one-time job of the same name and key is alive, a second one is a conflict.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.map(|publish| publish.key(key)).edit(|draft| {
            draft.dedupe = draft.key.as_ref().map(|key| topic_key(&draft.topic, key));
        })
    }

    /// Replaces a pending one with the same key, instead of being a conflict.
    pub fn replace(self) -> Self {
        self.map(Publish::replace)
    }

    /// Sets the payload for its handler.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        let body = Body::json(payload);
        self.map(|publish| {
            publish.set(|draft| {
                draft.body = body?;
                Ok(())
            })
        })
    }

    /// Sets its retries; see [`Publish::retry`].
    pub fn retry(self, retry: Retry) -> Self {
        self.map(|publish| publish.retry(retry))
    }

    /// Sets the timeout of an attempt; see [`Publish::timeout`].
    pub fn timeout(self, timeout: Duration) -> Self {
        self.map(|publish| publish.timeout(timeout))
    }

    /// Sets whether it runs again after a crash or a shutdown; see [`Publish::when_interrupted`].
    pub fn when_interrupted(self, when_interrupted: WhenInterrupted) -> Self {
        self.map(|publish| publish.when_interrupted(when_interrupted))
    }

    /// Sets more options; see [`Publish::handler_options`].
    pub fn handler_options(self, handler_options: HandlerOptions) -> Self {
        self.map(|publish| publish.handler_options(handler_options))
    }

    /// Skips it when it would begin later than this after its due time; see [`Publish::expires_after`].
    pub fn expires_after(self, late: Duration) -> Self {
        self.map(|publish| publish.expires_after(late))
    }

    /// Sets its queue.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.map(|publish| publish.queue(queue))
    }

    /// Sets its priority, 0 (last) to 9 (first).
    pub fn priority(self, level: u8) -> Self {
        self.map(|publish| publish.priority(level))
    }

    /// Adds a header.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.map(|publish| publish.header(name, value))
    }

    /// Sets its correlation id; see [`Publish::correlation`].
    pub fn correlation(self, correlation: impl AsRef<str>) -> Self {
        self.map(|publish| publish.correlation(correlation))
    }

    /// Sets its id, so that planning it twice stores it once.
    pub fn id(self, id: MessageId) -> Self {
        self.map(|publish| publish.id(id))
    }

    /// Limits how many with the same limit name run in parallel; see [`Publish::limit`].
    pub fn limit(self, name: impl AsRef<str>, running_max: u32) -> Self {
        self.map(|publish| publish.limit(name, running_max))
    }

    /// Limits how many with the same limit name start in a time window; see [`Publish::rate`].
    pub fn rate(self, name: impl AsRef<str>, count: u32, per: Duration) -> Self {
        self.map(|publish| publish.rate(name, count, per))
    }

    /// Adds a message that follows when it is done; see [`Publish::then`].
    pub fn then(self, next: Publish) -> Self {
        self.map(|publish| publish.then(next))
    }

    /// Adds a message that follows when it becomes a dead letter; see [`Publish::on_failure`].
    pub fn on_failure(self, next: Publish) -> Self {
        self.map(|publish| publish.on_failure(next))
    }
}

impl Once {
    /// Stores it in the caller's own transaction; see [`Publish::in_tx`].
    pub async fn in_tx<O: Outbox>(self, outbox: &mut O) -> Result<PublishResult> {
        refuse_duplicate(self.publish.in_tx(outbox).await?)
    }

    /// Returns the message as it would be stored; see [`Publish::prepare`].
    pub async fn prepare(self) -> Result<Entry> {
        self.publish.prepare().await
    }
}

/// Fails with a conflict when the job was not stored because one with the same key is alive.
fn refuse_duplicate(published: PublishResult) -> Result<PublishResult> {
    match published.duplicate_of {
        None => Ok(published),
        Some(alive) => Err(Error::conflict(
            "a one-time job of this name and key is alive; cancel it first, or use replace()",
        )
        .with("alive", alive)),
    }
}

impl IntoFuture for Once {
    type Output = Result<PublishResult>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { refuse_duplicate(self.publish.await?) })
    }
}
