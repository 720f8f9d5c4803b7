//! Middleware contract: code around every publish and every attempt. A plain chain in the order of
//! registration, the first one outermost; two methods.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::handler::{Context, HandlerResult, Prepared};
use crate::model::Message;

/// Code around every publish and every attempt. Both methods pass through by default.
#[async_trait]
pub trait Middleware: Send + Sync + 'static {
    /// Runs around the publishing of a message; may change the message, refuse it, or read the result.
    async fn around_publish(&self, message: Message, next: NextPublish<'_>) -> Result<()> {
        next.run(message).await
    }

    /// Runs around one attempt; may read the context before and the result after, or not call `next`.
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        next.run(context).await
    }
}

/// The end of the publish chain.
#[async_trait]
pub(crate) trait PublishEnd: Send + Sync {
    async fn publish(&self, message: Message) -> Result<()>;
}

/// The rest of the chain around a publish.
pub struct NextPublish<'a> {
    rest: &'a [Arc<dyn Middleware>],
    end: &'a dyn PublishEnd,
}

impl<'a> NextPublish<'a> {
    pub(crate) fn new(rest: &'a [Arc<dyn Middleware>], end: &'a dyn PublishEnd) -> Self {
        Self { rest, end }
    }

    /// Calls the rest of the chain with a message.
    pub async fn run(self, message: Message) -> Result<()> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                first.around_publish(message, NextPublish { rest, end: self.end }).await
            }
            None => self.end.publish(message).await,
        }
    }
}

/// The rest of the chain around an attempt.
pub struct NextHandle<'a> {
    rest: &'a [Arc<dyn Middleware>],
    handler: Prepared<'a>,
}

impl<'a> NextHandle<'a> {
    pub(crate) fn new(rest: &'a [Arc<dyn Middleware>], handler: Prepared<'a>) -> Self {
        Self { rest, handler }
    }

    /// Calls the rest of the chain with the context of the attempt.
    pub async fn run(self, context: Context) -> HandlerResult {
        match self.rest.split_first() {
            Some((first, rest)) => {
                first.around_handle(context, NextHandle { rest, handler: self.handler }).await
            }
            None => (self.handler)(context).await,
        }
    }
}
