//! The two ends of the publish chain: a message leaves, or somebody else stores it.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use super::PublishResult;
use super::dispatch::{Way, send_one};
use crate::engine::Process;
use crate::error::Result;
use crate::middleware::PublishEnd;
use crate::model::Message;

/// The end of the chain of a message that leaves now.
pub(super) struct End<'a> {
    process: &'a Process,
    way: Way,
    now: Timestamp,
    published: Mutex<Option<PublishResult>>,
}

impl<'a> End<'a> {
    pub(super) fn new(process: &'a Process, way: Way, now: Timestamp) -> Self {
        Self { process, way, now, published: Mutex::new(None) }
    }

    /// What became of it; nothing when a middleware kept it.
    pub(super) fn published(self) -> Option<PublishResult> {
        self.published.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PublishEnd for End<'_> {
    async fn publish(&self, message: Message) -> Result<()> {
        let published = send_one(self.process, message, &self.way, self.now).await?;
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = Some(published);
        Ok(())
    }
}

/// The end of the chain of a message that somebody else stores.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<Message>>);

impl Kept {
    pub(super) fn message(self) -> Option<Message> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PublishEnd for Kept {
    async fn publish(&self, message: Message) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
        Ok(())
    }
}
