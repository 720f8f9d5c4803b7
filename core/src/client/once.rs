//! Once: a one-time job on its way into the storage. It takes the options of a published message; what is its
//! own is that it always waits in the storage and that a second one about the same key is a conflict.

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;

use super::publish::Draft;
use super::relations::about;
use super::{Publish, PublishResult};
use crate::error::{Error, Result};
use crate::model::{Body, HandlerOptions, MessageId, WhenInterrupted};
use crate::outbox::Outbox;
use crate::policy::Retry;
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
        self.publishing(|publish| publish.edit(change))
    }

    pub(crate) fn publishing(self, change: impl FnOnce(Publish) -> Publish) -> Self {
        Self { publish: change(self.publish) }
    }

    /// When it runs. An instant in the past is refused, unless [`Once::allow_past`] is given.
    pub fn at(self, instant: Timestamp) -> Self {
        self.publishing(|publish| publish.at(instant))
    }

    /// How long from now it runs.
    pub fn after(self, wait: Duration) -> Self {
        self.publishing(|publish| publish.after(wait))
    }

    /// An instant in the past means at once.
    pub fn allow_past(self) -> Self {
        self.publishing(Publish::allow_past)
    }

    /// What it is about. While one about the same is alive, a second one is a conflict.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.publishing(|publish| publish.key(key)).edit(|draft| {
            draft.dedupe = draft.key.as_ref().map(|key| about(&draft.topic, key));
        })
    }

    /// Takes the place of a pending one about the same key, instead of being a conflict.
    pub fn replace(self) -> Self {
        self.publishing(Publish::replace)
    }

    /// What its handler receives.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        let body = Body::json(payload);
        self.publishing(|publish| {
            publish.set(|draft| {
                draft.body = body?;
                Ok(())
            })
        })
    }

    /// How often it is tried again, and when; see [`Publish::retry`].
    pub fn retry(self, retry: Retry) -> Self {
        self.publishing(|publish| publish.retry(retry))
    }

    /// How long an attempt may take; see [`Publish::timeout`].
    pub fn timeout(self, timeout: Duration) -> Self {
        self.publishing(|publish| publish.timeout(timeout))
    }

    /// Whether it is run again when a crash or a shutdown has cut it off; see [`Publish::when_interrupted`].
    pub fn when_interrupted(self, when_interrupted: WhenInterrupted) -> Self {
        self.publishing(|publish| publish.when_interrupted(when_interrupted))
    }

    /// More terms; see [`Publish::handler_options`].
    pub fn handler_options(self, handler_options: HandlerOptions) -> Self {
        self.publishing(|publish| publish.handler_options(handler_options))
    }

    /// Not begun any more when it is later than this after its time; see [`Publish::expires_after`].
    pub fn expires_after(self, late: Duration) -> Self {
        self.publishing(|publish| publish.expires_after(late))
    }

    /// The queue it waits in.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.publishing(|publish| publish.queue(queue))
    }

    /// How urgent it is, 0 (last) to 9 (first).
    pub fn priority(self, level: u8) -> Self {
        self.publishing(|publish| publish.priority(level))
    }

    /// A header that travels along.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.publishing(|publish| publish.header(name, value))
    }

    /// The story it belongs to; see [`Publish::correlation`].
    pub fn correlation(self, correlation: impl AsRef<str>) -> Self {
        self.publishing(|publish| publish.correlation(correlation))
    }

    /// Its identity, so that planning it twice stores it once.
    pub fn id(self, id: MessageId) -> Self {
        self.publishing(|publish| publish.id(id))
    }

    /// How many with the same limit run at once; see [`Publish::limit`].
    pub fn limit(self, name: impl AsRef<str>, running_max: u32) -> Self {
        self.publishing(|publish| publish.limit(name, running_max))
    }

    /// How many with the same limit start in a span of time; see [`Publish::rate`].
    pub fn rate(self, name: impl AsRef<str>, count: u32, per: Duration) -> Self {
        self.publishing(|publish| publish.rate(name, count, per))
    }

    /// What follows when it is done; see [`Publish::then`].
    pub fn then(self, next: Publish) -> Self {
        self.publishing(|publish| publish.then(next))
    }

    /// What follows when it is given up; see [`Publish::on_failure`].
    pub fn on_failure(self, next: Publish) -> Self {
        self.publishing(|publish| publish.on_failure(next))
    }
}

impl Once {
    /// Stores it inside the caller's own transaction; see [`Publish::in_tx`].
    pub async fn in_tx<O: Outbox>(self, outbox: &mut O) -> Result<PublishResult> {
        alone(self.publish.in_tx(outbox).await?)
    }

    /// The message as it would be stored; see [`Publish::prepare`].
    pub async fn prepare(self) -> Result<Entry> {
        self.publish.prepare().await
    }
}

/// A second one about the same is a conflict.
fn alone(published: PublishResult) -> Result<PublishResult> {
    match published.duplicate_of {
        None => Ok(published),
        Some(alive) => Err(Error::conflict(
            "a one-time job of this name about this key is alive; cancel it first, or use replace()",
        )
        .with("alive", alive)),
    }
}

impl IntoFuture for Once {
    type Output = Result<PublishResult>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { alone(self.publish.await?) })
    }
}
