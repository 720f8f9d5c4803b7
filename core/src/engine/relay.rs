//! The relay: due messages from the storage to a transport. Claimed under a lease like any other
//! work; done means published. A topic that fails or hangs delays its own messages and nobody else's: each
//! is published by a task of its own, for a bounded time, and a turn does not wait for one that hangs.
//! What the transport will never take becomes a dead letter.

mod sending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::task::JoinSet;

use self::sending::Sending;
use super::{Process, Service, Turn, alive};
use crate::clock::{add, within};
use crate::error::Result;
use crate::model::{Queue, Topic, TransportName};
use crate::policy::{AgainReason, Verdict};
use crate::storage::{Claim, ClaimedMessage, Settlement, WakeSource};
use crate::transport::Transport;

/// How long a turn waits for a topic before it goes on without it.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

/// Moves due messages to one transport.
pub(crate) struct Relay {
    process: Arc<Process>,
    transport: Arc<dyn Transport>,
    target: TransportName,
    queue: Queue,
    name: String,
    /// What is being published; the relay's end is their end, and their leases run out.
    sending: JoinSet<(Topic, Result<()>)>,
    /// The topics of what is being published. One at a time of each, so that order is kept.
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

    /// The line it empties.
    pub(crate) fn line(&self) -> WakeSource {
        WakeSource::Queue(self.queue.clone())
    }

    /// The next turn when nothing is due: somebody has to see how what is being published went.
    fn once_sent(&self) -> Turn {
        if self.sending.is_empty() {
            Turn::WhenWoken
        } else {
            Turn::At(add(self.process.now(), TURN_TIMEOUT))
        }
    }

    /// Publishes each topic by itself, and gives back what has to wait for its topic.
    async fn publish(&mut self, claimed: Vec<ClaimedMessage>, now: Timestamp) -> Result<()> {
        let mut topics: BTreeMap<Topic, Vec<ClaimedMessage>> = BTreeMap::new();
        for one in claimed {
            topics.entry(one.message.topic.clone()).or_default().push(one);
        }
        let mut later = Vec::new();
        for (topic, group) in topics {
            if self.busy.contains(&topic) {
                later.extend(group.iter().map(|one| given_back(one, now)));
                continue;
            }
            self.busy.insert(topic.clone());
            let sending = Sending {
                process: self.process.clone(),
                transport: self.transport.clone(),
                target: self.target.clone(),
            };
            self.sending.spawn(async move { (topic, sending.send(group).await) });
        }
        if !later.is_empty() {
            self.process.storage.settle(later, now).await?;
        }
        self.sent(add(now, TURN_TIMEOUT)).await
    }

    /// Waits for what is being published, until an instant at the latest.
    async fn sent(&mut self, until: Timestamp) -> Result<()> {
        let clock = self.process.clock.clone();
        let mut failed = Ok(());
        while !self.sending.is_empty() {
            match within(&*clock, until, self.sending.join_next()).await {
                Some(Some(Ok((topic, sent)))) => {
                    self.busy.remove(&topic);
                    failed = failed.and(sent);
                }
                // One that panicked no longer says which topic it had.
                Some(Some(Err(_))) if self.sending.is_empty() => self.busy.clear(),
                Some(_) => {}
                None => break,
            }
        }
        failed
    }
}

/// As if it had not been claimed, a moment later.
fn given_back(claimed: &ClaimedMessage, now: Timestamp) -> Settlement {
    let verdict = Verdict::Again {
        due_at: add(now, TURN_TIMEOUT),
        attempt: claimed.attempt.saturating_sub(1),
        crashes: claimed.crashes,
        snoozes: claimed.snoozes,
        error: None,
        why: AgainReason::Release,
    };
    Settlement::new(claimed.lease_ref(), verdict, None)
}

#[async_trait]
impl Service for Relay {
    fn name(&self) -> &str {
        &self.name
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        self.sent(now).await?;
        let storage = self.process.storage.clone();
        let limit = self.process.options.batch;
        let now = alive(&self.process, now).await?;
        if self.process.queues.is_paused(&self.queue) {
            return Ok(self.once_sent());
        }
        let until = add(now, self.process.options.lease_duration);
        let claim = Claim::new(self.queue.clone(), self.process.id, limit, until);
        let claimed = storage.claim(claim, now).await?;
        let more = claimed.len() == limit;
        if !claimed.is_empty() {
            self.publish(claimed, now).await?;
        }
        if more {
            return Ok(Turn::Again);
        }
        let next = storage.next_due(&self.line()).await?;
        Ok(match next {
            Some(at) => Turn::At(at),
            None => self.once_sent(),
        })
    }
}
