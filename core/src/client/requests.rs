//! Requests that wait for their reply. Each process has a topic of its own for replies, and begins to
//! receive it by a transport, or from the storage, when the first request leaves that way. What comes
//! when nobody waits any more is dropped, and an event tells.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinSet;

use crate::builtin::GROUP_DEFAULT;
use crate::clock::{Clock, add};
use crate::engine::{Process, Stop, backoff};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::model::{Message, MessageId, ProcessId, Queue, Topic, TransportName, noted};
use crate::policy::Verdict;
use crate::storage::{Claim, Settlement, Storage, WakeSource, Wakeup};
use crate::transport::{Consumer, Delivery, Receipt, Subscription};

/// The most replies taken at once.
const REPLIES_MAX: usize = 100;

/// The requests of a process.
pub(crate) struct Requests {
    waiting: Arc<Waiting>,
    waiting_max: usize,
    /// By which ways replies are received already.
    ways: Mutex<BTreeMap<Option<TransportName>, Arc<OnceCell<()>>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// Who waits for which reply.
#[derive(Default)]
struct Waiting(Mutex<HashMap<MessageId, oneshot::Sender<Arc<Message>>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, oneshot::Sender<Arc<Message>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a reply to whoever waits for it.
    fn answer(&self, reply: &Arc<Message>, events: &Events) {
        let request = reply.headers.get(noted::REPLY_OF).and_then(|text| text.parse().ok());
        let asker = request.and_then(|request| self.lock().remove(&request));
        if asker.is_none_or(|asker| asker.send(Arc::clone(reply)).is_err()) {
            events.emit(Event::ReplyLate { message: reply.id, request });
        }
    }
}

/// One request that waits; it stops waiting when this is dropped.
pub(super) struct Asked<'a> {
    waiting: &'a Waiting,
    request: MessageId,
    reply: oneshot::Receiver<Arc<Message>>,
}

impl Asked<'_> {
    pub(super) async fn reply(&mut self) -> Result<Arc<Message>> {
        (&mut self.reply).await.map_err(|_| Error::internal("the request was forgotten"))
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.request);
    }
}

/// The topic that a request names for its reply. Any sender of a broker can write it, so it must be one
/// that a process waits on.
pub(super) fn asked_for(text: &str) -> Result<Topic> {
    Topic::waits_for_replies(text).map(Topic::of_replies).ok_or_else(|| {
        Error::invalid(format!(
            "the request asks for its reply on the topic {text:?}, on which no process waits for replies"
        ))
    })
}

impl Requests {
    pub(super) fn new(waiting_max: usize) -> Self {
        let (waiting, ways, tasks) = (Arc::default(), Mutex::default(), Mutex::default());
        Self { waiting, waiting_max, ways, tasks }
    }

    /// Begins to wait for the reply to a request.
    pub(super) fn wait(&self, request: MessageId) -> Result<Asked<'_>> {
        let (sender, reply) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        if waiting.len() >= self.waiting_max {
            return Err(Error::unavailable(format!(
                "{} requests wait for their reply, which is the most; ask again later, or raise requests_max",
                waiting.len()
            )));
        }
        if waiting.contains_key(&request) {
            return Err(Error::conflict(format!(
                "the request {request} waits for its reply already"
            )));
        }
        waiting.insert(request, sender);
        drop(waiting);
        Ok(Asked { waiting: &self.waiting, request, reply })
    }

    /// Receives replies by a transport, or from the storage; once for each.
    pub(super) async fn listen(
        &self,
        process: &Process,
        via: Option<&TransportName>,
    ) -> Result<()> {
        let cell = {
            let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
            ways.entry(via.cloned()).or_default().clone()
        };
        cell.get_or_try_init(async || {
            let topic = Topic::of_replies(process.id);
            let source = source(process, via, topic).await?;
            let listener = Listener {
                source,
                name: "replies".to_owned(),
                waiting: self.waiting.clone(),
                events: process.events.clone(),
                clock: process.clock.clone(),
                stop: process.stop.clone(),
                grace: process.options.grace,
            };
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(listener.run());
            Ok(())
        })
        .await
        .copied()
    }

    /// Waits until nothing is received any more; the process was told to stop before.
    pub(crate) async fn ended(&self) {
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}

