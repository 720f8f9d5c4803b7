//! Worker of a queue: turns messages into attempts, as many at once as there are slots. It claims only messages
//! that can start now and have a handler here, and it never waits for a whole batch: each attempt is its own
//! task. Deliveries of transports are received in `subscription/worker.rs`.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::attempt_runner::AttemptRunner;
use super::rates::{ClaimRates, has_rate};
use super::receipt::ReceivedMessage;
use super::{Process, Service, Settler, Turn, ensure_alive};
use crate::error::Result;
use crate::handler::Slots;
use crate::model::time::add;
use crate::model::{Priority, Queue};
use crate::storage::{Claim, ClaimedMessage, TopicFilter, WakeSource, Wakeup};
use crate::transport::LeaseReceipt;

/// Largest number of messages in one claim.
const CLAIM_MAX: usize = 1_024;

/// Number of full claims after which another priority goes first, each in its turn, so that no priority
/// starves under load, however many more urgent messages arrive.
const CLAIMS_PER_ROTATION: u32 = 8;

/// A queue that a process serves.
#[derive(Clone, Debug)]
pub(crate) struct ServedQueue {
    pub(crate) queue: Queue,
    /// Number of its messages that this process handles at once.
    pub(crate) concurrency: usize,
    /// Largest number of its messages that all processes together handle at once.
    pub(crate) running_max: Option<usize>,
}

/// Service that claims from one queue of the storage.
pub(crate) struct QueueWorker {
    process: Arc<Process>,
    runner: AttemptRunner,
    queue: Queue,
    /// The topics that have a handler here.
    topics: TopicFilter,
    name: String,
    slots: Arc<Slots>,
    running_max: Option<usize>,
    rates: ClaimRates,
    claimed_last: usize,
    /// Number of claims in a row that returned as many messages as requested.
    full_claims: u32,
}

impl QueueWorker {
    pub(crate) fn new(process: Arc<Process>, settler: Settler, served: ServedQueue) -> Self {
        let slots = process.queues.serve(&served);
        let ServedQueue { queue, running_max, .. } = served;
        let name = format!("worker of {queue}");
        let topics = process.runner.registry.filter();
        let runner = AttemptRunner::of_queue(settler, slots.clone());
        let rates = ClaimRates::default();
        let (claimed_last, full_claims) = (0, 0);
        Self {
            process,
            runner,
            queue,
            topics,
            name,
            slots,
            running_max,
            rates,
            claimed_last,
            full_claims,
        }
    }

    /// Returns the wake source of its queue and topics.
    fn wake_source(&self) -> WakeSource {
        WakeSource::Topics(self.queue.clone(), self.topics.clone())
    }

    /// Returns the wakeups of the storage, the poller, released slots and queue controls.
    pub(crate) fn wakeups(&self) -> Vec<Wakeup> {
        let (process, source) = (&self.process, self.wake_source());
        let storage = process.env.storage.wakeup(&source);
        let controls = process.queues.wakeup();
        vec![storage, process.watch_list.watch(source), self.slots.wakeup(), controls]
    }

    /// Starts a message, or releases it when it may start only later.
    fn start(&self, claimed: ClaimedMessage, later: Option<Timestamp>) {
        let storage = self.process.env.storage.clone();
        let received = ReceivedMessage::claimed(Box::new(LeaseReceipt { claimed, storage }));
        let handler_options = self.process.handler_options(&received.message);
        let started = self.runner.begin(received, handler_options);
        match later {
            None => self.runner.spawn(started, ()),
            Some(due_at) => self.runner.spawn_release(started, due_at),
        }
    }
}

#[async_trait]
impl Service for QueueWorker {
    fn name(&self) -> &str {
        &self.name
    }

    async fn turn(&mut self, now: Timestamp) -> Result<Turn> {
        if self.process.queues.is_paused(&self.queue) {
            return Ok(Turn::WhenWoken);
        }
        if let Some(until) = self.process.queues.claims_blocked_until(now) {
            return Ok(Turn::At(until));
        }
        self.slots.yield_for_slots(self.claimed_last).await;
        let limit = self.slots.free().min(CLAIM_MAX);
        if limit == 0 {
            self.slots.notify_when_free();
            return Ok(Turn::WhenWoken);
        }
        let now = ensure_alive(&self.process, now).await?;
        if self.process.queues.is_paused(&self.queue) {
            return Ok(Turn::WhenWoken);
        }
        let until = add(now, self.process.env.options.lease_duration);
        let claim = Claim {
            running_max: self.running_max,
            first: first_priority(self.full_claims),
            topics: self.topics.clone(),
            ..Claim::new(self.queue.clone(), self.process.env.id, limit, until)
        };
        let claimed = self.process.env.storage.claim(claim, now).await?;
        let more = claimed.len() == limit;
        self.claimed_last = claimed.len();
        self.full_claims = if more { self.full_claims.wrapping_add(1) } else { 0 };
        if claimed.iter().any(has_rate) {
            for (one, later) in self.rates.apply(&self.process, claimed, now).await {
                self.start(one, later);
            }
        } else {
            for one in claimed {
                self.start(one, None);
            }
        }
        if more {
            return Ok(Turn::Again);
        }
        let next = self.process.env.storage.next_due(&self.wake_source()).await?;
        Ok(match next {
            // It is due and was not claimed: the limit of running messages is reached, or it lies behind many
            // messages of other topics. No notification comes for that.
            Some(at) if at <= now && (self.running_max.is_some() || self.claimed_last == 0) => {
                Turn::At(add(now, self.process.env.options.poll_interval))
            }
            Some(at) => Turn::At(at),
            None => Turn::WhenWoken,
        })
    }
}

/// Returns the priority that the next claim takes first, under load; `None` for the usual order.
pub(super) fn first_priority(full_claims: u32) -> Option<Priority> {
    if full_claims == 0 || !full_claims.is_multiple_of(CLAIMS_PER_ROTATION) {
        return None;
    }
    let levels = u32::from(Priority::HIGHEST.level()) + 1;
    let level = u8::try_from(full_claims / CLAIMS_PER_ROTATION % levels).ok()?;
    Priority::new(level).ok()
}
