//! Relay: publishes due messages of the storage to a transport. Messages are claimed under a lease and done
//! once they are published. A topic that fails or hangs delays only its own messages: each topic is published
//! by its own task with a timeout, and a turn does not wait for one that hangs. Messages that the transport
//! refuses for good become dead letters.

mod sender;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::task::JoinSet;

use self::sender::TopicSender;
use super::{Process, Service, Turn, ensure_alive};
use crate::clock::within;
use crate::error::Result;
use crate::model::time::add;
use crate::model::{Queue, Topic, TransportName};
use crate::storage::{Claim, ClaimedMessage, WakeSource};
use crate::transport::Transport;

/// Time that a turn waits for a topic before it continues without it.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

/// Service that publishes due messages to one transport.
pub(crate) struct Relay {
    process: Arc<Process>,
    transport: Arc<dyn Transport>,
    target: TransportName,
    queue: Queue,
    name: String,
    /// Running publish tasks. They are aborted with the relay; their leases then run out.
    sending: JoinSet<(Topic, Result<()>)>,
    /// Topics of the running tasks. One task at a time for each topic, so that order is kept.
    busy: BTreeSet<Topic>,
}

impl Relay {
    pub(crate) fn new(
        process: Arc<Process>,
        target: TransportName,
        transport: Arc<dyn Transport>,
    ) -> Self {
        let queue = Queue::of_relay(&target);
        let name = format!("relay to {target}");
        let (sending, busy) = (JoinSet::new(), BTreeSet::new());
        Self { process, transport, target, queue, name, sending, busy }
    }

    /// Returns the wake source of its queue.
    pub(crate) fn wake_source(&self) -> WakeSource {
        WakeSource::Queue(self.queue.clone())
    }

    /// Returns the next turn when nothing is due: soon while tasks run, because their results have to be read.
    fn turn_when_idle(&self) -> Turn {
        if self.sending.is_empty() {
            Turn::WhenWoken
        } else {
            Turn::At(add(self.process.now(), TURN_TIMEOUT))
        }
    }

    /// Publishes each topic in its own task, and releases messages whose topic is busy.
    async fn publish(&mut self, claimed: Vec<ClaimedMessage>, now: Timestamp) -> Result<()> {
        let mut topics: BTreeMap<Topic, Vec<ClaimedMessage>> = BTreeMap::new();
        for one in claimed {
            topics.entry(one.message.topic.clone()).or_default().push(one);
        }
        let mut later = Vec::new();
        for (topic, group) in topics {
            if self.busy.contains(&topic) {
                let due_at = add(now, TURN_TIMEOUT);
                later.extend(group.iter().map(|one| one.release(due_at)));
                continue;
            }
            self.busy.insert(topic.clone());
            let sender = TopicSender {
                process: self.process.clone(),
                transport: self.transport.clone(),
                target: self.target.clone(),
            };
            self.sending.spawn(async move { (topic, sender.send(group).await) });
        }
        if !later.is_empty() {
            self.process.env.storage.settle(later, now).await?;
        }
        self.wait_for_sends(add(now, TURN_TIMEOUT)).await
    }

    /// Waits for the running tasks, until an instant at the latest.
    async fn wait_for_sends(&mut self, until: Timestamp) -> Result<()> {
        let clock = self.process.env.clock.clone();
        let mut failed = Ok(());
        while !self.sending.is_empty() {
            match within(&*clock, until, self.sending.join_next()).await {
                Some(Some(Ok((topic, result)))) => {
                    self.busy.remove(&topic);
                    failed = failed.and(result);
                }
                // A task that panicked does not return its topic.
                Some(Some(Err(_))) if self.sending.is_empty() => self.busy.clear(),
                Some(_) => {}
                None => break,
            }
        }
        failed
    }
}

#[async_trait]
impl Service for Relay {
    fn name(&self) -> &str {
        &self.name
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        self.wait_for_sends(now).await?;
        let storage = self.process.env.storage.clone();
        let limit = self.process.env.options.batch_max;
        let now = ensure_alive(&self.process, now).await?;
        if self.process.queues.is_paused(&self.queue) {
            return Ok(self.turn_when_idle());
        }
        let until = add(now, self.process.env.options.lease_duration);
        let claim = Claim::new(self.queue.clone(), self.process.env.id, limit, until);
        let claimed = storage.claim(claim, now).await?;
        let more = claimed.len() == limit;
        if !claimed.is_empty() {
            self.publish(claimed, now).await?;
        }
        if more {
            return Ok(Turn::Again);
        }
        let next = storage.next_due(&self.wake_source()).await?;
        Ok(match next {
            Some(at) => Turn::At(at),
            None => self.turn_when_idle(),
        })
    }
}
