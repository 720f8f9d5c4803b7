//! Batch: messages that are stored together, and messages that follow when the last of them has ended.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;

use super::routing::Via;
use super::{Publish, PublishResult, Publisher};
use crate::error::{Error, Result};
use crate::model::BatchId;

/// The most messages of one batch.
const BATCH_MEMBERS_MAX: usize = 100_000;

/// A batch that is stored when it is awaited.
///
/// ```
/// # async fn example(publisher: punctual::Publisher) -> punctual::Result<()> {
/// let pages = (1..=20).map(|page| publisher.publish("render", &page));
/// let batch = publisher.batch(pages).then(publisher.publish("bind", "the book")).await?;
/// println!("{} messages belong to {}", batch.members.len(), batch.id);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch is stored when it is awaited"]
pub struct Batch {
    publisher: Publisher,
    members: Vec<Publish>,
    then: Vec<Publish>,
}

/// A batch that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// Id of the batch.
    pub id: BatchId,
    /// Messages of the batch, in the given order.
    pub members: Vec<PublishResult>,
    /// Messages that follow when the last of them has ended.
    pub then: Vec<PublishResult>,
}

impl Publisher {
    /// Creates a batch of messages that are stored in one step, all or none.
    pub fn batch(&self, members: impl IntoIterator<Item = Publish>) -> Batch {
        Batch { publisher: self.clone(), members: members.into_iter().collect(), then: Vec::new() }
    }
}

impl Batch {
    /// Adds a message that is sent when every message of the batch is done, dead or cancelled. Its handler
    /// reads their states with [`Context::batch_counts`](crate::Context::batch_counts).
    pub fn then(mut self, next: Publish) -> Self {
        self.then.push(next);
        self
    }

    async fn store(self) -> Result<BatchResult> {
        let count = self.members.len();
        if count == 0 || count > BATCH_MEMBERS_MAX {
            return Err(Error::invalid(format!(
                "a batch has 1 to {BATCH_MEMBERS_MAX} messages, not {count}"
            )));
        }
        let sender = self.publisher.sender();
        let id = BatchId::from_uuid(sender.env.ids.next(sender.env.now()));
        let members = self
            .members
            .into_iter()
            .map(|member| stored(member).edit(|draft| draft.relations.batch = Some(id)));
        let then = self
            .then
            .into_iter()
            .map(|next| stored(next).edit(|draft| draft.relations.waits_for = Some(id)));
        let mut members = self.publisher.store_all(members.chain(then).collect()).await?;
        let then = members.split_off(count);
        Ok(BatchResult { id, members, then })
    }
}

/// Routes a message of a batch to the storage, because a broker does not count the messages of a batch.
fn stored(publish: Publish) -> Publish {
    publish.set(|draft| match &draft.via {
        Via::Routed | Via::Storage => {
            draft.via = Via::Storage;
            Ok(())
        }
        Via::Transport(via) => Err(Error::invalid(format!(
            "a message of a batch cannot be sent by the transport {via:?}, because only the storage counts its messages; leave via() out"
        ))),
    })
}

impl IntoFuture for Batch {
    type Output = Result<BatchResult>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.store())
    }
}
