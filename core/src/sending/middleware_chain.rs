//! Middleware chain of a publish: its two ends, which dispatch the message or return it to the caller.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use super::dispatch::{Destination, dispatch};
use super::{PublishResult, Sender};
use crate::error::Result;
use crate::middleware::PublishEnd;
use crate::model::Message;

/// The end of the chain of a message that is dispatched.
pub(super) struct DispatchEnd<'a> {
    sender: &'a Sender,
    destination: Destination,
    now: Timestamp,
    published: Mutex<Option<PublishResult>>,
}

impl<'a> DispatchEnd<'a> {
    pub(super) fn new(sender: &'a Sender, destination: Destination, now: Timestamp) -> Self {
        Self { sender, destination, now, published: Mutex::new(None) }
    }

    /// Returns the result; `None` when a middleware did not pass the message on.
    pub(super) fn published(self) -> Option<PublishResult> {
        self.published.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PublishEnd for DispatchEnd<'_> {
    async fn publish(&self, message: Message) -> Result<()> {
        let messages = vec![(message, self.destination.clone())];
        let published = dispatch(self.sender, messages, self.now).await?.pop();
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = published;
        Ok(())
    }
}

/// The end of the chain of a message that the caller stores.
#[derive(Default)]
pub(super) struct CaptureEnd(Mutex<Option<Message>>);

impl CaptureEnd {
    pub(super) fn message(self) -> Option<Message> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PublishEnd for CaptureEnd {
    async fn publish(&self, message: Message) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(message);
        Ok(())
    }
}
