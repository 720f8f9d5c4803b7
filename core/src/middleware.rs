//! The contract of middleware: something around every publish and every attempt. A plain chain in
//! the order of registration, the first one outermost; two methods everyone can write.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::handler::{Context, HandlerResult, Prepared};
use crate::model::Message;

/// Something around every publish and every attempt. Both methods pass through by default.
#[async_trait]
pub trait Middleware: Send + Sync + 'static {
    /// Around the publishing of a message; may change it, refuse it, or look at what came of it.
    async fn around_publish(&self, message: Message, next: NextPublish<'_>) -> Result<()> {
        next.run(message).await
    }

    /// Around one attempt; may look at the context before and at the result after, or not call on.
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

    /// Goes on with a message.
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

    /// Goes on with the attempt.
    pub async fn run(self, context: Context) -> HandlerResult {
        match self.rest.split_first() {
            Some((first, rest)) => {
                first.around_handle(context, NextHandle { rest, handler: self.handler }).await
            }
            None => (self.handler)(context).await,
        }
    }
}
