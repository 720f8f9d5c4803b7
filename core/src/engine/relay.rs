//! The relay: due messages from the storage to a transport. Claimed under a lease like any other
//! work; done means published. A transport that fails delays its messages and nobody else's.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::settle::unpack;
use super::{Process, Service, Turn, alive, backoff};
use crate::clock::add;
use crate::error::Result;
use crate::event::Event;
use crate::model::{Queue, Topic, TransportName};
use crate::policy::{Verdict, Why};
use crate::storage::{Claim, Claimed, Line, Settled, Settlement};
use crate::transport::Transport;

/// Moves due messages to one transport.
pub(crate) struct Relay {
    process: Arc<Process>,
    transport: Arc<dyn Transport>,
    target: TransportName,
    queue: Queue,
    name: String,
}

impl Relay {
    pub(crate) fn new(
        process: Arc<Process>,
        target: TransportName,
        transport: Arc<dyn Transport>,
    ) -> Self {
        let queue = Queue::of_relay(&target);
        Self { process, transport, name: format!("relay to {target}"), queue, target }
    }

    /// The line it empties.
    pub(crate) fn line(&self) -> Line {
        Line::Queue(self.queue.clone())
    }

    /// Publishes each topic by itself, so that one that fails does not hold up the others.
    async fn publish(&self, claimed: Vec<Claimed>, now: Timestamp) -> Vec<Settlement> {
        let mut topics: BTreeMap<Topic, Vec<Claimed>> = BTreeMap::new();
        for one in claimed {
            topics.entry(one.message.topic.clone()).or_default().push(one);
        }
        let mut settlements = Vec::new();
        for (_, group) in topics {
            let batch = group.iter().map(|one| unpack(&one.message)).collect();
            let error = self
                .transport
                .publish(batch, now)
                .await
                .err()
                .map(|error| Arc::from(error.to_string()));
            settlements.extend(group.iter().map(|one| settlement(one, error.clone(), now)));
        }
        settlements
    }
}

fn settlement(claimed: &Claimed, error: Option<Arc<str>>, now: Timestamp) -> Settlement {
    let verdict = match error {
        None => Verdict::Done,
        Some(error) => Verdict::Again {
            due_at: add(now, backoff(claimed.attempt)),
            attempt: claimed.attempt,
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            error: Some(error),
            why: Why::Retry,
        },
    };
    Settlement::new(claimed.lease_ref(), verdict, None)
}

#[async_trait]
impl Service for Relay {
    fn name(&self) -> &str {
        &self.name
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        let storage = &self.process.storage;
        let limit = self.process.options.batch;
        let now = alive(&self.process, now).await?;
        let until = add(now, self.process.options.lease_length);
        let claim = Claim::new(self.queue.clone(), self.process.id, limit, until);
        let claimed = storage.claim(claim, now).await?;
        let more = claimed.len() == limit;
        if !claimed.is_empty() {
            let settlements = self.publish(claimed, now).await;
            let sent: Vec<_> = settlements
                .iter()
                .map(|settlement| (settlement.lease.message, settlement.verdict == Verdict::Done))
                .collect();
            let answers = storage.settle(settlements, now).await?;
            for ((message, done), answer) in sent.into_iter().zip(answers) {
                if done && answer == Settled::Applied {
                    self.process
                        .events
                        .emit(Event::MessageRelayed { message, transport: self.target.clone() });
                }
            }
        }
        if more {
            return Ok(Turn::Again);
        }
        let next = storage.next_due(&Line::Queue(self.queue.clone())).await?;
        Ok(next.map_or(Turn::WhenWoken, Turn::At))
    }
}
