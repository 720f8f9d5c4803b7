//! What a case is given: a transport on a place of its own, more nodes of it, processes in front of it,
//! and short ways to say the usual things. A delivery is settled by the same three words whether a
//! broker or a storage holds it.

mod making;
mod receiving;
mod settling;
mod waiting;
mod worker;

use std::sync::Arc;

use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Ids, Message, MessageId, MessageRecord, MessageState, Topic};
use punctual::transport::{Capabilities, Outgoing, Subscription};
use punctual::wire::Wire;
use punctual::{Clock, MemoryStorage, Result, SystemClock, Transport};

use super::backend::{Need, Place, Stores, letter};
use crate::own::Slowness;

pub(super) use self::making::{id_of, mail, text_of, texts_of};
pub use self::receiving::Receiving;
pub(super) use self::settling::{ack, reject, rejection, requeue};
pub(super) use self::waiting::{
    DELAY, Note, QUIET, TIMEOUT, TOLERANCE, eventually, later, nearly, pass, rest,
};
pub use self::worker::Worker;
pub(super) use self::worker::{Act, POST, Seen};

/// One node on the place of a case, and what is around it.
#[derive(Clone)]
pub struct Fixture {
    /// The transport as this node has it.
    pub transport: Arc<dyn Transport>,
    /// What it says it can do.
    pub capabilities: Capabilities,
    /// Where processes of this case keep what the transport cannot.
    pub stores: Stores,
    pub(super) place: Arc<dyn Place>,
    pub(super) note: Note,
    ids: Arc<Ids>,
}

impl Fixture {
    pub(super) async fn on(place: Arc<dyn Place>) -> Result<Self> {
        let transport = place.open().await?;
        let stores = match place.stores().await? {
            Some(stores) => stores,
            None => memory(),
        };
        let capabilities = transport.capabilities();
        let (note, ids) = (Note::default(), Arc::new(Ids::random()));
        Ok(Self { transport, capabilities, stores, place, note, ids })
    }

    /// One more node, as another process would have it.
    pub async fn another_node(&self) -> Self {
        let transport = self.place.open().await.expect("one more node");
        Self { transport, ..self.clone() }
    }

    /// Says that the transport does not do this, declared so, and was right to.
    pub fn refused(&self, why: impl Into<String>) {
        self.note.set(why.into());
    }

    /// Receives the topic `mail` for a group, with room for many.
    pub async fn subscribe(&self, group: &str) -> Receiving {
        self.subscribe_with(group, 64).await
    }

    /// Receives the topic `mail` for a group.
    pub async fn subscribe_with(&self, group: &str, prefetch: usize) -> Receiving {
        let subscription = Subscription { topic: mail(), group: group.to_owned(), prefetch };
        let consumer = self.transport.subscribe(subscription).await.expect("a subscription");
        Receiving::new(consumer, self.transport.storage())
    }

    /// Publishes messages at once, in one batch that must be confirmed.
    pub async fn publish(&self, messages: Vec<Message>) -> Vec<MessageId> {
        self.try_publish(messages).await.expect("the batch is confirmed")
    }

    /// Publishes messages at once, in one batch that may be refused.
    pub async fn try_publish(&self, messages: Vec<Message>) -> Result<Vec<MessageId>> {
        let ids = messages.iter().map(|message| message.id).collect();
        let batch = messages.into_iter().map(outgoing).collect();
        self.transport.publish(batch, SystemClock.now()).await?;
        Ok(ids)
    }

    /// Publishes one message with a text.
    pub async fn send(&self, text: &str) -> MessageId {
        self.publish(vec![self.message(text)]).await[0]
    }

    /// The dead letters of a group of `mail`, when there are as many as that.
    pub async fn dead(&self, group: &str, count: usize) -> Vec<Wire> {
        let letters = || async {
            let letters = met(Need::Letters, self.place.dead(&mail(), group).await);
            (letters.len() >= count).then_some(letters)
        };
        eventually("dead letters", letters).await
    }

    /// The invalid messages of a group of `mail`, when there are as many as that.
    pub async fn invalid(&self, group: &str, count: usize) -> Vec<Wire> {
        let letters = || async {
            let letters = met(Need::Letters, self.place.invalid(&mail(), group).await);
            (letters.len() >= count).then_some(letters)
        };
        eventually("invalid messages", letters).await
    }

    /// The letters of a group wherever they are kept: by the broker, or in the storage of the processes
    /// in front of one that keeps none.
    pub async fn letters(&self, group: &str, count: usize) -> Vec<Wire> {
        if self.capabilities.dead_letter {
            return self.dead(group, count).await;
        }
        let filter = MessageFilter { states: vec![MessageState::Dead], ..MessageFilter::default() };
        let letters = || async {
            let dead =
                self.stores.1.messages(filter.clone(), PageRequest::first(100)).await.unwrap().rows;
            let letters = dead.iter().map(|record| letter(record).unwrap()).collect::<Vec<_>>();
            (letters.len() >= count).then_some(letters)
        };
        eventually("dead letters in the storage", letters).await
    }

    /// Whether the transport is one of our own kind.
    pub fn is_stored(&self) -> bool {
        self.transport.storage().is_some()
    }

    /// A message that waits in the storage, which it must.
    pub async fn kept(&self, id: MessageId) -> MessageRecord {
        eventually("a message that waits in the storage", || async {
            let found = self.stores.1.message(id).await.unwrap();
            found.filter(|record| record.state == MessageState::Pending)
        })
        .await
    }

    /// Sends a message to `mail` as a stranger would.
    pub async fn put(&self, body: &[u8], headers: &[(&str, &str)]) {
        met(Need::Put, self.place.put(&mail(), body, headers).await);
    }

    /// Restarts the broker.
    pub async fn restart(&self) {
        met(Need::Restart, self.place.restart().await);
    }

    /// Breaks every connection to the broker.
    pub async fn cut(&self) {
        met(Need::Cut, self.place.cut().await);
    }

    /// Makes the network of nodes that are opened from now on slow.
    pub async fn slow_down(&self, slowness: Slowness) {
        met(Need::SlowDown, self.place.slow_down(slowness).await);
    }

    /// A process that receives `mail` for a group.
    pub fn worker(&self, group: &str) -> worker::Plan {
        worker::Plan::new(self, group)
    }
}

/// What a place was asked to do. A need that is not met and not declared is a case that fails.
fn met<T>(need: Need, answer: Result<T>) -> T {
    answer.unwrap_or_else(|error| panic!("{need:?} failed: {error}; {}", need.way_out()))
}

/// A storage that lives as long as somebody holds it: longer than the processes of a case.
pub(super) fn memory() -> Stores {
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
    (storage.clone(), storage)
}

/// A message as it leaves for everybody, at once.
pub(super) fn outgoing(message: Message) -> Outgoing {
    let (message, delay) = (Arc::new(message), std::time::Duration::ZERO);
    Outgoing { message, delay, attempt: 0, group: None }
}

/// A topic of this name.
pub(super) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}
