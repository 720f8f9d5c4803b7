//! Fixture of a case: a transport in a separate environment, more nodes and workers on it, and short calls for
//! common steps. Deliveries of brokers and of storages are settled by the same functions.

mod consumer;
mod messages;
mod settling;
mod timing;
mod worker;

use std::sync::Arc;

use punctual::backend::transport::{Capabilities, OutgoingMessage, Subscription};
use punctual::backend::wire::Wire;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Ids, Message, MessageId, MessageRecord, MessageState, Topic};
use punctual::{Clock, MemoryStorage, Result, SystemClock, Transport};

use super::backend::{Environment, Need, Stores, dead_letter};
use crate::backend_tests::Slowness;

pub use self::consumer::TestConsumer;
pub(super) use self::messages::{id_of, mail, text_of, texts_of};
pub(super) use self::settling::{ack, reject, rejection, requeue};
pub(super) use self::timing::{
    DELAY, QUIET, RefusalNote, TIMEOUT, TOLERANCE, at_least, deadline, eventually, pause, sleep,
};
pub use self::worker::Worker;
pub(super) use self::worker::{Action, HandlerCall, TRANSPORT};

/// One node in the environment of a case.
#[derive(Clone)]
pub struct Fixture {
    /// The transport as this node has it.
    pub transport: Arc<dyn Transport>,
    /// Its declared capabilities.
    pub capabilities: Capabilities,
    /// The storage of the workers of this case, for delays and dead letters that the transport does not support.
    pub stores: Stores,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) note: RefusalNote,
    ids: Arc<Ids>,
}

impl Fixture {
    pub(super) async fn on(environment: Arc<dyn Environment>) -> Result<Self> {
        let transport = environment.open().await?;
        let stores = match environment.stores().await? {
            Some(stores) => stores,
            None => memory_stores(),
        };
        let capabilities = transport.capabilities();
        let (note, ids) = (RefusalNote::default(), Arc::new(Ids::random()));
        Ok(Self { transport, capabilities, stores, environment, note, ids })
    }

    /// Opens one more node, as another process would.
    pub async fn another_node(&self) -> Self {
        let transport = self.environment.open().await.expect("one more node");
        Self { transport, ..self.clone() }
    }

    /// Records that the transport declares that it does not do this, and refused it as it must.
    pub fn refused(&self, why: impl Into<String>) {
        self.note.set(why.into());
    }

    /// Subscribes a group to the topic `mail`, with a large prefetch.
    pub async fn subscribe(&self, group: &str) -> TestConsumer {
        self.subscribe_with(group, 64).await
    }

    /// Subscribes a group to the topic `mail`.
    pub async fn subscribe_with(&self, group: &str, prefetch: usize) -> TestConsumer {
        let subscription = Subscription { topic: mail(), group: group.to_owned(), prefetch };
        let consumer = self.transport.subscribe(subscription).await.expect("a subscription");
        TestConsumer::new(consumer, self.transport.storage())
    }

    /// Publishes messages in one batch; panics when it is not confirmed.
    pub async fn publish(&self, messages: Vec<Message>) -> Vec<MessageId> {
        self.try_publish(messages).await.expect("the batch is confirmed")
    }

    /// Publishes messages in one batch; returns the error when it is refused.
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

    /// Waits for `count` dead letters of a group of `mail` on the broker.
    pub async fn dead(&self, group: &str, count: usize) -> Vec<Wire> {
        let letters = || async {
            let letters =
                expect_supported(Need::DeadLetters, self.environment.dead(&mail(), group).await);
            (letters.len() >= count).then_some(letters)
        };
        eventually("dead letters", letters).await
    }

    /// Waits for `count` invalid messages of a group of `mail` on the broker.
    pub async fn invalid(&self, group: &str, count: usize) -> Vec<Wire> {
        let letters = || async {
            let letters =
                expect_supported(Need::DeadLetters, self.environment.invalid(&mail(), group).await);
            (letters.len() >= count).then_some(letters)
        };
        eventually("invalid messages", letters).await
    }

    /// Waits for `count` dead letters of a group, on the broker or, without support there, in the workers' storage.
    pub async fn dead_letters(&self, group: &str, count: usize) -> Vec<Wire> {
        if self.capabilities.dead_letter {
            return self.dead(group, count).await;
        }
        let filter = MessageFilter { states: vec![MessageState::Dead], ..MessageFilter::default() };
        let letters = || async {
            let dead =
                self.stores.1.messages(filter.clone(), PageRequest::first(100)).await.unwrap().rows;
            let letters =
                dead.iter().map(|record| dead_letter(record).unwrap()).collect::<Vec<_>>();
            (letters.len() >= count).then_some(letters)
        };
        eventually("dead letters in the storage", letters).await
    }

    /// Returns whether the transport is one over a storage.
    pub fn is_stored(&self) -> bool {
        self.transport.storage().is_some()
    }

    /// Waits until a message is pending in the storage and returns it.
    pub async fn held_message(&self, id: MessageId) -> MessageRecord {
        eventually("a message that waits in the storage", || async {
            let found = self.stores.1.message(id).await.unwrap();
            found.filter(|record| record.state == MessageState::Pending)
        })
        .await
    }

    /// Publishes a message to `mail` as another application would.
    pub async fn publish_foreign(&self, body: &[u8], headers: &[(&str, &str)]) {
        expect_supported(
            Need::ForeignMessages,
            self.environment.publish_foreign(&mail(), body, headers).await,
        );
    }

    /// Restarts the broker.
    pub async fn restart(&self) {
        expect_supported(Need::Restart, self.environment.restart().await);
    }

    /// Breaks every connection to the broker.
    pub async fn cut(&self) {
        expect_supported(Need::Cut, self.environment.cut().await);
    }

    /// Slows down the network of nodes that are opened after this call.
    pub async fn slow_down(&self, slowness: Slowness) {
        expect_supported(Need::SlowDown, self.environment.slow_down(slowness).await);
    }

    /// Returns a builder of a worker that receives `mail` for a group.
    pub fn worker(&self, group: &str) -> worker::WorkerBuilder {
        worker::WorkerBuilder::new(self, group)
    }
}

/// Returns the output of an environment's call; panics when it is neither supported nor declared as unsupported.
fn expect_supported<T>(need: Need, result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{need:?} failed: {error}; {}", need.hint()))
}

/// Returns a memory storage that the fixture owns, so that it outlives the workers of a case.
pub(super) fn memory_stores() -> Stores {
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
    (storage.clone(), storage)
}

/// Returns a message to be published to all groups without delay.
pub(super) fn outgoing(message: Message) -> OutgoingMessage {
    let (message, delay) = (Arc::new(message), std::time::Duration::ZERO);
    OutgoingMessage { message, delay, attempt: 0, group: None }
}

/// Returns the topic of this name.
pub(super) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}
