//! Reply to a request: sent by the handler while it runs, or after it is done from its result.

use std::sync::PoisonError;

use serde::Serialize;

use super::Context;
use crate::error::Result;
use crate::model::{Body, reserved_headers};

impl Context {
    /// Returns whether a process waits for a reply to this message.
    pub fn expects_reply(&self) -> bool {
        self.parts().message.headers.get(reserved_headers::REPLY_TO).is_some()
    }

    /// Replies to a request. Fails for a message that expects no reply.
    ///
    /// The reply is sent immediately, regardless of how the attempt ends; the first one counts. To reply only when
    /// the handler is done, use [`Context::returns`].
    pub async fn reply<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        let body = self.parts().publisher.written(value)?;
        self.reply_body(body).await
    }

    /// Replies like [`Context::reply`] with a serialized body.
    pub async fn reply_body(&self, body: Body) -> Result<()> {
        self.publisher().reply(&self.parts().message, body).await?;
        self.parts().reports.set_replied();
        Ok(())
    }

    /// Replies with the result of the handler, unless it has replied itself.
    pub(super) async fn reply_with_result(&self) -> Result<()> {
        let result = self.parts().result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match result {
            Some(body) if !self.parts().reports.has_replied() => self.reply_body(body).await,
            _ => Ok(()),
        }
    }
}
