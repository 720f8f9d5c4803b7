//! Pending requests of a process. Each process has its own topic for replies, which it receives by a transport or
//! from the storage from the first request on that uses it. A reply without a pending request is dropped with an
//! event.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinSet;

use super::Sender;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::model::GROUP_DEFAULT;
use crate::model::time::add;
use crate::model::{Message, MessageId, ProcessId, Queue, Topic, TransportName, reserved_headers};
use crate::policy::{Verdict, backoff};
use crate::stop::Stop;
use crate::storage::{Claim, Settlement, Storage, WakeSource, Wakeup};
use crate::transport::{Consumer, Delivery, Subscription};

/// Largest number of replies in one receive call.
const REPLIES_MAX: usize = 100;

/// The pending requests of a process and the tasks that receive their replies.
pub(crate) struct Requests {
    pending: Arc<PendingRequests>,
    pending_max: usize,
    /// The sources from which replies are received: a transport, or `None` for the storage.
    sources: Mutex<BTreeMap<Option<TransportName>, Arc<OnceCell<()>>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// The pending requests, each with the channel of its reply.
#[derive(Default)]
struct PendingRequests(Mutex<HashMap<MessageId, oneshot::Sender<Arc<Message>>>>);

impl PendingRequests {
    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, oneshot::Sender<Arc<Message>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers a reply to its request.
    fn deliver(&self, reply: &Arc<Message>, events: &Events) {
        let request =
            reply.headers.get(reserved_headers::REPLY_OF).and_then(|text| text.parse().ok());
        let sender = request.and_then(|request| self.lock().remove(&request));
        if sender.is_none_or(|sender| sender.send(Arc::clone(reply)).is_err()) {
            events.emit(Event::ReplyLate { message: reply.id, request });
        }
    }
}

/// A pending request; dropping it ends the wait for its reply.
pub(super) struct PendingRequest<'a> {
    pending: &'a PendingRequests,
    request: MessageId,
    reply: oneshot::Receiver<Arc<Message>>,
}

impl PendingRequest<'_> {
    pub(super) async fn reply(&mut self) -> Result<Arc<Message>> {
        (&mut self.reply).await.map_err(|_| Error::internal("the pending request was removed"))
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.request);
    }
}

/// Checks the topic that a request names for its reply. Any sender of a broker can write it, so it must be the
/// reply topic of a process.
pub(super) fn reply_topic(text: &str) -> Result<Topic> {
    Topic::replies_process(text).map(Topic::of_replies).ok_or_else(|| {
        Error::invalid(format!("the reply topic {text:?} of the request belongs to no process"))
    })
}

impl Requests {
    pub(super) fn new(pending_max: usize) -> Self {
        let (pending, sources, tasks) = (Arc::default(), Mutex::default(), Mutex::default());
        Self { pending, pending_max, sources, tasks }
    }

    /// Registers a request that waits for its reply; fails when too many are pending.
    pub(super) fn wait(&self, request: MessageId) -> Result<PendingRequest<'_>> {
        let (sender, reply) = oneshot::channel();
        let mut pending = self.pending.lock();
        if pending.len() >= self.pending_max {
            return Err(Error::unavailable(format!(
                "{} requests are pending, which is the limit; try again later, or raise requests_max",
                pending.len()
            )));
        }
        if pending.contains_key(&request) {
            return Err(Error::conflict(format!("the request {request} is already pending")));
        }
        pending.insert(request, sender);
        drop(pending);
        Ok(PendingRequest { pending: &self.pending, request, reply })
    }

    /// Starts to receive replies by a transport, or from the storage, unless it has been started.
    pub(super) async fn listen(&self, sender: &Sender, via: Option<&TransportName>) -> Result<()> {
        let cell = {
            let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
            sources.entry(via.cloned()).or_default().clone()
        };
        cell.get_or_try_init(async || {
            let topic = Topic::of_replies(sender.env.id);
            let source = source(sender, via, topic).await?;
            let listener = Listener {
                source,
                name: "replies".to_owned(),
                pending: self.pending.clone(),
                events: sender.env.events.clone(),
                clock: sender.env.clock.clone(),
                stop: sender.env.stop.clone(),
                grace: sender.env.options.cancel_timeout,
            };
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.spawn(listener.run());
            Ok(())
        })
        .await
        .copied()
    }

    /// Waits until no replies are received; the process must have been asked to stop before.
    pub(crate) async fn ended(&self) {
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        while tasks.join_next().await.is_some() {}
    }
}

async fn source(sender: &Sender, via: Option<&TransportName>, topic: Topic) -> Result<Source> {
    let Some(name) = via else {
        let queue = Queue::of_group(&topic, GROUP_DEFAULT);
        let wakeup = sender.env.storage.wakeup(&WakeSource::Queue(queue.clone()));
        return Ok(Source::Storage(Box::new(ReplyQueue {
            storage: sender.env.storage.clone(),
            clock: sender.env.clock.clone(),
            owner: sender.env.id,
            lease_duration: sender.env.options.lease_duration,
            poll_interval: sender.env.options.poll_interval,
            queue,
            wakeup,
        })));
    };
    let transport = sender.transports.get(name).ok_or_else(|| {
        Error::not_found(format!("there is no transport {name:?}; give it to the builder first"))
    })?;
    let group = GROUP_DEFAULT.to_owned();
    let subscription = Subscription { topic, group, prefetch: REPLIES_MAX };
    Ok(Source::Transport(transport.subscribe(subscription).await?))
}

/// Source of replies.
enum Source {
    Transport(Box<dyn Consumer>),
    Storage(Box<ReplyQueue>),
}

impl Source {
    /// Receives and settles the next replies. The pending requests exist only in the memory of this process, so
    /// nothing is gained by settling later.
    async fn receive(&mut self, clock: &dyn Clock) -> Result<Vec<Arc<Message>>> {
        match self {
            Self::Storage(queue) => queue.receive().await,
            Self::Transport(consumer) => {
                let mut replies = Vec::new();
                for Delivery { message, poison, receipt, .. } in
                    consumer.receive(REPLIES_MAX).await?
                {
                    if poison.is_none() {
                        replies.push(message);
                    }
                    // A reply that cannot be settled is delivered again and dropped as late.
                    let _ = receipt.ack(clock.now()).await;
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

/// The queue of a storage that contains replies.
struct ReplyQueue {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    owner: ProcessId,
    lease_duration: Duration,
    poll_interval: Duration,
    queue: Queue,
    wakeup: Wakeup,
}

impl ReplyQueue {
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

/// Receives replies until the process stops.
struct Listener {
    source: Source,
    name: String,
    pending: Arc<PendingRequests>,
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
                        self.pending.deliver(&reply, &self.events);
                    }
                }
                Err(error) => {
                    failures += 1;
                    self.back_off(failures, &error).await;
                }
            }
        }
        let until = add(self.clock.now(), self.grace);
        // Best effort: no request waits for the remaining replies.
        let _ = self.source.close(until).await;
    }

    async fn back_off(&mut self, failures: u32, error: &Error) {
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
    fn a_reply_is_sent_only_to_the_reply_topic_of_a_process() {
        let sender = ProcessId::from_uuid(uuid::Uuid::from_u128(7));
        let topic = Topic::of_replies(sender);
        assert_eq!(reply_topic(topic.as_str()).unwrap(), topic);
        for text in ["punctual.command", "punctual.replies.", "punctual.replies.x", "mail", ""] {
            assert!(reply_topic(text).is_err(), "{text}");
        }
    }
}
