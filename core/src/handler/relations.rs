//! Relations of a handler's message to other messages and attempts: parent and follow-ups, batch, concurrent runs,
//! and the checkpoint for the next attempt.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Context;
use crate::error::{Error, Result};
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{BatchId, Body, Execution, Message, MessageState, Parent};
use crate::policy::Verdict;
use crate::sending::follow_ups;
use crate::storage::{ExtendResult, ProgressUpdate};

impl Context {
    /// Sets the result of this message, for the messages that follow it and as the reply to a request; the last
    /// value counts.
    pub fn returns<T: Serialize + ?Sized>(&self, result: &T) -> Result<()> {
        let result = Body::json(result)?;
        result.check(self.parts().publisher.payload_max())?;
        *self.parts().result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    }

    /// Returns the message that this message follows, with its ending and result.
    pub fn parent(&self) -> Option<&Parent> {
        self.parts().message.relations.as_ref()?.parent.as_ref()
    }

    /// Returns the result of the message that this message follows; `None` without a result or a parent.
    pub fn parent_result<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.parent().and_then(|parent| parent.result.as_ref()).map(Body::read).transpose()
    }

    /// Returns the batch this message belongs to.
    pub fn batch(&self) -> Option<BatchId> {
        self.parts().message.batch()
    }

    /// Returns the batch this message waited for.
    pub fn waited_for(&self) -> Option<BatchId> {
        self.parts().message.waits_for()
    }

    /// Returns the number of messages in each state of the batch this message waited for; empty when it waited
    /// for none. Finished ones count until they are pruned.
    pub async fn batch_counts(&self) -> Result<BTreeMap<MessageState, u64>> {
        match self.waited_for() {
            Some(batch) => self.parts().publisher.sender().env.inspect.batch(batch).await,
            None => Ok(BTreeMap::new()),
        }
    }

    /// Returns the number of other running messages of the same job, or of the same topic for a message without
    /// a job, on all processes. For a handler that skips its work while another one runs.
    pub async fn others_running(&self) -> Result<usize> {
        let mut filter =
            MessageFilter { states: vec![MessageState::Running], ..MessageFilter::default() };
        match self.job() {
            Some(job) => filter.job = Some(job.clone()),
            None => filter.topic = Some(self.topic().clone()),
        }
        let inspect = &self.parts().publisher.sender().env.inspect;
        let running = inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?;
        Ok(running.rows.iter().filter(|row| row.message.id != self.message_id()).count())
    }

    /// Saves a checkpoint: after a failure or a crash the next attempt reads it with [`Context::resumed`]. Fails
    /// for a message that a broker delivered, and when the lease is lost.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, value: &T) -> Result<()> {
        let checkpoint = Body::json(value)?;
        checkpoint.check(self.parts().publisher.payload_max())?;
        let Some(lease) = self.parts().lease else {
            return Err(Error::unsupported(format!(
                "the message {} came from a broker, which has no checkpoints; store the checkpoint in a database of the application",
                self.message_id()
            )));
        };
        let update = ProgressUpdate { lease, progress: None, checkpoint: Some(checkpoint) };
        let env = &self.parts().publisher.sender().env;
        let results = env.storage.save_progress(vec![update], env.now()).await?;
        match results.first() {
            Some(ExtendResult::Held | ExtendResult::CancelRequested) => Ok(()),
            Some(ExtendResult::Lost) | None => Err(Error::conflict(format!(
                "the lease of the message {} is lost; the checkpoint was not saved, stop the handler",
                self.message_id()
            ))),
        }
    }

    /// Returns the last checkpoint of an earlier attempt; `None` when there is none.
    pub fn resumed<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.parts().checkpoint.as_ref().map(Body::read).transpose()
    }
}

impl Context {
    /// Returns whether the message must not run beside another run of its job.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.parts().message.exclusive
    }

    /// Returns the progress of the handler that has not been stored yet.
    pub(crate) fn unwritten_progress(&self, now: Timestamp) -> Option<crate::model::Progress> {
        Some(self.parts().reports.take_unwritten()?.at(now))
    }

    /// Returns the messages that follow this message after its end.
    pub(crate) fn follow_ups(&self, verdict: &Verdict, execution: &Execution) -> Vec<Arc<Message>> {
        if self.parts().message.relations.is_none() {
            return Vec::new();
        }
        let result = self.parts().result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let env = &self.parts().publisher.sender().env;
        follow_ups(env, &self.parts().message, verdict, execution, result)
    }
}