async fn source(process: &Process, via: Option<&TransportName>, topic: Topic) -> Result<Source> {
    let Some(name) = via else {
        let queue = Queue::of_group(&topic, GROUP_DEFAULT);
        let wakeup = process.storage.wakeup(&WakeSource::Queue(queue.clone()));
        return Ok(Source::Storage(Box::new(Stored {
            storage: process.storage.clone(),
            clock: process.clock.clone(),
            owner: process.id,
            lease_duration: process.options.lease_duration,
            poll_interval: process.options.poll_interval,
            queue,
            wakeup,
        })));
    };
    let transport = process.transports.get(name).ok_or_else(|| {
        Error::not_found(format!("there is no transport {name:?}; give it to the builder first"))
    })?;
    let group = GROUP_DEFAULT.to_owned();
    let subscription = Subscription { topic, group, prefetch: REPLIES_MAX };
    Ok(Source::Transport(transport.subscribe(subscription).await?))
}

/// Where replies come from.
enum Source {
    Transport(Box<dyn Consumer>),
    Storage(Box<Stored>),
}

impl Source {
    /// The next replies. They are settled by then: who waits for them waits in this process's memory.
    async fn receive(&mut self, clock: &dyn Clock) -> Result<Vec<Arc<Message>>> {
        match self {
            Self::Storage(stored) => stored.receive().await,
            Self::Transport(consumer) => {
                let mut replies = Vec::new();
                for Delivery { message, poison, receipt, .. } in
                    consumer.receive(REPLIES_MAX).await?
                {
                    if poison.is_none() {
                        replies.push(message);
                    }
                    // One that cannot be settled comes again, as a late one.
                    let _ = match receipt {
                        Receipt::Broker(receipt) => receipt.ack().await,
                        Receipt::Lease(receipt) => {
                            let done =
                                Settlement::new(receipt.claimed.lease_ref(), Verdict::Done, None);
                            receipt.storage.settle(vec![done], clock.now()).await.map(|_| ())
                        }
                    };
                }
                Ok(replies)
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        match self {
            Self::Transport(consumer) => consumer.close(until).await,
            Self::Storage(_) => Ok(()),
        }
    }
}

/// The line of a storage in which replies lie.
struct Stored {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    owner: ProcessId,
    lease_duration: Duration,
    poll_interval: Duration,
    queue: Queue,
    wakeup: Wakeup,
}

impl Stored {
    async fn receive(&mut self) -> Result<Vec<Arc<Message>>> {
        loop {
            let now = self.clock.now();
            let until = add(now, self.lease_duration);
            let claim = Claim::new(self.queue.clone(), self.owner, REPLIES_MAX, until);
            let claimed = self.storage.claim(claim, now).await?;
            if !claimed.is_empty() {
                let done = |one: &crate::storage::ClaimedMessage| {
                    Settlement::new(one.lease_ref(), Verdict::Done, None)
                };
                self.storage.settle(claimed.iter().map(done).collect(), now).await?;
                return Ok(claimed.into_iter().map(|one| one.message).collect());
            }
            tokio::select! {
                biased;
                () = self.wakeup.notified() => {}
                () = self.clock.sleep_until(add(now, self.poll_interval)) => {}
            }
        }
    }
}

/// Takes replies in until the process stops.
struct Listener {
    source: Source,
    name: String,
    waiting: Arc<Waiting>,
    events: Arc<Events>,
    clock: Arc<dyn Clock>,
    stop: Stop,
    grace: Duration,
}

impl Listener {
    async fn run(mut self) {
        let mut failures = 0;
        while !self.stop.is_requested() {
            let received = tokio::select! {
                biased;
                () = self.stop.requested() => break,
                received = self.source.receive(&*self.clock) => received,
            };
            match received {
                Ok(replies) => {
                    failures = 0;
                    for reply in replies {
                        self.waiting.answer(&reply, &self.events);
                    }
                }
                Err(error) => {
                    failures += 1;
                    self.rest(failures, &error).await;
                }
            }
        }
        let until = add(self.clock.now(), self.grace);
        // Best effort: nobody waits for what is left.
        let _ = self.source.close(until).await;
    }

    async fn rest(&mut self, failures: u32, error: &Error) {
        let again_at = add(self.clock.now(), backoff(failures));
        let (service, error) = (self.name.clone(), error.to_string());
        self.events.emit(Event::ServiceFailed { service, error, again_at });
        tokio::select! {
            biased;
            () = self.stop.requested() => {}
            () = self.clock.sleep_until(again_at) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding F1 of the security review: a message from a broker names the topic of its reply.
    #[test]
    fn a_reply_goes_only_to_where_a_process_waits_for_replies() {
        let process = ProcessId::from_uuid(uuid::Uuid::from_u128(7));
        let topic = Topic::of_replies(process);
        assert_eq!(asked_for(topic.as_str()).unwrap(), topic);
        for text in ["punctual.command", "punctual.replies.", "punctual.replies.x", "mail", ""] {
            assert!(asked_for(text).is_err(), "{text}");
        }
    }
}
