//! Answering a request: said by the handler while it runs, or returned for whoever follows.

use std::sync::PoisonError;

use serde::Serialize;

use super::Context;
use crate::error::Result;
use crate::model::{Body, noted};

impl Context {
    /// Whether somebody waits for a reply to this message.
    pub fn is_asked(&self) -> bool {
        self.parts().message.headers.get(noted::REPLY_TO).is_some()
    }

    /// Answers a request. Refused for a message that nobody asked with.
    ///
    /// The reply leaves at once, whatever becomes of the attempt; the first one counts. A handler that
    /// must have finished before it is answered uses [`Context::returns`], which answers when it is done.
    pub async fn reply<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        let body = self.parts().publisher.written(value)?;
        self.reply_body(body).await
    }

    /// The same with a body that is already bytes.
    pub async fn reply_body(&self, body: Body) -> Result<()> {
        self.publisher().reply(&self.parts().message, body).await?;
        self.parts().said.replied();
        Ok(())
    }

    /// Answers with what the handler returned, unless it answered by itself.
    pub(super) async fn answer(&self) -> Result<()> {
        let result = self.parts().result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match result {
            Some(body) if !self.parts().said.has_replied() => self.reply_body(body).await,
            _ => Ok(()),
        }
    }
}
