//! What a handler may know and say about other messages and other attempts: what came before and what
//! follows, the batch, who else runs, and where the next attempt should go on.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Context;
use crate::engine::follow;
use crate::error::{Error, Result};
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::{BatchId, Body, Execution, Message, MessageState, Parent};
use crate::policy::Verdict;
use crate::storage::{ExtendResult, ProgressUpdate};

impl Context {
    /// What the messages that follow this one get to see of it; the last value counts.
    pub fn returns<T: Serialize + ?Sized>(&self, result: &T) -> Result<()> {
        let result = Body::json(result)?;
        result.check(self.parts().publisher.payload_max())?;
        *self.parts().result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    }

    /// What this message follows: the message before, how it ended, and what it returned.
    pub fn parent(&self) -> Option<&Parent> {
        self.parts().message.relations.as_ref()?.parent.as_ref()
    }

    /// What the handler before returned; nothing when it returned nothing, or there was none.
    pub fn parent_result<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.parent().and_then(|parent| parent.result.as_ref()).map(Body::read).transpose()
    }

    /// The batch this message belongs to.
    pub fn batch(&self) -> Option<BatchId> {
        self.parts().message.batch()
    }

    /// The batch this message waited for.
    pub fn waited_for(&self) -> Option<BatchId> {
        self.parts().message.waits_for()
    }

    /// How many messages of the batch this one waited for ended in each state; empty when it waited
    /// for none. Finished ones count until they are pruned.
    pub async fn batch_counts(&self) -> Result<BTreeMap<MessageState, u64>> {
        match self.waited_for() {
            Some(batch) => self.parts().publisher.process().inspect.batch(batch).await,
            None => Ok(BTreeMap::new()),
        }
    }

    /// How many other messages of the same job are running now, on all nodes; of the same topic for a
    /// message of no job. For a handler that would rather skip than run beside another.
    pub async fn others_running(&self) -> Result<usize> {
        let mut filter =
            MessageFilter { states: vec![MessageState::Running], ..MessageFilter::default() };
        match self.job() {
            Some(job) => filter.job = Some(job.clone()),
            None => filter.topic = Some(self.topic().clone()),
        }
        let inspect = &self.parts().publisher.process().inspect;
        let running = inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?;
        Ok(running.rows.iter().filter(|row| row.message.id != self.message_id()).count())
    }

    /// Keeps where to go on: after a failure or a crash the next attempt finds it in
    /// [`Context::resumed`]. Refused for a message that a broker delivered, and when the message is no
    /// longer ours.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, place: &T) -> Result<()> {
        let checkpoint = Body::json(place)?;
        checkpoint.check(self.parts().publisher.payload_max())?;
        let Some(lease) = self.parts().lease else {
            return Err(Error::unsupported(format!(
                "the message {} came from a broker, which keeps no checkpoints; store the place yourself",
                self.message_id()
            )));
        };
        let keep = ProgressUpdate { lease, progress: None, checkpoint: Some(checkpoint) };
        let process = self.parts().publisher.process();
        let answers = process.storage.save_progress(vec![keep], process.now()).await?;
        match answers.first() {
            Some(ExtendResult::Held | ExtendResult::CancelRequested) => Ok(()),
            Some(ExtendResult::Lost) | None => Err(Error::conflict(format!(
                "the lease of the message {} is no longer ours; nothing was kept, stop here",
                self.message_id()
            ))),
        }
    }

    /// Where an attempt before this one wanted to go on; nothing on the first.
    pub fn resumed<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.parts().checkpoint.as_ref().map(Body::read).transpose()
    }
}

impl Context {
    /// Whether it must not run beside another run of its job.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.parts().message.exclusive
    }

    /// How far the handler is, if that was not written down yet.
    pub(crate) fn unwritten_progress(&self, now: Timestamp) -> Option<crate::model::Progress> {
        Some(self.parts().said.take_unwritten()?.at(now))
    }

    /// What follows this message, when this attempt ended it like this.
    pub(crate) fn follow(&self, verdict: &Verdict, execution: &Execution) -> Vec<Arc<Message>> {
        if self.parts().message.relations.is_none() {
            return Vec::new();
        }
        let result = self.parts().result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let process = self.parts().publisher.process();
        follow(process, &self.parts().message, verdict, execution, result)
    }
}
